"""Bytes kept from streams while they pass: only those in spans that were asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from pp1wire.capture.html.places import body_end
from pp1wire.capture.scanner import FrameScanner, Scanned
from pp1wire.wire import Frame

__all__ = ["KeptBytes", "RowFrames", "merged"]

Span = tuple[int, int]
"""Offsets of the first byte and behind the last."""


def merged(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, with those that touch as one."""
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((start, stop))
    return joined


class KeptBytes:
    """What one direction of a connection holds in some spans, and which packets carried it.

    Args:
        spans: what to keep.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = merged(spans)
        self._next = 0
        self._pieces: list[tuple[int, bytes, int | None]] = []

    @property
    def done(self) -> bool:
        """Whether all spans have passed."""
        return self._next == len(self._spans)

    def take(self, offset: int, data: memoryview, packet: int | None) -> None:
        """The stream's bytes from `offset` on, which lie behind those taken before."""
        end = offset + len(data)
        for start, stop in self._spans[self._next :]:
            if start >= end:
                break
            first, last = max(start, offset), min(stop, end)
            if first < last:
                self._pieces.append((first, bytes(data[first - offset : last - offset]), packet))
            self._next += stop <= end

    def packet_at(self, offset: int) -> int | None:
        """The packet that carried a byte; None if it was not kept, or came without packets."""
        for begin, data, packet in self._pieces[self._piece(offset) :][:1]:
            if begin <= offset < begin + len(data):
                return packet
        return None

    def values(self, start: int, stop: int) -> list[int | None]:
        """The bytes from `start` to `stop`; None for each that was not kept."""
        values: list[int | None] = [None] * max(stop - start, 0)
        for begin, data, _ in self._pieces[self._piece(start) :]:
            if begin >= stop:
                break
            first, last = max(begin, start), min(begin + len(data), stop)
            if first < last:
                values[first - start : last - start] = data[first - begin : last - begin]
        return values

    def _piece(self, offset: int) -> int:
        return max(bisect_right(self._pieces, offset, key=lambda piece: piece[0]) - 1, 0)


class RowFrames:
    """Finds the frames that some bytes of one direction belong to.

    Where q begins in a row follows from the row's length alone, so the headers are read, as `show` reads them.

    Args:
        offsets: of those bytes.
    """

    def __init__(self, offsets: Iterable[int]) -> None:
        self._offsets = sorted(set(offsets))
        self._scanner = FrameScanner()
        self._found: dict[int, tuple[int, bytes]] = {}

    @property
    def done(self) -> bool:
        """Whether all are found."""
        return len(self._found) == len(self._offsets)

    def take(self, data: memoryview) -> None:
        """The stream's next bytes."""
        if not self.done:
            self._see(self._scanner.feed(data))

    def skip(self, length: int) -> None:
        """The stream's next bytes are missing."""
        if not self.done:
            self._see(self._scanner.skip(length))

    def frame_of(self, offset: int) -> tuple[int, bytes] | None:
        """The offset of the frame around a byte, and its header and fixed fields; None if it was not found."""
        return self._found.get(offset)

    def _see(self, items: Iterable[Scanned]) -> None:
        for item in items:
            if not isinstance(item, Frame):
                continue
            first = bisect_right(self._offsets, item.offset)
            for offset in self._offsets[first:]:
                if offset >= item.offset + len(item.data):
                    break
                self._found[offset] = item.offset, bytes(item.data[: body_end(item.header.message_type)])
