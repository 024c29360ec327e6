"""Peers that are no PP1 v2 peers, or are slow, silent, greedy or elsewhere."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading

import numpy as np
import pytest

from pp1wire.net import ConnectError, WorkerServer, connect
from pp1wire.protocol import Verifier
from pp1wire.wire import DraftOrigin, HelloRole, Representation, encode
from tests.net.toys import DraftToy, collect, pair, puppet, raw, run, scripted, serving, terms, tokens, until


def offer(**changes):
    return encode(terms(**changes).hello(HelloRole.OFFER), None, 0)


def v1(frame):
    """The same bytes with another version: magic, type and the place of the version never move."""
    return frame[:4] + b"\x01\x00" + frame[6:]


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], "bad_magic at byte 0"),
        ([b"\x16\x03\x01\x02\x00\x01"], "bad_magic at byte 0"),
        ([v1(offer())], "unsupported_version at byte 4"),
        ([offer()[:-1]], "truncated"),
        ([offer()[:70] + b"\xff" + offer()[71:]], "body_checksum_mismatch"),
        ([offer() + b"P"], "data_before_agreement"),
        ([encode(terms().hello(HelloRole.ANSWER), None, 0)], "wrong_role"),
    ],
)
def test_exact_code_of_a_foreign_peer_is_logged_and_it_gets_no_reply(pieces, reason, caplog):
    async def main():
        async with serving() as server:
            answer = await raw(server, *pieces, shut=True)
            await until(lambda: server.connections == 0)
            async with connect(server.address, terms()) as client:
                assert len(tokens(await collect(client))) == 40
            return answer

    with caplog.at_level(logging.WARNING, "pp1wire.net"):
        assert run(main()) == b""
    (record,) = caplog.records
    assert reason in record.getMessage()
    assert "\n" not in record.getMessage()


def test_a_peer_that_says_nothing_is_closed(caplog):
    async def main():
        async with serving(hello_timeout=0.05) as server:
            assert await raw(server, b"PP1W") == b""
            await until(lambda: server.connections == 0)

    run(main())
    assert "no HELLO came in time" in caplog.text


def test_half_close_ends_the_connection():
    async def main():
        async with serving() as server:
            answer = await raw(server, offer(), shut=True)
            await until(lambda: server.connections == 0)
            return answer, server.counters()["states"]

    answer, states = run(main())
    assert answer[:4] == b"PP1W"
    assert (states["connection.open"], states["connection.ended"]) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "reason", "fields"),
    [
        (
            {"vocab_size": 17, "padded_vocab_size": 32},
            "vocabulary: both ends need one vocabulary size and one padded size",
            [("vocab_size", "17", "16"), ("padded_vocab_size", "32", "16")],
        ),
        (
            {"padded_vocab_size": 64},
            "vocabulary: both ends need one vocabulary size and one padded size",
            [("padded_vocab_size", "64", "16")],
        ),
        (
            {"id_map_sha256": b"x" * 32},
            "id_map: both ends need one tokenizer",
            [("id_map_sha256", "78" * 32, "6d" * 32)],
        ),
        (
            {"draft_revision": "r2", "draft_origin": DraftOrigin.ADAPTED},
            "draft: both ends must name one draft checkpoint, revision and origin",
            [("draft_revision", "'r2'", "'r1'"), ("draft_origin", "adapted", "native")],
        ),
        (
            {"target_sha256": b"x" * 32},
            "target: both ends must name one target",
            [("target_sha256", "78" * 32, "74" * 32)],
        ),
        (
            {"representations": (Representation.DENSE,)},
            "representation: the two ends have no representation of rows in common",
            [],
        ),
    ],
)
def test_a_worker_that_is_bound_elsewhere_refuses_with_its_reason_and_both_ends_name_the_fields(
    changes, reason, fields, caplog
):
    async def main():
        async with serving() as server:
            with pytest.raises(ConnectError) as caught:
                async with connect(server.address, terms(**changes)):
                    pass
            unequal = "; ".join(f"{name}: expected {here}, got {there}" for name, here, there in fields)
            expected = f"{server.address} refused the offer for {reason}" + (f" ({unequal})" if unequal else "")
            assert str(caught.value) == expected
            assert not caught.value.retryable
            await until(lambda: server.connections == 0)
            async with connect(server.address, terms()) as client:
                assert client.is_connected

    run(main())
    unequal = "; ".join(f"{name}: expected {here}, got {there}" for name, there, here in fields)
    refused = [r.getMessage() for r in caplog.records if "offer refused" in r.getMessage()]
    assert len(refused) == 1
    assert refused[0].endswith(f": offer refused: {reason.split(':')[0]}" + (f": {unequal}" if unequal else ""))


@pytest.mark.parametrize("fits", [lambda agreement: agreement.max_support < 8, lambda agreement: 1 / 0])
def test_preflight_of_real_buffers_can_refuse(fits, caplog):
    async def main():
        async with serving(fits=fits) as server:
            with pytest.raises(ConnectError, match="capacity: it is full, or its buffers are too small") as caught:
                await connect(server.address, terms()).connect()
            return caught.value.retryable

    assert run(main()) is True


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak PP1 v2: bad_magic"),
        (v1(encode(terms().hello(HelloRole.ANSWER), None, 0)), "does not speak PP1 v2: unsupported_version"),
        (b"", "closed the connection without an answer; is it a PP1 v2 worker, without TLS?"),
        (b"PP1", "truncated"),
        (offer(), "wrong_role"),
    ],
)
def test_a_server_that_is_no_worker_is_named_in_one_line(answer, reason):
    async def serve(reader, writer):
        await reader.read(100)
        writer.write(answer)

    async def main():
        async with scripted(serve) as address:
            client = connect(address, terms())
            with pytest.raises(ConnectError) as caught:
                await client.connect()
            assert client.events["connect_failed"] == 1
            return address, str(caught.value)

    address, message = run(main())
    assert message.startswith(address)
    assert reason in message
    assert "\n" not in message


def test_a_worker_that_does_not_answer_the_offer_is_given_up_on_the_verifiers_clock():
    async def serve(reader, writer):
        await reader.read(-1)

    async def main():
        async with scripted(serve) as address:
            with pytest.raises(ConnectError, match=r"did not answer the offer in 0\.05 s"):
                await connect(address, terms(), hello_timeout=0.05).connect()
            waiting = asyncio.create_task(connect(address, terms()).connect())
            await asyncio.sleep(0.02)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    run(main())


def test_caps_reached_connections_are_refused_with_capacity_then_closed(caplog):
    async def main():
        async with serving(max_connections=2) as server, connect(server.address, terms()) as a:
            async with connect(server.address, terms()) as b:
                with pytest.raises(ConnectError, match="refused the offer for capacity"):
                    await connect(server.address, terms()).connect()
                await until(lambda: server.connections == 2)
                idle = [await asyncio.open_connection(server.address.host, server.address.port) for _ in range(2)]
                await until(lambda: server.connections == 4)
                assert await raw(server, offer()) == b""
                for _, writer in idle:
                    writer.close()
                assert len(tokens(await collect(b))) == 40
            await until(lambda: server.connections == 1)
            async with connect(server.address, terms()) as again:
                assert again.is_connected
            assert len(tokens(await collect(a))) == 40
            assert (server.accepted_connections, server.refused_connections) == (3, 4)

    run(main())
    assert "offer refused: the server is full" in caplog.text
    assert "more than twice the limit of 2" in caplog.text


def test_early_refusal_a_peer_that_never_reads_stops_being_read_and_is_closed(caplog):
    """It orders round after round of dense rows, and takes none of them."""
    own = terms(Representation.DENSE, vocab_size=20_000)

    class Wide(DraftToy):
        def logits(self, prefix, drafted):
            return np.zeros(20_000, np.float32)

    async def main():
        async with WorkerServer("127.0.0.1:0", Wide(), own, write_timeout=0.3) as server:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sock, (server.address.host, server.address.port))
            core = Verifier(own.hello(HelloRole.OFFER), step_timeout=None)
            core.start(0.0)
            await loop.sock_sendall(sock, core.data_to_send())
            core.receive(await loop.sock_recv(sock, 4096), 0.0)
            session = core.open([1], 5)
            sent = 0
            try:
                async with asyncio.timeout(5):
                    while True:
                        core.step(session, 0.0)
                        await loop.sock_sendall(sock, core.data_to_send())
                        await asyncio.sleep(0.01)
                        core.cancel(session)
                        sent += 1
            except ConnectionError:
                pass
            finally:
                sock.close()
            await until(lambda: server.connections == 0)
            return sent, server.counters()

    sent, counters = run(main())
    assert sent > counters["proposals"]
    # Bounded by the high-water mark and one round, however much was ordered: 1 MiB and 400 kB, and what the kernel takes.
    assert counters["row_bytes"] < 12_000_000
    assert "does not read its proposals" in caplog.text


def test_a_worker_that_never_reads_is_given_up(caplog):
    """Long prefixes are sent to it again and again, until the transport's buffer is full."""

    async def deaf(core, step, writer):
        await asyncio.Event().wait()

    async def main():
        own = terms(max_prefix=1 << 20)
        async with (
            puppet(deaf, own=[own]) as (address, _),
            connect(address, own, step_timeout=0.1, reconnect_attempts=0) as client,
            client.request([1] * 900_000) as request,
        ):
            reasons = [(await request.propose()).reason for _ in range(6)]
            assert not client.is_connected
            return reasons

    reasons = run(main())
    assert reasons[0] == "deadline"
    assert reasons[-1] == "not_connected"
    assert "does not read what it is sent" in caplog.text


def test_a_connection_that_is_closed_lets_others_live():
    async def main():
        async with pair() as (server, client):
            await raw(server, b"nonsense")
            return tokens(await collect(client))

    assert len(run(main())) == 40


class Raw:
    """A verifier in the test's hands: the core, and a plain socket."""

    def __init__(self, server, own):
        self.server, self.core = server, Verifier(own.hello(HelloRole.OFFER), step_timeout=None)

    async def __aenter__(self):
        sock = socket.socket()
        sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384
        )  # before it connects, so that the window stays small
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (self.server.address.host, self.server.address.port))
        self.reader, self.writer = await asyncio.open_connection(sock=sock)
        self.core.start(0.0)
        await self.send()
        await self.receive()
        return self

    async def __aexit__(self, *_):
        self.writer.transport.abort()
        await until(lambda: self.server.connections == 0)

    async def send(self, more=b""):
        self.writer.write(self.core.data_to_send() + more)
        await self.writer.drain()

    async def receive(self):
        return self.core.receive(await self.reader.read(1 << 20), 0.0)


def test_a_peer_that_reads_late_gets_everything(caplog):
    own = terms(Representation.DENSE, vocab_size=60_000)

    class Wide(DraftToy):
        def logits(self, prefix, drafted):
            return np.zeros(60_000, np.float32)

    async def main():
        async with WorkerServer("127.0.0.1:0", Wide(), own) as server, Raw(server, own) as raw:
            raw.writer.transport.pause_reading()
            (connection,) = server._connections
            # Else the kernel may take all of it.
            raw.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            connection.link._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            sessions = [raw.core.open([n], 5) for n in range(4)]
            for session in sessions:
                raw.core.step(session, 0.0)
            await raw.send()
            await until(lambda: server.stages.runs["encode"] == 4 and connection.link.is_congested)
            assert not connection.link._transport.is_reading()
            raw.writer.transport.resume_reading()
            ready = 0
            while ready < 4:
                ready += len(await raw.receive())
            await until(connection.link._transport.is_reading)
            assert not caplog.records

    run(main())


def test_early_refusal_of_work_that_is_given_up_faster_than_it_ends():
    """Rounds opened and closed again and again, while a model call hangs, are read no further than eight."""
    go_on = threading.Event()

    class Stuck(DraftToy):
        def logits(self, prefix, drafted):
            go_on.wait(5)
            return super().logits(prefix, drafted)

    async def main():
        try:
            async with serving(model=Stuck(), threads=1) as server, Raw(server, terms()) as raw:
                (connection,) = server._connections
                for n in range(30):
                    session = raw.core.open([n % 16], 5)
                    raw.core.step(session, 0.0)
                    await raw.send()
                    await asyncio.sleep(0.003)
                    raw.core.close(session)
                    await raw.send()
                steps, jobs = server.counters()["steps"], len(connection._jobs)
                go_on.set()
                await until(lambda: server.counters()["steps"] == 30 and not connection._jobs)
                raw.core.step(raw.core.open([1], 5), 0.0)
                await raw.send()
                while not (events := await raw.receive()):
                    pass
                assert [type(e).__name__ for e in events] == ["ProposalReady"]
                return steps, jobs
        finally:
            go_on.set()

    steps, jobs = run(main())
    assert 8 <= jobs <= 8 + 3  # one read can bring a round for each slot
    assert steps < 30


def test_what_came_before_a_fault_is_followed_and_the_fault_closes(caplog):
    async def main():
        async with serving() as server, Raw(server, terms()) as raw:
            raw.core.step(raw.core.open([1], 5), 0.0)
            await raw.send(b"GET /")
            assert await raw.reader.read(-1) == b""
            return server.counters()

    counters = run(main())
    assert counters["steps"] == 1
    assert counters["failures"]["bad_magic"] == 1
    assert "bad_magic" in caplog.text


def test_a_connection_that_is_reset_is_forgotten(caplog):
    async def main():
        async with serving() as server, Raw(server, terms()) as raw:
            raw.core.open([1], 5)
            await raw.send()
            await until(lambda: server.counters()["states"]["session.idle"] == 1)
            raw.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            raw.writer.transport.abort()
            await until(lambda: server.connections == 0)

    with caplog.at_level(logging.INFO, "pp1wire.net"):
        run(main())
    assert "connection lost: ConnectionResetError" in caplog.text
