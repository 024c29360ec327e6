"""One stream socket as an attack sees it: bytes out whatever the other end does, bytes in with a limit on the wait."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

from pp1wire.net.address import Address, TcpAddress
from pp1wire.net.sockets import connect_error, connected_socket

__all__ = ["Channel"]

_READ_BYTES = 1 << 16


class Channel:
    """A connected socket.

    Args:
        reader, writer: of asyncio.
        timeout: seconds that a write may take; a peer that reads no more is not waited for any longer.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout = timeout
        self.closed = False
        """Whether the peer has ended the connection, as far as was read."""

    @classmethod
    async def connect(
        cls, address: Address, tls: ssl.SSLContext | None, server_hostname: str | None, *, wait: float, timeout: float
    ) -> Channel:
        """A connection to `address`, within `wait` seconds.

        Raises:
            ConnectError: nobody listens, or the TLS handshake failed.
        """
        host = address.host if isinstance(address, TcpAddress) else "localhost"
        try:
            async with asyncio.timeout(wait):
                reader, writer = await asyncio.open_connection(
                    sock=await connected_socket(address),
                    ssl=tls,
                    server_hostname=(server_hostname or host) if tls else None,
                )
        except (OSError, UnicodeError) as error:
            raise connect_error(address, error, tls=tls is not None) from None
        return cls(reader, writer, timeout)

    async def send(self, data: bytes) -> None:
        """Write; a connection that is gone shows when it is read."""
        with suppress(OSError):  # ConnectionError and ssl.SSLError among them
            self._writer.write(data)
            async with asyncio.timeout(self._timeout):
                await self._writer.drain()

    async def send_bytewise(self, data: bytes) -> None:
        """Write one byte at a time, each as a packet of its own where the system allows."""
        for at in range(len(data)):
            await self.send(data[at : at + 1])
            await asyncio.sleep(0)

    async def receive(self, seconds: float) -> bytes | None:
        """What came; empty once the peer has ended the connection, None if nothing came in time."""
        if self.closed:
            return b""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                data = await self._reader.read(_READ_BYTES)
        except TimeoutError:
            return None
        except OSError:
            data = b""
        self.closed = not data
        return data

    def finish(self) -> bool:
        """Send no more; whether the peer can tell, and its own end still be heard: TLS has no half-closed connections."""
        if not self._writer.can_write_eof():
            self._writer.transport.abort()
            self.closed = True
            return False
        with suppress(OSError):
            self._writer.write_eof()
        return True

    async def close(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()
