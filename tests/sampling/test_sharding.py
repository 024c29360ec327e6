"""One, two and four shards: the same counts, tokens, verdicts and refusals, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.sampling import (
    MASS,
    AllocationError,
    Key,
    ProposalRefused,
    SamplingError,
    TargetRefused,
    dense_row,
    draft_chain,
    dyadic_counts,
    logit_grid,
    sample,
    sharding,
    verify_chain_logits,
)
from pp1wire.sampling.collectives import Collective, Combine, run_ranks
from pp1wire.sampling.sharding import Shard, shard_counts, shard_logit_grid, shard_sample, shard_verify, split

RANKS = (1, 2, 4)
LOGIT = st.floats(-30, 30, width=32) | st.just(-math.inf) | st.sampled_from([0.0, -0.0, 1.0, 2.0])
ROW = st.lists(LOGIT, min_size=4, max_size=40).filter(lambda row: any(math.isfinite(x) for x in row))


def on(shards, program, *arrays_and_rest):
    """Run a rank program over shards; arrays whose last axis is the vocabulary are cut."""
    size = sum(shard.size for shard in shards)

    def cut(value, shard):
        sliced = isinstance(value, np.ndarray) and value.shape[-1] == size
        return value[..., shard.first : shard.first + shard.size] if sliced else value

    return run_ranks([program(shard, *(cut(value, shard) for value in arrays_and_rest)) for shard in shards])


@settings(max_examples=150)
@given(ROW, st.floats(0.05, 10), st.none() | st.integers(1, 45), st.integers(0, MASS - 1))
def test_shards_give_the_same_counts_and_token(logits, temperature, top_k, ticket):
    row = np.array(logits, np.float32)
    ids, counts = dyadic_counts(row, temperature, top_k)
    token = sample(ids, counts, ticket)
    for ranks in RANKS:
        shards = split(row.size, ranks)
        parts = on(shards, shard_counts, row, temperature, top_k)
        assert np.array_equal(np.concatenate(parts), dense_row((ids, counts), row.size))
        assert on(shards, shard_sample, np.concatenate(parts), ticket) == [token] * ranks


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0]), min_size=8, max_size=40), st.integers(1, 12))
def test_ties_across_shards_go_to_the_lowest_global_id(logits, top_k):
    row = np.array(logits, np.float32)
    expected = dense_row(dyadic_counts(row, 1.0, top_k), row.size)
    assert np.count_nonzero(expected) == min(top_k, row.size)
    for ranks in (2, 3, 4, 8):
        assert np.array_equal(np.concatenate(on(split(row.size, ranks), shard_counts, row, 1.0, top_k)), expected)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(4, 16))
def test_shards_give_the_same_verdict(seed, vocabulary):
    rng = np.random.default_rng(seed)
    target = rng.normal(scale=2, size=(4, vocabulary)).astype(np.float32)
    draft = draft_chain(rng.normal(size=(3, vocabulary)).astype(np.float32), 1.0, Key(seed, 1, 1, 1), top_k=3)
    key = Key(seed, 2, 2, 2)
    verdict = verify_chain_logits(target, draft.rows, draft.tokens, key)
    counts = np.stack([dense_row(row, vocabulary) for row in draft.rows])
    for ranks in RANKS:
        shards = split(vocabulary, ranks)
        grid = np.stack([np.concatenate(on(shards, shard_logit_grid, row)) for row in target])
        assert np.array_equal(grid, logit_grid(target))
        assert on(shards, shard_verify, grid, counts, draft.tokens, key) == [verdict] * ranks


def test_evidence_every_shard_owns_tokens_corrections_and_bonuses():
    """Over 300 rounds on four shards: each rank's range receives corrections and bonuses, and accepted tokens."""
    seen = set()
    shards = split(8, 4)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        target = rng.normal(size=(2, 8)).astype(np.float32)
        draft = draft_chain(rng.normal(size=(1, 8)).astype(np.float32), 1.0, Key(seed, 1, 1, 1))
        counts = dense_row(draft.rows[0], 8)[None]
        verdict = on(shards, shard_verify, logit_grid(target), counts, draft.tokens, Key(seed, 9, 9, 9))[0]
        seen.add((verdict.kind.value, verdict.token // 2))
        if verdict.accepted:
            seen.add(("accepted", int(draft.tokens[0]) // 2))
    assert seen == {(kind, rank) for kind in ("correction", "bonus", "accepted") for rank in range(4)}


def test_shard_without_mass_is_never_chosen():
    counts = np.array([0, 0, 5, MASS - 5, 0, 0, 0, 0])
    for ticket, token in ((0, 2), (4, 2), (5, 3), (MASS - 1, 3)):
        assert on(split(8, 4), shard_sample, counts, ticket) == [token] * 4
    masked = np.full(8, -np.inf, np.float32)
    masked[5] = 0.0
    assert np.concatenate(on(split(8, 4), shard_counts, masked, 1.0)).tolist() == [0] * 5 + [MASS, 0, 0]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [(0, math.nan, "NaN in a shard"), (7, math.nan, "NaN in a shard"), (7, math.inf, r"\+inf in a shard")],
)
def test_refused_on_every_rank_alike(place, value, message):
    row = np.zeros(8, np.float32)
    row[place] = value
    shards = split(8, 4)
    for program, arguments, error in ((shard_counts, (1.0,), SamplingError), (shard_logit_grid, (), TargetRefused)):
        ranks = [program(shard, row[shard.first : shard.first + shard.size], *arguments) for shard in shards]
        requests = [next(rank) for rank in ranks]
        answer = np.max([request.values for request in requests], axis=0)
        for rank in ranks:  # each by itself, including those that own no bad token
            with pytest.raises(error, match=message):
                rank.send(answer)


def test_refused_no_finite_logit_anywhere():
    row = np.full(8, -np.inf, np.float32)
    with pytest.raises(SamplingError, match="no finite logit in any shard"):
        on(split(8, 4), shard_counts, row, 1.0)


@pytest.mark.parametrize(
    ("logits", "arguments"),
    [(np.zeros(8), (1.0,)), (np.zeros(8, np.float32), (0.0,)), (np.zeros(8, np.float32), (1.0, 0))],
)
def test_refused_arguments(logits, arguments):
    with pytest.raises(SamplingError):
        on(split(8, 2), shard_counts, logits, *arguments)


def test_refused_shape_of_a_shard():
    with pytest.raises(SamplingError, match=r"expected float32 of shape \(4,\)"):
        run_ranks([shard_counts(Shard(0, 1, 0, 4), np.zeros(5, np.float32), 1.0)])


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda grid, counts: grid.__setitem__((0, 0), 2**37), TargetRefused),
        (lambda grid, counts: counts.__setitem__((0, 0), 7), ProposalRefused),
        (lambda grid, counts: counts.__setitem__((0, slice(0, 4)), [0, 2**23, 2**22, 2**22]), ProposalRefused),
    ],
)
def test_refused_verdicts(spoil, error):
    grid = logit_grid(np.zeros((2, 4), np.float32))
    counts = np.full((1, 4), MASS // 4)
    shards = split(4, 2)
    assert len(set(on(shards, shard_verify, grid, counts, np.array([0]), Key(1, 1, 1, 1)))) == 1
    spoil(grid, counts)
    with pytest.raises(error):
        on(shards, shard_verify, grid, counts, np.array([0]), Key(1, 1, 1, 1))


def test_refused_mass_that_does_not_add_up():
    with pytest.raises(SamplingError, match="expected masses that sum to 16777216"):
        on(split(4, 2), shard_sample, np.array([1, 2, 3, 4]), 0)


def test_refused_inconsistent_allocation(monkeypatch):
    monkeypatch.setattr(sharding, "MASS", 2**25)
    with pytest.raises(AllocationError, match="do not fit"):
        on(split(4, 2), shard_counts, np.array([0, 1, 2, 3], np.float32), 1.0)


def test_split_covers_the_vocabulary():
    for vocabulary in (4, 7, 129_280):
        for ranks in RANKS:
            shards = split(vocabulary, ranks)
            assert [s.first for s in shards] == list(np.cumsum([0, *(s.size for s in shards[:-1])]))
            assert sum(s.size for s in shards) == vocabulary
            assert max(s.size for s in shards) - min(s.size for s in shards) <= 1
    for ranks in (0, 5):
        with pytest.raises(SamplingError, match="ranks: expected"):
            split(4, ranks)


def test_ranks_that_disagree_are_an_error_not_a_hang():
    def asks(combine, size, times):
        for _ in range(times):
            yield Collective(combine, np.zeros(size, np.int64))

    for other in (asks(Combine.MAX, 1, 1), asks(Combine.SUM, 2, 1), asks(Combine.SUM, 1, 2), asks(Combine.SUM, 1, 0)):
        with pytest.raises(SamplingError, match="ranks: expected one combination from all 2 ranks"):
            run_ranks([asks(Combine.SUM, 1, 1), other])
    assert run_ranks([asks(Combine.SUM, 1, 3)] * 0) == []


def test_ranks_cannot_see_each_others_arrays():
    """What one rank does to the answer it got must not reach another."""

    def program(rank):
        answer = yield Collective(Combine.MERGE, np.array([rank], np.int64))
        answer += rank
        return answer.tolist()

    assert run_ranks([program(0), program(1)]) == [[0, 1], [1, 2]]
