"""Where a recorder is attached: both byte streams of every connection, as they are handed to and taken from the system.

`pp1wire.capture.recorder.Recorder` fits `Tap` as it is. Under TLS the bytes are those inside.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

from pp1wire.errors import PP1Error
from pp1wire.net.errors import summary

__all__ = ["SocketAddress", "Tap", "TapConnection", "Tapped"]

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | str | bytes | None
"""As `socket.getpeername` has it: (host, port), (host, port, flow, scope), or a Unix socket's path ("": unnamed)."""


class TapConnection(Protocol):
    """One connection that is listened to. Times are nanoseconds since 1970. May raise PP1Error: then it hears no more."""

    def client_sent(self, data: bytes | bytearray | memoryview, time_ns: int, /) -> None:
        """The client (verifier) sent `data`; it must be copied if it is kept."""

    def server_sent(self, data: bytes | bytearray | memoryview, time_ns: int, /) -> None:
        """The server (worker) sent `data`; it must be copied if it is kept."""

    def client_closed(self, time_ns: int, /) -> None:
        """The client sends no more."""

    def server_closed(self, time_ns: int, /) -> None:
        """The server sends no more."""


class Tap(Protocol):
    """Whoever listens to connections."""

    def open(self, client: SocketAddress, server: SocketAddress, time_ns: int, /) -> TapConnection:
        """A connection began. May raise PP1Error: then this connection is not listened to."""
        ...


class Tapped:
    """One end's view of a tap: sent and received instead of client and server. A tap that fails is dropped.

    Args:
        tap: None for nobody.
        is_client: whether this end connected.
        local, peer: the two ends.
        on_failure: told why a tap was dropped, in one line.
    """

    def __init__(
        self,
        tap: Tap | None,
        *,
        is_client: bool,
        local: SocketAddress,
        peer: SocketAddress,
        on_failure: Callable[[str], None],
    ) -> None:
        self._on_failure = on_failure
        self._connection: TapConnection | None = None
        self._is_client = is_client
        if tap is not None:
            client, server = (local, peer) if is_client else (peer, local)
            try:
                self._connection = tap.open(client, server, time.time_ns())
            except PP1Error as error:
                self._on_failure(f"recording: {summary(error)}; this connection is not recorded")

    def sent(self, data: bytes | memoryview) -> None:
        """This end handed `data` to the system."""
        if self._connection is not None:
            ours = self._connection.client_sent if self._is_client else self._connection.server_sent
            self._tell(lambda: ours(data, time.time_ns()))

    def received(self, data: bytes | memoryview) -> None:
        """This end took `data` from the system."""
        if self._connection is not None:
            theirs = self._connection.server_sent if self._is_client else self._connection.client_sent
            self._tell(lambda: theirs(data, time.time_ns()))

    def peer_closed(self) -> None:
        """The peer sends no more."""
        if self._connection is not None:
            closed = self._connection.server_closed if self._is_client else self._connection.client_closed
            self._tell(lambda: closed(time.time_ns()))

    def closed(self) -> None:
        """The connection is over."""
        connection, now = self._connection, time.time_ns()
        if connection is not None:
            self._tell(lambda: connection.client_closed(now))
            self._tell(lambda: connection.server_closed(now))
            self._connection = None

    def _tell(self, what: Callable[[], None]) -> None:
        if self._connection is None:
            return
        try:
            what()
        except PP1Error as error:
            self._connection = None
            self._on_failure(f"recording: {summary(error)}; this connection is not recorded any further")
