"""Models that fail: the draft's failures cost a round, the target's the request, and neither costs the connection."""

from __future__ import annotations

import asyncio
import logging
import threading

import numpy as np
import pytest

from pp1wire.net import CapacityError, NetError, Request, TargetModelError, WorkerServer, connect
from pp1wire.protocol import TargetOnly
from pp1wire.sampling import ProposalRefused
from pp1wire.wire import CommitKind
from tests.net.toys import DraftToy, TargetToy, V, collect, history, pair, run, terms, tokens, until


class Failing(DraftToy):
    """Fails in every second round, at the second position: a failure that does not depend on what was drawn."""

    def __init__(self, failure):
        super().__init__()
        self.failure = failure
        self.calls = self.opened = 0

    def open(self, capacity):
        assert capacity == 512
        self.opened += 1
        return self

    def logits(self, prefix, drafted):
        self.calls += not drafted
        row = super().logits(prefix, drafted)
        return self.failure(row) if self.calls % 2 == 0 and len(drafted) == 1 else row


def nan(row):
    row[3] = np.nan
    return row


def throws(row):
    raise ValueError("out of\nluck")


def no_room(row):
    raise CapacityError("the cache is full")


def no_memory(row):
    raise MemoryError


@pytest.mark.parametrize(
    ("failure", "status", "reason"),
    [
        (nan, "model_error", "draft model returned unusable logits: NaN at id 3"),
        (throws, "model_error", "draft model raised ValueError: out of luck"),
        (lambda row: row[:-1], "model_error", "draft model returned unusable logits: expected shape (16,), got shape (15,)"),
        (lambda row: row[None], "model_error", "expected shape (16,), got shape (1, 16)"),
        (lambda row: None, "model_error", "expected shape (16,), got NoneType"),
        (lambda row: row.astype(np.float64), "model_error", "expected float32"),
        (lambda row: np.full(V, -np.inf, np.float32), "model_error", "no finite logit"),
        (no_room, "capacity", "draft model: the cache is full"),
        (no_memory, "capacity", "draft model: MemoryError"),
    ],
)  # fmt: skip
def test_a_draft_model_that_fails_costs_its_round(failure, status, reason, caplog):
    model = Failing(failure)

    async def main():
        async with pair(model=model) as (server, client):
            rounds = await collect(client, max_tokens=30)
            assert server.connections == 1
            address = server.address
        return rounds, client.counters(), client.events, address

    with caplog.at_level(logging.WARNING, "pp1wire.net"):
        rounds, counters, events, address = run(main())
    assert [r.fallback for r in rounds[:4]] == [None, f"completion_{status}", None, f"completion_{status}"]
    fallen = [r for r in rounds if r.fallback]
    assert all((r.kind, r.accepted, len(r.tokens)) == (CommitKind.TARGET_ONLY, 0, 1) for r in fallen)
    assert counters["discards"][f"completion_{status}"] == len(fallen) == counters["target_only"]
    assert (events["connected"], events["connection_lost"]) == (1, 0)
    assert model.opened > len(fallen)  # whatever the failure left in the state is not used again
    # The worker says each time why; the verifier says once a connection that it is so.
    messages = [r.getMessage() for r in caplog.records]
    said = [m for m in messages if m.startswith(f"{address}: ")]
    hint = "the worker's log says why (more of these are told at level INFO)"
    assert said == [f"{address}: session 1 generation 1 round 2: round discarded: completion_{status}; {hint}"]
    messages.remove(said[0])
    assert len(messages) == len(fallen)
    for message, r in zip(messages, fallen, strict=True):
        generation = r.generation - 1  # the discard opened the next one, and its round 1 was the target's alone
        assert f": session 1 generation {generation} round {2 if generation == 1 else 3}: {status}: " in message
        assert reason in message
        assert "\n" not in message


def test_the_traceback_of_a_draft_model_is_in_the_debug_log(caplog):
    async def main():
        async with pair(model=Failing(throws)) as (_, client):
            await collect(client, max_tokens=10)

    with caplog.at_level(logging.DEBUG, "pp1wire.net"):
        run(main())
    traces = [r for r in caplog.records if r.exc_info]
    assert {r.levelno for r in traces} == {logging.DEBUG}
    assert "generation 1 round 2: traceback" in traces[0].getMessage()
    assert "in throws" in caplog.text
    assert 'raise ValueError("out of' in caplog.text


def test_each_reason_is_told_once_a_connection(caplog):
    class Various(DraftToy):
        def logits(self, prefix, drafted):
            return no_room(None) if len(prefix) % 2 else nan(super().logits(prefix, drafted))

    async def main():
        async with pair(model=Various()) as (server, client):
            await asyncio.gather(*(collect(client, root_seed=n, max_tokens=6) for n in range(3)))
            async with connect(server.address, terms()) as other:
                await collect(other, max_tokens=6)

    with caplog.at_level(logging.WARNING, "pp1wire.net"):
        run(main())
    told = [r.getMessage() for r in caplog.records if "round discarded" in r.getMessage()]
    assert sorted(m.split("discarded: ")[1].split(";")[0] for m in told) == [
        "completion_capacity", "completion_capacity", "completion_model_error", "completion_model_error",
    ]  # fmt: skip


def test_a_model_that_cannot_open_costs_rounds_alone():
    class Shut(DraftToy):
        def open(self, capacity):
            raise CapacityError("no more requests")

    async def main():
        async with pair(model=Shut()) as (_, client):
            return await collect(client, max_tokens=5)

    rounds = run(main())
    assert [r.fallback for r in rounds] == ["completion_capacity"] * 5


def test_discards_are_the_same_whatever_runs_beside():
    async def main():
        async with pair(model=Failing(nan)) as (_, client):
            one = history(await collect(client, max_tokens=30))
        async with pair(model=Failing(nan)) as (_, client):
            return one, history(await collect(client, max_tokens=30))

    one, two = run(main())
    assert one == two
    assert max(h[6] for h in one) > 2


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (lambda rows: rows * np.float32("nan"), "target model returned unusable logits[0]: NaN"),
        (lambda rows: rows[:, :-1], r"expected rows of shape \(6, 16\), got \(6, 15\)"),
        (lambda rows: rows[1:], r"expected rows of shape \(6, 16\), got \(5, 16\)"),
        (lambda rows: 1 / 0, "target model raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_target_model_that_fails_ends_its_request_alone(rows, reason):
    class Broken(TargetToy):
        def logits(self, prefix, drafted):
            return rows(super().logits(prefix, drafted))

    async def main():
        async with pair() as (server, client):
            with pytest.raises(TargetModelError, match=reason.replace("[0]", r"\[0\]")):
                await collect(client, target=Broken())
            good = await collect(client)
        assert server.counters()["states"]["session.closed"] == 2
        return good

    assert len(tokens(run(main()))) == 40


def test_a_target_state_without_a_method_is_refused():
    class Nothing:
        def open(self, capacity):
            return object()

    async def main():
        async with pair() as (_, client):
            with pytest.raises(TargetModelError, match="expected a state with logits or probabilities, got object"):
                await collect(client, target=Nothing())

    run(main())


class Probabilities(TargetToy):
    def open(self, capacity):
        parent = self

        class State:
            def probabilities(self, prefix, drafted):
                rows = np.exp(parent.logits(prefix, drafted).astype(np.float64))
                return rows / rows.sum(axis=1, keepdims=True)

        return State()


class Worse(Probabilities):
    def open(self, capacity):
        state = super().open(capacity)
        inner = state.probabilities
        state.probabilities = lambda prefix, drafted: inner(prefix, drafted) * 2
        return state


def test_a_target_may_give_probabilities():
    async def main():
        async with pair() as (_, client):
            rounds = await collect(client, target=Probabilities())
            with pytest.raises(TargetModelError, match="target model returned unusable p"):
                await collect(client, target=Worse())
        return rounds

    rounds = run(main())
    assert len(tokens(rounds)) == 40
    assert sum(r.accepted for r in rounds)


def test_a_proposal_that_verification_refuses_is_discarded(monkeypatch, caplog):
    """Unreachable behind the wire's own checks, so it is forced."""

    def refuse(*_):
        raise ProposalRefused("q[0]: zero probability")

    monkeypatch.setattr("pp1wire.sampling.hosted.verify_chain_logits", refuse)

    async def main():
        async with pair() as (_, client):
            return await collect(client, max_tokens=3), client.counters()

    rounds, counters = run(main())
    assert [r.fallback for r in rounds] == ["consumer"] * 3
    assert counters["discards"]["consumer"] == 3
    assert "q[0]: zero probability" in caplog.text


def test_a_round_given_up_stops_its_thread_and_the_session_goes_on():
    started, go_on = threading.Event(), threading.Event()
    drafted_after = []

    class Slow(DraftToy):
        def logits(self, prefix, drafted):
            if len(prefix) == 1:
                started.set()
                go_on.wait(5)
                drafted_after.append(len(drafted))
            return super().logits(prefix, drafted)

    async def main():
        async with pair(model=Slow(), step_timeout=0.4) as (server, client), client.request([1]) as request:
            first = await request.propose()
            assert started.is_set()
            assert isinstance(first, TargetOnly)
            assert first.reason == "deadline"
            request.target_only(2)
            await until(lambda: server.counters()["target_only"] == 1)
            go_on.set()
            second = await request.propose()
            assert (second.generation, second.round) == (2, 2)
            return client.counters()["discards"]["deadline"]

    assert run(main()) == 1
    assert drafted_after == [0]


def test_two_rounds_of_one_request_never_share_its_state():
    class Watched(DraftToy):
        def __init__(self):
            super().__init__()
            self.inside = self.most = 0
            self.lock = threading.Lock()

        def open(self, capacity):
            state = type(self)()
            state.owner = self
            return state

        def logits(self, prefix, drafted):
            with self.lock:
                self.inside += 1
                self.owner.most = max(self.owner.most, self.inside)
            threading.Event().wait(0.003)
            with self.lock:
                self.inside -= 1
            return super().logits(prefix, drafted)

    model = Watched()

    async def main():
        async with pair(model=model, step_timeout=0.004) as (_, client):
            await asyncio.gather(*(collect(client, root_seed=n, max_tokens=8) for n in range(4)))
            return client.counters()["discards"]["deadline"]

    assert run(main()) > 4
    assert model.most == 1


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(NetError, match="at least 1"):
        WorkerServer("127.0.0.1:0", DraftToy(), terms(), threads=0)
    for model in (None, object(), lambda: DraftToy(), type("Half", (), {"open": 3})()):
        with pytest.raises(NetError, match=r"draft model: expected an object with a method open\(capacity\), got"):
            WorkerServer("127.0.0.1:0", model, terms())

    async def main():
        async with pair() as (server, client):
            with pytest.raises(NetError, match="started before"):
                await server.start()
            with pytest.raises(NetError, match="connected before"):
                await client.connect()
        with pytest.raises(NetError, match="not connected"):
            async with client.request([1]):
                pass
        request = client.request([1])
        assert isinstance(request, Request)
        assert "seed" not in repr(request)
        await WorkerServer("127.0.0.1:0", DraftToy(), terms()).aclose()

    run(main())
