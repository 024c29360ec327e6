"""Chains and targets over shards in one process: the rows, tokens and refusals of `draft_chain`, bit for bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.sampling import (
    MASS,
    Key,
    SamplingError,
    TargetRefused,
    dense_row,
    draft_chain,
    dyadic_counts,
    logit_grid,
    target_only_token_logits,
)
from pp1wire.sampling.collectives import Collective, Combine, run_ranks, together
from pp1wire.sampling.shard_chain import part_of, shard_draft, shard_target
from pp1wire.sampling.sharding import shard_row, shard_target_only, shard_verify, split

LOGIT = st.floats(-30, 30, width=32) | st.just(-math.inf) | st.sampled_from([0.0, -0.0, 1.0, 2.0])
ROW = st.lists(LOGIT, min_size=4, max_size=40).filter(lambda row: any(math.isfinite(x) for x in row))


def cut(array, shard):
    return array[..., shard.first : shard.first + shard.size]


def drafts_on(ranks, logits, temperature, key, table=None, **options):
    """The chain of every rank; only rank 0 gets the key."""
    programs = []
    for shard in split(logits.shape[1], ranks):
        bias = None if table is None else lambda token, shard=shard: cut(table[token], shard)
        own = key if shard.rank == 0 else None
        programs.append(shard_draft(shard, cut(logits, shard), temperature, own, bias=bias, **options))
    return run_ranks(programs)


@settings(max_examples=150)
@given(ROW, st.floats(0.05, 10), st.integers(1, 45))
def test_ties_sparse_row_is_whole_and_the_same_on_every_rank(logits, temperature, top_k):
    row = np.array(logits, np.float32)
    ids, counts = dyadic_counts(row, temperature, top_k)
    for ranks in (1, 2, 4):
        for got in run_ranks([shard_row(s, cut(row, s), temperature, top_k) for s in split(row.size, ranks)]):
            assert got[0].dtype == got[1].dtype == np.int32
            assert np.array_equal(got[0], ids)
            assert np.array_equal(got[1], counts)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(4, 20), st.booleans(), st.none() | st.integers(1, 6))
def test_shards_draft_the_same_chain(seed, vocabulary, biased, top_k):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(3, vocabulary)).astype(np.float32)
    table = rng.normal(size=(vocabulary, vocabulary)).astype(np.float32) if biased else None
    key = Key(seed, 1, 2, 50)
    options = {"previous": seed % vocabulary, "top_k": top_k}
    expected = draft_chain(logits, 0.7, key, bias=None if table is None else table.__getitem__, **options)
    whole = np.stack([dense_row(row, vocabulary) for row in expected.rows])
    for ranks in (1, 2, 4):
        drafts = drafts_on(ranks, logits, 0.7, key, table, **options)
        for draft in drafts:
            assert draft.tokens.dtype == np.int32
            assert np.array_equal(draft.tokens, expected.tokens)
        if top_k is None:
            assert np.array_equal(np.concatenate([draft.parts for draft in drafts], axis=1), whole)
            assert all(draft.rows is None for draft in drafts)
        else:
            for draft in drafts:
                rows = np.stack([dense_row(row, vocabulary) for row in draft.rows])
                assert np.array_equal(rows, whole)
                assert draft.parts is None


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sets(st.integers(0, 11), max_size=11))
def test_masked_ids_are_never_emitted_whatever_the_sharding(seed, masked):
    """Drafted, corrected, bonus and target-only tokens all come from ids that the grammar allows; whole shards may be masked."""
    rng = np.random.default_rng(seed)
    allowed = set(range(12)) - masked
    draft_logits = rng.normal(size=(3, 12)).astype(np.float32)
    target_logits = rng.normal(size=(4, 12)).astype(np.float32)
    draft_logits[:, list(masked)] = target_logits[:, list(masked)] = -np.inf
    for ranks in (1, 2, 4):
        shards = split(12, ranks)
        for top_k in (None, 3):
            draft = drafts_on(ranks, draft_logits, 1.0, Key(seed, 1, 1, 1), top_k=top_k)[0]
            assert set(draft.tokens.tolist()) <= allowed
        grids = run_ranks([shard_target(s, cut(target_logits, s)) for s in shards])
        assert np.array_equal(np.concatenate(grids, axis=1), logit_grid(target_logits))
        programs = []
        for shard, grid in zip(shards, grids, strict=True):
            counts = np.stack([part_of(row, shard) for row in draft.rows])
            programs.append(shard_verify(shard, grid, counts, draft.tokens, Key(seed, 2, 1, 1)))
        verdict = run_ranks(programs)[0]
        assert verdict.token in allowed
        key = Key(seed, 3, 1, 1)
        tokens = run_ranks([shard_target_only(s, g[0], key) for s, g in zip(shards, grids, strict=True)])
        assert set(tokens) == {target_only_token_logits(target_logits[0], key)}
        assert tokens[0] in allowed


def test_leader_alone_draws():
    """Another key on another rank changes nothing; another key on the leader does."""
    logits = np.zeros((2, 64), np.float32)
    key, other = Key(1, 1, 1, 1), Key(2, 1, 1, 1)

    def tokens(keys, top_k):
        shards = split(64, 2)
        programs = [shard_draft(s, cut(logits, s), 1.0, k, top_k=top_k) for s, k in zip(shards, keys, strict=True)]
        first, second = run_ranks(programs)
        assert np.array_equal(first.tokens, second.tokens)
        return first.tokens.tolist()

    for top_k in (None, 40):
        assert tokens((key, other), top_k) == tokens((key, None), top_k)
        assert tokens((other, key), top_k) != tokens((key, None), top_k)


def test_part_of_a_row():
    shards = split(8, 2)
    sparse = (np.array([1, 5]), np.array([3, MASS - 3]))
    dense = (None, dense_row((np.array([1, 5], np.int32), np.array([3, MASS - 3], np.int32)), 8))
    for row in (sparse, dense):
        assert [part_of(row, s).tolist() for s in shards] == [[0, 3, 0, 0], [0, MASS - 3, 0, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits": np.zeros(4, np.float32)}, "expected float32 of shape"),
        ({"logits": np.zeros((2, 3), np.float32)}, "expected float32 of shape"),
        ({"logits": np.zeros((0, 4), np.float32)}, "expected float32 of shape"),
        ({"logits": np.zeros((1, 4))}, "expected float32 of shape"),
        ({"key": None}, "expected the proposal's key on the leader"),
        ({"key": Key(1, 1, 1, 2**32 - 1)}, "expected position"),
        ({"bias": lambda token: np.zeros(4, np.float32)}, "previous: expected the last committed token"),
        ({"bias": lambda token: np.zeros(3, np.float32), "previous": 0}, r"expected float32 of shape \(4,\) for row 0"),
        ({"bias": lambda token: np.zeros(4), "previous": 0}, "got float64"),
        ({"temperature": 0.0}, "temperature: expected"),
    ],
)
def test_refused_chains(changes, message):
    arguments = {"logits": np.zeros((2, 4), np.float32), "temperature": 1.0, "key": Key(1, 1, 1, 1)} | changes
    with pytest.raises(SamplingError, match=message):
        run_ranks([shard_draft(split(4, 1)[0], **arguments)])


def test_refused_targets():
    shard = split(4, 1)[0]
    for logits in (np.zeros(4, np.float32), np.zeros((0, 4), np.float32)):
        with pytest.raises(SamplingError, match=r"expected shape \[n, 4\]"):
            run_ranks([shard_target(shard, logits)])
    with pytest.raises(TargetRefused, match="NaN"):
        run_ranks([shard_target(shard, np.full((1, 4), np.nan, np.float32))])
    with pytest.raises(TargetRefused, match="expected a sum of one"):
        run_ranks([shard_target_only(shard, np.zeros(4, np.int64), Key(1, 1, 1, 1))])


def test_together_joins_sums_and_refuses_what_it_cannot_take_apart():
    def program(combine, value):
        first = yield Collective(combine, np.array([value], np.int64))
        second = yield Collective(Combine.MAX, first + 1)
        return second.tolist()

    def rank(values):
        return together([program(Combine.SUM, value) for value in values])

    assert run_ranks([rank([1, 2, 3]), rank([10, 20, 30])]) == [[[12], [23], [34]]] * 2
    assert run_ranks([together([])]) == [[]]
    with pytest.raises(SamplingError, match="got a merge"):
        run_ranks([together([program(Combine.MERGE, 1)])])
    with pytest.raises(SamplingError, match="together: expected one combination"):
        run_ranks([together([program(Combine.SUM, 1), program(Combine.MAX, 1)])])
