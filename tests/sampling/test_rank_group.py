"""Exchanges and decisions over real process groups, ranks as threads; every failure ends in one outcome on all ranks."""

from __future__ import annotations

import builtins
import datetime
import socket
import threading
import time

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pp1wire.sampling import SamplingError
from pp1wire.sampling.collectives import Collective, Combine
from pp1wire.sampling.rank_group import CONTROL_WORDS, LOST, RankGroup, RanksLost, connect_store, serve_store
from tests.rank_threads import on_threads, values_on


def total(votes):
    assert votes.shape == (len(votes), CONTROL_WORDS - 1)
    return str(int(votes[:, 0].sum()))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_combinations_are_those_of_one_process(ranks):
    def body(group):
        own = np.arange(3) * 10 + group.rank
        before = own.copy()
        answers = [group.combine(Collective(how, own)) for how in (Combine.SUM, Combine.MAX, Combine.MERGE)]
        assert np.array_equal(own, before)
        return [answer.tolist() for answer in answers]

    parts = np.stack([np.arange(3) * 10 + rank for rank in range(ranks)])
    expected = [parts.sum(axis=0).tolist(), parts.max(axis=0).tolist(), np.sort(parts, axis=None).tolist()]
    assert values_on(ranks, body) == [expected] * ranks


def test_gather_words_and_broadcast():
    def body(group):
        buffer = np.full(5, group.rank + 7, np.uint8)
        group.broadcast(buffer)
        gathered = group.gather(np.full((2, 2), group.rank, np.int32))
        assert gathered.dtype == np.int32
        return buffer.tolist(), gathered.tolist(), group.words(group.rank, -5).tolist()

    for buffer, gathered, words in values_on(3, body):
        assert buffer == [7] * 5
        assert gathered == [[[rank] * 2] * 2 for rank in range(3)]
        assert words == [[rank, -5, 0, 0, 0, 0, 0, 0] for rank in range(3)]


def test_rank_agreement_many_decisions_in_a_row():
    def body(group):
        return [group.agree((i * (group.rank + 1),), total) for i in range(20)]

    assert values_on(4, body) == [[str(i * 10) for i in range(20)]] * 4


def test_rank_agreement_decisions_do_not_pile_up_in_the_store():
    store = dist.HashStore()

    def body(group):
        for _ in range(10):
            group.agree((1,), total)

    values_on(2, body, store=store)
    grown = store.num_keys()
    values_on(2, body, store=store, epoch=1)
    assert store.num_keys() - grown <= grown


@pytest.mark.parametrize("first", [0, 1])
def test_rank_agreement_first_outcome_written_holds(first):
    """A rank whose exchange failed hears what the others decided, and the other way round."""
    written = threading.Event()

    def body(group):
        propose = group._register.propose

        def in_order(key, value):
            assert group.rank == first or written.wait(10)
            decided = propose(key, value)
            written.set()
            return decided

        group._register.propose = in_order
        if group.rank == 0:
            words = group.words

            def failing(*given):
                words(*given)
                raise RanksLost("behind the others' backs")

            group.words = failing
        return group.agree((1,), total)

    assert values_on(2, body) == [LOST if first == 0 else "2"] * 2


@pytest.mark.parametrize("ranks", [2, 4])
def test_rank_agreement_a_rank_that_leaves_is_lost_on_all_at_once(ranks):
    def body(group):
        assert group.agree((1,), total) == str(ranks)
        if group.rank == ranks - 1:
            group.abandon()
            assert group.lost
        started = time.monotonic()
        outcome = group.agree((1,), total)
        assert group.lost
        again = group.agree((1,), total)
        return outcome, again, time.monotonic() - started

    for outcome, again, seconds in values_on(ranks, body):
        assert outcome == again == LOST
        assert seconds < 5, "found by the closed connection, long before the timeout of 10 s"


def test_rank_agreement_a_rank_that_is_silent_is_lost_within_the_stated_time():
    timeout = 1.0
    gone = threading.Event()

    def body(group):
        if group.rank == 1:
            gone.wait(20)
            return group.agree((1,), total)
        started = time.monotonic()
        outcome = group.agree((1,), total)
        gone.set()
        assert timeout * 0.9 < time.monotonic() - started < 2 * timeout + 1
        return outcome

    assert values_on(2, body, timeout=timeout) == [LOST, LOST]


def test_rank_agreement_a_rank_out_of_step_is_lost():
    def body(group):
        if group.rank == 1:
            group._number += 1
        return group.agree((1,), total)

    assert values_on(2, body) == [LOST, LOST]


class DeafStore:
    """A store whose process was stopped: its calls do not return. Or one that is gone: they fail."""

    def __init__(self, failure=None):
        self.failure, self.release = failure, threading.Event()

    def compare_set(self, key, expected_value, desired_value):
        if self.failure is None:
            self.release.wait(20)
            return b"too late"
        raise self.failure

    def delete_key(self, key):
        return False


@pytest.mark.parametrize("failure", [None, RuntimeError("connection reset")])
def test_rank_agreement_without_a_store_to_ask_is_lost_in_time(failure):
    def body(group):
        deaf = group._register._store = DeafStore(failure)
        started = time.monotonic()
        outcome = group.agree((1,), total)
        seconds = time.monotonic() - started
        deaf.release.set()
        return outcome, seconds, group.agree((1,), total)

    ((outcome, seconds, again),) = values_on(1, body, timeout=1.0)
    assert outcome == again == LOST
    assert seconds < 2.0


def test_decisions_that_cannot_be_deleted_are_no_failure():
    def body(group):
        store = group._register._store

        class Undeletable:
            def compare_set(self, *arguments):
                return store.compare_set(*arguments)

            def delete_key(self, key):
                raise RuntimeError("not supported")

        group._register._store = Undeletable()
        return [group.agree((1,), total) for _ in range(3)]

    assert values_on(2, body) == [["2"] * 3] * 2


def test_exchanges_after_a_loss_are_refused_and_say_what_to_do():
    def body(group):
        if group.rank == 1:
            group.abandon()
        with pytest.raises(RanksLost, match="rank 0 of 2: an exchange failed: .+" if group.rank == 0 else "is over"):
            group.combine(Collective(Combine.SUM, np.zeros(1, np.int64)))
        with pytest.raises(RanksLost, match="the group is over; join again with the next epoch"):
            group.broadcast(np.zeros(1, np.uint8))
        with pytest.raises(RanksLost, match="the group is over"):
            group.words(1)

    values_on(2, body)


def test_next_epoch_joins_again_over_the_same_store():
    store = dist.HashStore()
    for epoch in range(3):

        def body(group):
            outcome = group.agree((1,), total)
            if group.rank == 1:
                group.abandon()
            return outcome, group.agree((1,), total)

        assert values_on(2, body, store=store, epoch=epoch) == [("2", LOST)] * 2


def test_two_groups_side_by_side_are_told_apart_by_name():
    store = dist.HashStore()

    def body(group):
        with RankGroup(store, group.rank, 2, timeout=10, name="other") as other:
            return group.agree((1,), total), other.agree((2,), total), group.agree((3,), total)

    assert values_on(2, body, store=store) == [("2", "4", "6")] * 2


def test_a_rank_that_never_joins_is_reported():
    started = time.monotonic()
    with pytest.raises(RanksLost, match="rank 0: not all 2 ranks joined"):
        RankGroup(dist.HashStore(), 0, 2, timeout=5, join_timeout=0.5)
    assert time.monotonic() - started < 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 2}, "rank: expected 0 <= rank < ranks, got 2 of 2"),
        ({"rank": -1}, "rank: expected"),
        ({"timeout": 0.0}, "expected seconds > 0"),
        ({"timeout": float("nan")}, "expected seconds > 0"),
        ({"join_timeout": -1.0}, "expected seconds > 0"),
        ({"backend": "mpi"}, "backend: expected one of gloo, nccl, got 'mpi'"),
    ],
)
def test_refused_arguments(arguments, message):
    given = {"rank": 0, "ranks": 2, "timeout": 1.0} | arguments
    with pytest.raises(SamplingError, match=message):
        RankGroup(dist.HashStore(), given.pop("rank"), given.pop("ranks"), **given)


def test_stores_are_served_and_connected_to():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    served = serve_store("127.0.0.1", port)
    stores = iter([served, connect_store("127.0.0.1", port)])

    def run(rank, answers, store):
        with RankGroup(store, rank, 2, timeout=10, address="127.0.0.1") as group:
            answers[rank] = group.agree((1,), total)

    answers = {}
    threads = [threading.Thread(target=run, args=(rank, answers, next(stores))) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == {0: "2", 1: "2"}
    with pytest.raises(RanksLost, match=f"store: expected one at 127.0.0.1:{port}: "):
        serve_store("127.0.0.1", port)


def test_a_store_that_is_not_there_is_reported():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(RanksLost, match=f"store: expected one at 127.0.0.1:{port}: "):
            connect_store("127.0.0.1", port, timeout=0.5)


def test_missing_torch_names_the_extra(monkeypatch):
    importing = builtins.__import__

    def without_torch(name, *arguments, **keywords):
        if name.split(".")[0] == "torch":
            raise ImportError(name)
        return importing(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(SamplingError, match=r"not installed; install pp1wire\[cuda\]"):
        RankGroup(None, 0, 1, timeout=1)


def test_torch_without_distributed_names_the_extra(monkeypatch):
    monkeypatch.setattr(dist, "is_available", lambda: False)
    with pytest.raises(SamplingError, match=r"this build of torch has none; install pp1wire\[cuda\]"):
        RankGroup(None, 0, 1, timeout=1)


def test_nccl_group_is_asked_for_sums_and_gloo_for_votes(monkeypatch):
    """Without a GPU: NCCL's place is taken by a second gloo group, on the CPU, that counts what it is asked for."""
    asked = []

    class Counting:
        def __init__(self, store, rank, ranks, options):
            assert options._timeout == datetime.timedelta(seconds=10)
            self._gloo = dist.ProcessGroupGloo(store, rank, ranks, options._timeout)

        def allreduce(self, *arguments):
            asked.append("allreduce")
            return self._gloo.allreduce(*arguments)

        def allgather(self, *arguments):
            asked.append("allgather")
            return self._gloo.allgather(*arguments)

        class Options:
            pass

    device = torch.device
    monkeypatch.setattr(dist, "ProcessGroupNCCL", Counting, raising=False)
    monkeypatch.setattr(torch, "device", lambda name: device("cpu"))

    def body(group):
        buffer = np.full(1, group.rank, np.uint8)
        group.broadcast(buffer)
        total_of_ranks = group.combine(Collective(Combine.SUM, np.array([group.rank])))
        merged = group.combine(Collective(Combine.MERGE, np.array([group.rank])))
        return group.agree((1,), total), total_of_ranks.tolist(), merged.tolist(), buffer.tolist()

    assert values_on(2, body, backend="nccl") == [("2", [1], [0, 1], [0])] * 2
    assert sorted(asked) == ["allgather"] * 2 + ["allreduce"] * 2


def test_errors_of_a_rank_reach_the_test():
    """The harness itself: an exception on a rank is not lost."""

    def body(group):
        raise ValueError(group.rank)

    assert [str(error) for error in on_threads(2, body)] == ["0", "1"]
