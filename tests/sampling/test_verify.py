"""Verification of one chain: verdicts against fractions, both ends of every draw, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.sampling import (
    GRID,
    MASS,
    Key,
    ProposalRefused,
    SamplingError,
    TargetRefused,
    Verdict,
    VerdictKind,
    below,
    dense_row,
    draft_chain,
    dyadic_counts,
    logit_grid,
    oracle,
    probability_grid,
    target_only_token,
    target_only_token_logits,
    verify,
    verify_batch,
    verify_chain,
    verify_chain_logits,
    verify_grid,
)
from tests.sampling.helpers import dense, grid_row

KEY = Key(2**64 - 3, 1, 2, 3)
HALF = (np.array([0, 1], np.int32), np.array([MASS // 2] * 2, np.int32))


def random_case(seed, vocabulary, depth, temperature=1.0, top_k=None):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(vocabulary, 0.5), size=depth + 1)
    logits = rng.normal(scale=2, size=(depth, vocabulary)).astype(np.float32)
    return p, draft_chain(logits, temperature, Key(seed, 1, 2, 3), top_k=top_k)


@settings(max_examples=200)
@given(
    st.integers(0, 10**6),
    st.integers(2, 12),
    st.integers(1, 5),
    st.sampled_from([0.3, 1.0, 3.0]),
    st.none() | st.integers(1, 4),
)
def test_verdict_equals_the_oracle(seed, vocabulary, depth, temperature, top_k):
    """The same key gives the same coins, and the same verdict computed in fractions; single, dense form and batch."""
    p, draft = random_case(seed, vocabulary, depth, temperature, top_k)
    key = Key(seed + 2**63, 5, 6, 7)
    verdict = verify_chain(p, draft.rows, draft.tokens, key)
    assert verdict == oracle.verify_chain(p, draft.rows, draft.tokens.tolist(), key)
    spread = [(None, dense_row(row, vocabulary)) for row in draft.rows]
    assert verify_chain(p, spread, draft.tokens.tolist(), key) == verdict
    batch = verify_batch(
        probability_grid(p)[None], np.stack([row for _, row in spread])[None], draft.tokens[None], key.seed, 5, 6, 7
    )
    assert (batch.accepted[0], batch.tokens[0]) == (verdict.accepted, verdict.token)
    assert batch.bonus[0] == (verdict.kind is VerdictKind.BONUS)


def test_evidence_random_cases_cover_every_verdict():
    seen = set()
    for seed in range(60):
        p, draft = random_case(seed, 6, 3)
        verdict = verify_chain(p, draft.rows, draft.tokens, KEY)
        seen.add((verdict.accepted, verdict.kind))
    assert seen == {(a, VerdictKind.CORRECTION) for a in range(3)} | {(3, VerdictKind.BONUS)}


@given(st.integers(0, 10**6))
def test_target_logits_give_the_verdict_of_their_grid(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(3, 8)).astype(np.float32)
    draft = draft_chain(rng.normal(size=(2, 8)).astype(np.float32), 1.0, Key(seed, 1, 1, 1))
    details = verify_grid(logit_grid(logits), draft.rows, draft.tokens, KEY)
    assert verify_chain_logits(logits, draft.rows, draft.tokens, KEY) == details.verdict


def test_details_are_the_integers_of_the_rule():
    p, draft = random_case(4, 5, 3)
    details = verify_grid(probability_grid(p), draft.rows, draft.tokens, KEY)
    grid = probability_grid(p)
    for i, token in enumerate(draft.tokens):
        q = dense_row(draft.rows[i], 5)
        bound = int(q[token]) * int(grid[i].sum())
        draw = below(bound, KEY.seed, KEY.generation, KEY.round, KEY.position + i, 2)
        assert (details.target[i], details.draft[i], details.totals[i]) == (grid[i, token], q[token], grid[i].sum())
        assert details.draws[i] == draw
        assert details.passed[i] == (Fraction(draw, bound) < Fraction(int(grid[i, token]) * MASS, bound))
    assert details.totals.size == 4


def coins(monkeypatch, acceptance, last):
    """Replace the two draws of a verification by functions of their bounds."""
    monkeypatch.setattr(verify, "below_many", lambda n, *a: np.array([acceptance(int(x)) for x in n], np.int64))
    monkeypatch.setattr(verify, "below", lambda n, *a: last(n))


def test_ends_zero_probability_is_never_accepted_even_by_the_lowest_coin(monkeypatch):
    """p(x) = 0 and u = 0: a comparison with ≤ would accept."""
    coins(monkeypatch, lambda n: 0, lambda n: 0)
    verdict = verify_chain(np.array([[0.0, 1.0], [0.5, 0.5]]), [HALF], [0], KEY)
    assert verdict == Verdict(0, 1, VerdictKind.CORRECTION)


def test_ends_full_acceptance_passes_even_the_highest_coin(monkeypatch):
    """p(x) ≥ q(x) and the largest u: never rejected, so an empty residual is never needed."""
    coins(monkeypatch, lambda n: n - 1, lambda n: n - 1)
    p = np.array([[0.5, 0.5], [0.25, 0.75]])
    assert verify_chain(p, [HALF], [0], KEY) == Verdict(1, 1, VerdictKind.BONUS)


def test_ends_the_coin_at_the_threshold_is_rejected(monkeypatch):
    p = np.array([[0.25, 0.75], [0.5, 0.5]])
    threshold = (GRID // 4) * MASS
    coins(monkeypatch, lambda n: threshold - 1, lambda n: 0)
    assert verify_chain(p, [HALF], [0], KEY).accepted == 1
    coins(monkeypatch, lambda n: threshold, lambda n: 0)
    assert verify_chain(p, [HALF], [0], KEY) == Verdict(0, 1, VerdictKind.CORRECTION)


@pytest.mark.parametrize("end", [lambda n: 0, lambda n: n - 1])
def test_ends_correction_and_bonus_never_emit_zero_mass(end, monkeypatch):
    p = np.array([[0.0, 0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5, 0.0, 0.0]])
    q = (np.array([0, 2], np.int32), np.array([MASS // 2] * 2, np.int32))
    coins(monkeypatch, lambda n: 0, end)
    assert verify_chain(p, [q], [0], KEY) == Verdict(0, 4, VerdictKind.CORRECTION)
    assert verify_chain(p, [q], [2], KEY) == Verdict(1, 1 if end(5) == 0 else 3, VerdictKind.BONUS)


def test_full_vocabulary_residual_emits_outside_the_draft_support(monkeypatch):
    """A draft over two of 1,000 tokens: each of the other 998 is reached by some coin."""
    p = np.full((2, 1000), 1e-3)
    p[0, :2], p[0, 2:] = 1e-4, (1 - 2e-4) / 998
    grid = probability_grid(p)
    rest = verify.residual(grid[0], dense_row(HALF, 1000), int(grid[0].sum()))
    assert np.array_equal(np.flatnonzero(rest), np.arange(2, 1000))
    edges = np.cumsum(rest)
    for token in (2, 3, 500, 998, 999):
        for ticket in (int(edges[token] - rest[token]), int(edges[token]) - 1):
            coins(monkeypatch, lambda n: n - 1, lambda n, t=ticket: t)
            assert verify_chain(p, [HALF], [0], KEY) == Verdict(0, token, VerdictKind.CORRECTION)


def test_full_vocabulary_of_real_width_fits_64_bits():
    """V = 262,144 with the largest U that is tolerated: no sum or product wraps."""
    p = np.full(262_144, (1 + 2.0**-10) / 262_144)
    ids, counts = dyadic_counts(np.zeros(262_144, np.float32), 1.0, 3)
    grid = probability_grid(np.stack([p, p]))
    details = verify_grid(grid, [(ids, counts)], [0], KEY)
    rest = verify.residual(grid[0], dense_row((ids, counts), 262_144), int(grid[0].sum()))
    exact = [max(int(grid[0, i]) * MASS - int(c) * int(grid[0].sum()), 0) for i, c in ((0, counts[0]), (7, 0))]
    assert [int(rest[0]), int(rest[7])] == exact
    assert 0 < int(rest.sum()) < 2**63
    assert details.verdict.kind is VerdictKind.CORRECTION
    one = np.zeros((2, 3))
    one[:, 1] = 1 + 2.0**-10
    full = (np.array([1], np.int32), np.array([MASS], np.int32))
    assert verify_chain(one, [full], [1], KEY) == Verdict(1, 1, VerdictKind.BONUS)


def test_residual_has_mass_whenever_a_rejection_is_possible():
    """One grid unit of difference at one token is enough."""
    target = grid_row([1, 1])
    target += [-1, 1]
    q = dense([MASS // 2, MASS // 2])
    assert verify.residual(target, q, int(target.sum())).tolist() == [0, MASS]
    assert verify.accepts(np.array([(GRID // 2 - 1) * MASS]), target[:1]).tolist() == [False]


def test_accepted_run_ends_at_the_first_rejection(monkeypatch):
    p = np.array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    coins(monkeypatch, lambda n: 0, lambda n: 0)
    details = verify_grid(probability_grid(p), [HALF] * 3, [0, 0, 0], KEY)
    assert details.passed.tolist() == [True, False, True]
    assert details.verdict == Verdict(1, 1, VerdictKind.CORRECTION)


P1 = np.array([[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("rows", "tokens", "message"),
    [
        ([(np.array([0]), np.array([MASS]))], [1], r"q\[0\]: zero probability at the drafted token 1"),
        ([(np.array([0, 1]), np.array([MASS, 0]))], [1], "zero probability at the drafted token 1"),
        ([(None, np.array([MASS, 0]))], [1], "zero probability at the drafted token 1"),
        ([(np.array([0, 1]), np.array([MASS, MASS]))], [1], r"q\[0\]: expected counts summing to 2\^24"),
        ([(None, np.array([MASS, 1]))], [1], r"q\[0\]: expected counts summing"),
        ([(None, np.array([MASS + 1, -1]))], [1], "expected 0 <= count"),
        ([(None, np.array([0.5, 0.5]))], [1], "integer counts"),
        ([(None, np.array([MASS]))], [0], r"expected dense counts of shape \(2,\), got \(1,\)"),
        ([(np.array([0, 2]), np.array([MASS - 1, 1]))], [0], "expected ids below 2, got 2"),
        ([(np.array([-1, 0]), np.array([1, MASS - 1]))], [0], "rising strictly from 0"),
        ([(np.array([0, 0]), np.array([1, MASS - 1]))], [0], "rising strictly"),
        ([HALF], [2], r"tokens\[0\]: expected 0 <= token < 2, got 2"),
        ([HALF], [-1], r"tokens\[0\]: expected 0 <= token < 2, got -1"),
        ([HALF], [0.0], "tokens: expected integers"),
        ([HALF], [[0]], "tokens: expected integers"),
        ([HALF, HALF], [0, 0], "expected depth 1, got 2 rows of q and 2 tokens"),
        ([HALF], [0, 0], "expected depth 1, got 1 rows of q and 2 tokens"),
        ([], [0], "expected depth 1, got 0 rows"),
    ],
)
def test_refused_proposals_and_not_peers_bugs(rows, tokens, message):
    """Over-full q, q(x) = 0, ids out of range: the whole proposal is refused, before any coin is drawn."""
    with pytest.raises(ProposalRefused, match=message):
        verify_chain(P1, rows, np.array(tokens), KEY)


def test_a_bad_last_row_refuses_the_whole_proposal():
    """Also when an earlier token would have been rejected anyway: no partial verdict from a broken proposal."""
    p = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    bad = (np.array([1]), np.array([MASS]))
    with pytest.raises(ProposalRefused, match=r"q\[1\]"):
        verify_chain(p, [HALF, bad], [0, 0], KEY)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([[0.5, math.nan], [0.5, 0.5]], "p.*nan"),
        ([[0.5, 0.5], [math.nan, 0.5]], "p.*nan"),
        ([[-0.1, 1.1], [0.5, 0.5]], "p"),
        ([[0.5, 0.4], [0.5, 0.5]], "sum of one"),
        ([[0.0, 0.0], [0.5, 0.5]], "sum of one"),
        ([0.5, 0.5], r"p: expected 2 axes \(\[depth \+ 1, V\]\)"),
        ([[0.5, 0.5]], "expected depth \\+ 1 >= 2 rows, got 1"),
    ],
)
def test_refused_targets(p, message):
    with pytest.raises(TargetRefused, match=message):
        verify_chain(
            np.array(p), [HALF] if np.ndim(p) == 1 or len(p) > 1 else [], [0] if len(p) > 1 else np.zeros(0, int), KEY
        )


def test_refused_target_logits_of_any_row():
    logits = np.array([[0.0, 0.0], [math.nan, 0.0]], np.float32)
    with pytest.raises(TargetRefused, match=r"logits\[1\]: NaN"):
        verify_chain_logits(logits, [HALF], [0], KEY)
    with pytest.raises(TargetRefused, match="expected 2 axes"):
        verify_chain_logits(logits[0], [HALF], [0], KEY)


def test_positions_must_stay_below_two_to_the_32():
    verify_chain(P1, [HALF], [0], Key(1, 1, 1, 2**32 - 2))
    with pytest.raises(SamplingError, match=r"position \+ depth"):
        verify_chain(P1, [HALF], [0], Key(1, 1, 1, 2**32 - 1))
    batch = (probability_grid(P1)[None], np.array([[[MASS // 2] * 2]]), np.array([[0]]))
    with pytest.raises(SamplingError, match=r"position \+ depth"):
        verify_batch(*batch, 1, 1, 1, 2**32 - 1)


def test_target_only_draws_from_the_grid_in_its_own_domain():
    p = np.array([0.25, 0.0, 0.75])
    grid = probability_grid(p)
    tokens = set()
    for position in range(60):
        token = target_only_token(p, Key(1, 2, 3, position))
        ticket = below(GRID, 1, 2, 3, position, 5)
        assert token == int(np.searchsorted(np.cumsum(grid), ticket, side="right"))
        tokens.add(token)
    assert tokens == {0, 2}
    logits = np.log(np.array([1, 0.001, 3], np.float32))
    assert target_only_token_logits(logits, KEY) in (0, 2)
    for bad in (np.zeros((2, 2)), np.array(1.0)):
        with pytest.raises(TargetRefused, match="expected 1 axes"):
            target_only_token(bad, KEY)


@pytest.mark.parametrize(
    ("grid", "counts", "tokens", "error"),
    [
        ((1, 2, 2), (1, 1, 3), (1, 1), SamplingError),
        ((2, 2, 2), (1, 1, 2), (1, 1), SamplingError),
        ((1, 1, 2), (1, 0, 2), (1, 0), SamplingError),
        ((1, 2, 2), (1, 1, 2), (1,), SamplingError),
    ],
)
def test_refused_batch_shapes(grid, counts, tokens, error):
    with pytest.raises(error, match="verify_batch: expected"):
        verify_batch(np.zeros(grid, np.int64), np.zeros(counts, np.int64), np.zeros(tokens, np.int64), 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("counts", "token", "message"),
    [
        ([MASS, 0], 1, r"q\[1, 0\]: zero probability"),
        ([MASS, 1], 0, "sum to 2\\^24"),
        ([MASS + 1, -1], 0, "negative"),
        ([MASS, 0], 2, "expected 0 <= token < 2, got"),
    ],
)
def test_refused_batch_rows(counts, token, message):
    grid = np.stack([probability_grid(P1)] * 2)
    rows = np.array([[[MASS // 2] * 2], [counts]])
    with pytest.raises(ProposalRefused, match=message):
        verify_batch(grid, rows, np.array([[0], [token]]), 1, 1, 1, 1)


def test_empty_batch():
    verdict = verify_batch(
        np.zeros((0, 2, 2), np.int64), np.zeros((0, 1, 2), np.int64), np.zeros((0, 1), np.int64), 1, 1, 1, 1
    )
    assert verdict.tokens.size == 0
