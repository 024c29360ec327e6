"""Bytes of a file or pipe, forwards only."""

from __future__ import annotations

from typing import Protocol

from pp1wire.errors import PP1Error

__all__ = ["CaptureError", "CutError", "Input", "Readable"]

_READ_STEP = 1 << 20  # a length is a claim: memory grows with the bytes that really come


class CaptureError(PP1Error):
    """A capture cannot be read, or written, from `offset` (bytes from the start of the file) on."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(f"capture, byte {offset}: {message}")
        self.offset = offset
        self.reason = message
        """The message without the place."""


class CutError(CaptureError):
    """A compressed file ends too early; everything before has been handed out, and each further read says so again."""


class Readable(Protocol):
    """What the readers need of a file; short reads are fine, b"" is the end."""

    def read(self, size: int, /) -> bytes | None:
        """Up to `size` bytes."""
        ...


class Input:
    """Reads `file` behind `start`, the bytes that the caller has already read (to recognise its format)."""

    def __init__(self, file: Readable, start: bytes = b"") -> None:
        self._file = file
        self._start = start
        self.offset = 0
        """Bytes read so far, from the start of the file."""
        self.cut = False
        """The end of the file was not the end of what it is compressed from."""

    def read(self, size: int) -> bytes:
        """`size` bytes, or what is left of the file."""
        parts = [self._start[:size]]
        self._start = self._start[size:]
        missing = size - len(parts[0])
        while missing:
            try:
                part = self._file.read(min(missing, _READ_STEP))
            except CutError:
                self.cut = True
                break
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        self.offset += size - missing
        return b"".join(parts)
