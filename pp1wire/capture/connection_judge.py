"""Judges one connection of a capture: who speaks PP1, what is missing, and what the judge of both directions says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, TypeAlias

from pp1wire.capture.events import Chunk, Connection, Ended, EndReason, FindingCode, StreamFinding
from pp1wire.capture.events import Direction as Way
from pp1wire.capture.findings import CaptureCode, Finding, Severity, reject_finding
from pp1wire.capture.one_way import OneWay, Outcome, Resumed, UnjudgedFrame
from pp1wire.capture.places import Marks, Walk
from pp1wire.capture.summary import Latencies, Summary
from pp1wire.protocol import ConnectionState, Conversation, Direction
from pp1wire.wire import Hello, HelloRole, MessageType, RemoteProtocolError
from pp1wire.wire._schema_v2 import MAGIC
from pp1wire.wire.header import HEADER_BYTES, check_header

__all__ = ["ConnectionJudge", "Event"]

Event: TypeAlias = Chunk | StreamFinding | Ended

_HEAD: Final = HEADER_BYTES + 1  # a HELLO's header and its role
_MAX_WAITING: Final = 1 << 20
_MAX_EARLY: Final = 16
_MISSING: Final = (FindingCode.GAP, FindingCode.CUT, FindingCode.MID_STREAM)
_HARMLESS: Final = (FindingCode.OUTSIDE_WINDOW, FindingCode.AFTER_END)


class _Mode(Enum):
    NEW = auto()
    """Not known to be PP1."""
    TOGETHER = auto()
    """Judged with the other direction."""
    ALONE = auto()
    """Judged without it; before the connection is known to be PP1, searched for a header."""
    OVER = auto()
    """A fault of connection scope ended it, or it was given up: bytes are only counted."""


class _Side:
    """One direction."""

    def __init__(self, role: Direction) -> None:
        self.role = role
        self.mode = _Mode.NEW
        self.marks = Marks()
        self.walk = Walk()
        self.head = bytearray()  # its first bytes, while NEW
        self.late = False  # its beginning is not in the capture
        self.alone: OneWay | None = None
        self.handover: int | None = None  # where to go on alone
        self.uncertain = False
        self.unjudged_told = False
        self.bytes = 0
        self.end = 0  # stream offset behind the last byte or gap
        self.ended = False

    @property
    def held(self) -> int:
        if self.mode is _Mode.TOGETHER:
            return max(self.end - self.walk.begin, 0)
        return len(self.head) + (0 if self.alone is None else self.alone.held)


class ConnectionJudge:
    """Takes the events of one connection in order; `report` receives its findings, `summary` its totals.

    Args:
        connection: as the reassembler knows it. The client is taken for the verifier; where the capture does not show
            who connected, what is said tells.
        file: name for findings.
        report: receives each finding.
        summary: totals to add to.
        named: the caller says that this is PP1, so that anything else is a fault.
    """

    def __init__(
        self,
        connection: Connection,
        file: str,
        report: Callable[[Finding], None],
        summary: Summary,
        *,
        named: bool = False,
    ) -> None:
        self._connection = connection
        self._file = file
        self._report = report
        self._summary = summary
        self._named = named
        self._sides = {Way.TO_SERVER: _Side(Direction.VERIFIER), Way.TO_CLIENT: _Side(Direction.WORKER)}
        self._judge: Conversation | None = None  # once the connection is known to speak PP1
        self._hellos: dict[HelloRole, Hello] = {}
        self._latencies = Latencies(summary)
        self._early: list[tuple[_Side, StreamFinding]] = []  # findings from before that is known
        self._waiting: list[Chunk | StreamFinding | Ended] = []  # see _must_wait
        self._waiting_bytes = 0
        self._doubtful = False  # which bytes were delivered is not known

    @property
    def held(self) -> int:
        """Bytes held of unfinished frames, and while waiting."""
        return sum(side.held for side in self._sides.values()) + self._waiting_bytes

    def take(self, event: Event) -> None:
        """The next event of the connection."""
        side = self._sides[event.direction]
        if self._must_wait(side):
            self._waiting.append(event)
            self._waiting_bytes += len(event.data) if isinstance(event, Chunk) else 0
            if self._waiting_bytes > _MAX_WAITING:
                self._part()
                self._end_waiting()
            return
        if self._waiting and side.role is Direction.WORKER:
            if isinstance(event, Chunk) or (isinstance(event, Ended) and event.reason is not EndReason.MISSING):
                self._end_waiting()  # the worker was there, and the verifier did not wait for it
                self._handle(side, event)
                return
            self._part()
        self._handle(side, event)
        self._end_waiting()

    def finish(self) -> None:
        """The connection is over: both directions have ended."""
        sides = self._sides.values()
        if self._judge is None:
            self._summary.skipped_connections += 1
            if any(side.bytes for side in sides):
                message = "skipped: it does not speak PP1; name its port to judge it nevertheless"
                self._find(None, Severity.NOTE, CaptureCode.NOT_PP1, message)
            return
        self._summary.unjudged_frames += self._judge.unjudged
        both = all(side.mode is _Mode.TOGETHER for side in sides)
        self._summary.add_rounds(self._judge.counters, both_seen=both)
        for side in sides:
            self._summary.bytes[str(side.role)] += side.bytes
            if side.alone is not None:
                self._summary.unjudged_bytes += side.alone.unjudged_bytes
                self._summary.add_rounds(side.alone.counters, both_seen=False)

    def give_up(self, limit: int) -> None:
        """Judge it no further, to free what it holds."""
        message = f"unfinished frames of all connections exceed {limit} bytes: this one is judged no further"
        self._find(None, Severity.INCOMPLETE, CaptureCode.GIVEN_UP, message)
        for side in self._sides.values():
            side.mode, side.head = _Mode.OVER, bytearray()
            if side.alone is not None:
                self._summary.unjudged_bytes += side.alone.unjudged_bytes
                self._summary.add_rounds(side.alone.counters, both_seen=False)
                side.alone = None
        self._waiting, self._waiting_bytes = [], 0
        counters = Conversation().counters if self._judge is None else self._judge.counters
        self._judge = Conversation()  # without the bytes that the other one holds
        self._judge.counters = counters

    def _handle(self, side: _Side, event: Event) -> None:
        if isinstance(event, Chunk):
            side.bytes += len(event.data)
            side.end = event.offset + len(event.data)
            if self._judge is None:
                self._sniff(side, event)
            else:
                self._feed(side, event.offset, event.data, event.packet, event.time_ns)
        elif isinstance(event, StreamFinding):
            self._stream_finding(side, event)
        elif self._judge is not None:
            self._ended(side, event, self._judge)
        side.ended = side.ended or isinstance(event, Ended)

    def _other(self, side: _Side) -> _Side:
        return next(other for other in self._sides.values() if other is not side)

    # Is it PP1?

    def _sniff(self, side: _Side, chunk: Chunk) -> None:
        if side.mode is _Mode.ALONE:
            self._search(side, chunk)
            return
        if len(side.head) >= _HEAD:
            return  # another protocol
        if not side.head:
            side.marks.add(chunk.offset, chunk.packet, chunk.time_ns)
        room = _HEAD - len(side.head)
        side.head += chunk.data[:room]
        rest = chunk.data[room:]
        foreign = side.head[: len(MAGIC)] != MAGIC[: len(side.head)]
        if side.late and (foreign or len(side.head) == _HEAD) and not _is_hello(side.head):
            offset = side.end - len(rest) - len(side.head)
            data, side.head = memoryview(bytes(side.head) + rest), bytearray()
            side.mode, side.alone, side.uncertain = _Mode.ALONE, OneWay(offset=offset, synced=False), True
            self._search(side, chunk._replace(offset=offset, data=data))
        elif foreign:
            if self._named:
                self._begin()
                self._feed(side, side.end - len(rest), rest, chunk.packet, chunk.time_ns)
        elif len(side.head) >= (_HEAD if side.late else len(MAGIC)):
            if not self._connection.from_start and len(side.head) == _HEAD:
                answers = side.head[HEADER_BYTES] == HelloRole.ANSWER
                self._cast(side, Direction.WORKER if answers else Direction.VERIFIER)
            self._begin()
            self._feed(side, side.end - len(rest), rest, chunk.packet, chunk.time_ns)

    def _search(self, side: _Side, chunk: Chunk) -> None:
        """Look for a first frame in a stream without its beginning."""
        alone = side.alone
        if alone is None:
            return
        side.marks.add(chunk.offset, chunk.packet, chunk.time_ns)
        outcomes = alone.feed(chunk.data)
        if outcomes and alone.direction is not None:
            if not self._connection.from_start:
                self._cast(side, alone.direction)
            alone.direction = side.role
            self._begin()
            self._take(side, outcomes, chunk.time_ns)
        side.marks.forget(side.end - alone.held)

    def _cast(self, side: _Side, role: Direction) -> None:
        """What is said shows who is who."""
        side.role = role
        self._other(side).role = Direction.WORKER if role is Direction.VERIFIER else Direction.VERIFIER

    def _begin(self) -> None:
        """It speaks PP1: judge from here on, beginning with what has been held back."""
        self._judge = Conversation()
        self._summary.connections += 1
        early, self._early = self._early, []
        for side, finding in early:
            self._tell_stream_finding(side, finding)
        late = [side for side in self._sides.values() if side.mode is _Mode.ALONE]
        for side in self._sides.values():
            if side.mode is _Mode.NEW:
                side.mode = _Mode.TOGETHER
                head, side.head = bytes(side.head), bytearray()
                # Nothing but the head of what came before is known any more, and only of another protocol is that less.
                self._feed(side, 0, memoryview(head), *side.marks.at(0))
        for side in late:
            self._judge.lose(side.role)
        if late:
            self._part()

    # Waiting: in a capture of the verifier's direction alone its offer seems not to be answered.

    def _must_wait(self, side: _Side) -> bool:
        other = self._other(side)
        return (
            side.role is Direction.VERIFIER
            and self._judge is not None
            and self._judge.state is ConnectionState.OFFERED
            and side.mode is _Mode.TOGETHER
            and other.mode is _Mode.TOGETHER
            and not other.bytes
            and not other.ended
        )

    def _end_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for event in waiting:
            self._handle(self._sides[event.direction], event)

    # What is missing.

    def _stream_finding(self, side: _Side, finding: StreamFinding) -> None:
        if self._judge is None:
            if len(self._early) < _MAX_EARLY:
                self._early.append((side, finding))
            if finding.code in _MISSING:
                if side.mode is _Mode.ALONE and side.alone is not None:
                    side.alone.skip(finding.length)
                elif len(side.head) < _HEAD:
                    side.late = True
                    if finding.length:
                        # Not even the first bytes seen are the first ones sent.
                        side.head = bytearray()
                        side.mode, side.uncertain = _Mode.ALONE, True
                        side.alone = OneWay(offset=finding.offset + finding.length, synced=False)
                side.end = finding.offset + finding.length
            return
        self._tell_stream_finding(side, finding)
        if finding.code is FindingCode.CONFLICT:
            self._doubtful = True
        elif finding.code in _MISSING:
            self._miss(side, finding, self._judge)

    def _tell_stream_finding(self, side: _Side, finding: StreamFinding) -> None:
        severity = Severity.NOTE if finding.code in _HARMLESS else Severity.INCOMPLETE
        self._find(
            side,
            severity,
            finding.code,
            finding.message,
            packet=finding.packet,
            time_ns=finding.time_ns,
            offset=finding.offset,
            length=finding.length,
        )

    def _miss(self, side: _Side, finding: StreamFinding, judge: Conversation) -> None:
        side.end = finding.offset + finding.length
        if side.mode is _Mode.ALONE and side.alone is not None:
            side.uncertain = True
            self._take(side, side.alone.skip(finding.length), finding.time_ns)
        elif side.mode is _Mode.TOGETHER:
            agreed = judge.agreement is not None
            judge.lose(side.role)
            self._go_alone(side, side.end, synced=False)
            if not agreed or side.role is Direction.VERIFIER:
                self._part()

    def _part(self) -> None:
        """Both directions go on without each other."""
        if self._judge is None:
            return
        if self._judge.agreement is None:
            message = "the HELLOs of both directions are not there: what needs both is not judged"
            self._find(None, Severity.INCOMPLETE, CaptureCode.ONE_WAY, message)
        for side in self._sides.values():
            if side.mode is _Mode.TOGETHER and side.handover is None:
                side.handover = side.walk.next
                if side.handover <= side.end:
                    head = bytes(side.walk.head)
                    self._hand_over(side)
                    if side.alone is not None:
                        self._take(side, side.alone.feed(head), None)

    def _hand_over(self, side: _Side) -> None:
        self._go_alone(side, side.walk.next, synced=True)

    def _go_alone(self, side: _Side, offset: int, *, synced: bool) -> None:
        agreement = None if self._judge is None else self._judge.agreement
        own, others = HelloRole.OFFER, HelloRole.ANSWER
        if side.role is Direction.WORKER:
            own, others = others, own
        # In one direction's capture from its beginning everything is there but the other's; elsewhere context is gone.
        side.uncertain = side.uncertain or not synced or agreement is not None
        side.alone = OneWay(
            side.role,
            offset=offset,
            synced=synced,
            agreement=agreement,
            hello=None if agreement is not None else self._hellos.get(own, self._hellos.get(others)),
            next_sequence=side.walk.sequence + 1 if synced else None,
        )
        side.mode, side.handover = _Mode.ALONE, None

    def _ended(self, side: _Side, event: Ended, judge: Conversation) -> None:
        held = side.held
        if event.reason is EndReason.MISSING:
            cut = f", {held} bytes into a frame" if held else ""
            message = f"the capture ends before this direction does{cut}"
            self._find(side, Severity.INCOMPLETE, CaptureCode.UNFINISHED, message, offset=event.offset)
        elif side.mode is _Mode.TOGETHER:
            self._take(side, judge.close(side.role), event.time_ns)
        elif side.mode is _Mode.ALONE and side.alone is not None:
            self._take(side, side.alone.close(), event.time_ns)

    # What is there.

    def _feed(self, side: _Side, offset: int, data: memoryview, packet: int | None, time_ns: int | None) -> None:
        if not len(data):
            return
        side.marks.add(offset, packet, time_ns)
        if side.mode is _Mode.TOGETHER:
            cut = len(data) if side.handover is None else min(side.handover - offset, len(data))
            self._together(side, offset, data[:cut], time_ns)
            if cut == len(data):
                return
            if side.mode is _Mode.TOGETHER:
                self._hand_over(side)
            offset, data = offset + cut, data[cut:]
        if side.mode is _Mode.ALONE and side.alone is not None:
            self._take(side, side.alone.feed(data), time_ns)
            side.marks.forget(offset + len(data) - side.alone.held)
        else:
            self._summary.unjudged_bytes += len(data)

    def _together(self, side: _Side, offset: int, data: memoryview, time_ns: int | None) -> None:
        if self._judge is None:
            return
        side.walk.feed(offset, data)
        self._take(side, self._judge.feed(side.role, data), time_ns)
        side.marks.forget(side.walk.begin)

    def _take(self, side: _Side, outcomes: Sequence[Outcome], time_ns: int | None) -> None:
        """Tell and count what has been judged; `time_ns` is when its last byte came."""
        for outcome in outcomes:
            if isinstance(outcome, UnjudgedFrame):
                self._unjudged(side, outcome)
            elif isinstance(outcome, Resumed):
                message = "from here on each frame is judged by itself; sessions are not followed"
                self._find(side, Severity.NOTE, CaptureCode.RESUMED, message, offset=outcome.offset, located=True)
            else:
                self._summary.count_frame(outcome)
                self._latencies.see(outcome, time_ns)
                if isinstance(outcome.message, Hello):
                    self._hellos[outcome.message.role] = outcome.message
                if outcome.error is not None:
                    self._reject(side, outcome.error)

    def _unjudged(self, side: _Side, outcome: UnjudgedFrame) -> None:
        self._summary.frames[outcome.message_type.name.lower()] += 1
        self._summary.unjudged_frames += 1
        if not side.unjudged_told:
            side.unjudged_told = True
            message = "without the HELLOs only headers and checksums can be judged, from this frame on"
            self._find(side, Severity.INCOMPLETE, CaptureCode.UNJUDGED, message, offset=outcome.offset, located=True)

    def _reject(self, side: _Side, error: RemoteProtocolError) -> None:
        packet, time_ns = side.marks.at(error.offset)
        self._report(
            reject_finding(
                error,
                file=self._file,
                packet=packet,
                time_ns=time_ns,
                connection=self._connection.number,
                endpoints=self._endpoints,
                direction=str(side.role),
                uncertain=side.uncertain or self._doubtful,
            )
        )
        if error.scope == "connection" and side.mode is _Mode.TOGETHER:
            side.mode = _Mode.OVER

    @property
    def _endpoints(self) -> str:
        return f"{self._connection.client} → {self._connection.server}"

    def _find(
        self,
        side: _Side | None,
        severity: Severity,
        code: str,
        message: str,
        *,
        packet: int | None = None,
        time_ns: int | None = None,
        offset: int | None = None,
        length: int | None = None,
        located: bool = False,
    ) -> None:
        if located and side is not None and offset is not None:
            packet, time_ns = side.marks.at(offset)
        finding = Finding(
            severity,
            str(code),
            message,
            self._file,
            packet=packet,
            time_ns=time_ns,
            connection=self._connection.number,
            endpoints=self._endpoints,
            direction=None if side is None else str(side.role),
            offset=offset,
            length=length,
            uncertain=code == CaptureCode.RESUMED,
        )
        self._report(finding)


def _is_hello(head: bytearray) -> bool:
    """Whether a stream that is joined late begins with a HELLO after all."""
    if len(head) < HEADER_BYTES:
        return False
    try:
        return check_header(bytes(head), 0, None, 0).message_type is MessageType.HELLO
    except RemoteProtocolError:
        return False
