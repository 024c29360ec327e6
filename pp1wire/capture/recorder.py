"""Recording: the two byte streams of a connection, as bytes pass, become an ordinary TCP conversation in a pcapng file.

The packets are made up, not observed: their boundaries are those of the caller's reads and writes, their sequence
numbers begin where the recorder likes, and nothing is lost, repeated or out of order. What is real is the bytes, their
order, and the times that the caller passes in. Handshake and FIN or RST tell a reader that a stream is there from its
beginning, and how it ended.

A capture holds prompts, text and proposal seeds, so `Recorder.create` makes files that only their owner can read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self, TypeAlias, cast

from pp1wire.capture.packets import MAX_PAYLOAD, Endpoint, Flags, build_ipv4_tcp
from pp1wire.capture.pcapng import CaptureError, PcapngWriter
from pp1wire.capture.pipe import Pipe
from pp1wire.errors import LocalProtocolError

__all__ = ["UNIX_SERVER_PORT", "Party", "RecordedConnection", "Recorder", "SocketAddress"]

SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | str | bytes | None
"""As `socket.getpeername` has it: (host, port), (host, port, flow, scope), or a Unix socket's path ("": unnamed)."""

Party: TypeAlias = Literal["client", "server"]

UNIX_SERVER_PORT = 49_151
"""Stands for the listening end of a Unix socket; reserved by IANA, so that no dissector claims it."""

_FIRST_EPHEMERAL, _EPHEMERAL_PORTS = 49_152, 16_384
_WINDOW_SCALE = 14  # windows of 1 GiB: no stream ever fills one
_SYN_OPTIONS = bytes([2, 4]) + MAX_PAYLOAD.to_bytes(2, "big") + bytes([1, 3, 3, _WINDOW_SCALE])
_ACKNOWLEDGE_EVERY = 1 << 20  # a stream without answers is acknowledged, too, now and then


class _Side:
    """One end: where it is, and how far it has sent."""

    def __init__(self, name: Party, endpoint: Endpoint, sequence: int) -> None:
        self.name = name
        self.endpoint = endpoint
        self.sequence = sequence  # of the next byte that it sends
        self.unacknowledged = 0  # bytes of it that the other has not acknowledged
        self.finished = False


class RecordedConnection:
    """One connection of a `Recorder`; made by `Recorder.open`.

    All times are nanoseconds since 1970 and need not rise. Every call raises `CaptureError` where the file refuses
    bytes, after which the file ends with the last whole packet and takes no more.
    """

    def __init__(
        self, writer: PcapngWriter, client: _Side, server: _Side, on_end: Callable[[RecordedConnection], None]
    ) -> None:
        self._writer = writer
        self._client = client
        self._server = server
        self._on_end = on_end
        self._over = False

    @property
    def client(self) -> Endpoint:
        """Where the capture shows the client."""
        return self._client.endpoint

    @property
    def server(self) -> Endpoint:
        """Where the capture shows the server."""
        return self._server.endpoint

    def client_sent(self, data: bytes | bytearray | memoryview, time_ns: int) -> None:
        """The client sent `data`; empty data leaves no packet. `LocalProtocolError` once the client has ended."""
        self._send(self._client, self._server, data, time_ns)

    def server_sent(self, data: bytes | bytearray | memoryview, time_ns: int) -> None:
        """The server sent `data`; empty data leaves no packet. `LocalProtocolError` once the server has ended."""
        self._send(self._server, self._client, data, time_ns)

    def client_closed(self, time_ns: int) -> None:
        """The client sends no more (FIN); nothing where it has ended."""
        self._finish(self._client, self._server, time_ns)

    def server_closed(self, time_ns: int) -> None:
        """The server sends no more (FIN); nothing where it has ended."""
        self._finish(self._server, self._client, time_ns)

    def close(self, time_ns: int) -> None:
        """Both send no more; nothing where both have ended."""
        self.client_closed(time_ns)
        self.server_closed(time_ns)

    def abort(self, time_ns: int, by: Party = "client") -> None:
        """One end drops the connection (RST); nothing where both have ended."""
        if self._over:
            return
        client, server = self._client, self._server
        sender, receiver = (client, server) if by == "client" else (server, client)
        self._packet(sender, receiver, Flags.RST | Flags.ACK, time_ns)
        self._end()

    def _open(self, time_ns: int, comment: str) -> None:
        client, server = self._client, self._server
        syn = build_ipv4_tcp(client.endpoint, server.endpoint, client.sequence, 0, Flags.SYN, options=_SYN_OPTIONS)
        self._writer.write_packet(time_ns, syn, comment=comment)
        client.sequence = (client.sequence + 1) & 0xFFFFFFFF
        self._packet(server, client, Flags.SYN | Flags.ACK, time_ns, options=_SYN_OPTIONS)
        self._packet(client, server, Flags.ACK, time_ns)

    def _send(self, sender: _Side, receiver: _Side, data: bytes | bytearray | memoryview, time_ns: int) -> None:
        if self._over or sender.finished:
            raise LocalProtocolError(f"recording: the {sender.name} of {self} has ended, so it cannot have sent data")
        view = memoryview(data)
        if not view.nbytes:
            return
        view = view.cast("B")
        for start in range(0, len(view), MAX_PAYLOAD):
            part = view[start : start + MAX_PAYLOAD]
            push = Flags.PSH if start + len(part) == len(view) else 0
            self._packet(sender, receiver, Flags.ACK | push, time_ns, part)
            if sender.unacknowledged >= _ACKNOWLEDGE_EVERY:
                self._packet(receiver, sender, Flags.ACK, time_ns)

    def _finish(self, sender: _Side, receiver: _Side, time_ns: int) -> None:
        if self._over or sender.finished:
            return
        self._packet(sender, receiver, Flags.FIN | Flags.ACK, time_ns)
        sender.finished = True
        self._packet(receiver, sender, Flags.ACK, time_ns)
        if receiver.finished:
            self._end()

    def _packet(
        self,
        sender: _Side,
        receiver: _Side,
        flags: int,
        time_ns: int,
        payload: bytes | memoryview = b"",
        *,
        options: bytes = b"",
    ) -> None:
        """Write one packet, which acknowledges all that the receiver has sent; numbers move once it is in the file."""
        ends = (sender.endpoint, receiver.endpoint)
        packet = build_ipv4_tcp(*ends, sender.sequence, receiver.sequence, flags, payload, options=options)
        self._writer.write_packet(time_ns, packet)
        # SYN and FIN take one sequence number each.
        taken = len(payload) + bool(flags & (Flags.SYN | Flags.FIN))
        sender.sequence = (sender.sequence + taken) & 0xFFFFFFFF
        sender.unacknowledged += len(payload)
        receiver.unacknowledged = 0

    def _end(self) -> None:
        self._over = True
        self._on_end(self)

    def __str__(self) -> str:
        return f"{self.client} → {self.server}"


class Recorder:
    """Writes connections into one capture. Not thread-safe.

    Args:
        file: binary file or pipe open for writing, which the caller closes; unbuffered is best (`PcapngWriter`).
        flush_every: flush after this many packets; 0 leaves it to the caller.

    A recorder that is dropped at any moment leaves a readable file: every packet is handed over whole.
    """

    def __init__(self, file: BinaryIO, *, flush_every: int = 1) -> None:
        self._writer = PcapngWriter(file, flush_every=flush_every)
        self._owned: BinaryIO | None = None
        self._placeholders: dict[str, bytes] = {}
        self._open: set[tuple[Endpoint, Endpoint]] = set()
        self._connections = 0

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """Record into a file, replacing what is there; only its owner may read it. `close` closes it.

        A pipe does as well. A reader that is slower than what is recorded slows it down, and one that takes nothing for half
        a second ends the recording.

        Raises `CaptureError` where the file cannot be made.
        """
        try:
            # Not blocking: a pipe that nobody reads is an error now, and no wait without end.
            number = os.open(Path(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o600)
            # Unbuffered: each block is one write of the operating system, so that a crash cannot leave half of one.
            has_size = stat.S_ISREG(os.fstat(number).st_mode)
            file = os.fdopen(number, "wb", buffering=0) if has_size else cast(BinaryIO, Pipe(number))
        except OSError as error:
            raise CaptureError(0, f"cannot create {os.fspath(path)}: {error.strerror}") from error
        try:
            recorder = cls(file, flush_every=0)
        except CaptureError:
            file.close()
            raise
        recorder._owned = file
        return recorder

    @property
    def packets(self) -> int:
        """Packets written."""
        return self._writer.packets

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._writer.size

    def open(
        self,
        client: SocketAddress,
        server: SocketAddress,
        time_ns: int,
        *,
        client_sequence: int | None = None,
        server_sequence: int | None = None,
    ) -> RecordedConnection:
        """Begin a connection: three packets.

        An end that has no IPv4 address is shown at a placeholder, one for each distinct host or path: 127.0.0.2,
        127.0.0.3 and so on, with its own port if it has one, else `UNIX_SERVER_PORT` for a server and a port from
        49,152 on for a client, another for each connection. A comment on the first packet names the real end.

        Args:
            client: who connected.
            server: who accepted.
            time_ns: when, in nanoseconds since 1970.
            client_sequence: u32, number of the client's SYN; the recorder chooses unless given.
            server_sequence: u32, number of the server's SYN; the recorder chooses unless given.

        Raises `LocalProtocolError` where the same two ends are being recorded already, `CaptureError` where the file
        refuses bytes.
        """
        number = self._connections + 1
        client_end, client_note = self._place(client, _FIRST_EPHEMERAL + (number - 1) % _EPHEMERAL_PORTS)
        server_end, server_note = self._place(server, UNIX_SERVER_PORT)
        if (client_end, server_end) in self._open:
            raise LocalProtocolError(f"recording: {client_end} → {server_end} is being recorded already")
        # Odd multipliers: a port that is used again begins with another number, as TCP wants it.
        first = number * 2_654_435_761 if client_sequence is None else client_sequence
        second = number * 2_246_822_519 if server_sequence is None else server_sequence
        connection = RecordedConnection(
            self._writer,
            _Side("client", client_end, first & 0xFFFFFFFF),
            _Side("server", server_end, second & 0xFFFFFFFF),
            self._forget,
        )
        notes = ((f"client {client_note}", client_end, client_note), (f"server {server_note}", server_end, server_note))
        connection._open(time_ns, "; ".join(f"{what} is shown as {end}" for what, end, note in notes if note))
        self._connections = number
        self._open.add((client_end, server_end))
        return connection

    def flush(self) -> None:
        """Hand everything written to the operating system."""
        self._writer.flush()

    def close(self) -> None:
        """Flush, and close the file if `create` made it. Connections still open keep no end: readers say so."""
        if self._owned is None:
            self.flush()
        else:
            self._owned.close()  # unbuffered: nothing to flush

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _forget(self, connection: RecordedConnection) -> None:
        self._open.discard((connection.client, connection.server))

    def _place(self, name: SocketAddress, default_port: int) -> tuple[Endpoint, str]:
        """Where the capture shows an end, and what it really is if that is elsewhere."""
        if isinstance(name, tuple):
            host, port = name[0], name[1]
            if not 0 <= port <= 0xFFFF:
                raise LocalProtocolError(f"recording: port of {host}: expected 0 to 65535, got {port}")
            address = _ipv4(host)
            if address is not None:
                return Endpoint(address.packed, port), ""
            note = f"[{host}]:{port}"
        else:
            host = os.fsdecode(name or "").replace("\0", "@")  # an abstract name begins with a zero byte
            port = default_port
            note = f"unix:{host}" if host else "unix socket without a name"
        # 127.0.0.1 is likely to be real.
        placeholder = IPv4Address("127.0.0.2") + len(self._placeholders)
        return Endpoint(self._placeholders.setdefault(host, placeholder.packed), port), note


def _ipv4(host: str) -> IPv4Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return address.ipv4_mapped if isinstance(address, IPv6Address) else address
