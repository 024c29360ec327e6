"""The worker's server: a draft model behind a socket."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, cast

from pp1wire.net.address import Address, UnixAddress, parse_address
from pp1wire.net.errors import NetError
from pp1wire.net.link import peer_name
from pp1wire.net.logs import EventLog
from pp1wire.net.models import DraftModel
from pp1wire.net.sockets import BACKLOG, bound_address, listen, unlink_if_ours
from pp1wire.net.stages import Stages
from pp1wire.net.tally import Books, Tally
from pp1wire.net.tap import Tap
from pp1wire.net.terms import Terms
from pp1wire.net.tls import handshake_failure
from pp1wire.net.worker_connection import WorkerConnection, WorkerOptions
from pp1wire.sampling import HostSampler
from pp1wire.wire import Agreement, Representation

__all__ = ["WorkerServer"]


class WorkerServer:
    """Serves a draft model to verifiers; `async with` starts and gracefully ends it.

    Args:
        address: where to listen: `host:port` (port 0 for a free one), `unix:/path`, or an address. A Unix socket is made
            for its owner alone.
        model: the draft model. Its calls run in threads, at most one at a time for each request.
        terms: what this end is bound to and can hold.
        tls: a server context, such as `server_tls` makes; None speaks plainly, which is for loopback and Unix sockets.
        prefer: which representation to name when both ends can do both.
        fits: preflight of this end's real buffers for an agreement; the offer is refused if it says no.
        threads: model calls at the same time, over all connections.
        max_connections: beyond it offers are answered with `capacity`; beyond twice it connections are closed at once.
        hello_timeout: seconds for a verifier to finish the TLS handshake, and again to say HELLO.
        write_timeout: seconds for which a verifier may leave proposals unread.
        grace: seconds for open rounds to finish when the server ends.
        tap: hears every connection.
        backend: what draws the proposals: numpy, torch or triton. The same seed gives the same ones with each.

    Raises:
        NetError: the address has no known form, the model has no method `open`, or a limit is below 1.
        SamplingError: an unknown backend, or one whose package or device is missing.
    """

    def __init__(
        self,
        address: str | Address,
        model: DraftModel,
        terms: Terms,
        *,
        tls: ssl.SSLContext | None = None,
        prefer: Representation = Representation.SPARSE,
        fits: Callable[[Agreement], bool] | None = None,
        threads: int = 4,
        max_connections: int = 16,
        hello_timeout: float = 5.0,
        write_timeout: float = 30.0,
        grace: float = 5.0,
        tap: Tap | None = None,
        backend: str = "numpy",
    ) -> None:
        if threads < 1 or max_connections < 1:
            raise NetError(f"threads and max_connections: expected at least 1, got {threads} and {max_connections}")
        if not callable(getattr(model, "open", None)):
            raise NetError(f"draft model: expected an object with a method open(capacity), got {type(model).__name__}")
        sampler = HostSampler(backend)
        self.address = parse_address(address)
        """Where it listens; with the real port once started."""
        self._tls = tls
        self._grace = grace
        self._max_connections = max_connections
        self._executor = ThreadPoolExecutor(threads, "pp1wire-draft")
        self._options = WorkerOptions(
            model=model, terms=terms, executor=self._executor, prefer=prefer, fits=fits,
            hello_timeout=hello_timeout, write_timeout=write_timeout, tap=tap, sampler=sampler,
        )  # fmt: skip
        self._server: asyncio.Server | None = None
        self._inode: int | None = None
        self._connections: set[WorkerConnection] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._books = Books()
        self._ended = asyncio.Event()
        self._closing = False
        self.refused_connections = 0
        """Connections turned away because the server was full."""
        self.accepted_connections = 0

    @property
    def log(self) -> EventLog:
        """What is logged, and how often it was not, because there was too much of it."""
        return self._options.log

    @property
    def stages(self) -> Stages:
        """Seconds in `draft` and `encode`, over all connections."""
        return self._options.stages

    @property
    def connections(self) -> int:
        """Connections now."""
        return len(self._connections)

    def counters(self) -> Tally:
        """The counters of all connections since the start, added up; keys as of `pp1wire.protocol.Counters`."""
        return self._books.tally()

    def levels(self) -> dict[str, int]:
        """What is open now: connections and how many there may be, sessions and slots for them, rounds drafting and ready."""
        connections = {"connections": len(self._connections), "max_connections": self._max_connections}
        return connections | self._books.levels()

    async def start(self) -> Address:
        """Listen; the address, with the real port.

        Raises:
            NetError: the address is in use or cannot be used. A Unix socket left over from a process that is gone is
                replaced.
        """
        if self._server is not None:
            raise NetError(f"the server at {self.address} was started before")
        sock = listen(self.address)
        self.address = bound_address(sock, self.address)
        if isinstance(self.address, UnixAddress):
            self._inode = os.stat(self.address.path).st_ino  # noqa: PTH116 - one call, no Path needed
        loop = asyncio.get_running_loop()
        make = loop.create_unix_server if isinstance(self.address, UnixAddress) else loop.create_server
        # One accept() at a time: asyncio tries as often as this number says even when there are no descriptors left, and logs
        # each try.
        self._server = await make(self._accept, sock=sock, backlog=1)
        sock.listen(BACKLOG)
        self.log.tell(logging.INFO, "serving", f"serving at {self.address}", address=str(self.address))
        return self.address

    async def wait_closed(self) -> None:
        """Return once the server has ended."""
        await self._ended.wait()

    async def aclose(self, grace: float | None = None) -> None:
        """End gracefully: take nobody new, let open rounds finish for `grace` seconds, complete the rest as draining."""
        if self._server is None or self._ended.is_set():
            self._executor.shutdown(wait=False)
            self._ended.set()
            return
        self._closing = True
        self._server.close()
        unlink_if_ours(self.address, self._inode)
        for handshake in self._handshakes:
            handshake.cancel()
        limit = self._grace if grace is None else grace
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        await asyncio.gather(*(connection.drain(limit) for connection in list(self._connections)))
        await self._server.wait_closed()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._ended.set()
        self.log.tell(logging.INFO, "stopped", f"ended serving at {self.address}", address=str(self.address))
        self.log.flush()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Inside.

    def _accept(self) -> asyncio.BaseProtocol:
        if self._closing:
            return _Closed(lambda _: None)  # it was accepted in the turn of the loop in which the server ended
        if len(self._connections) >= 2 * self._max_connections:
            self.refused_connections += 1
            return _Closed(self._tell_closed)
        return _TlsGate(self._handshake) if self._tls is not None else self._connection().link

    def _tell_closed(self, peer: str) -> None:
        text = f"a connection was closed: more than twice the limit of {self._max_connections}"
        self.log.tell(logging.WARNING, "connection_refused", text, peer=peer, reason="too_many_connections")

    def _connection(self) -> WorkerConnection:
        full = len(self._connections) >= self._max_connections
        self.refused_connections += full
        self.accepted_connections += not full
        connection = WorkerConnection(self._options, refuse=full, on_end=self._forget)
        self._connections.add(connection)
        self._books.open(connection.core)
        return connection

    def _forget(self, connection: WorkerConnection) -> None:
        self._connections.discard(connection)
        self._books.close(connection.core)

    def _handshake(self, transport: asyncio.Transport) -> None:
        connection = self._connection()
        task = asyncio.get_running_loop().create_task(self._secure(transport, connection))
        self._handshakes.add(task)

        # Not at the end of the task itself, which need not even have begun when it is cancelled.
        def done(_: asyncio.Task[None]) -> None:
            self._handshakes.discard(task)
            if not connection.link.is_made:
                transport.abort()
                self._forget(connection)

        task.add_done_callback(done)

    async def _secure(self, transport: asyncio.Transport, connection: WorkerConnection) -> None:
        """The TLS handshake, done here and not by asyncio, so that its failures are bounded and told."""
        peer = peer_name(transport.get_extra_info("sockname"), transport.get_extra_info("peername"))
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, connection.link, cast(ssl.SSLContext, self._tls),
                server_side=True, ssl_handshake_timeout=self._options.hello_timeout,
            )  # fmt: skip
        except OSError as error:  # ssl.SSLError and time-outs among them
            text = f"closed: TLS handshake: {handshake_failure(error)}"
            self.log.tell(logging.WARNING, "connection_refused", text, peer=peer, reason="tls_handshake")
        else:
            if secured is not None:
                connection.link.connection_made(secured)


class _TlsGate(asyncio.Protocol):
    """Holds a connection before a byte is read, until the TLS handshake is under way."""

    def __init__(self, made: Callable[[asyncio.Transport], None]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast(asyncio.Transport, transport)
        raw.pause_reading()
        self._made(raw)


class _Closed(asyncio.Protocol):
    """A connection that is closed as soon as it is there."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tell(peer_name(transport.get_extra_info("sockname"), transport.get_extra_info("peername")))
        transport.close()
