"""What kind of file it is, by its first bytes; and files that say how far they were read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pp1wire.capture._input import CutError
from pp1wire.capture.compressed import COMPRESSED, Unpacked
from pp1wire.capture.pcap import PCAP_MAGICS, PcapReader
from pp1wire.capture.pcapng import SECTION_HEADER, CapturedPacket, CaptureError, PcapngReader, Readable, Truncated
from pp1wire.capture.remote import RemoteFile, is_url
from pp1wire.wire._schema_v2 import MAGIC

__all__ = [
    "SNIFFED_BYTES",
    "TLS_ADVICE",
    "TLS_TELLING_BYTES",
    "CountingFile",
    "Kind",
    "Progress",
    "Source",
    "is_tls",
    "open_path",
    "open_source",
    "sniff",
    "standard_input",
]

SNIFFED_BYTES: Final = 4

Progress = Callable[[str, int], None]
"""Called now and then with a file's name and how many of its bytes have been read."""

TLS_ADVICE: Final = "record inside it with tap= of a pp1wire.net endpoint (docs/deployment.md)"
"""What to do about TLS: whoever looks from outside sees ciphertext."""

_TLS_HANDSHAKE: Final = b"\x16\x03"  # RFC 8446, section 5.1: content type handshake, legacy version 3.x
TLS_TELLING_BYTES: Final = len(_TLS_HANDSHAKE)
"""How many of a stream's first bytes tell that it is TLS."""

_TELL_EVERY = 4 << 20


class Kind(StrEnum):
    """Kinds of file that are read."""

    PCAPNG = "pcapng"
    PCAP = "pcap"
    STREAM = "stream"
    """The bytes of one direction of one connection."""


def is_tls(head: bytes | bytearray | memoryview) -> bool:
    """Whether a stream that begins with these bytes is TLS: a handshake record (`TLS_TELLING_BYTES` are enough)."""
    return bytes(head[: len(_TLS_HANDSHAKE)]) == _TLS_HANDSHAKE


def sniff(head: bytes) -> Kind:
    """The kind of a file that begins with these bytes (at least `SNIFFED_BYTES`, or all there are).

    Raises `CaptureError` where it is none that is read; the message says what to do.
    """
    if head[: len(SECTION_HEADER)] == SECTION_HEADER:
        return Kind.PCAPNG
    if head[:4] in PCAP_MAGICS:
        return Kind.PCAP
    if head[: len(MAGIC)] == MAGIC:
        return Kind.STREAM
    expected = "expected pcapng, pcap or a PP1 stream"
    if not head:
        raise CaptureError(0, f"{expected}, got an empty file")
    if (kind := _compression(head)) is not None:
        raise CaptureError(0, f"{expected}, got {kind} inside a compressed file; unpack it first")
    if is_tls(head):
        raise CaptureError(0, f"{expected}, got TLS; {TLS_ADVICE}")
    magics = [SECTION_HEADER.hex(), *(magic.hex() for magic in PCAP_MAGICS), MAGIC.hex()]
    raise CaptureError(0, f"{expected} ({', '.join(magics)}), got {head[:4].hex()}")


def _compression(head: bytes) -> str | None:
    return next((kind for kind, magic in COMPRESSED.items() if head.startswith(magic)), None)


def standard_input() -> Readable:
    """The standard input, as bytes. Raises `CaptureError` where the program was started with it closed."""
    if sys.stdin is None:
        raise CaptureError(0, "cannot read -: the standard input is closed")
    return sys.stdin.buffer


def open_path(name: str) -> BinaryIO | RemoteFile:
    """Open a file, or what a URL names by fsspec; to be used by `with`.

    Raises `OSError` where it cannot be opened, for a reason that holds no secret of the URL.
    """
    return RemoteFile(name) if is_url(name) else Path(name).open("rb")


class CountingFile:
    """A file that tells how far it was read, and turns read errors into `CaptureError`s.

    Args:
        file: binary file or pipe.
        name: what `progress` is told.
        progress: see `Progress`; None for nobody.
    """

    def __init__(self, file: Readable, name: str, progress: Progress | None = None) -> None:
        # What a pipe has is taken as it comes: to wait for more would hold back what is there.
        self._read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
        self._name = name
        self._progress = progress
        self._told = 0
        self.count = 0
        """Bytes read."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        try:
            data = self._read(size) or b""
        except OSError as error:
            raise CaptureError(self.count, f"cannot read: {error.strerror or error}") from error
        self.count += len(data)
        if self._progress is not None and self.count - self._told >= _TELL_EVERY:
            self._told = self.count
            self._progress(self._name, self.count)
        return data

    def read_fully(self, size: int) -> bytes:
        """`size` bytes, or all that are left."""
        parts: list[bytes] = []
        try:
            while size and (part := self.read(size)):
                parts.append(part)
                size -= len(part)
        except CutError:
            if not parts:
                raise
        return b"".join(parts)


class Source(NamedTuple):
    """A file whose kind is known."""

    kind: Kind
    start: bytes
    """Its first bytes."""
    file: CountingFile
    """What follows `start`, unpacked."""

    def packets(self) -> Iterable[CapturedPacket | Truncated]:
        """The reader of a capture's packets."""
        reader = PcapReader if self.kind is Kind.PCAP else PcapngReader
        return reader(self.file, start=self.start)


def open_source(file: CountingFile, name: str) -> Source:
    """Recognise a file by its first bytes; gzip and zstd files are unpacked while they are read.

    Raises `CaptureError` as `sniff`, and where a compressed file is damaged or cut before its first bytes are known.
    """
    head = file.read_fully(SNIFFED_BYTES)
    kind = _compression(head)
    if kind is not None:
        file = CountingFile(Unpacked(file, head, kind), name)
        head = file.read_fully(SNIFFED_BYTES)
    return Source(sniff(head), head, file)
