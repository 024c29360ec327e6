"""The recording proxy, over real sockets: bytes pass unchanged, the capture has them, and no fault of one harms the other."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import signal
import socket
import struct
import subprocess
import sys

import pytest

from pp1wire.capture.findings import ExitStatus
from pp1wire.capture.pcapng import CaptureError, PcapngReader
from pp1wire.capture.proxy import ProxyError, RecordingProxy, address_text, record
from pp1wire.capture.reassembly import Chunk, Direction, Ended, EndReason, Opened, stream_events
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.validate import Validator
from tests.capture.golden import VERIFIER, golden
from tests.net.test_accepting import no_more_descriptors

LOOPBACK = "127.0.0.1"


class Echo:
    """Sends everything back; says goodbye once the client has ended."""

    def __init__(self):
        self.received = 0

    async def __call__(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.received += len(data)
                writer.write(data)
                await writer.drain()
            writer.write(b"goodbye")
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def running(handler, file, *, listen=(LOOPBACK, 0), target=None, on_fault=None, on_notice=None):
    server = await asyncio.start_server(handler, LOOPBACK, 0)
    proxy = RecordingProxy(
        listen, target or server.sockets[0].getsockname()[:2], on_fault=on_fault, on_notice=on_notice
    )
    await proxy.bind()
    await proxy.serve(Recorder(file))
    try:
        yield proxy
    finally:
        await proxy.close()
        server.close()
        await server.wait_closed()


async def talk(address, data):
    reader, writer = await (
        asyncio.open_unix_connection(address) if isinstance(address, str) else asyncio.open_connection(*address)
    )

    async def send():
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    _, answer = await asyncio.gather(send(), reader.read())
    writer.close()
    await writer.wait_closed()
    return answer


def recorded(file):
    """{direction: bytes} of each connection, and the reasons for which directions ended."""
    streams, reasons = {}, []
    for event in stream_events(PcapngReader(io.BytesIO(file.getvalue()))):
        if isinstance(event, Chunk):
            key = event.connection.number, event.direction
            streams[key] = streams.get(key, b"") + bytes(event.data)
        elif isinstance(event, Ended):
            reasons.append(event.reason)
        else:
            assert isinstance(event, Opened)
    return streams, reasons


def test_bytes_pass_unchanged_both_ways_with_half_close_and_are_recorded() -> None:
    data = hashlib.shake_128(b"x").digest(3_000_000)

    async def run():
        file = io.BytesIO()
        async with running(Echo(), file) as proxy:
            answers = await asyncio.gather(*[talk(proxy.address, data[: n * 1_000_000]) for n in (1, 2, 3)])
            assert answers == [data[: n * 1_000_000] + b"goodbye" for n in (1, 2, 3)]
            assert (proxy.connections, proxy.unreachable, proxy.fault) == (3, 0, None)
        return file

    streams, reasons = recorded(asyncio.run(run()))
    sent = sorted(len(d) for (_, way), d in streams.items() if way is Direction.TO_SERVER)
    assert sent == [1_000_000, 2_000_000, 3_000_000]
    for (number, way), got in streams.items():
        up = streams[number, Direction.TO_SERVER]
        assert up == data[: len(up)]
        assert got == (up if way is Direction.TO_SERVER else up + b"goodbye")
    assert reasons == [EndReason.FIN] * 6


def test_what_the_ends_say_through_it_is_a_valid_capture() -> None:
    conversation = golden()

    async def worker(reader, writer):
        for who, data in conversation.sent:
            if who is VERIFIER:
                assert await reader.readexactly(len(data)) == data
            else:
                writer.write(data)
        writer.close()
        await writer.wait_closed()

    async def run():
        file = io.BytesIO()
        async with running(worker, file) as proxy:
            reader, writer = await asyncio.open_connection(*proxy.address)
            for who, data in conversation.sent:
                if who is VERIFIER:
                    writer.write(data)
                else:
                    assert await reader.readexactly(len(data)) == data
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
        return file

    validator = Validator()
    validator.add(io.BytesIO(asyncio.run(run()).getvalue()), "capture")
    assert validator.result.findings == []
    assert validator.result.status is ExitStatus.VALID
    assert validator.result.summary.proposals == conversation.verifier.counters.proposals


def test_unix_sockets_on_either_side(tmp_path) -> None:
    listen, to = str(tmp_path / "listen"), str(tmp_path / "to")

    async def run():
        file = io.BytesIO()
        server = await asyncio.start_unix_server(Echo(), to)
        async with running(Echo(), file, listen=listen, target=to) as proxy:
            assert proxy.address == listen
            assert await talk(listen, b"ping") == b"pinggoodbye"
            busy = RecordingProxy(listen, to)
            with pytest.raises(ProxyError, match="listens there already"):
                await busy.bind()
        assert not (tmp_path / "listen").exists()
        server.close()
        return file

    streams, _ = recorded(asyncio.run(run()))
    assert streams == {(1, Direction.TO_SERVER): b"ping", (1, Direction.TO_CLIENT): b"pinggoodbye"}


class FullDisk(io.BytesIO):
    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, data):
        if self.tell() + len(data) > self.room:
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_recorder_that_fails_does_not_touch_the_traffic() -> None:
    data = bytes(500_000)
    faults = []

    async def run():
        file = FullDisk(100_000)
        async with running(Echo(), file, on_fault=faults.append) as proxy:
            assert await talk(proxy.address, data) == data + b"goodbye"
            assert await talk(proxy.address, b"more") == b"moregoodbye"
            assert isinstance(proxy.fault, CaptureError)
            assert "No space left" in str(proxy.fault)
        return file

    file = asyncio.run(run())
    assert len(faults) == 1
    streams, reasons = recorded(file)  # whole packets only
    assert 0 < len(streams[1, Direction.TO_SERVER]) < 100_000
    assert EndReason.MISSING in reasons


def test_a_slow_receiver_slows_its_sender() -> None:
    async def run():
        release, got = asyncio.Event(), 0

        async def slow(reader, writer):
            nonlocal got
            await release.wait()
            while data := await reader.read(1 << 20):
                got += len(data)
            writer.close()
            await writer.wait_closed()

        file = io.BytesIO()
        async with running(slow, file) as proxy:
            reader, writer = await asyncio.open_connection(*proxy.address)
            total = 64 << 20
            writer.write(bytes(total))
            drained = asyncio.create_task(writer.drain())
            last = -1
            while file.tell() != last or not last:  # until nothing moves any more
                last = file.tell()
                await asyncio.sleep(0.2)
            assert not drained.done()
            assert last < total // 2
            release.set()
            await drained
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
            assert got == total

    asyncio.run(run())


def test_a_broken_end_breaks_the_other_and_the_capture_says_who() -> None:
    async def run(breaker):
        file = io.BytesIO()
        seen = asyncio.Event()

        async def server(reader, writer):
            await reader.read(100)
            if breaker == "server":
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
            with contextlib.suppress(OSError):
                while await reader.read(100):
                    pass
            seen.set()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

        async with running(server, file) as proxy:
            reader, writer = await asyncio.open_connection(*proxy.address)
            writer.write(b"hello")
            await writer.drain()
            if breaker == "client":
                await asyncio.sleep(0.05)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                await asyncio.wait_for(seen.wait(), 10)
            else:
                with contextlib.suppress(OSError):
                    assert await asyncio.wait_for(reader.read(), 10) == b""
                writer.transport.abort()
        return file

    for breaker in ("server", "client"):
        streams, reasons = recorded(asyncio.run(run(breaker)))
        assert streams[1, Direction.TO_SERVER] == b"hello"
        assert reasons == [EndReason.RESET, EndReason.RESET]


def test_an_unreachable_target_is_counted_and_the_client_is_let_go() -> None:
    async def run():
        file = io.BytesIO()
        with socket.socket() as taken:
            taken.bind((LOOPBACK, 0))  # bound, not listening: refused
            async with running(Echo(), file, target=taken.getsockname()) as proxy:
                with contextlib.suppress(OSError):
                    assert await asyncio.wait_for(talk(proxy.address, b""), 10) == b""
                assert (proxy.connections, proxy.unreachable) == (1, 1)
        return file

    streams, reasons = recorded(asyncio.run(run()))
    assert streams == {}
    assert reasons == [EndReason.RESET, EndReason.RESET]


def test_a_dead_target_is_named_once_however_many_try() -> None:
    notices = []

    async def run(target):
        async with running(Echo(), io.BytesIO(), target=target, on_notice=notices.append) as proxy:
            for _ in range(3):
                with contextlib.suppress(OSError):
                    await asyncio.wait_for(talk(proxy.address, b""), 10)
            assert proxy.unreachable == 3

    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))  # bound, not listening: refused
        asyncio.run(run(taken.getsockname()))
        where = f"{LOOPBACK}:{taken.getsockname()[1]}"
    assert notices == [f"cannot connect to {where}: Connection refused; more of this is only counted"]


def test_a_target_whose_queue_is_full_is_unreachable(tmp_path) -> None:
    path, notices = str(tmp_path / "to"), []

    async def run():
        with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
            full.bind(path)
            full.listen(0)
            first.connect(path)
            async with running(Echo(), io.BytesIO(), target=path, on_notice=notices.append) as proxy:
                with contextlib.suppress(OSError):
                    assert await talk(proxy.address, b"hello") == b""
                return proxy.unreachable

    assert asyncio.run(asyncio.wait_for(run(), 10)) == 1
    assert notices == [f"cannot connect to unix:{path}: Resource temporarily unavailable; more of this is only counted"]


def test_without_descriptors_the_proxy_tells_once_a_pause_and_goes_on(monkeypatch) -> None:
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.2)
    told = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        async with running(Echo(), io.BytesIO()) as proxy:
            with contextlib.ExitStack() as stack:
                waiting = [stack.enter_context(socket.socket()) for _ in range(4)]
                with no_more_descriptors():
                    for sock in waiting:
                        sock.connect(proxy.address)
                    while not told:
                        await asyncio.sleep(0.005)
                    assert proxy.connections == 0
                    assert len(told) == 1
                while proxy.connections < 4:
                    await asyncio.sleep(0.005)
            assert await talk(proxy.address, b"hello") == b"hellogoodbye"

    asyncio.run(asyncio.wait_for(run(), 10))
    assert set(told) == {"socket.accept() out of system resource"}
    assert len(told) <= 3


@pytest.mark.parametrize("pieces", [[b"\x16\x03\x01\x00\xf5\x01"], [b"\x16", b"\x03\x01"]])
def test_tls_is_warned_of_once_and_passed_on(pieces) -> None:
    notices = []

    async def run():
        async with running(Echo(), io.BytesIO(), on_notice=notices.append) as proxy:
            for _ in range(2):
                reader, writer = await asyncio.open_connection(*proxy.address)
                for piece in pieces:
                    writer.write(piece)
                    assert await reader.readexactly(len(piece)) == piece
                writer.write_eof()
                assert await reader.read() == b"goodbye"
                writer.close()
                await writer.wait_closed()
            assert await talk(proxy.address, b"\x17\x03\x03") == b"\x17\x03\x03goodbye"
            assert (proxy.connections, proxy.encrypted) == (3, 2)

    asyncio.run(run())
    assert len(notices) == 1
    assert "TLS, of which only ciphertext is recorded; record inside it with tap=" in notices[0]


def test_a_busy_or_impossible_address_touches_no_file(tmp_path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(b"precious")
    with socket.socket() as busy:
        busy.bind((LOOPBACK, 0))
        busy.listen()
        for listen, reason in [
            (busy.getsockname(), "in use"),
            (str(tmp_path / "no" / "directory"), "No such file"),
            ("x" * 200, "too long"),
        ]:
            with pytest.raises(ProxyError, match=reason) as caught:
                record(listen, (LOOPBACK, 1), path)
            assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"precious"
    with pytest.raises(CaptureError, match="cannot create"):
        record((LOOPBACK, 0), (LOOPBACK, 1), tmp_path / "no" / "directory")
    with pytest.raises(ProxyError, match="bind"):
        asyncio.run(RecordingProxy((LOOPBACK, 0), (LOOPBACK, 1)).serve(Recorder(io.BytesIO())))


def test_addresses_as_text() -> None:
    assert address_text(("::1", 5)) == "[::1]:5"
    assert address_text((LOOPBACK, 5)) == "127.0.0.1:5"
    assert address_text("/run/x") == "unix:/run/x"


PROGRAM = """
import sys
from pp1wire.capture.proxy import record
proxy = record(("127.0.0.1", 0), ("127.0.0.1", int(sys.argv[1])), sys.argv[2],
               on_ready=lambda address: print(address[1], flush=True))
print(proxy.connections, proxy.fault, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_with_a_whole_capture_and_an_open_connection_keeps_no_end(tmp_path, number) -> None:
    path = tmp_path / "capture"
    with socket.create_server((LOOPBACK, 0)) as server:
        target = str(server.getsockname()[1])
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, target, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            port = int(process.stdout.readline())
            with socket.create_connection((LOOPBACK, port)) as client, server.accept()[0] as accepted:
                client.sendall(b"hello")
                assert accepted.recv(5) == b"hello"
                process.send_signal(number)
                out, err = process.communicate(timeout=20)
                # Both ends see that it is over.
                with contextlib.suppress(OSError):
                    assert client.recv(1) == b""
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, out.strip(), err) == (0, "1 None", "")
    streams, reasons = recorded(io.BytesIO(path.read_bytes()))
    assert streams == {(1, Direction.TO_SERVER): b"hello"}
    assert reasons == [EndReason.MISSING, EndReason.MISSING]
