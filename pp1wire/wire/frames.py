"""Bytes as they come → whole frames with a verified header; linear in the bytes, bounded by the agreement."""

from __future__ import annotations

from dataclasses import dataclass

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import RejectCode
from pp1wire.wire.agreement import Agreement
from pp1wire.wire.header import HEADER_BYTES, Header, check_header, check_opening
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["Frame", "FrameSplitter", "truncated"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame: verified header, unjudged body."""

    header: Header
    data: memoryview
    """Header and body. It may lie in the caller's buffer, so it is valid until that buffer changes."""
    offset: int
    """Bytes from the start of the stream to the frame."""
    source: memoryview
    """The buffer that `data` lies in."""
    start: int
    """Where in `source` it begins: neighbours in one buffer can be judged together."""


class FrameSplitter:
    """Splits one direction of a connection into frames.

    Args:
        agreement: None while only a HELLO may come; set `agreement` before feeding what follows the HELLO.
        next_sequence: the number the next frame must have; None takes the first frame's (for streams joined midway).
        offset: bytes of the stream before the first that will be fed.
    """

    def __init__(self, agreement: Agreement | None, next_sequence: int | None = None, offset: int = 0) -> None:
        self.agreement = agreement
        self.next_sequence = next_sequence
        self.offset = offset
        """Stream offset of the first byte that is not yet part of a returned frame."""
        self.error: RemoteProtocolError | None = None
        """What ended the stream; every later `feed` raises it."""
        self._pending = bytearray()
        self._needed = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame that is not whole yet."""
        return len(self._pending)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Take the next bytes of the stream; return the frames they complete.

        While `agreement` is None a call returns at most one frame: what follows a HELLO waits for the agreement that bounds it.

        Raises:
            RemoteProtocolError: of connection scope, if no frame came before it; otherwise it is kept in `error`
                and raised by the next call. Nothing is delivered after it.
            LocalProtocolError: `data` is not contiguous.
        """
        if self.error is not None:
            del data
            self._raise_error()
        view = _bytes_of(data)
        if self._pending:
            self._pending += view
            if len(self._pending) < self._needed:
                return []
            # Frames view bytes that nobody can change, so that arrays decoded from them need no copy.
            view = memoryview(bytes(self._pending))
            frames, used = self._split(view)
            if used or self.error is not None:
                self._pending = bytearray()
                self._pending = self._rest(view, used)
        else:
            frames, used = self._split(view)
            self._pending = self._rest(view, used)
        # A traceback would keep what this function names, and with it an export that stops the caller from resizing its buffer.
        del data, view
        if not frames:
            self._raise_error()
        return frames

    def close(self) -> None:
        """The stream ends here.

        Raises:
            RemoteProtocolError: the error met before, or TRUNCATED if a frame is cut.
        """
        self._raise_error()
        if self._pending:
            raise truncated(self.offset, max(self._needed, HEADER_BYTES), len(self._pending))

    def _rest(self, view: memoryview, used: int) -> bytearray:
        return bytearray() if self.error is not None else bytearray(view[used:])

    def _raise_error(self) -> None:
        if self.error is not None:
            # Without the traceback of the time before, which would grow with every call.
            raise self.error.with_traceback(None)

    def _split(self, view: memoryview) -> tuple[list[Frame], int]:
        frames: list[Frame] = []
        position, size = 0, len(view)
        try:
            while position < size:
                if size - position < HEADER_BYTES:
                    check_opening(view[position : position + 6], self.offset)
                    # Another protocol is told at its first wrong byte, however its bytes are split.
                    self._needed = HEADER_BYTES if size - position >= 6 else size - position + 1
                    break
                opening = view[position : position + HEADER_BYTES]
                header = check_header(opening, self.offset, self.agreement, self.next_sequence)
                length = HEADER_BYTES + header.body_length
                if size - position < length:
                    self._needed = length
                    break
                frames.append(Frame(header, view[position : position + length], self.offset, view, position))
                self.next_sequence = header.sequence + 1
                self.offset += length
                position += length
                if self.agreement is None:
                    self._needed = 0
                    break
        except RemoteProtocolError as error:
            self.error = error.with_traceback(None)
        return frames, position


def truncated(offset: int, needed: int, held: int) -> RemoteProtocolError:
    """The reject of a stream that ends `held` bytes into the frame at `offset`, which has `needed`."""
    return RemoteProtocolError(
        RejectCode.TRUNCATED,
        offset=offset + held,
        path="frame",
        expected=f"{needed} bytes of the frame at byte {offset}",
        actual=held,
    )


def _bytes_of(data: bytes | bytearray | memoryview) -> memoryview:
    view = memoryview(data)
    if not view.c_contiguous:
        raise LocalProtocolError(f"data: expected contiguous bytes, got a view with strides {view.strides}")
    return view.cast("B")
