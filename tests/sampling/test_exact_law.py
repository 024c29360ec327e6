"""The output law is the target's law, exactly: every outcome enumerated, nothing sampled, nothing approximated."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.sampling import MASS, dense_row, dyadic_counts, logit_grid, oracle, probability_grid
from tests.sampling import helpers
from tests.sampling.helpers import dense, grid_row, production_law, target_law


def table(depth, vocabulary, make):
    """A row for every prefix of up to `depth` tokens, made from a generator seeded by the prefix."""
    rows = {}

    def row(prefix):
        if prefix not in rows:
            rows[prefix] = make(np.random.default_rng([len(prefix), *prefix]), prefix)
        return rows[prefix]

    return row


def target_rows(vocabulary, zeros=False):
    def make(rng, prefix):
        p = rng.dirichlet(np.full(vocabulary, 0.7))
        if zeros:  # a masked token, another one for each prefix
            p[len(prefix) % vocabulary] = 0.0
            p /= p.sum()
        return probability_grid(p)

    return make


def draft_rows(vocabulary, kind):
    def make(rng, prefix):
        rng.random(3)
        logits = rng.normal(scale=2, size=vocabulary).astype(np.float32)
        temperature, top_k = {
            "dense": (1.0, None),
            "sparse": (1.0, 2),
            "truncated": (0.7, 1),
            "hot": (5.0, None),
            "cold": (0.05, None),
        }[kind]
        return dense_row(dyadic_counts(logits, temperature, top_k), vocabulary)

    return make


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "truncated", "hot", "cold"])
def test_exact_law_depth_3_with_prefix_dependent_p_and_q(kind, zeros):
    """Dense, sparse, truncated to one token, and temperatures that fit the target badly: the law is p, for all of them."""
    target = table(3, 4, target_rows(4, zeros))
    draft = table(3, 4, draft_rows(4, kind))
    law, seen = production_law(target, draft, 3)
    assert law == target_law(target, 4)
    assert all(seen.values()), seen


def test_exact_law_depth_5_chain_at_temperature_1():
    """Target and draft from logits at T = 1, the draft biased by the token before."""
    markov = np.random.default_rng(8).normal(scale=2, size=(3, 3)).astype(np.float32)

    def target_row(rng, prefix):
        return logit_grid(rng.normal(scale=1.5, size=3).astype(np.float32))

    def draft_row(rng, prefix):
        base = rng.normal(scale=1.5, size=3).astype(np.float32)
        return dense_row(dyadic_counts(base + markov[prefix[-1] if prefix else 0], 1.0), 3)

    target = table(5, 3, target_row)
    law, seen = production_law(target, table(5, 3, draft_row), 5)
    assert law == target_law(target, 6)
    assert len(law) == 3**6
    assert seen["bonuses"] == 3**5
    assert seen["rejections"] > 100


def test_exact_law_of_a_poor_draft():
    """Nearly all of q where p has nearly nothing, one ticket on the rest."""
    p, q = grid_row([1, 1, 100_000]), dense([MASS - 2, 1, 1])
    law, seen = production_law(lambda prefix: p, lambda prefix: q, 2)
    assert law == target_law(lambda prefix: p, 3)
    assert seen["rejections"]
    assert seen["acceptances"]


def test_exact_law_of_a_draft_equal_to_the_target_never_rejects():
    p, q = grid_row([1, 2, 1]), dense([MASS // 4, MASS // 2, MASS // 4])
    law, seen = production_law(lambda prefix: p, lambda prefix: q, 3)
    assert law == target_law(lambda prefix: p, 4)
    assert seen["rejections"] == 0


def test_exact_law_of_a_target_that_is_not_quite_normalised():
    """U far from 2^38, but tolerated: the law is P/U."""
    p = probability_grid(np.array([0.5, 0.25, 0.2505]))
    q = dense([MASS // 2, MASS // 2, 0])
    assert int(p.sum()) != 2**38
    law, _ = production_law(lambda prefix: p, lambda prefix: q, 2)
    assert law == target_law(lambda prefix: p, 3)


def parts(size, largest):
    return st.lists(st.integers(0, largest), min_size=size, max_size=size).filter(any)


@settings(max_examples=60)
@given(st.integers(2, 4).flatmap(lambda n: st.tuples(parts(n, 2**30), parts(n, 2**30))))
def test_exact_law_of_any_single_step(rows):
    """One position, any p and q: emitted law = P/U, from the production integers and from the oracle's fractions."""
    weights, proposal = rows
    p, q = grid_row(weights), dense(list(oracle.allocate(proposal)))
    law, _ = production_law(lambda prefix: p, lambda prefix: q, 1)
    assert law == target_law(lambda prefix: p, 2)
    exact, sent = oracle.law([int(x) for x in p]), oracle.law([int(x) for x in q])
    assert oracle.chain_law({(): exact, **{(t,): exact for t in range(len(exact))}}, {(): sent}, 1) == law


def test_exact_law_of_the_oracle_for_arbitrary_rationals():
    """Thirds, sevenths and a 1/p weight have no dyadic form; the rule is exact for them too."""
    p = {
        (): oracle.law([1, 2, 4]),
        (0,): oracle.law([1, 0, 2]),
        (1,): oracle.law([5, 7, 11]),
        (2,): oracle.law([1, 1, 1]),
    }
    q = {(): oracle.law({0: Fraction(1, 3), 2: Fraction(1, 101)}, 3)}
    law = oracle.chain_law(p, q, 1)
    assert law == {(a, b): p[()][a] * p[(a,)][b] for a in range(3) for b in range(3) if p[(a,)][b]}
    q = {(): oracle.fp32_law([0.1, 0.2, 0.7])}
    assert oracle.chain_law(p, q, 1) == law


# --- The same enumeration must see every wrong rule. ---


def wrong_law(monkeypatch, accepts=None, residual=None):
    if accepts:
        monkeypatch.setattr(helpers, "accepts", accepts)
    if residual:
        monkeypatch.setattr(helpers, "residual", residual)
    p, q = grid_row([5, 3, 2]), dense([MASS // 4, 3 * MASS // 4, 0])
    return production_law(lambda prefix: p, lambda prefix: q, 2)[0], target_law(lambda prefix: p, 3)


@pytest.mark.parametrize(
    "rule",
    [
        {"residual": lambda p, q, total: p},  # correct from p itself
        {"residual": lambda p, q, total: np.where(q > 0, np.maximum(p * MASS - q * total, 0), 0)},  # only q's support
        {"accepts": lambda draws, p: draws < p * MASS - 1},  # one unit short: even that is seen
        {"accepts": lambda draws, p: draws < 0},  # never accept
        {"residual": lambda p, q, total: np.maximum(p * MASS - q * (total + 2**20), 0)},  # a U of something else
    ],
)
def test_exact_law_has_the_power_to_see_a_wrong_rule(rule, monkeypatch):
    law, expected = wrong_law(monkeypatch, **rule)
    assert law != expected


def test_exact_law_fails_when_q_is_not_the_law_drawn_from():
    """Verify with the rounded q what was drawn from unrounded softmax: off by the rounding, and seen."""
    logits = np.array([0.1, 0.7, -1.3], np.float32)
    p, counts = grid_row([5, 3, 2]), dyadic_counts(logits, 1.0)[1]
    softmax = [Fraction(math.exp(x)) for x in logits]
    drawn = [share / sum(softmax) for share in softmax]
    share = [helpers.acceptance_share(p, counts, t) for t in range(3)]
    rest = oracle.law([int(x) for x in helpers.residual(p, counts, int(p.sum()))])
    rejected = sum(q * (1 - a) for q, a in zip(drawn, share, strict=True))
    law = [q * a + rejected * r for q, a, r in zip(drawn, share, rest, strict=True)]
    assert sum(law) == 1
    assert law != list(oracle.law([int(x) for x in p]))


def test_steering_worker_that_picks_q_after_its_ticket_fails_the_exact_law():
    """Two q's, (1/4, 3/4) and (3/4, 1/4), chosen by the ticket: each row passes every check, and P(0) is 2/3, not 1/2."""
    p = grid_row([1, 1])
    low, high = dense([MASS // 4, 3 * MASS // 4]), dense([3 * MASS // 4, MASS // 4])
    law = [Fraction(0), Fraction(0)]
    for first, last, q in ((0, MASS // 4, low), (MASS // 4, 3 * MASS // 4, high), (3 * MASS // 4, MASS, low)):
        token = int(np.searchsorted(np.cumsum(q), first, side="right"))
        assert token == int(
            np.searchsorted(np.cumsum(q), last - 1, side="right")
        )  # token = sample(q, ticket) throughout
        share, accepted = Fraction(last - first, MASS), helpers.acceptance_share(p, q, token)
        law[token] += share * accepted
        rest = oracle.law([int(x) for x in helpers.residual(p, q, int(p.sum()))]) if accepted < 1 else (0, 0)
        law = [a + share * (1 - accepted) * r for a, r in zip(law, rest, strict=True)]
    assert law == [Fraction(2, 3), Fraction(1, 3)]


def test_steering_discard_that_depends_on_the_drawn_token_fails_the_exact_law():
    """q = p uniform; rounds that drew token 1 are discarded and decoded target-only: 3/4 instead of 1/2."""
    p, q = grid_row([1, 1]), dense([MASS // 2, MASS // 2])
    kept = Fraction(1, 2) * helpers.acceptance_share(p, q, 0)
    assert kept + Fraction(1, 2) * oracle.law([int(x) for x in p])[0] == Fraction(3, 4)
    # A discard decided before the draw, whatever its probability, keeps the law.
    for chance in (Fraction(0), Fraction(1, 7), Fraction(1)):
        assert (1 - chance) * kept + chance * Fraction(1, 2) == Fraction(1, 2)
