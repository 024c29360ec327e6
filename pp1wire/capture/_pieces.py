"""Pieces of a byte stream: what a packet held, sorted by stream offset; and the memory that all streams share."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from pp1wire.capture.events import Chunk

__all__ = ["OVERHEAD", "Memory", "Piece", "Pieces", "Recent", "differing", "overlapping", "owned"]

OVERHEAD = 768
"""Bytes of Python objects around a kept piece, about."""

_OFFSET = attrgetter("offset")


def owned(data: memoryview) -> memoryview:
    """The same bytes, copied where a small view would keep a much larger packet alive."""
    if isinstance(data.obj, bytes) and len(data.obj) <= 2 * len(data) + 1024:
        return data
    return memoryview(bytes(data))


def differing(one: bytes, two: bytes) -> tuple[int, int]:
    """First and last index at which two different strings of equal length differ."""
    difference = int.from_bytes(one, "big") ^ int.from_bytes(two, "big")
    first = len(one) - (difference.bit_length() + 7) // 8
    last = len(one) - 1 - ((difference & -difference).bit_length() - 1) // 8
    return first, last


class Piece(NamedTuple):
    """Consecutive bytes of a stream that one packet carried."""

    offset: int
    length: int
    data: memoryview | None
    """None where the snapshot length cut them off."""
    gate: int
    """They come out once the other direction has come out up to here."""
    packet: int
    time_ns: int | None

    @property
    def stop(self) -> int:
        """Stream offset behind the last byte."""
        return self.offset + self.length

    @property
    def cost(self) -> int:
        """Bytes of memory, about."""
        return OVERHEAD if self.data is None else OVERHEAD + self.length

    def part(self, start: int, stop: int) -> Piece:
        """The bytes from stream offset `start` to `stop`, in memory of about their own size."""
        data = self.data
        if data is not None:
            data = owned(data[start - self.offset : stop - self.offset])
        return Piece(start, stop - start, data, self.gate, self.packet, self.time_ns)


class Pieces:
    """Pieces sorted by offset, without overlaps; cheap at both ends."""

    def __init__(self) -> None:
        self._items: list[Piece] = []
        self._head = 0

    def __bool__(self) -> bool:
        return self._head < len(self._items)

    def first(self) -> Piece:
        """The piece with the lowest offset."""
        return self._items[self._head]

    def stop(self) -> int:
        """Stream offset behind the last piece; 0 without pieces."""
        return self._items[-1].stop if self else 0

    def add(self, piece: Piece) -> None:
        """Take in a piece that overlaps none."""
        if not self or self._items[-1].offset < piece.offset:
            self._items.append(piece)
        else:
            self._items.insert(bisect_right(self._items, piece.offset, self._head, key=_OFFSET), piece)

    def replace_first(self, piece: Piece) -> None:
        """Put another in the place of the first."""
        self._items[self._head] = piece

    def pop_first(self) -> Piece:
        """Remove the first."""
        piece = self._items[self._head]
        self._head += 1
        if self._head * 2 >= len(self._items):  # moves each piece at most once more, all in all
            del self._items[: self._head]
            self._head = 0
        return piece

    def overlapping(self, start: int, stop: int) -> list[Piece]:
        """Those that share a byte with [start, stop), in order."""
        items = self._items
        index = max(bisect_right(items, start, self._head, key=_OFFSET) - 1, self._head)
        found: list[Piece] = []
        while index < len(items) and items[index].offset < stop:
            if items[index].stop > start:
                found.append(items[index])
            index += 1
        return found


Recent: TypeAlias = deque[Chunk]
"""What came out of a stream last, in order."""


def overlapping(recent: Recent, start: int, stop: int) -> list[Piece]:
    """What of it shares a byte with [start, stop), in order."""
    found: list[Piece] = []
    for index in range(max(bisect_right(recent, start, key=_OFFSET) - 1, 0), len(recent)):
        chunk = recent[index]
        if chunk.offset >= stop:
            break
        if chunk.offset + len(chunk.data) > start:
            found.append(Piece(chunk.offset, len(chunk.data), chunk.data, 0, chunk.packet, chunk.time_ns))
    return found


class Memory:
    """What all streams of a capture hold together."""

    def __init__(self, max_recent: int) -> None:
        self._max_recent = max_recent
        self._recent: deque[Recent] = deque()  # one entry for each kept chunk, oldest first
        self._recent_size = 0
        self.held = 0
        """Bytes held back, about."""
        self.unchecked = 0
        """Repeated bytes that could no longer be compared."""

    def remember(self, recent: Recent, chunk: Chunk) -> None:
        """Keep a chunk that has come out, to compare repetitions with; forget the oldest of any stream."""
        recent.append(chunk)
        self._recent.append(recent)
        self._recent_size += OVERHEAD + len(chunk.data)
        while self._recent_size > self._max_recent:
            self._recent_size -= OVERHEAD + len(self._recent.popleft().popleft().data)
