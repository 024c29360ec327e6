"""One message ↔ one frame, and a stream → messages."""

from __future__ import annotations

from collections import deque
from typing import Final, cast

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire._schema_v2 import Hello, Message, MessageType, RejectCode, Reply
from pp1wire.wire.agreement import HEADER_BYTES, Agreement
from pp1wire.wire.batch import ReplyBatch
from pp1wire.wire.bodies import Seen
from pp1wire.wire.checksums import Buffer
from pp1wire.wire.encode_rows import encode_replies
from pp1wire.wire.frames import Frame, FrameSplitter, contiguous, truncated
from pp1wire.wire.header import check_header, check_opening, seal
from pp1wire.wire.messages import check_integer, decode_body, pack_body
from pp1wire.wire.reject import RemoteProtocolError, short
from pp1wire.wire.rows import read_rows

__all__ = ["FrameReader", "decode", "decode_frame", "encode", "message_type_of"]

_REPLY: Final = MessageType.REPLY
_ROWS_AT_ONCE: Final = 64
# What waits behind an error in pieces smaller than this is joined: each piece is an object of some hundred bytes.
_SMALL_TAIL: Final = 4096
_TYPES: Final = {cls: MessageType(number) for number, cls in schema.MESSAGE_CLASSES.items()}


def message_type_of(message: Message) -> MessageType:
    """The message type of a message object.

    Raises:
        LocalProtocolError: it is not a message.
    """
    try:
        return _TYPES[type(message)]
    except KeyError:
        raise LocalProtocolError(
            f"expected a message of {', '.join(c.__name__ for c in _TYPES)}, got {short(message)}"
        ) from None


def encode(message: Message, agreement: Agreement | None, sequence: int) -> bytes:
    """`message` as one frame.

    Args:
        message: any message; only a HELLO goes without an agreement.
        agreement: the connection's; None for a HELLO.
        sequence: number of the frame on its connection and direction.

    Raises:
        LocalProtocolError: a field is not legal, by the rules that the receiver will apply.
    """
    message_type = message_type_of(message)
    check_integer("header.sequence", sequence, 8)
    if isinstance(message, Reply):
        return bytes(
            encode_replies(ReplyBatch.from_replies([message], _required(agreement)), _required(agreement), sequence)
        )
    if (agreement is None) != isinstance(message, Hello):
        needs = "goes without an agreement" if isinstance(message, Hello) else "needs the connection's agreement"
        raise LocalProtocolError(f"{message_type.name} {needs}")
    frame = bytearray(HEADER_BYTES) + pack_body(message, message_type)
    identity = {name: getattr(message, name) for name in schema.IDENTITY_FIELDS[message_type]}
    for spec in schema.HEADER_FIELDS:
        if spec.name in identity:
            check_integer(f"header.{spec.name}", identity[spec.name], spec.size)
    seal(frame, message_type, sequence=sequence, agreement_id=agreement.id if agreement else 0, **identity)
    encoded = bytes(frame)
    try:
        decode(encoded, agreement)
    except RemoteProtocolError as error:
        raise LocalProtocolError(
            f"{error.path}: expected {error.expected}, got {error.actual} ({error.code.name.lower()})"
        ) from error
    return encoded


def decode_frame(frame: Frame, agreement: Agreement | None) -> Message:
    """The message in a frame that a `FrameSplitter` returned; its arrays own their bytes.

    Args:
        frame: verified header, unjudged body.
        agreement: the connection's; None for a HELLO.

    Raises:
        RemoteProtocolError: body checksum, structure, canonical form or meaning, in that order.
    """
    if frame.header.message_type is not MessageType.REPLY:
        return decode_body(frame, agreement)
    batch, error = read_rows([frame], _required(agreement))
    if error is not None:
        raise error
    return batch[0]


def decode(data: Buffer, agreement: Agreement | None, sequence: int | None = None) -> Message:
    """The message in `data`, which is exactly one frame.

    Raises:
        RemoteProtocolError: any fault of the frame; TRUNCATED or EXTRA_DATA when it does not fill `data`.
    """
    # A copy of bytes that may change; and an error's traceback holds no view that would stop the caller from resizing them.
    source = data if isinstance(data, bytes) else bytes(memoryview(data))
    del data
    view = memoryview(source)
    if len(view) < HEADER_BYTES:
        check_opening(view[:6], 0)
        raise truncated(0, HEADER_BYTES, len(view))
    header = check_header(view, 0, agreement, sequence)
    size = HEADER_BYTES + header.body_length
    if len(view) < size:
        raise truncated(0, size, len(view))
    message = decode_frame(Frame(header, view[:size], 0, view, 0), agreement)
    if len(view) != size:
        raise RemoteProtocolError(
            RejectCode.EXTRA_DATA, offset=size, path="frame", expected=f"{size} bytes", actual=len(view),
            message_type=header.message_type, identity=header.identity,
        )  # fmt: skip
    return message


def _required(agreement: Agreement | None) -> Agreement:
    if agreement is None:
        raise LocalProtocolError("a REPLY needs the connection's agreement")
    return agreement


class FrameReader:
    """One direction of a connection as messages.

    Args:
        agreement: None to read a HELLO; set `agreement` before feeding what follows it.
        next_sequence: the number the next frame must have; None takes the first frame's.
    """

    def __init__(self, agreement: Agreement | None = None, next_sequence: int | None = None) -> None:
        self._splitter = FrameSplitter(agreement, next_sequence)
        self._outcomes: deque[Message | RemoteProtocolError] = deque()
        self._errors = 0  # among the outcomes
        self._ended = False
        self._input: deque[memoryview] = deque()
        self._seen = Seen()
        self._behind_hello = False  # the input waits for an agreement and the next `feed`

    @property
    def agreement(self) -> Agreement | None:
        """What frames are judged by; None while only a HELLO may come."""
        return self._splitter.agreement

    @agreement.setter
    def agreement(self, agreement: Agreement) -> None:
        self._splitter.agreement = agreement

    def feed(self, data: Buffer) -> list[Message]:
        """Take the next bytes; return the messages that they complete, which own their bytes.

        Beyond the messages it returns, a call holds at most three times the bytes. A message of 100 bytes is an object of some
        hundred, so feed a stream in the pieces that it comes in, not a file of frames in one.

        Raises:
            RemoteProtocolError: if no message came before it; otherwise the next call raises it. One of connection scope is
                raised by every later call; after one of another scope reading goes on behind the frame.
        """
        view = contiguous(data)
        if self._input and len(self._input[-1]) < _SMALL_TAIL:
            view = memoryview(bytes(self._input.pop()) + view)
        if len(view):
            self._input.append(view)
        # See FrameSplitter.feed: a raised error must not hold the caller's buffer.
        del data, view
        self._behind_hello = False
        self._advance()
        outcomes = self._outcomes
        messages: list[Message] = []
        if not self._errors:
            messages.extend(cast("deque[Message]", outcomes))
            outcomes.clear()
        while outcomes:
            outcome = outcomes.popleft()
            if isinstance(outcome, RemoteProtocolError):
                if messages or outcome.scope == "connection":
                    outcomes.appendleft(outcome)
                else:
                    self._errors -= 1
                if messages:
                    break
                raise outcome.with_traceback(None)
            messages.append(outcome)
        return messages

    def _advance(self) -> None:
        """Decode what there is, up to an error: behind one that nobody has seen, bytes are smaller than what they mean."""
        while self._input and not self._errors:
            view, used = self._input.popleft(), 0
            while used < len(view) and not self._errors:
                frames, taken = self._splitter.take(view[used:])
                used += taken
                self._decode(frames)
                if self._splitter.error is not None and not self._ended:
                    self._fail(self._splitter.error)
                if frames and self.agreement is None:
                    break
            if used < len(view):
                self._input.appendleft(view[used:])
                if self.agreement is None:
                    self._behind_hello = True
                    break
        if self._ended:
            self._input.clear()
        if self._input and not isinstance(self._input[-1].obj, bytes):
            # The caller's buffer is its own again; what came before is copied already.
            self._input[-1] = memoryview(bytes(self._input[-1]))

    def close(self) -> None:
        """The stream ends here.

        Raises:
            RemoteProtocolError: an error not raised yet, or TRUNCATED if a frame is cut.
        """
        if not self._behind_hello:
            self._advance()
        for outcome in self._outcomes:
            if isinstance(outcome, RemoteProtocolError):
                raise outcome.with_traceback(None)
        self._splitter.close()
        if self._input:  # behind a HELLO that nobody answered
            raise truncated(self._splitter.offset, HEADER_BYTES, sum(map(len, self._input)))

    def _decode(self, frames: list[Frame]) -> None:
        rows: list[Frame] = []
        agreement, seen, outcomes = self.agreement, self._seen, self._outcomes
        for frame in frames:
            is_row = frame.header.message_type is _REPLY
            if is_row:
                rows.append(frame)
            if rows and (len(rows) == _ROWS_AT_ONCE or not is_row):
                self._decode_rows(rows)
                rows = []
            if not is_row:
                try:
                    outcomes.append(decode_body(frame, agreement, seen))
                except RemoteProtocolError as error:
                    self._fail(error)
            if self._ended:
                return
        if rows:
            self._decode_rows(rows)

    def _decode_rows(self, frames: list[Frame]) -> None:
        batch, error = read_rows(frames, _required(self.agreement))
        self._outcomes.extend(batch[i] for i in range(len(batch)))
        if error is not None:
            self._fail(error)
            # One by one from here: judged together again and again, many bad rows would cost the square of their number.
            for frame in frames[len(batch) + 1 :]:
                self._decode_rows([frame])

    def _fail(self, error: RemoteProtocolError) -> None:
        self._errors += 1
        self._outcomes.append(error.with_traceback(None))
        self._ended = error.scope == "connection"
