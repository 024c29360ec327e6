"""One socket as its owner sees it: bytes in, pieces out, both bounded.

The receive buffer is one fixed block that is handed to the owner before the next read, so nothing piles up on the way in. On the
way out the transport's buffer has a high-water mark; above it the owner is told, and is to ask for no more work until it has
drained.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any, Protocol, cast

from pp1wire.net.tap import SocketAddress, Tap, Tapped

__all__ = ["Link", "LinkOwner", "peer_name"]

_RECEIVE_BYTES = 1 << 20
_WRITE_HIGH_WATER = 1 << 20
_ONE_WRITE = 1 << 16  # up to here a copy costs less than another packet
_LINGER = 2.0  # seconds in which a peer may still read what was queued when the connection ended


class LinkOwner(Protocol):
    """Who the link reports to. None of these may raise."""

    def link_made(self) -> None:
        """The socket is connected."""

    def link_received(self, data: memoryview) -> None:
        """Bytes came; they are valid during this call."""

    def link_eof(self) -> None:
        """The peer sends no more. The socket closes once everything queued is written, or soon."""

    def link_lost(self, error: Exception | None) -> None:
        """The socket is gone; called once, last."""

    def link_congested(self, congested: bool) -> None:
        """The peer reads too slowly, or has caught up."""

    def link_unrecorded(self, why: str) -> None:
        """The tap failed, and hears no more of this connection."""


class Link(asyncio.BufferedProtocol):
    """A connected stream socket.

    Args:
        owner: told of everything.
        is_client: whether this end connected.
        tap: listens to both directions.
        receive_bytes: size of the one receive buffer.
    """

    def __init__(
        self, owner: LinkOwner, *, is_client: bool, tap: Tap | None = None, receive_bytes: int = _RECEIVE_BYTES
    ) -> None:
        self._owner = owner
        self._is_client = is_client
        self._tap = tap
        self._receive_bytes = receive_bytes
        self._buffer = memoryview(b"")
        self._transport: asyncio.Transport | None = None
        self._made = False
        self._tapped = Tapped(None, is_client=is_client, local=None, peer=None, on_failure=owner.link_unrecorded)
        self._early = bytearray()
        self._holds: set[str] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._closed = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None
        self._shutting = False
        self.peer = "peer"
        """The peer's address, for people."""

    # What the owner does.

    @property
    def is_open(self) -> bool:
        """Whether what is sent has a chance to arrive."""
        return self._transport is not None and not self._shutting and not self._transport.is_closing()

    @property
    def is_made(self) -> bool:
        """Whether the socket was ever connected."""
        return self._made

    def send(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Queue pieces for writing, in this order; nothing once the link is closing."""
        pieces = list(pieces)
        if self._transport is None or not pieces or not self.is_open:
            return
        for piece in pieces:
            self._tapped.sent(piece)
        # Not `writelines`: from Python 3.12.0 to 3.13.1 it never pauses the protocol (CVE-2024-12254).
        if sum(len(piece) for piece in pieces) <= _ONE_WRITE:
            self._transport.write(b"".join(pieces))
            return
        for piece in pieces:
            self._transport.write(piece)

    @property
    def is_congested(self) -> bool:
        """Whether the peer has too much left to read."""
        return not self._flowing.is_set()

    async def drained(self) -> None:
        """Return once the peer has read enough, or the socket is gone."""
        await self._flowing.wait()

    def hold(self, reason: str) -> None:
        """Read no more until every reason is released."""
        if not self._holds and self.is_open and self._transport is not None:
            self._transport.pause_reading()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Undo `hold`."""
        self._holds.discard(reason)
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self, linger: float = _LINGER) -> None:
        """Write what is queued, then close; after `linger` seconds close whatever the peer does.

        Where the transport can, the peer is told first and given the chance to close: a close with unread bytes would
        reset the connection, and could take back what was just sent.
        """
        if self._transport is None or self._shutting:
            return
        self._holds.clear()
        if self._transport.is_closing():
            pass
        elif self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()
        self._shutting = True
        self._abort_after(linger)

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        self._shutting = True
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Return once the socket is gone."""
        await self._closed.wait()

    # What asyncio does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is there; under `start_tls` bytes may have come before."""
        self._made = True
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER)
        local, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        self.peer = peer_name(local, peer)
        _no_delay(transport.get_extra_info("socket"))
        self._tapped = Tapped(
            self._tap, is_client=self._is_client, local=local, peer=peer, on_failure=self._owner.link_unrecorded
        )
        self._owner.link_made()
        early, self._early = self._early, bytearray()
        if early:
            self._receive(memoryview(early))
        if self._closed.is_set():
            self._lose(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The one receive buffer; not before it is needed, as most attempts to connect may fail."""
        if not self._buffer:
            self._buffer = memoryview(bytearray(self._receive_bytes))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over what came, before anything else is read into the buffer."""
        if self._transport is None:
            self._early += self._buffer[:nbytes]
        else:
            self._receive(self._buffer[:nbytes])

    def eof_received(self) -> bool:
        """The peer sends no more, which ends the connection: half-open ones have no use here."""
        self._tapped.peer_closed()
        if not self._shutting:
            self._owner.link_eof()
        # asyncio closes the socket when all is written: never, if the peer ended its half and reads no more.
        self._abort_after(_LINGER)
        return False

    def pause_writing(self) -> None:
        """The transport's buffer is above its high-water mark."""
        self._flowing.clear()
        self._owner.link_congested(True)

    def resume_writing(self) -> None:
        """The transport's buffer is low again."""
        self._flowing.set()
        self._owner.link_congested(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._closed.set()
        self._flowing.set()
        if self._linger is not None:
            self._linger.cancel()
        if self._transport is not None:
            self._lose(exc)

    def _abort_after(self, seconds: float) -> None:
        if self._transport is not None and self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(seconds, self._transport.abort)

    def _lose(self, error: Exception | None) -> None:
        self._tapped.closed()
        self._owner.link_lost(error)
        # Link and owner refer to each other, so they stay until the garbage collector comes. The receive buffer, and those of TLS
        # behind the transport, need not.
        self._buffer, self._transport = memoryview(b""), None

    def _receive(self, data: memoryview) -> None:
        self._tapped.received(data)
        if not self._shutting:
            self._owner.link_received(data)


def peer_name(local: SocketAddress, peer: SocketAddress) -> str:
    """The peer's address, for people."""
    if isinstance(peer, tuple):
        host, port = peer[0], peer[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # The connecting end of a Unix socket has no name of its own.
    named = peer or local
    return f"unix:{named!s}" if isinstance(named, str) and named else "unix socket"


def _no_delay(sock: Any) -> None:
    # A COMMIT is small and the next STEP waits for nothing; Nagle's algorithm would hold it back.
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
