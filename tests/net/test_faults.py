"""Workers that die, hang, corrupt or leave: nothing is lost, nothing is committed twice."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from contextlib import contextmanager

import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.net import ConnectError, client_tls, connect, decode
from pp1wire.protocol import Proposal
from pp1wire.wire import CommitKind
from tests.chaos.plan import Fault
from tests.chaos.proxy import ChaosProxy
from tests.net.test_tls import Files
from tests.net.toys import (
    DraftToy,
    TargetToy,
    collect,
    history,
    honest,
    pair,
    puppet,
    run,
    serving,
    terms,
    tokens,
    until,
)


def check_whole(rounds, prompt=3, length=40):
    """Positions follow each other without a gap or an overlap, and no key of the noise comes twice."""
    position = prompt
    for r in rounds:
        assert r.position == position
        position += len(r.tokens)
    assert position == prompt + length
    keys = [(r.generation, r.round) for r in rounds]
    assert keys == sorted(set(keys))


def test_a_worker_killed_mid_round_costs_the_round_and_the_request_moves_to_the_next_connection():
    async def dies(core, step, writer):
        dies.steps += 1
        if dies.steps % 3 == 0:
            writer.transport.abort()
        else:
            honest(core, step)

    async def main():
        dies.steps = 0
        async with (
            puppet(dies) as (address, cores),
            connect(address, terms(), reconnect_delay=0.001) as client,
        ):
            runs = []
            for _ in range(4):
                rounds = []
                async for r in decode(client, TargetToy(), (1, 2, 3), max_tokens=40, root_seed=7):
                    rounds.append(r)
                    # Else a busy machine may have decoded all the rest alone before it has connected again.
                    await until(lambda: client.is_connected)
                runs.append(rounds)
            return runs, client.counters(), client.events, len(cores)

    runs, counters, events, connections = run(main())
    for rounds in runs:
        check_whole(rounds)
        assert {r.fallback for r in rounds} >= {None, "connection_lost"}
        assert any(r.generation > 1 and r.fallback is None for r in rounds)
    lost = sum(r.fallback == "connection_lost" for rounds in runs for r in rounds)
    assert counters["discards"]["connection_lost"] == lost == events["connection_lost"] == connections - 1
    assert counters["tokens"] + events["target_only_without_worker"] == 160


def test_a_worker_that_is_gone_for_good_leaves_the_target_alone(caplog):
    async def main():
        async with (
            serving() as server,
            connect(server.address, terms(), reconnect_attempts=2, reconnect_delay=0.001) as client,
        ):
            before = await collect(client, max_tokens=10)
            await server.aclose()
            await until(lambda: client.events["connect_failed"] == 2)
            rounds = await collect(client)
            with pytest.raises(ConnectError, match="nobody listens there; start a worker"):
                await connect(server.address, terms()).connect()
        return before, rounds, client.events, client.fallbacks

    before, rounds, events, fallbacks = run(main())
    check_whole(rounds)
    assert tokens(before)
    assert {r.fallback for r in rounds} == {"not_connected"}
    assert {r.kind for r in rounds} == {CommitKind.TARGET_ONLY}
    assert (events["target_only_without_worker"], fallbacks["not_connected"]) == (40, 40)
    assert "gave up connecting again" in caplog.text


def test_a_proposal_outlives_its_connection_and_is_committed_once():
    async def main():
        async with pair(reconnect_delay=0.001) as (server, client), client.request([1, 2]) as request:
            proposal = await request.propose()
            assert isinstance(proposal, Proposal)
            for connection in list(server._connections):
                connection.link.abort()
            await until(lambda: client.events["connection_lost"] == 1)
            assert proposal.live
            key = request.key
            assert (key.generation, key.round) == (1, 1)
            drafted = proposal.tokens.tolist()
            request.commit(1, CommitKind.CORRECTION, [drafted[0], 3])
            assert request.prefix().tolist() == [1, 2, drafted[0], 3]
            await until(lambda: client.is_connected)
            again = await request.propose()
            assert (again.generation, again.round, again.position) == (2, 1, 4)
            for connection in list(server._connections):
                connection.link.abort()
            await until(lambda: client.events["connection_lost"] == 2)
            assert request.discard().reason == "connection_lost"
            request.target_only(5)
            await until(lambda: client.is_connected)
            # A round of generation 3 went without a worker, so the session opens in the fourth.
            assert (await request.propose()).generation == 4
            return client.events["commits_without_worker"]

    assert run(main()) == 1


def test_late_proposals_meet_their_deadline_and_are_dropped():
    async def late(core, step, writer):
        if step.generation == 1 and step.round == 2:
            late.held = step
        else:
            honest(core, step)
            if late.held is not None and core.awaits(late.held):
                raise AssertionError("the round should be gone")

    async def main():
        late.held = None
        async with puppet(late) as (address, _), connect(address, terms(), step_timeout=0.4) as client:
            rounds = await collect(client)
            return rounds, client.counters()["discards"]

    rounds, discards = run(main())
    check_whole(rounds)
    assert [r.fallback for r in rounds[:3]] == [None, "deadline", None]
    assert discards["deadline"] == 1


def test_a_corrupt_row_costs_its_proposal_and_eight_in_a_row_the_connection():
    async def corrupts(core, step, writer):
        honest(core, step)
        data = bytearray(core.data_to_send())
        if step.position > 10:
            data[100] ^= 1  # inside the first row's body
        writer.write(data)

    async def main():
        async with puppet(corrupts) as (address, cores), connect(address, terms(), reconnect_delay=0.001) as client:
            rounds = await collect(client)
            return rounds, client.counters(), len(cores)

    rounds, counters, connections = run(main())
    check_whole(rounds)
    told, ended = [
        sum(r.fallback == reason for r in rounds) for reason in ("body_checksum_mismatch", "connection_lost")
    ]
    assert ended == counters["failures"]["too_many_discards"] > 0
    # What follows the last loss may be over before there is a connection again.
    assert ended <= connections <= ended + 1
    assert counters["discards"]["body_checksum_mismatch"] == told + ended >= 8


def test_a_broken_header_costs_the_connection(caplog):
    async def breaks(core, step, writer):
        honest(core, step)
        data = bytearray(core.data_to_send())
        if step.round == 2:
            data[8] ^= 1
        writer.write(data)

    async def main():
        async with puppet(breaks) as (address, _), connect(address, terms(), reconnect_delay=0.001) as client:
            return await collect(client), client.counters()["failures"]["header_checksum_mismatch"]

    rounds, failures = run(main())
    check_whole(rounds)
    assert failures >= 1
    assert "header_checksum_mismatch" in caplog.text


@contextmanager
def growth():
    """Bytes that are held more at the end than at the beginning, with nothing left to the garbage collector: [bytes]."""
    result = []
    gc.collect()
    gc.disable()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield result
        result.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        gc.enable()
        tracemalloc.stop()


@pytest.mark.parametrize("speaks_tls", [False, True])
def test_lost_connections_leave_no_buffers_to_the_garbage_collector(speaks_tls, tmp_path):
    """Else a worker that restarts in a loop costs its verifier a megabyte each time, until the collector happens to come."""
    files = Files(tmp_path)
    own, theirs = (files.server_context(), client_tls(files.ca, *files.client)) if speaks_tls else (None, None)

    async def main():
        async with (
            serving(tls=own) as server,
            connect(server.address, terms(), tls=theirs, reconnect_delay=0.001) as client,
        ):
            await collect(client)
            with growth() as grown:
                for number in range(1, 17):
                    for connection in list(server._connections):
                        connection.link.abort()
                    del connection
                    await until(lambda: client.events["connected"] == 1 + number and server.connections == 1)  # noqa: B023
            return grown[0]

    # Of 16 MiB and more, and 24 with TLS, whose SSL objects are asyncio's to free; the live connection's are among it.
    assert run(main()) < 4 << 20


class Always:
    """One fault on every connection."""

    def __init__(self, way, fault):
        self._way, self._fault = way, fault

    def faults(self, connection, direction):
        return iter([self._fault] if direction == self._way else [])


@pytest.mark.parametrize("kind", ["fin", "corrupt"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_connections_that_fail_leave_no_buffers_to_the_garbage_collector(way, kind):
    """An exception that is kept has a traceback, that has frames, and those have the buffer that was being read."""
    place = 400  # in the header of what follows the HELLO

    async def main():
        async with (
            serving() as server,
            ChaosProxy("127.0.0.1:0", server.address, Always(way, Fault(kind, place))) as proxy,
            connect(proxy.address, terms(), reconnect_delay=0.001) as client,
        ):
            with growth() as grown:
                for number in range(16):
                    await until(lambda: client.is_connected)
                    await collect(client, max_tokens=6, root_seed=number)
                    await until(lambda: client.events["connection_lost"] > number)  # noqa: B023
                await until(lambda: server.connections <= 1)
            failed = (server if way == "up" else client).counters()["failures"]
            return grown[0], sum(failed.values())

    grown, failed = run(main())
    assert failed >= 16
    # Of 16 buffers of a megabyte, or of 64 KiB, and the proxy's own.
    assert grown < 4 << 20


def test_attempts_to_connect_that_fail_take_no_buffers(unused_tcp_port):
    async def main():
        with growth() as grown:
            for _ in range(16):
                with pytest.raises(ConnectError):
                    await connect(f"127.0.0.1:{unused_tcp_port}", terms()).connect()
        return grown[0]

    assert run(main()) < 4 << 20


def test_a_graceful_end_finishes_open_rounds_and_refuses_new_ones():
    started, go_on = threading.Event(), threading.Event()

    class Slow(DraftToy):
        def logits(self, prefix, drafted):
            started.set()
            go_on.wait(5)
            return super().logits(prefix, drafted)

    async def main():
        async with pair(model=Slow(), reconnect_attempts=0) as (server, client):
            async with client.request([1]) as a, client.request([2]) as b:
                first = asyncio.create_task(a.propose())
                await asyncio.to_thread(started.wait)
                ending = asyncio.create_task(server.aclose())
                await asyncio.sleep(0.02)
                assert (await b.propose()).reason == "completion_draining"
                with pytest.raises(ConnectError, match="nobody listens"):
                    await connect(server.address, terms()).connect()
                go_on.set()
                proposal = await first
                assert isinstance(proposal, Proposal)
                a.commit(0, CommitKind.CORRECTION, [3])
                await ending
                await server.wait_closed()
                await until(lambda: not client.is_connected)
                assert (await a.propose()).reason == "not_connected"
            return server.counters()["discards"]["completion_draining"]

    assert run(main()) == 1


def test_a_graceful_end_has_a_limit():
    go_on = threading.Event()

    class Stuck(DraftToy):
        def logits(self, prefix, drafted):
            go_on.wait(5)
            return super().logits(prefix, drafted)

    async def main():
        try:
            async with pair(model=Stuck(), reconnect_attempts=0) as (server, client), client.request([1]) as request:
                waiting = asyncio.create_task(request.propose())
                await until(lambda: server.counters()["steps"] == 1)
                await server.aclose(grace=0.02)
                return (await waiting).reason
        finally:
            go_on.set()

    assert run(main()) == "completion_draining"


def test_an_ending_client_ends_requests_without_a_hang():
    async def main():
        async with pair() as (server, client):
            running = asyncio.create_task(collect(client, max_tokens=100))
            await until(lambda: client.counters()["commits"] > 2)
            await client.aclose()
            rounds = await running
            await until(lambda: server.connections == 0)
            return rounds, client.events["connection_lost"]

    rounds, lost = run(main())
    check_whole(rounds, length=100)
    assert rounds[-1].fallback == "not_connected"
    assert lost == 0


def test_rows_of_other_requests_survive_one_requests_fault():
    async def picky(core, step, writer):
        if core.prefix_ids(step.session)[0] == 1 and (step.generation, step.round) == (1, 2):
            return  # no answer: only this request's deadline passes
        honest(core, step)

    async def main():
        async with puppet(picky) as (address, _), connect(address, terms(), step_timeout=0.4) as client:
            mixed = await asyncio.gather(*(collect(client, (n, 2, 3), root_seed=n) for n in range(3)))
        async with pair() as (_, client):
            return mixed, [await collect(client, (n, 2, 3), root_seed=n) for n in range(3)]

    mixed, alone = run(main())
    assert history(mixed[0]) == history(alone[0])
    assert history(mixed[2]) == history(alone[2])
    assert "deadline" in {r.fallback for r in mixed[1]}


def test_requests_that_find_no_slot_on_the_next_connection_go_on_alone():
    async def dies_once(core, step, writer):
        honest(core, step)

    async def main():
        async with (
            puppet(dies_once, own=[terms(), terms(max_slots=1)]) as (address, _),
            connect(address, terms(), reconnect_delay=0.001) as client,
            client.request([1]) as a,
            client.request([2]) as b,
        ):
            for request in (a, b):
                await request.propose()
                request.commit(0, CommitKind.CORRECTION, [3])
            client._connection.link.abort()
            await until(lambda: client.events["connected"] == 2)
            assert isinstance(await a.propose(), Proposal)
            assert (await b.propose()).reason == "no_slot"
            b.target_only(4)
            return client.fallbacks["no_slot"]

    assert run(main()) == 1


def test_a_proposal_in_one_read_with_the_end_of_its_connection_is_not_used():
    async def spoils(core, step, writer):
        honest(core, step)
        if (step.generation, step.round) == (1, 1):
            writer.write(core.data_to_send() + b"PP1")
            writer.write(b"X")

    async def main():
        async with puppet(spoils) as (address, _), connect(address, terms(), reconnect_delay=0.001) as client:
            rounds = await collect(client)
            return rounds, client.counters()["failures"]["bad_magic"]

    rounds, failures = run(main())
    check_whole(rounds)
    assert failures == 1
    assert rounds[0].fallback in (None, "connection_lost")
    assert rounds[-1].generation > 1


def test_a_worker_that_cannot_encode_completes_with_internal(monkeypatch, caplog):
    """Unreachable as long as sampler and wire agree, so it is forced."""

    def refuse(*_):
        raise LocalProtocolError("row 0: no")

    monkeypatch.setattr("pp1wire.protocol.Worker.reply_batch", refuse)

    async def main():
        async with pair() as (_, client):
            return await collect(client, max_tokens=3)

    assert {r.fallback for r in run(main())} == {"completion_internal"}
    assert "internal: row 0: no" in caplog.text
