"""Cuts a stream into frames by the header fields that never move, judging nothing: a relay has no agreement."""

from __future__ import annotations

__all__ = ["FrameCutter"]

_HEADER_BYTES = 64


class FrameCutter:
    """Collects bytes until a frame is whole."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that `data` completes, as (message type, whole frame)."""
        self._pending += data
        frames = []
        start = 0
        while len(self._pending) - start >= _HEADER_BYTES:
            length = _HEADER_BYTES + int.from_bytes(self._pending[start + 16 : start + 20], "little")
            if len(self._pending) - start < length:
                break
            frames.append((self._pending[start + 6], bytes(self._pending[start : start + length])))
            start += length
        del self._pending[:start]
        return frames
