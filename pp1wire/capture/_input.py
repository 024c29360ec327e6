"""Bytes of a file or pipe, forwards only."""

from __future__ import annotations

from typing import Protocol

from pp1wire.errors import PP1Error

__all__ = ["CaptureError", "CutError", "Input", "Readable"]

_READ_STEP = 1 << 18


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
        self._ahead = start  # read, but not yet asked for
        self._used = 0
        self.offset = 0
        """Bytes handed out so far, from the start of the file."""
        self.cut = False
        """The end of the file was not the end of what it is compressed from."""

    @property
    def ahead(self) -> tuple[bytes, int]:
        """What was read ahead, and where in it the next byte is."""
        return self._ahead, self._used

    def skip(self, size: int) -> None:
        """Pass over bytes that were read ahead."""
        self._used += size
        self.offset += size

    def read(self, size: int) -> bytes:
        """`size` bytes, or what is left of the file."""
        begin, end = self._used, self._used + size
        if end > len(self._ahead):
            self._read_ahead(size)
            begin, end = 0, size
        # A copy, so that who keeps a small packet does not keep all that was read with it.
        data = self._ahead[begin:end]
        self._used = end
        self.offset += len(data)
        return data

    def _read_ahead(self, size: int) -> None:
        """Have `size` bytes ready at the start of what was read, or what is left of the file."""
        parts = [self._ahead[self._used :]]
        missing = size - len(parts[0])
        while missing > 0:
            try:
                # What a length claims may not be there, so memory grows with the bytes that really come.
                part = self._file.read(_READ_STEP)
            except CutError:
                self.cut = True
                break
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        self._ahead, self._used = b"".join(parts), 0
