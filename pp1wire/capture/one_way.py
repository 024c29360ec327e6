"""Judging one direction without the other: a raw stream, or what is left of a connection behind a gap.

The rules are those of `pp1wire.wire` and `pp1wire.protocol`, called one frame at a time. A verifier's messages that begin
with its offer show the whole state of their sessions, so they are judged as the worker would; all others frame by frame:
header, checksums, canonical form, and what one message shows by itself. Freshness, tickets and COMPLETIONs need both
directions and are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from pp1wire.capture.layout import Layout, inferred_agreements
from pp1wire.capture.places import Walk
from pp1wire.capture.scanner import FrameScanner, Undecoded
from pp1wire.protocol import Conversation, Counters, Direction, Judged
from pp1wire.protocol.session import Sessions
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.protocol.worker_messages import WorkerMessages
from pp1wire.wire import (
    Agreement,
    Frame,
    Hello,
    HelloRole,
    MessageType,
    RejectCode,
    RemoteProtocolError,
    decode_frame,
    read_rows,
)
from pp1wire.wire._schema_v2 import DIRECTIONS, MAGIC
from pp1wire.wire.agreement import fixed_body_bytes
from pp1wire.wire.frames import check_body_checksum
from pp1wire.wire.header import HEADER_BYTES, check_header, check_opening

__all__ = ["HELLO_FRAME_BYTES", "OneWay", "Outcome", "Resumed", "UnjudgedFrame"]

HELLO_FRAME_BYTES: Final = HEADER_BYTES + fixed_body_bytes(MessageType.HELLO)

_AGREEMENT_ID: Final = slice(24, 32)  # in the header
_OWN: Final = {"verifier_to_worker": Direction.VERIFIER, "worker_to_verifier": Direction.WORKER}


@dataclass(frozen=True, slots=True)
class UnjudgedFrame:
    """A frame whose header and checksums are right, and whose layout is not known."""

    offset: int
    message_type: MessageType


@dataclass(frozen=True, slots=True)
class Resumed:
    """The first verified header behind a gap."""

    offset: int


Outcome: TypeAlias = Judged | UnjudgedFrame | Resumed


class OneWay:
    """Judges the bytes of one direction.

    Args:
        direction: who sent them; None leaves it to the first frame (a verdict before one names the verifier).
        offset: stream offset of the first byte that will be fed.
        synced: whether a frame is due there.
        agreement: the connection's, if it is known.
        hello: a HELLO of the connection that came before; the verifier's own, directly before, lets its sessions be followed.
        next_sequence: number of the frame that is due; None takes any.
    """

    def __init__(
        self,
        direction: Direction | None = None,
        *,
        offset: int = 0,
        synced: bool = True,
        agreement: Agreement | None = None,
        hello: Hello | None = None,
        next_sequence: int | None = None,
    ) -> None:
        self.direction = direction
        self.counters = Counters()
        """Of the sessions, where they can be followed."""
        self.unjudged_bytes = 0
        """Bytes behind a fault that ended the stream, and those that no verified header accounts for."""
        self._synced = synced
        self._agreement = agreement
        self._layout = Layout(agreement, hello)
        self._next_sequence = next_sequence
        self._scanner = FrameScanner(offset, synced=synced)
        self._position = offset
        self._over = False  # a fault of connection scope ends the judging, as it ends a connection
        follows = direction is Direction.VERIFIER and hello is not None and hello.role is HelloRole.OFFER
        self._offer = hello if follows and synced and offset == HELLO_FRAME_BYTES else None
        self._sessions: _Sessions | None = None
        self._opening = offset == 0 and synced

    @property
    def held(self) -> int:
        """Bytes held of a frame that is not whole yet."""
        return self._scanner.held if self._sessions is None else self._sessions.held

    @property
    def follows_sessions(self) -> bool:
        """Whether rounds are followed, and counted in `counters`."""
        return self._sessions is not None

    def learn(self, hello: Hello) -> None:
        """A HELLO of the connection, where none was known."""
        if self._layout.is_unknown:
            self._layout = Layout(hello=hello)

    def feed(self, data: bytes | memoryview) -> list[Outcome]:
        """Take the next bytes; everything that they settle, in order."""
        outcomes: list[Outcome] = []
        if self._opening and self._position < HELLO_FRAME_BYTES:
            # Up to the end of a HELLO alone, so that the sessions behind it begin at its end.
            cut = HELLO_FRAME_BYTES - self._position
            outcomes += self._feed(data[:cut])
            data = data[cut:]
        return outcomes + self._feed(data)

    def skip(self, length: int) -> list[Outcome]:
        """The next `length` bytes are missing: the sessions cannot be followed any further."""
        if self._over:
            return []
        if self._sessions is not None:
            self._leave_sessions()
        outcomes = self._take(self._scanner.skip(length), cut_is_error=False)
        self._position += length
        self._synced = False
        self._offer, self._opening, self._next_sequence = None, False, None
        return outcomes

    def close(self) -> list[Outcome]:
        """The stream ends here: a frame that is cut is a fault."""
        if self._over:
            self.unjudged_bytes += 0 if self._sessions is not None else self._scanner.held
            return []
        if self._sessions is not None:
            return list(self._sessions.close())
        return self._take(self._scanner.close(), cut_is_error=True)

    def _feed(self, data: bytes | memoryview) -> list[Outcome]:
        if not len(data):
            return []
        if self._over:
            self.unjudged_bytes += len(data)
            return []
        if self._offer is not None and self._sessions is None:
            self._sessions = _Sessions(self._offer, self._agreement, self._position)
        self._position += len(data)
        if self._sessions is None:
            return self._take(self._scanner.feed(data), cut_is_error=False)
        verdicts = self._sessions.feed(data)
        if verdicts and (error := verdicts[-1].error) is not None:
            self._over = True
            self.unjudged_bytes += self._position - error.offset
        self.counters = self._sessions.counters
        return list(verdicts)

    def _leave_sessions(self) -> None:
        if self._sessions is not None:
            self._agreement = self._sessions.agreement or self._agreement
            self._layout = Layout(self._agreement)
            self._sessions = None
        self._scanner = FrameScanner(self._position, synced=False)

    def _take(self, found: list[Frame | Undecoded], *, cut_is_error: bool) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for item in found:
            if self._over:
                self.unjudged_bytes += item.length if isinstance(item, Undecoded) else len(item.data)
                continue
            if isinstance(item, Undecoded):
                self.unjudged_bytes += item.length
                outcomes += self._undecoded(item, cut_is_error)
                continue
            if not self._synced:
                self._synced = True
                outcomes.append(Resumed(item.offset))
            outcomes += self._judge(item)
        return outcomes

    def _undecoded(self, item: Undecoded, cut_is_error: bool) -> Iterator[Outcome]:
        was_synced, self._synced, self._next_sequence = self._synced, False, None
        if not was_synced:
            return
        error = item.error
        if error is None and cut_is_error:
            error = RemoteProtocolError(
                RejectCode.TRUNCATED,
                offset=item.offset + item.length,
                path="frame",
                expected=f"the whole frame at byte {item.offset}",
                actual=f"{item.length} bytes",
            )
        if error is not None:
            self._over = True
            yield Judged(self.direction or Direction.VERIFIER, item.offset, error=error)

    def _judge(self, frame: Frame) -> list[Outcome]:
        header = frame.header
        if self.direction is None:
            self.direction = self._sender(frame)
        direction = self.direction
        is_hello = header.message_type is MessageType.HELLO
        agreement = None if is_hello else self._layout.of(frame)
        try:
            if agreement is None and not is_hello:
                check_body_checksum(frame)
                return [UnjudgedFrame(frame.offset, header.message_type)]
            expected = (0 if frame.offset == 0 else None) if is_hello else self._next_sequence
            check_header(frame.data, frame.offset, agreement, expected)
            self._next_sequence = header.sequence + 1
            if agreement is None:
                return [self._hello(direction, frame)]
            self._check_direction(direction, frame, agreement)
            if header.message_type is MessageType.REPLY:
                batch, error = read_rows([frame], agreement)
                if error is not None:
                    raise error
                return [Judged(direction, frame.offset, batch=batch, start=0, stop=1)]
            return [Judged(direction, frame.offset, decode_frame(frame, agreement))]
        except RemoteProtocolError as error:
            self._over = error.scope == "connection"
            return [Judged(direction, frame.offset, error=error.with_traceback(None))]

    def _hello(self, direction: Direction, frame: Frame) -> Judged:
        message = decode_frame(frame, None)
        if isinstance(message, Hello):
            if self._agreement is None:
                self._layout = Layout(hello=message)
            if message.role is HelloRole.OFFER and direction is Direction.VERIFIER and frame.offset == 0:
                self._offer = message
        return Judged(direction, frame.offset, message)

    @staticmethod
    def _sender(frame: Frame) -> Direction:
        own = _OWN.get(DIRECTIONS[frame.header.message_type])
        if own is not None:
            return own
        # By a slice: a HELLO without a body has a right header, too, until its length is judged.
        role = bytes(frame.data[HEADER_BYTES : HEADER_BYTES + 1])
        return Direction.VERIFIER if role == bytes([HelloRole.OFFER]) else Direction.WORKER

    @staticmethod
    def _check_direction(direction: Direction, frame: Frame, agreement: Agreement) -> None:
        if _OWN.get(DIRECTIONS[frame.header.message_type]) is direction:
            return
        # The judge of this direction says what is wrong with a message of the other one, whatever its sessions.
        sessions = Sessions(agreement, Counters(), keep_ids=False)
        if direction is Direction.VERIFIER:
            VerifierMessages(sessions).judge(frame)
        else:
            list(WorkerMessages(sessions).judge([frame]))


class _Sessions:
    """A verifier's messages behind its offer, with the state of its sessions.

    Which representation was agreed may not be known until the first STEP shows it; until then every candidate judges.
    """

    def __init__(self, offer: Hello, agreement: Agreement | None, offset: int) -> None:
        self._offer = offer
        self._offset = offset
        self._opening = bytearray()
        self._judges = [] if agreement is None else [Conversation(agreement, worker_seen=False)]
        self._walk = Walk()
        self._fed = 0

    @property
    def held(self) -> int:
        return len(self._opening) + self._fed - self._walk.begin

    @property
    def agreement(self) -> Agreement | None:
        return self._judges[0].agreement if self._judges else None

    @property
    def counters(self) -> Counters:
        return self._judges[0].counters if self._judges else Counters()

    def feed(self, data: bytes | memoryview) -> list[Judged]:
        if not self._judges:
            self._opening += data
            data = bytes(self._opening)
            if len(data) < HEADER_BYTES and MAGIC.startswith(data[: len(MAGIC)]):
                return []
            self._begin(data)
            try:
                check_opening(data[:6], 0)
                check_header(data, 0, self.agreement, 1)
            except RemoteProtocolError as error:
                if error.code is RejectCode.SEQUENCE_MISMATCH:  # a judge that joins midway takes any number
                    return [self._moved(Judged(Direction.VERIFIER, 0, error=error))]
        self._walk.feed(self._fed, data)
        self._fed += len(data)
        return self._best([judge.feed(Direction.VERIFIER, data) for judge in self._judges])

    def close(self) -> list[Judged]:
        if self._opening:
            data = bytes(self._opening)
            self._begin(data)
            for judge in self._judges:
                judge.feed(Direction.VERIFIER, data)
        return self._best([judge.close(Direction.VERIFIER) for judge in self._judges])

    def _begin(self, data: bytes) -> None:
        """Choose the candidates by the first header; a header that is cut or wrong is so for any of them."""
        self._opening.clear()
        number = int.from_bytes(data[_AGREEMENT_ID], "little")
        self._judges = [Conversation(a, worker_seen=False) for a in inferred_agreements(self._offer, number)]

    def _best(self, results: list[list[Judged]]) -> list[Judged]:
        """The verdicts of the first candidate without a fault; the others are dropped once one has a fault."""
        faults = [next((v.error.code for v in verdicts if v.error is not None), None) for verdicts in results]
        # A STEP of the other representation is a fault of the candidate, so any other fault counts as the stream's own.
        likely = [fault is None for fault in faults], [fault is not RejectCode.SUPPORT_MISMATCH for fault in faults]
        chosen = next((group.index(True) for group in likely if True in group), 0)
        if any(faults):
            self._judges = [self._judges[chosen]]
        return [self._moved(verdict) for verdict in results[chosen]] if results else []

    def _moved(self, verdict: Judged) -> Judged:
        """The verdict with offsets in the whole stream: the judge began behind the offer."""
        error = verdict.error
        if error is not None:
            error = RemoteProtocolError(
                error.code,
                offset=error.offset + self._offset,
                path=error.path,
                expected=error.expected,
                actual=error.actual,
                message_type=error.message_type,
                identity=error.identity,
            )
        return verdict._replace(offset=verdict.offset + self._offset, error=error)
