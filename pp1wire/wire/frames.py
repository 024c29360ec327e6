"""Bytes as they come → whole frames with a verified header; linear in the bytes, bounded by the agreement."""

from __future__ import annotations

from typing import Final, NamedTuple

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import RejectCode
from pp1wire.wire.agreement import Agreement
from pp1wire.wire.checksums import body_checksum
from pp1wire.wire.header import HEADER_BYTES, Header, check_header, check_opening
from pp1wire.wire.reject import MESSAGE_NAMES, RemoteProtocolError

__all__ = ["Frame", "FrameSplitter", "check_body_checksum", "contiguous", "fault_in", "truncated"]


# Frames of 100 bytes take several times that as objects, so no more of them than this exist at a time.
_AT_ONCE: Final = 256


class Frame(NamedTuple):
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
        self._behind_hello = b""

    @property
    def pending_bytes(self) -> int:
        """Bytes held of a frame that is not whole yet, or of what follows a HELLO."""
        return len(self._pending) + len(self._behind_hello)

    @property
    def held(self) -> bytes:
        """The bytes of the frame that is not whole yet."""
        return bytes(self._pending)

    def pass_over(self, size: int, next_sequence: int | None, rest: bytes) -> None:
        """The whole frames in the `size` bytes from the frame in progress on are judged already; `rest` begins the next one."""
        self.offset += size
        self.next_sequence = next_sequence
        self._split(memoryview(rest))
        self._pending = bytearray(rest)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """Take the next bytes of the stream; return the frames they complete.

        While `agreement` is None a call returns at most one frame: what follows a HELLO waits for the agreement that bounds it.

        Raises:
            RemoteProtocolError: of connection scope, if no frame came before it; otherwise it is kept in `error`
                and raised by the next call. Nothing is delivered after it.
            LocalProtocolError: `data` is not contiguous.
        """
        view, frames, used = contiguous(data), list[Frame](), 0
        if self._behind_hello:
            view, self._behind_hello = memoryview(self._behind_hello + view), b""
        while used < len(view) and self.error is None and not (frames and self.agreement is None):
            some, taken = self.take(view[used:])
            frames += some
            used += taken
        if self.error is None:
            self._behind_hello = bytes(view[used:])
            if self._behind_hello:
                self._needed = HEADER_BYTES
        # A traceback would keep what this function names, and with it an export that stops the caller from resizing its buffer.
        del data, view
        if not frames:
            self._raise_error()
        return frames

    def behind_hello(self) -> bytes:
        """The bytes that waited behind a HELLO, which are the caller's from now on."""
        waiting, self._behind_hello = self._behind_hello, b""
        return waiting

    def take(self, view: memoryview) -> tuple[list[Frame], int]:
        """The first frames of the next bytes, not more than are cheap to hold as objects, and how many of the bytes that used.

        What ends the stream is left in `error`, and raised by the next `feed` or `close`.
        """
        if self._pending:
            return self._complete(view)
        frames, used, more = self._split(view)
        if not more:
            self._pending = bytearray(view[used:])
            used = len(view)
        return frames, used

    def _complete(self, view: memoryview) -> tuple[list[Frame], int]:
        """The frame that waits for its end, if it is among the next bytes."""
        used = 0
        while used < len(view):
            missing = self._needed - len(self._pending)
            self._pending += view[used : used + missing]
            used = min(used + missing, len(view))
            if len(self._pending) == self._needed:
                # Frames view bytes that nobody can change, so that arrays decoded from them need no copy.
                frames, _, _ = self._split(memoryview(bytes(self._pending)))
                if frames or self.error is not None:
                    self._pending = bytearray()
                    return frames, used
        return [], used

    def close(self) -> None:
        """The stream ends here.

        Raises:
            RemoteProtocolError: the error met before, or TRUNCATED if a frame is cut.
        """
        self._raise_error()
        if self.pending_bytes:
            raise truncated(self.offset, max(self._needed, HEADER_BYTES), self.pending_bytes)

    def _raise_error(self) -> None:
        if self.error is not None:
            # Without the traceback of the time before, which would grow with every call.
            raise self.error.with_traceback(None)

    def _split(self, view: memoryview) -> tuple[list[Frame], int, bool]:
        """Frames at the start of `view`, how many bytes they are, and whether what follows is not known to be part of one."""
        frames: list[Frame] = []
        position, size = 0, len(view)
        try:
            while position < size:
                if len(frames) == _AT_ONCE or (frames and self.agreement is None):
                    return frames, position, True
                if size - position < HEADER_BYTES:
                    check_opening(view[position : position + 6], self.offset)
                    # Another protocol is told at its first wrong byte, however its bytes are split.
                    self._needed = HEADER_BYTES if size - position >= 6 else size - position + 1
                    break
                header = check_header(view, self.offset, self.agreement, self.next_sequence, start=position)
                length = HEADER_BYTES + header.body_length
                if size - position < length:
                    self._needed = length
                    break
                frames.append(Frame(header, view[position : position + length], self.offset, view, position))
                self.next_sequence = header.sequence + 1
                self.offset += length
                position += length
        except RemoteProtocolError as error:
            self.error = error.with_traceback(None)
            position = size
        return frames, position, False


def fault_in(
    frame: Frame, code: RejectCode, at: int, name: str, expected: object, actual: object
) -> RemoteProtocolError:
    """The reject of body field `name`, `at` bytes into the body of `frame`."""
    header = frame.header
    return RemoteProtocolError(
        code,
        frame.offset + HEADER_BYTES + at,
        f"{MESSAGE_NAMES[header.message_type]}.{name}",
        expected,
        actual,
        header.message_type,
        header.identity,
    )


def check_body_checksum(frame: Frame) -> None:
    """Raise BODY_CHECKSUM_MISMATCH unless the body is what its sender hashed, under the identity it was sent with."""
    actual = body_checksum(frame.data)
    if actual != frame.header.body_checksum:
        raise RemoteProtocolError(
            RejectCode.BODY_CHECKSUM_MISMATCH,
            offset=frame.offset + 48,
            path="header.body_checksum",
            expected=actual,
            actual=frame.header.body_checksum,
            message_type=frame.header.message_type,
            identity=frame.header.identity,
        )


def truncated(offset: int, needed: int, held: int) -> RemoteProtocolError:
    """The reject of a stream that ends `held` bytes into the frame at `offset`, which has `needed`."""
    return RemoteProtocolError(
        RejectCode.TRUNCATED,
        offset=offset + held,
        path="frame",
        expected=f"{needed} bytes of the frame at byte {offset}",
        actual=held,
    )


def contiguous(data: bytes | bytearray | memoryview) -> memoryview:
    """`data` as bytes, without a copy; LocalProtocolError unless it is contiguous."""
    view = memoryview(data)
    if not view.c_contiguous:
        raise LocalProtocolError(f"data: expected contiguous bytes, got a view with strides {view.strides}")
    return view.cast("B")
