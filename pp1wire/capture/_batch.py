"""Chunks of a connection that are put off, as many are judged together at a fraction of the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pp1wire.capture._side import Side
from pp1wire.capture._teller import Teller
from pp1wire.capture.events import Chunk
from pp1wire.capture.events import Direction as Way
from pp1wire.protocol import Conversation, Piece

__all__ = ["EVENT_BYTES", "Batch", "judge_together"]

EVENT_BYTES: Final = 600
"""What Python holds for an event, however few bytes it brings."""
_MAX_BATCH: Final = 1 << 21


class Batch:
    """What was put off."""

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self.bytes = 0
        """Held, with the objects around them."""

    def add(self, chunk: Chunk) -> int:
        """Put one off; the bytes that it holds."""
        size = EVENT_BYTES + len(chunk.data)
        self._chunks.append(chunk)
        self.bytes += size
        return size

    @property
    def is_due(self) -> bool:
        """Whether that is enough."""
        return self.bytes > _MAX_BATCH

    def take(self) -> list[Chunk]:
        """All of it, which is then no longer here."""
        chunks, self._chunks, self.bytes = self._chunks, [], 0
        return chunks


def judge_together(judge: Conversation, sides: Mapping[Way, Side], tell: Teller, chunks: Sequence[Chunk]) -> bool:
    """Judge, tell and count these chunks; False, and nothing is done, unless all is as it should be."""
    pieces = [Piece(sides[chunk.direction].role, chunk.data) for chunk in chunks]
    verdicts = judge.feed_together(pieces, each_row=tell.is_watched)
    if verdicts is None:
        return False
    tell.take_all(sides, chunks, verdicts)
    for side in sides.values():
        offset, sequence, begun = judge.in_progress(side.role)
        side.marks.forget(offset)
        side.walk.resume(offset, sequence, begun)
    return True
