"""Where in a stream things lie: which packet carried a byte, and where the frames of a verified stream begin."""

from __future__ import annotations

from bisect import bisect_right

from pp1wire.wire.header import HEADER_BYTES

__all__ = ["MAX_MARKS", "Marks", "Walk"]

MAX_MARKS = 16_384
"""Packets of an unfinished frame that are told apart; beyond that every other one is merged with its neighbour."""

_SEQUENCE, _LENGTH = slice(8, 16), slice(16, 20)


class Marks:
    """Which packet carried which bytes, from the frame in progress on."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._packets: list[tuple[int | None, int | None]] = []

    def add(self, offset: int, packet: int | None, time_ns: int | None) -> None:
        """The bytes from `offset` on came in this packet."""
        if len(self._offsets) >= MAX_MARKS:
            del self._offsets[1::2], self._packets[1::2]
        self._offsets.append(offset)
        self._packets.append((packet, time_ns))

    def at(self, offset: int) -> tuple[int | None, int | None]:
        """Packet and time of the byte at `offset`; of the last known byte for one behind it."""
        index = max(bisect_right(self._offsets, offset) - 1, 0)
        return self._packets[index] if self._packets else (None, None)

    def forget(self, offset: int) -> None:
        """Nothing before `offset` will be asked for."""
        index = bisect_right(self._offsets, offset) - 1
        if index > 0:
            del self._offsets[:index], self._packets[:index]


class Walk:
    """Follows the frames of a stream whose headers somebody else verifies."""

    def __init__(self) -> None:
        self.begin = 0
        """Offset of the frame in progress, or of the next one."""
        self.next = 0
        """Offset of the first frame whose length is not known yet."""
        self.sequence = -1
        """Of the frame before `next`."""
        self.head = bytearray()
        """The bytes from `next` on, fewer than a header."""

    def resume(self, begin: int, sequence: int | None, head: bytes) -> None:
        """Frames up to `begin` were verified elsewhere; `head` are the bytes from there on, of the frame of this number."""
        self.begin = self.next = begin
        self.sequence = self.sequence if sequence is None else sequence - 1
        self.head = bytearray()
        self.feed(begin, head)

    def feed(self, offset: int, data: bytes | memoryview) -> None:
        """The bytes at `offset`, which follow those fed before."""
        end = offset + len(data)
        while self.next + len(self.head) < end:
            at = self.next + len(self.head) - offset
            self.head += data[at : at + _LENGTH.stop - len(self.head)]
            if len(self.head) < _LENGTH.stop:
                break
            self.sequence = int.from_bytes(self.head[_SEQUENCE], "little")
            self.begin = self.next
            self.next += HEADER_BYTES + int.from_bytes(self.head[_LENGTH], "little")
            self.head = bytearray()
        if self.next <= end:
            self.begin = self.next
