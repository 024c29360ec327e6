"""Frames of a stream that nobody has agreed on: found by their verified headers, past whatever is not PP1.

A header is believed when its magic, version, message type and 64-bit checksum are right; only then is its length. This
is how reading goes on behind a gap, how a stream joined midway is read, and how `show` reads everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from pp1wire.wire import Agreement, Frame, Header, MessageType, RejectCode, RemoteProtocolError, Representation
from pp1wire.wire._schema_v2 import HEADER_STRUCT, MAGIC, MAX_DEPTH, MAX_PREFIX, MAX_SLOTS, MAX_VOCAB
from pp1wire.wire.header import HEADER_BYTES, check_header

__all__ = ["LONGEST_BODY", "FrameScanner", "Scanned", "Undecoded"]

LONGEST_BODY: Final = Agreement(
    id=0,
    representation=Representation.SPARSE,
    vocab_size=MAX_VOCAB,
    padded_vocab_size=MAX_VOCAB,
    max_slots=MAX_SLOTS,
    max_depth=MAX_DEPTH,
    max_support=MAX_VOCAB,
    max_prefix=MAX_PREFIX,
).longest_body
"""Bytes of the longest body that any agreement allows: what a scanner holds at most, and a header."""

_UNVERIFIED: Final = frozenset(
    {
        RejectCode.BAD_MAGIC,
        RejectCode.UNSUPPORTED_VERSION,
        RejectCode.HEADER_CHECKSUM_MISMATCH,
        RejectCode.UNKNOWN_MESSAGE_TYPE,
    }
)
_SHOWN: Final = 16


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Bytes that no verified header accounts for.

    Attributes:
        offset, length: where, in bytes of the stream.
        start: the first of them, at most 16.
        error: what is wrong with the header that was due there; None where none was due (behind a gap) or it is cut.
    """

    offset: int
    length: int
    start: bytes
    error: RemoteProtocolError | None


Scanned: TypeAlias = Frame | Undecoded


class FrameScanner:
    """Splits one direction into frames and what lies between them. Linear in the bytes; holds at most one frame.

    Args:
        offset: stream offset of the first byte that will be fed.
        synced: whether a frame is due there.
    """

    def __init__(self, offset: int = 0, *, synced: bool = True) -> None:
        self._pending: bytes | bytearray = b""
        self._at = offset  # of the first pending byte
        self._needed = 0
        self._lost_at = offset  # everything from here to `_at` is undecoded, while not synced
        self._lost_start = b""
        self._lost_error: RemoteProtocolError | None = None
        self._synced = synced

    @property
    def held(self) -> int:
        """Bytes held of a frame that is not whole yet."""
        return len(self._pending)

    @property
    def untold(self) -> int:
        """Bytes fed of which nothing has been returned yet."""
        return len(self._pending) + (0 if self._synced else self._at - self._lost_at)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Scanned]:
        """Take the next bytes; frames own theirs."""
        if self._pending and len(self._pending) + len(data) < self._needed:
            # Joined once the frame is whole, by a bytearray that grows in place.
            self._pending = self._grow(data)
            return []
        buffer = bytes(self._grow(data)) if self._pending else bytes(data)
        found: list[Scanned] = []
        position = self._scan(buffer, found)
        self._pending = buffer[position:]
        return found

    def skip(self, length: int) -> list[Scanned]:
        """The next `length` bytes are missing: the frame that they belong to is lost, and none is due behind them."""
        found = self.close()
        self._at += length
        self._lose(None)
        return found

    def close(self) -> list[Scanned]:
        """The stream ends: what is left is a frame that is cut, or what no header accounts for."""
        found: list[Scanned] = []
        rest = bytes(self._pending)
        if self._synced and rest:
            self._lose(None)
        self._pass_over(rest)
        self._find_again(found)
        self._pending, self._needed = b"", 0
        return found

    def _grow(self, data: bytes | bytearray | memoryview) -> bytearray:
        grown = self._pending if isinstance(self._pending, bytearray) else bytearray(self._pending)
        grown += data
        return grown

    def _scan(self, buffer: bytes, found: list[Scanned]) -> int:
        """Everything that `buffer` settles; returns how much of it that used."""
        position, size = 0, len(buffer)
        while position < size:
            if not self._synced:
                start = buffer.find(MAGIC, position)
                if start < 0:
                    start = max(position, size - len(MAGIC) + 1)  # the magic may be cut
                self._pass_over(buffer[position:start])
                position = start
            if size - position < HEADER_BYTES:
                self._needed = HEADER_BYTES
                break
            header = self._header(buffer[position : position + HEADER_BYTES])
            if isinstance(header, Header):
                self._find_again(found)
                length = HEADER_BYTES + header.body_length
                if size - position < length:
                    self._needed = length
                    break
                data = memoryview(buffer[position : position + length])
                found.append(Frame(header, data, self._at, data, 0))
                position += length
                self._at += length
                continue
            if self._synced:
                self._lose(header)
            self._pass_over(buffer[position : position + 1])
            position += 1
        return position

    def _header(self, opening: bytes) -> Header | RemoteProtocolError:
        try:
            return check_header(opening, self._at, None, None)
        except RemoteProtocolError as error:
            if error.code in _UNVERIFIED:
                return error.with_traceback(None)
        # Verified; what else the judge of an offer said of it needs an agreement to be true.
        _, _, kind, _, sequence, length, slot, _, agreement, session, generation, round_, body_sum, _ = (
            HEADER_STRUCT.unpack(opening)
        )
        if length > LONGEST_BODY:
            return RemoteProtocolError(
                RejectCode.OVERSIZED_BODY,
                offset=self._at + 16,
                path="header.body_length",
                expected=f"at most {LONGEST_BODY}",
                actual=length,
            )
        return Header(MessageType(kind), sequence, length, slot, agreement, session, generation, round_, body_sum)

    def _lose(self, error: RemoteProtocolError | None) -> None:
        """No frame begins here: look for the next header."""
        self._synced, self._lost_at, self._lost_start, self._lost_error = False, self._at, b"", error

    def _pass_over(self, data: bytes) -> None:
        if len(self._lost_start) < _SHOWN:
            self._lost_start = (self._lost_start + data[:_SHOWN])[:_SHOWN]
        self._at += len(data)

    def _find_again(self, found: list[Scanned]) -> None:
        if not self._synced and self._at > self._lost_at:
            found.append(Undecoded(self._lost_at, self._at - self._lost_at, self._lost_start, self._lost_error))
        self._synced = True
