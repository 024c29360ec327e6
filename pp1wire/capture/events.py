"""What reading a capture makes known: connections, their bytes, their ends, and what is missing or wrong.

Everything here is a plain tuple. Findings (`StreamFinding`, `PacketFinding` and the reader's `Truncated`) share
`code` and `message`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from pp1wire.capture.packets import Endpoint, SkipCode
from pp1wire.capture.pcapng import Truncated

__all__ = [
    "Chunk",
    "Connection",
    "Direction",
    "EndReason",
    "Ended",
    "Event",
    "FindingCode",
    "Opened",
    "PacketFinding",
    "StreamEvent",
    "StreamFinding",
]


class Direction(StrEnum):
    """Which way bytes travel; the client is who sent the SYN."""

    TO_SERVER = "client_to_server"
    TO_CLIENT = "server_to_client"


class FindingCode(StrEnum):
    """What the packets of a stream show to be missing or wrong."""

    GAP = "gap"
    """Bytes that later segments or acknowledgements prove, but no packet holds."""
    CUT = "cut"
    """Bytes that a snapshot length cut from a packet."""
    CONFLICT = "conflict"
    """Two packets hold different bytes for the same place; those captured first were kept."""
    MID_STREAM = "mid_stream"
    """The capture begins after the stream did: offset 0 is the first byte seen."""
    OUTSIDE_WINDOW = "outside_window"
    """A segment too far from the stream's position to belong to it; it was ignored."""
    AFTER_END = "after_end"
    """Bytes or an end that contradict the stream's end as seen before; they were ignored."""


class EndReason(StrEnum):
    """How a direction ended."""

    FIN = "fin"
    RESET = "reset"
    MISSING = "missing"
    """The capture, or what it shows of this connection, ends first."""


class Connection(NamedTuple):
    """One TCP connection of the capture."""

    number: int
    """From 1, in order of appearance."""
    client: Endpoint
    server: Endpoint
    from_start: bool
    """A SYN was seen. Without one the roles are a guess: the lower port is the server's."""


class Opened(NamedTuple):
    """A connection is known; comes before everything else about it."""

    connection: Connection
    packet: int
    time_ns: int | None


class Chunk(NamedTuple):
    """The next bytes of one direction."""

    connection: Connection
    direction: Direction
    offset: int
    """Place of `data[0]` in the stream, in bytes."""
    data: memoryview
    """At least one byte; never changes."""
    packet: int
    """Number of the packet that carried them."""
    time_ns: int | None


class StreamFinding(NamedTuple):
    """A fault of the stream, not of what it says."""

    code: FindingCode
    connection: Connection
    direction: Direction
    offset: int
    length: int
    packet: int | None
    """The packet that shows it."""
    time_ns: int | None
    message: str


class Ended(NamedTuple):
    """No more bytes of this direction will come."""

    connection: Connection
    direction: Direction
    offset: int
    reason: EndReason
    packet: int | None
    time_ns: int | None


class PacketFinding(NamedTuple):
    """A packet that cannot be read as TCP, though it may be."""

    code: SkipCode
    packet: int
    time_ns: int | None
    message: str


StreamEvent: TypeAlias = Opened | Chunk | StreamFinding | Ended
Event: TypeAlias = StreamEvent | PacketFinding | Truncated
