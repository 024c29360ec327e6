"""The oracle by hand-computed examples: it judges the rest, so it is judged first."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from pp1wire.sampling import Key, ProposalRefused, SamplingError, TargetRefused, Verdict, VerdictKind, oracle

P, Q = (Fraction(7, 10), Fraction(3, 10), Fraction(0)), (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))


def test_law_full_and_sparse():
    assert oracle.law([1, Fraction(1, 2), 0]) == (Fraction(2, 3), Fraction(1, 3), 0)
    assert oracle.law({2: 3, 0: 1}, 4) == (Fraction(1, 4), 0, Fraction(3, 4), 0)


@pytest.mark.parametrize("weights", [[], [0, 0], [1, -1, 1], {}])
def test_refused_laws(weights):
    with pytest.raises(SamplingError, match="no negative weight and a positive sum"):
        oracle.law(weights, 3)


@pytest.mark.parametrize("vocabulary", [None, 2])
def test_refused_sparse_ids(vocabulary):
    with pytest.raises(SamplingError, match="expected ids in"):
        oracle.law({2: 1}, vocabulary)


def test_fp32_law_rounds_weights_then_normalises_exactly():
    tenth = Fraction(13421773, 2**27)  # the FP32 number nearest to 0.1
    assert oracle.fp32_law([0.1, 0.1, 0.2]) == (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2))
    assert oracle.fp32_law([0.1, 1.0]) == (tenth / (1 + tenth), 1 / (1 + tenth))
    assert oracle.fp32_law({1: 0.1, 0: 1.0}, 3) == (1 / (1 + tenth), tenth / (1 + tenth), 0)


@pytest.mark.parametrize("weight", [math.nan, math.inf, 1e39])
def test_refused_fp32_weights(weight):
    with pytest.raises(SamplingError, match="finite FP32"):
        oracle.fp32_law([1.0, weight])


def test_allocation_by_hand():
    assert oracle.allocate([1, 1, 1], 10) == (4, 3, 3)
    assert oracle.allocate([3, 3, 3, 1], 7) == (2, 2, 2, 1)
    assert oracle.allocate([0, 1, 0], 5) == (0, 5, 0)
    assert oracle.allocate([Fraction(1, 3), Fraction(2, 3)], 2) == (1, 1)
    assert oracle.dyadic_counts([0.0, 0.0], 1.0) == (2**23, 2**23)


def test_sample_by_hand():
    assert [oracle.sample([1, 0, 2], t) for t in range(3)] == [0, 2, 2]
    with pytest.raises(SamplingError, match="ticket"):
        oracle.sample([1, 0, 2], 3)


def test_acceptance_and_residual_by_hand():
    assert [oracle.acceptance(P, Q, x) for x in range(3)] == [1, 1, 0]
    assert oracle.residual(P, Q) == (Fraction(4, 5), Fraction(1, 5), 0)
    with pytest.raises(ProposalRefused):
        oracle.acceptance(Q, P, 2)
    with pytest.raises(SamplingError):
        oracle.residual(P, P)


def test_verify_by_hand():
    half = [Fraction(1, 2)] * 2
    assert oracle.verify([P, P, Q], [Q, Q], [0, 1], half, Fraction(0)) == Verdict(2, 0, VerdictKind.BONUS)
    assert oracle.verify([P, P, Q], [Q, Q], [0, 2], half, Fraction(4, 5)) == Verdict(1, 1, VerdictKind.CORRECTION)
    assert oracle.verify([P, P, Q], [Q, Q], [2, 0], [Fraction(0)] * 2, Fraction(79, 100)) == Verdict(
        0, 0, VerdictKind.CORRECTION
    )
    with pytest.raises(SamplingError, match="coin"):
        oracle.verify([P, P], [Q], [0], [Fraction(0)], Fraction(1))
    with pytest.raises(ProposalRefused):
        oracle.verify([Q, P, P], [P, P], [0, 2], half, Fraction(0))


def test_probability_law_is_on_the_grid():
    assert oracle.probability_law([0.5, 0.5]) == (Fraction(1, 2), Fraction(1, 2))
    third = round(Fraction(1 / 3) * 2**38)
    assert oracle.probability_law([1 / 3, 2 / 3])[0] == Fraction(third, 2**38)
    for bad in ([math.nan, 1.0], [-0.5, 1.5], [2.0, 0.0], [0.5, 0.4]):
        with pytest.raises(TargetRefused):
            oracle.probability_law(bad)


@pytest.mark.parametrize("logits", [[math.nan], [math.inf], [-math.inf], []])
def test_refused_logits(logits):
    with pytest.raises(SamplingError, match="logits"):
        oracle.logit_law(logits)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_refused_temperatures(temperature):
    with pytest.raises(SamplingError, match="temperature"):
        oracle.dyadic_counts([0.0], temperature)


def test_refused_rows_of_counts():
    assert oracle.law_of_counts([0, 2], [2**23, 2**23], 3) == (Fraction(1, 2), 0, Fraction(1, 2))
    with pytest.raises(SamplingError, match="expected a sum of 2"):
        oracle.law_of_counts([0, 2], [2**23, 2**23 + 1], 3)
    with pytest.raises(ProposalRefused, match=r"q\[0\]: zero probability"):
        oracle.verify_chain([[0.5, 0.5]] * 2, [([0], [2**24])], [1], Key(1, 1, 1, 1))


def test_chain_law_by_hand():
    """q = p uniform on two tokens, depth 1: nothing is rejected, and the bonus is p."""
    fair = (Fraction(1, 2), Fraction(1, 2))
    law = oracle.chain_law({(): fair, (0,): fair, (1,): P[:2]}, {(): fair}, 1)
    assert law == {(0, 0): Fraction(1, 4), (0, 1): Fraction(1, 4), (1, 0): Fraction(7, 20), (1, 1): Fraction(3, 20)}
