"""What is known of one direction of a connection while it is judged."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from pp1wire.capture.one_way import OneWay
from pp1wire.capture.places import Marks, Walk
from pp1wire.protocol import Direction
from pp1wire.wire import HelloRole, MessageType, RemoteProtocolError
from pp1wire.wire._schema_v2 import MAGIC
from pp1wire.wire.header import HEADER_BYTES, check_header

__all__ = ["HEAD", "Mode", "Side", "is_hello", "misses_hello"]

HEAD: Final = HEADER_BYTES + 1
"""Bytes of a HELLO's header and its role."""


class Mode(Enum):
    NEW = auto()
    """Not known to be PP1."""
    TOGETHER = auto()
    """Judged with the other direction."""
    ALONE = auto()
    """Judged without it; before the connection is known to be PP1, searched for a header."""
    OVER = auto()
    """A fault of connection scope ended it, or it was given up: bytes are only counted."""


class Side:
    """One direction."""

    def __init__(self, role: Direction) -> None:
        self.role = role
        self.mode = Mode.NEW
        self.marks = Marks()
        self.walk = Walk()
        self.head = bytearray()  # its first bytes, while NEW
        self.opening = bytearray()  # its HELLO, until there is an agreement
        self.late = False  # its beginning is not in the capture
        self.alone: OneWay | None = None
        self.handover: int | None = None  # where to go on alone
        self.uncertain = False
        self.unjudged_told = False
        self.bytes = 0
        self.end = 0  # stream offset behind the last byte or gap
        self.ended = False

    @property
    def own_hello(self) -> HelloRole:
        """The role of the HELLO that this direction begins with."""
        return HelloRole.OFFER if self.role is Direction.VERIFIER else HelloRole.ANSWER

    @property
    def held(self) -> int:
        """Bytes held of what is not whole yet."""
        if self.mode is Mode.TOGETHER:
            return max(self.end - self.walk.begin, 0)
        return len(self.head) + (0 if self.alone is None else self.alone.held)


def is_hello(head: bytearray) -> bool:
    """Whether a stream that is joined late begins with a HELLO after all."""
    if len(head) < HEADER_BYTES:
        return False
    try:
        return check_header(bytes(head), 0, None, 0).message_type is MessageType.HELLO
    except RemoteProtocolError:
        return False


def misses_hello(side: Side, data: memoryview) -> bool:
    """Whether the first packet of a stream that is joined late shows that its HELLO is not there."""
    if side.bytes or not side.late:
        return False
    head = bytearray(data[:HEAD])
    return not is_hello(head) if len(head) == HEAD else head[: len(MAGIC)] != MAGIC[: len(head)]
