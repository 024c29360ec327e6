"""Counts, chains and verdicts over process groups (ranks as threads): the bits of one process, or the same error everywhere."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pp1wire.sampling import (
    MASS,
    AllocationError,
    Key,
    ProposalRefused,
    SamplingError,
    TargetRefused,
    Verdict,
    dense_row,
    draft_chain,
    dyadic_counts,
    logit_grid,
    sample,
    target_only_token_logits,
    verify_chain,
    verify_chain_logits,
)
from pp1wire.sampling.distributed import (
    RanksLost,
    Refusal,
    RequestRanks,
    VocabularyRanks,
    sharded_counts,
    sharded_draft,
    sharded_row,
    sharded_sample,
    sharded_target,
    sharded_target_only,
    sharded_verify,
    verify_requests,
)
from tests.rank_threads import on_threads, values_on

V = 23
ROUNDS = (0, 1, 2, 4, 5, 8)


def rows_of(seed, n, vocabulary=V):
    return np.random.default_rng(seed).normal(scale=2, size=(n, vocabulary)).astype(np.float32)


def cut(array, shard):
    return array[..., shard.first : shard.first + shard.size]


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("top_k", [None, 5, 10**9])
def test_counts_rows_and_tokens_are_those_of_one_process(ranks, top_k):
    logits = rows_of(1, 6)
    logits[1, :12] = -np.inf
    logits[2] = 0.0

    def body(group):
        layout = VocabularyRanks(group, V)
        result = []
        for i, row in enumerate(logits):
            part = sharded_counts(layout, cut(row, layout.shard), 0.8, top_k)
            assert part.dtype == np.int32
            token = sharded_sample(layout, part, i * MASS // 6)
            sparse = None if top_k is None else sharded_row(layout, cut(row, layout.shard), 0.8, top_k)
            result.append((part, token, sparse))
        return result

    everyones = values_on(ranks, body)
    for i, row in enumerate(logits):
        ids, counts = dyadic_counts(row, 0.8, top_k)
        parts = [result[i][0] for result in everyones]
        assert np.array_equal(np.concatenate(parts), dense_row((ids, counts), V))
        for _, token, sparse in (result[i] for result in everyones):
            assert token == sample(ids, counts, i * MASS // 6)
            assert sparse is None or (np.array_equal(sparse[0], ids) and np.array_equal(sparse[1], counts))


@pytest.mark.parametrize(("ranks", "sizes"), [(1, None), (2, None), (4, None), (4, (1, 2, 3, 17))])
@pytest.mark.parametrize("top_k", [None, 4])
def test_whole_rounds_are_those_of_one_process(ranks, sizes, top_k):
    """Draft with a Markov bias, verify, target-only: over 6 rounds, with evidence of acceptances, corrections and bonuses."""
    table = rows_of(2, V) * np.float32(0.3)
    expected = []
    for seed in ROUNDS:
        draft = draft_chain(
            rows_of(seed, 3), 0.7, Key(seed, 1, 1, 9), bias=table.__getitem__, previous=seed % V, top_k=top_k
        )
        target = rows_of(seed, 4) + rows_of(seed + 100, 4) * np.float32(seed % 3 / 4)
        verdict = verify_chain_logits(target, draft.rows, draft.tokens, Key(seed, 2, 1, 9))
        expected.append((draft, target, verdict, target_only_token_logits(target[0], Key(seed, 3, 1, 9))))
    assert {v.kind.value for _, _, v, _ in expected} == {"correction", "bonus"}
    assert {v.accepted for _, _, v, _ in expected} == {0, 1, 2, 3}

    def body(group):
        layout = VocabularyRanks(group, V, sizes)
        shard = layout.shard
        for seed, (draft, target, verdict, alone) in zip(ROUNDS, expected, strict=True):
            got = sharded_draft(
                layout, cut(rows_of(seed, 3), shard), 0.7, Key(seed, 1, 1, 9) if group.rank == 0 else None,
                bias=lambda token: cut(table[token], shard), previous=seed % V, top_k=top_k,
            )  # fmt: skip
            assert np.array_equal(got.tokens, draft.tokens)
            for (ids, counts), (own_ids, own_counts) in zip(draft.rows, got.rows, strict=True):
                assert np.array_equal(ids, own_ids)
                assert np.array_equal(counts, own_counts)
                assert not own_ids.flags.writeable
            grid = sharded_target(layout, cut(target, shard))
            assert np.array_equal(grid, cut(logit_grid(target), shard))
            assert sharded_verify(layout, grid, got.rows, got.tokens, Key(seed, 2, 1, 9)) == verdict
            dense = [(None, dense_row(row, V)) for row in got.rows]
            assert sharded_verify(layout, grid, dense, got.tokens, Key(seed, 2, 1, 9)) == verdict
            assert sharded_target_only(layout, grid[0], Key(seed, 3, 1, 9)) == alone

    values_on(ranks, body)


def chain_of(slot):
    """What verifies the request of one slot."""
    draft = draft_chain(rows_of(slot, 2), 1.0, Key(slot, 1, 1, 1))
    return partial(verify_chain_logits, rows_of(slot + 50, 3), draft.rows, draft.tokens, Key(slot, 2, 1, 1))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_requests_are_verified_by_their_owners_and_known_to_all(ranks):
    held = [0, 1, 2, 3, 5]
    expected = {slot: chain_of(slot)() for slot in held}
    expected[2], expected[3] = Refusal.PROPOSAL, Refusal.TARGET

    def body(group):
        requests = RequestRanks(group, 6)
        assert [requests.owner(slot) for slot in requests.own()] == [group.rank] * len(requests.own())
        chains = {slot: chain_of(slot) for slot in requests.own() if slot in held}
        if 2 in chains:
            chains[2] = partial(
                verify_chain, np.full((2, V), 1 / V), [(None, np.zeros(V, np.int32))], [0], Key(1, 1, 1, 1)
            )
        if 3 in chains:
            chains[3] = partial(verify_chain, np.full((2, V), np.nan), [], [], Key(1, 1, 1, 1))
        return verify_requests(requests, chains)

    assert values_on(ranks, body) == [expected] * ranks


def refused_alike(results, error, own, message, others):
    """Every rank raises one kind of error; the rank at fault says why, the others say who."""
    for rank, result in enumerate(results):
        assert type(result) is error, result
        assert (message if rank == own else others) in str(result)


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda row: row[:1], SamplingError, "expected float32 of shape"),
        (lambda row: row.astype(np.float64), SamplingError, "expected float32 of shape"),
    ],
)
def test_refused_part_of_one_rank_is_an_error_on_all(spoil, error, message):
    def body(group):
        layout = VocabularyRanks(group, V)
        row = cut(rows_of(1, 1)[0], layout.shard)
        return sharded_counts(layout, spoil(row) if group.rank == 1 else row, 1.0)

    refused_alike(on_threads(3, body), error, 1, message, "counts: rank 1 refused its own part")


def test_refused_nan_in_one_shard_is_the_same_error_on_all():
    def body(group):
        layout = VocabularyRanks(group, V)
        row = cut(rows_of(1, 1), layout.shard).copy()
        if group.rank == 1:
            row[0, 0] = np.nan
        with pytest.raises(SamplingError, match="NaN in a shard"):
            sharded_counts(layout, row[0], 1.0)
        with pytest.raises(TargetRefused, match="NaN in a shard"):
            sharded_target(layout, row)
        return sharded_counts(layout, np.zeros(layout.shard.size, np.float32), 1.0).sum()

    assert sum(values_on(2, body)) == MASS  # and the group lives on


@pytest.mark.parametrize(
    ("rows", "tokens", "error", "message"),
    [
        (lambda good: good[:1], [0, 1], ProposalRefused, "rows: expected one a token"),
        (lambda good: [], [], ProposalRefused, "rows: expected one a token"),
        (
            lambda good: [(None, np.full(3, 1, np.int32)), good[1]],
            [0, 1],
            ProposalRefused,
            "q[0]: expected dense counts",
        ),
        (lambda good: [good[0], (None, good[1][1] * 2)], [0, 1], ProposalRefused, "q[1]: expected"),
        (
            lambda good: [(np.array([2, 1]), np.array([1, MASS - 1])), good[1]],
            [0, 1],
            ProposalRefused,
            "q[0]: expected ids",
        ),
    ],
)
def test_refused_proposals_on_one_rank_are_refused_on_all(rows, tokens, error, message):
    dense = dense_row(dyadic_counts(np.zeros(V, np.float32), 1.0), V)
    good = [(None, dense), (None, dense)]

    def body(group):
        layout = VocabularyRanks(group, V)
        grid = sharded_target(layout, np.zeros((3, layout.shard.size), np.float32))
        own = (rows(good), tokens) if group.rank == 1 else (good, [0, 1])
        return sharded_verify(layout, grid, *own, Key(1, 1, 1, 1))

    refused_alike(on_threads(2, body), error, 1, message, "verify: rank 1 refused its own part")


def test_refused_shapes_and_tickets():
    def body(group):
        layout = VocabularyRanks(group, V)
        with pytest.raises(SamplingError, match="counts: expected shape"):
            sharded_sample(layout, np.zeros(1, np.int32), 0)
        with pytest.raises(SamplingError, match="ticket"):
            sharded_sample(layout, np.zeros(layout.shard.size, np.int32), MASS)
        with pytest.raises(SamplingError, match="grid: expected shape"):
            sharded_target_only(layout, np.zeros(1, np.int64), Key(1, 1, 1, 1))
        with pytest.raises(SamplingError, match="grid: expected shape"):
            sharded_verify(layout, np.zeros((1, 1), np.int64), [(None, np.zeros(V, np.int32))], [0], Key(1, 1, 1, 1))
        with pytest.raises(SamplingError, match="top_k"):
            sharded_row(layout, np.zeros(layout.shard.size, np.float32), 1.0, 0)

    values_on(2, body)


@pytest.mark.parametrize("other", ["temperature", "top_k", "call", "vocabulary", "vote"])
def test_rank_agreement_different_calls_are_an_error_not_a_hang(other):
    def body(group):
        odd = group.rank == 1
        layout = VocabularyRanks(group, V + 1 if odd and other == "vocabulary" else V)
        row = np.zeros(layout.shard.size, np.float32)
        if odd and other == "call":
            return sharded_row(layout, row, 1.0, 5)
        if odd and other == "vote":
            return group.agree((1,), lambda votes: "decided")
        return sharded_counts(
            layout, row, 1.5 if odd and other == "temperature" else 1.0, 6 if odd and other == "top_k" else 5
        )

    started = time.monotonic()
    results = on_threads(2, body)
    assert time.monotonic() - started < 5
    message = "expected one and the same call on all 2 ranks"
    assert message in str(results[0])
    assert results[1] == "rank_lost" if other == "vote" else message in str(results[1])


def test_a_crash_in_the_middle_of_one_rank_is_a_loss_on_the_others_at_once():
    def body(group):
        layout = VocabularyRanks(group, V)

        def bias(token):
            if group.rank == 1:
                raise MemoryError("on this rank")
            return np.zeros(layout.shard.size, np.float32)

        return sharded_draft(
            layout, np.zeros((2, layout.shard.size), np.float32), 1.0, Key(1, 1, 1, 1), bias=bias, previous=0
        )

    started = time.monotonic()
    first, second = on_threads(2, body)
    assert isinstance(first, RanksLost)
    assert isinstance(second, MemoryError)
    assert time.monotonic() - started < 5


def test_a_crash_of_a_request_is_a_loss_on_the_others_at_once():
    def body(group):
        def verify():
            if group.rank == 1:
                raise MemoryError("on this rank")
            return Verdict(0, 0, "bonus")

        return verify_requests(RequestRanks(group, 2), {group.rank: verify})

    started = time.monotonic()
    first, second = on_threads(2, body)
    assert isinstance(first, RanksLost)
    assert isinstance(second, MemoryError)
    assert time.monotonic() - started < 5


def test_refused_slots_of_another_rank():
    def body(group):
        chains = {1: lambda: Verdict(0, 0, "bonus")} if group.rank == 0 else {}
        return verify_requests(RequestRanks(group, 4), chains)

    refused_alike(
        on_threads(2, body), SamplingError, 0, "chains: expected slots of [0, 2], got [1]", "requests: rank 0 refused"
    )


def test_errors_of_every_kind_keep_their_kind():
    from pp1wire.sampling.rank_calls import run_call

    for error in (SamplingError, ProposalRefused, TargetRefused, AllocationError):

        def body(group, error=error):
            def prepare():
                if group.rank == 1:
                    raise error("mine")
                return (), iter([])

            return run_call(group, "call", prepare) if group.rank else run_call(group, "call", lambda: ((), empty()))

        refused_alike(on_threads(2, body), error, 1, "mine", "call: rank 1 refused its own part")


def empty():
    from pp1wire.sampling.collectives import Collective, Combine

    yield Collective(Combine.SUM, np.zeros(1, np.int64))


def test_the_two_ways_of_sharing_cannot_be_mixed_up_at_run_time():
    def body(group):
        vocabulary, requests = VocabularyRanks(group, V), RequestRanks(group, 4)
        row, key = np.zeros(V, np.float32), Key(1, 1, 1, 1)
        calls = [
            lambda: sharded_counts(requests, row, 1.0),
            lambda: sharded_row(requests, row, 1.0, 3),
            lambda: sharded_sample(requests, row, 0),
            lambda: sharded_draft(requests, row[None], 1.0, key),
            lambda: sharded_target(requests, row[None]),
            lambda: sharded_verify(requests, row[None], [], [], key),
            lambda: sharded_target_only(requests, row, key),
        ]
        for call in calls:
            with pytest.raises(SamplingError, match="expected VocabularyRanks, got RequestRanks"):
                call()
        with pytest.raises(SamplingError, match="expected RequestRanks, got VocabularyRanks"):
            verify_requests(vocabulary, {})

    values_on(1, body)


def test_refused_layouts():
    def body(group):
        for sizes in ((1, 2), (V, 1, 1), (V - 1, 1, 0), (0, 0, 0)):
            with pytest.raises(SamplingError, match="sizes: expected 3 sizes"):
                VocabularyRanks(group, V, sizes)
        with pytest.raises(SamplingError, match="ranks: expected"):
            VocabularyRanks(group, 2)
        with pytest.raises(SamplingError, match="slots: expected at least 1"):
            RequestRanks(group, 0)
        for slot in (-1, 4):
            with pytest.raises(SamplingError, match="slot: expected 0 <= slot < 4"):
                RequestRanks(group, 4).owner(slot)

    values_on(3, body)


MIXED_UP = """\
import numpy as np
from pp1wire.sampling import Key
from pp1wire.sampling.distributed import *

def calls(group: RankGroup, row: "np.ndarray[tuple[int], np.dtype[np.float32]]", key: Key) -> None:
    vocabulary, requests = VocabularyRanks(group, 23), RequestRanks(group, 4)
    sharded_counts(vocabulary, row, 1.0)
    verify_requests(requests, {})
    sharded_counts(requests, row, 1.0)  # wrong
    sharded_row(requests, row, 1.0, 3)  # wrong
    sharded_draft(requests, row, 1.0, key)  # wrong
    sharded_target(requests, row)  # wrong
    sharded_verify(requests, row, [], [], key)  # wrong
    verify_requests(vocabulary, {})  # wrong
"""


def test_the_two_ways_of_sharing_cannot_be_mixed_up_for_mypy(tmp_path):
    (tmp_path / "mixed_up.py").write_text(MIXED_UP)
    config = tmp_path / "mypy.ini"
    # torch is left out: its stubs take mypy half a minute, and nothing here depends on them.
    config.write_text(
        "[mypy]\nstrict = True\n[mypy-torch.*]\nfollow_imports = skip\n[mypy-pp1wire.*]\nfollow_imports = silent\n"
    )
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(config),
        "--cache-dir",
        str(tmp_path / "cache"),
        str(tmp_path / "mixed_up.py"),
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False, timeout=100)
    found = [line for line in run.stdout.splitlines() if "error:" in line]
    wrong = [number for number, line in enumerate(MIXED_UP.splitlines(), 1) if "# wrong" in line]
    assert [int(line.split(":")[1]) for line in found if "[arg-type]" in line and "Ranks" in line] == wrong, (
        run.stdout + run.stderr
    )
