"""A recording proxy: bytes pass unchanged in both directions, and a `Recorder` writes them down on the way.

Traffic comes first: when the capture cannot be written any more (a full disk, a closed pipe), recording stops with the
last whole packet and bytes go on passing. Each direction holds at most one read of 64 KiB and what the sockets buffer;
a slow receiver slows its sender. The end of a direction is passed on as such, so half-closed connections work.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from pp1wire.capture.pcapng import CaptureError
from pp1wire.capture.recorder import Party, RecordedConnection, Recorder
from pp1wire.capture.sources import TLS_ADVICE, TLS_TELLING_BYTES, is_tls
from pp1wire.errors import PP1Error

__all__ = ["ProxyAddress", "ProxyError", "RecordingProxy", "address_text", "record"]

ProxyAddress: TypeAlias = tuple[str, int] | str
"""(host, port), or the path of a Unix socket."""

_T = TypeVar("_T")
_READ: Final = 1 << 16
_BACKLOG: Final = 64
_CONNECT_SECONDS: Final = 10.0
_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyError(PP1Error):
    """The proxy cannot listen."""


def address_text(address: ProxyAddress) -> str:
    """host:port, or unix:path."""
    if isinstance(address, str):
        return f"unix:{address}"
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RecordingProxy:
    """Accepts connections, connects each to `to`, and records both directions.

    Args:
        listen: where to accept; port 0 takes a free one.
        to: where each connection goes on.
        on_fault: called once, with the error that ended recording.
        on_notice: called with one line the first time that `to` cannot be reached, and the first time that a connection
            begins with a TLS handshake, of which only ciphertext is recorded.

    Call `bind`, then `serve` with a recorder, then `close`. Bytes are recorded before they are passed on, so that in the
    capture an answer never precedes its question. Times are the system's clock.
    """

    def __init__(
        self,
        listen: ProxyAddress,
        to: ProxyAddress,
        *,
        on_fault: Callable[[CaptureError], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        self._listen = listen
        self._to = to
        self._on_fault = on_fault
        self._on_notice = on_notice
        self._server: asyncio.Server | None = None
        self._recorder: Recorder | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.fault: CaptureError | None = None
        """What ended recording, if anything did."""
        self.connections = 0
        """Accepted so far."""
        self.unreachable = 0
        """Of those, how many could not be connected to `to`."""
        self.encrypted = 0
        """Of those, how many began with a TLS handshake."""

    @property
    def address(self) -> ProxyAddress:
        """Where it listens, with the port that was taken."""
        if self._server is None or isinstance(self._listen, str) or not self._server.sockets:
            return self._listen
        name = self._server.sockets[0].getsockname()
        return name[0], name[1]

    async def bind(self) -> None:
        """Take the address, without accepting yet. Raises `ProxyError` where it is busy or cannot be taken."""
        try:
            if isinstance(self._listen, str):
                await _refuse_live_socket(self._listen)
                self._server = await asyncio.start_unix_server(
                    self._accept, self._listen, limit=_READ, backlog=1, start_serving=False
                )
            else:
                host, port = self._listen
                self._server = await asyncio.start_server(
                    self._accept, host, port, limit=_READ, backlog=1, start_serving=False
                )
        except OSError as error:
            raise ProxyError(f"cannot listen on {address_text(self._listen)}: {_reason(error)}") from error

    async def serve(self, recorder: Recorder) -> None:
        """Accept connections from now on, and record them."""
        if self._server is None:
            raise ProxyError("bind the proxy before it serves")
        self._recorder = recorder
        await self._server.start_serving()
        # asyncio accepts as many at once as are queued, and where there are no descriptors left, logs as many failures. So only
        # the system is told of a longer queue.
        for sock in self._server.sockets:
            with socket.socket(fileno=os.dup(sock.fileno())) as same:
                same.listen(_BACKLOG)

    async def close(self) -> None:
        """Stop accepting and drop what is open; the capture keeps no end for those connections."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
            if isinstance(self._listen, str):
                with contextlib.suppress(OSError):
                    Path(self._listen).unlink()
            self._server = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.connections += 1
        recorded = _Recorded(self, writer)
        try:
            upstream = await self._connect()
        except (OSError, TimeoutError) as error:
            self.unreachable += 1
            if self.unreachable == 1:
                self._notice(
                    f"cannot connect to {address_text(self._to)}: {_reason(error)}; more of this is only counted"
                )
            recorded.tell(lambda c, now: c.abort(now, "server"))
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            return
        await _carry((reader, writer), upstream, recorded)

    async def _connect(self) -> _Streams:
        async with asyncio.timeout(_CONNECT_SECONDS):
            if isinstance(self._to, str):
                streams = await asyncio.open_unix_connection(self._to, limit=_READ)
                if streams[1].get_extra_info("peername") is None:  # asyncio takes a full queue for a connection
                    streams[1].transport.abort()
                    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                return streams
            return await asyncio.open_connection(*self._to, limit=_READ)

    def client_began(self, first: bytes) -> None:
        """A client's first bytes are these."""
        if is_tls(first):
            self.encrypted += 1
            if self.encrypted == 1:
                self._notice(f"this is TLS, of which only ciphertext is recorded; {TLS_ADVICE}")

    def _notice(self, line: str) -> None:
        if self._on_notice is not None:
            self._on_notice(line)

    def open_recorded(self, writer: asyncio.StreamWriter) -> RecordedConnection | None:
        """Begin to record a connection, unless recording has ended."""
        if self._recorder is None or self.fault is not None:
            return None
        try:
            return self._recorder.open(
                writer.get_extra_info("peername"), writer.get_extra_info("sockname"), time.time_ns()
            )
        except PP1Error as error:
            self.end_recording(error)
            return None

    def end_recording(self, error: PP1Error) -> None:
        """Record nothing more; traffic goes on."""
        if self.fault is None:
            self.fault = error if isinstance(error, CaptureError) else CaptureError(0, str(error))
            if self._on_fault is not None:
                self._on_fault(self.fault)


class _Recorded:
    """One connection as it is recorded, while it is."""

    def __init__(self, proxy: RecordingProxy, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._connection = proxy.open_recorded(writer)
        self._first: bytes | None = b""  # the client's, until they tell what it speaks

    def tell(self, what: Callable[[RecordedConnection, int], None]) -> None:
        if self._connection is None or self._proxy.fault is not None:
            return
        try:
            what(self._connection, time.time_ns())
        except PP1Error as error:
            self._connection = None
            self._proxy.end_recording(error)

    def sent(self, party: Party, data: bytes) -> None:
        if party == "client" and self._first is not None:
            first = self._first + data[:TLS_TELLING_BYTES]
            self._first = None if len(first) >= TLS_TELLING_BYTES else first
            if self._first is None:
                self._proxy.client_began(first)
        self.tell(lambda c, now: (c.client_sent if party == "client" else c.server_sent)(data, now))

    def ended(self, party: Party) -> None:
        self.tell(lambda c, now: (c.client_closed if party == "client" else c.server_closed)(now))

    def broke(self, party: Party) -> None:
        self.tell(lambda c, now: c.abort(now, party))


class _BrokenError(Exception):
    """The connection to one party is gone."""

    def __init__(self, party: Party) -> None:
        super().__init__(party)
        self.party = party


async def _carry(client: _Streams, server: _Streams, recorded: _Recorded) -> None:
    """Both directions, until both have ended or one end is gone."""
    writers = (client[1], server[1])
    up = asyncio.create_task(_pump(client[0], server[1], recorded, "client"))
    down = asyncio.create_task(_pump(server[0], client[1], recorded, "server"))
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_EXCEPTION)
        broken = [e.party for task in (up, down) if task.done() and isinstance(e := task.exception(), _BrokenError)]
        if broken:
            recorded.broke(broken[0])
            for writer in writers:
                writer.transport.abort()
    except asyncio.CancelledError:
        for writer in writers:
            writer.transport.abort()
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        for writer in writers:
            writer.close()
        for writer in writers:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recorded: _Recorded, party: Party) -> None:
    """One direction: record, pass on, wait while the receiver is slow; at its end, pass that on."""
    while data := await _unless_broken(reader.read(_READ), party):
        recorded.sent(party, data)
        writer.write(data)  # not `writelines`: from Python 3.12.0 to 3.13.1 it never pauses (CVE-2024-12254)
        await _unless_broken(writer.drain(), "server" if party == "client" else "client")
    recorded.ended(party)
    with contextlib.suppress(OSError):
        writer.write_eof()


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError) and not error.errno:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


async def _unless_broken(what: Awaitable[_T], party: Party) -> _T:
    try:
        return await what
    except OSError as error:
        raise _BrokenError(party) from error


async def _refuse_live_socket(path: str) -> None:
    """asyncio replaces a socket file that is there, which is right only if nobody listens on it."""
    if not Path(path).is_socket():
        return
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    raise ProxyError(f"cannot listen on unix:{path}: a process listens there already")


def record(
    listen: ProxyAddress,
    to: ProxyAddress,
    path: str | os.PathLike[str],
    *,
    on_ready: Callable[[ProxyAddress], None] | None = None,
    on_fault: Callable[[CaptureError], None] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> RecordingProxy:
    """Run a proxy until SIGINT or SIGTERM; the capture is whole whenever this returns or raises.

    Args:
        listen, to: see `RecordingProxy`.
        path: the capture, made once the address is taken; what was there is replaced.
        on_ready: called with the address once connections are accepted.
        on_fault: called once if recording ends early; traffic goes on.
        on_notice: see `RecordingProxy`.

    Returns:
        The proxy that ran: a `fault` means that the capture lacks what came after it.

    Raises:
        ProxyError: the address is busy or cannot be taken; no file was touched.
        CaptureError: the file cannot be made.
    """
    return asyncio.run(_run(RecordingProxy(listen, to, on_fault=on_fault, on_notice=on_notice), path, on_ready))


async def _run(
    proxy: RecordingProxy,
    path: str | os.PathLike[str],
    on_ready: Callable[[ProxyAddress], None] | None,
) -> RecordingProxy:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await proxy.bind()
    try:
        with Recorder.create(path) as recorder:
            await proxy.serve(recorder)
            if on_ready is not None:
                on_ready(proxy.address)
            await stop.wait()
            await proxy.close()
    finally:
        await proxy.close()
    return proxy
