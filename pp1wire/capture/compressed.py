"""gzip and zstd files, unpacked as they are read.

Source: RFC 1952 (gzip), RFC 8878 (Zstandard). A file may hold several members (or frames) behind each other. What is
held at a time does not depend on what a file claims: output comes in pieces of bounded size, and a zstd window is at
most `MAX_WINDOW` bytes.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from pp1wire.capture._input import CaptureError, CutError, Readable

if TYPE_CHECKING:
    from backports import zstd

__all__ = ["COMPRESSED", "MAX_WINDOW", "Unpacked"]

MAX_WINDOW: Final = 1 << 25
"""Bytes that a zstd frame may refer back to: enough for every level below 21."""

_STEP = 1 << 16  # input held; also the most output of one read
COMPRESSED: Final = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""The first bytes of each kind of file that is unpacked."""


class _Decoder(Protocol):
    """Of one member."""

    eof: bool
    """Whether the member is over."""
    rest: bytes
    """Input that was not used."""

    def unpack(self, data: bytes, limit: int) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.eof = False
        self.rest = b""

    def unpack(self, data: bytes, limit: int) -> bytes:
        unpacked = self._zlib.decompress(data, limit)
        self.eof = self._zlib.eof
        self.rest = self._zlib.unused_data if self.eof else self._zlib.unconsumed_tail
        return unpacked


class _Zstd:
    def __init__(self, decompressor: zstd.ZstdDecompressor) -> None:
        self._zstd = decompressor
        self.eof = False
        self.rest = b""

    def unpack(self, data: bytes, limit: int) -> bytes:
        unpacked = self._zstd.decompress(data, limit)
        self.eof = self._zstd.eof
        self.rest = self._zstd.unused_data if self.eof else b""
        return unpacked


def _zstd() -> tuple[Callable[[], _Decoder], type[Exception]]:
    """How to begin a frame, and what a damaged one raises."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise CaptureError(0, "zstd: install pp1wire[zstd], or unpack it first") from None
    options = {int(zstd.DecompressionParameter.window_log_max): MAX_WINDOW.bit_length() - 1}
    return lambda: _Zstd(zstd.ZstdDecompressor(options=options)), zstd.ZstdError


class Unpacked:
    """Reads what a compressed file holds.

    Args:
        file: binary file or pipe, behind `start`.
        start: its first bytes, of which `COMPRESSED` tells the kind.
        kind: "gzip" or "zstd".

    Raises `CutError` where the file ends inside a member, and `CaptureError` where it is damaged, once everything
    before has been read; of a damaged file, up to the last `read` that had no fault.
    """

    def __init__(self, file: Readable, start: bytes, kind: str) -> None:
        self._file = file
        self._kind = kind
        self._input = start
        self._taken = len(start)
        self._begin: Callable[[], _Decoder]
        self._begin, self._error = (_Gzip, zlib.error) if kind == "gzip" else _zstd()
        self._decoder: _Decoder | None = None
        self._starving = True  # the decoder has nothing left to unpack

    def read(self, size: int, /) -> bytes:
        """Between 1 and `size` bytes; b"" at the end."""
        limit = min(size, _STEP)
        while True:
            if self._starving and not self._input and not self._refill():
                if self._decoder is not None:
                    raise CutError(self._taken, f"the {self._kind} file ends too early")
                return b""
            if self._decoder is None:
                # Tapes and block devices pad gzip files with zeros.
                self._input = self._input.lstrip(b"\0") if self._kind == "gzip" else self._input
                if not self._input:
                    continue
                self._decoder = self._begin()
            data, self._input = self._input, b""
            try:
                unpacked = self._decoder.unpack(data, limit)
            except self._error as error:
                raise CaptureError(self._taken, f"cannot unpack {self._kind}: {error}") from error
            self._input = self._decoder.rest
            # A full piece of output may not be all that the input gives.
            self._starving = len(unpacked) < limit or self._decoder.eof
            if self._decoder.eof:
                self._decoder = None
            if unpacked:
                return unpacked

    def _refill(self) -> bool:
        self._input = self._file.read(_STEP) or b""
        self._taken += len(self._input)
        return bool(self._input)
