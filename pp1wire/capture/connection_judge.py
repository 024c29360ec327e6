"""Judges one connection of a capture: who speaks PP1, what is missing, and what the judge of both directions says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from pp1wire.capture._batch import EVENT_BYTES, Batch, judge_together
from pp1wire.capture._side import HEAD, Mode, Side, is_hello, misses_hello
from pp1wire.capture._teller import Teller
from pp1wire.capture.connections import ConnectionFacts
from pp1wire.capture.events import Chunk, Connection, Ended, EndReason, FindingCode, StreamFinding
from pp1wire.capture.events import Direction as Way
from pp1wire.capture.findings import CaptureCode, Finding, Severity
from pp1wire.capture.observing import Observe
from pp1wire.capture.one_way import HELLO_FRAME_BYTES, OneWay
from pp1wire.capture.sources import TLS_ADVICE, is_tls
from pp1wire.capture.summary import Summary
from pp1wire.protocol import ConnectionState, Conversation, Direction
from pp1wire.wire import HelloRole
from pp1wire.wire._schema_v2 import MAGIC
from pp1wire.wire.header import HEADER_BYTES

__all__ = ["ConnectionJudge", "Event"]

Event: TypeAlias = Chunk | StreamFinding | Ended

_MAX_WAITING: Final = 1 << 20
_MAX_EARLY: Final = 16
_MISSING: Final = (FindingCode.GAP, FindingCode.CUT, FindingCode.MID_STREAM)


class ConnectionJudge:
    """Takes the events of one connection in order; `report` receives its findings, `summary` its totals.

    Args:
        connection: as the reassembler knows it. The client is taken for the verifier; where the capture does not show
            who connected, what is said tells.
        file: name for findings.
        report: receives each finding.
        summary: totals to add to.
        named: the caller says that this is PP1, so that anything else is a fault.
        observe: receives each verdict.
    """

    def __init__(
        self,
        connection: Connection,
        file: str,
        report: Callable[[Finding], None],
        summary: Summary,
        *,
        named: bool = False,
        observe: Observe | None = None,
    ) -> None:
        self._connection = connection
        self._tell = Teller(connection, file, report, summary, observe)
        self._summary = summary
        self._named = named
        self._sides = {Way.TO_SERVER: Side(Direction.VERIFIER), Way.TO_CLIENT: Side(Direction.WORKER)}
        self._judge: Conversation | None = None  # once the connection is known to speak PP1
        self._early: list[tuple[Side, StreamFinding]] = []  # findings from before that is known
        self._waiting: list[Chunk | StreamFinding | Ended] = []  # see _must_wait
        self._waiting_bytes = 0
        self._batch = Batch()
        self._fine = False  # see _goes_well

    @property
    def held(self) -> int:
        """Bytes held of unfinished frames, and while waiting."""
        return sum(side.held for side in self._sides.values()) + self._waiting_bytes + self._batch.bytes

    def put_off(self, chunk: Chunk) -> int:
        """Take a chunk to judge it with those that follow, where all goes well: how many bytes that holds, 0 if not taken."""
        return self._batch.add(chunk) if self._fine else 0

    @property
    def is_due(self) -> bool:
        """Whether enough was put off."""
        return self._batch.is_due

    def take(self, event: Event) -> None:
        """The next event of the connection, judged now."""
        self.catch_up()
        self._take(event)
        self._fine = self._goes_well()

    def _take(self, event: Event) -> None:
        side = self._sides[event.direction]
        if self._must_wait(side):
            self._waiting.append(event)
            self._waiting_bytes += EVENT_BYTES + (len(event.data) if isinstance(event, Chunk) else 0)
            if self._waiting_bytes > _MAX_WAITING:
                self._part()
                self._end_waiting()
            return
        if self._waiting and side.role is Direction.WORKER:
            ended = isinstance(event, Ended) and event.reason is not EndReason.MISSING
            if ended or (isinstance(event, Chunk) and not misses_hello(side, event.data)):
                self._end_waiting()  # the worker was there, and the verifier did not wait for it
                self._handle(side, event)
                return
            self._part()
        self._handle(side, event)
        self._end_waiting()

    def catch_up(self) -> None:
        """Judge what was put off."""
        chunks = self._batch.take()
        if not chunks or self._judge is None or judge_together(self._judge, self._sides, self._tell, chunks):
            return
        for chunk in chunks:
            self._handle(self._sides[chunk.direction], chunk)
        self._fine = self._goes_well()

    def finish(self) -> ConnectionFacts | None:
        """The connection is over: both directions have ended. What is told of it by itself; None if it does not speak PP1."""
        self.catch_up()
        sides = self._sides.values()
        if self._judge is None:
            self._summary.skipped_connections += 1
            if any(side.bytes for side in sides):
                message = "skipped: it does not speak PP1; name its port to judge it nevertheless"
                if any(is_tls(side.head) for side in sides):
                    message = f"skipped: this is TLS; {TLS_ADVICE}"
                self._tell.find(None, Severity.NOTE, CaptureCode.NOT_PP1, message)
            return None
        self._summary.unjudged_frames += self._judge.unjudged
        both = all(side.mode is Mode.TOGETHER for side in sides)
        self._tell.add_rounds(self._judge.counters, both_seen=both)
        facts = self._tell.facts
        facts.whole, facts.agreement = both, self._judge.agreement
        facts.uncertain = facts.uncertain or self._tell.doubtful or any(side.uncertain for side in sides)
        for side in sides:
            self._summary.bytes[str(side.role)] += side.bytes
            facts.bytes[str(side.role)] += side.bytes
            if side.alone is not None:
                self._summary.unjudged_bytes += side.alone.unjudged_bytes
                self._tell.add_rounds(side.alone.counters, both_seen=False)
        return facts

    def give_up(self, limit: int) -> None:
        """Judge it no further, to free what it holds."""
        self.catch_up()
        message = f"unfinished frames of all connections exceed {limit} bytes: this one is judged no further"
        self._tell.find(None, Severity.INCOMPLETE, CaptureCode.GIVEN_UP, message)
        for side in self._sides.values():
            side.mode, side.head = Mode.OVER, bytearray()
            if side.alone is not None:
                self._summary.unjudged_bytes += side.alone.unjudged_bytes
                self._tell.add_rounds(side.alone.counters, both_seen=False)
                side.alone = None
        self._waiting, self._waiting_bytes, self._fine = [], 0, False
        counters = Conversation().counters if self._judge is None else self._judge.counters
        self._judge = Conversation()  # without the bytes that the other one holds
        self._judge.counters = counters

    def _handle(self, side: Side, event: Event) -> None:
        if isinstance(event, Chunk):
            self._tell.facts.saw(event.time_ns)
            if self._judge is not None and misses_hello(side, event.data):
                self._miss(side, event.offset, event.time_ns, self._judge)
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

    def _goes_well(self) -> bool:
        """Whether all so far is known, and judged in both directions."""
        return (
            self._judge is not None
            and self._judge.agreement is not None
            and not self._waiting
            and all(side.mode is Mode.TOGETHER and side.handover is None for side in self._sides.values())
        )

    def _other(self, side: Side) -> Side:
        return next(other for other in self._sides.values() if other is not side)

    # Is it PP1?

    def _sniff(self, side: Side, chunk: Chunk) -> None:
        if side.mode is Mode.ALONE:
            self._search(side, chunk)
            return
        if len(side.head) >= HEAD:
            return  # another protocol
        if not side.head:
            side.marks.add(chunk.offset, chunk.packet, chunk.time_ns)
        room = HEAD - len(side.head)
        side.head += chunk.data[:room]
        rest = chunk.data[room:]
        foreign = side.head[: len(MAGIC)] != MAGIC[: len(side.head)]
        if side.late and (foreign or len(side.head) == HEAD) and not is_hello(side.head):
            offset = side.end - len(rest) - len(side.head)
            data, side.head = memoryview(bytes(side.head) + rest), bytearray()
            side.mode, side.alone, side.uncertain = Mode.ALONE, OneWay(offset=offset, synced=False), True
            self._search(side, chunk._replace(offset=offset, data=data))
        elif foreign:
            if self._named:
                if is_tls(side.head):
                    self._tell.advice = f"this is TLS; {TLS_ADVICE}"
                self._begin()
                self._feed(side, side.end - len(rest), rest, chunk.packet, chunk.time_ns)
        elif len(side.head) >= (HEAD if side.late else len(MAGIC)):
            if not self._connection.from_start and len(side.head) == HEAD:
                answers = side.head[HEADER_BYTES] == HelloRole.ANSWER
                self._cast(side, Direction.WORKER if answers else Direction.VERIFIER)
            self._begin()
            self._feed(side, side.end - len(rest), rest, chunk.packet, chunk.time_ns)

    def _search(self, side: Side, chunk: Chunk) -> None:
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
            self._tell.take(side, outcomes, chunk.time_ns)
        side.marks.forget(side.end - alone.held)

    def _cast(self, side: Side, role: Direction) -> None:
        """What is said shows who is who."""
        side.role = role
        self._other(side).role = Direction.WORKER if role is Direction.VERIFIER else Direction.VERIFIER

    def _begin(self) -> None:
        """It speaks PP1: judge from here on, beginning with what has been held back."""
        self._judge = Conversation()
        self._summary.connections += 1
        early, self._early = self._early, []
        for side, finding in early:
            self._tell.stream_finding(side, finding)
        for side in self._sides.values():
            if side.role is Direction.VERIFIER and side.mode is Mode.NEW and side.late and not side.bytes:
                # The worker is heard first, so the offer that it answers was there and is lost.
                side.mode, side.uncertain = Mode.ALONE, True
                side.alone = OneWay(side.role, offset=side.end, synced=False)
        new = [side for side in self._sides.values() if side.mode is Mode.NEW]
        for side in new:
            side.mode = Mode.TOGETHER
        if len(new) < len(self._sides):
            self._part()
        for side in new:
            head, side.head = bytes(side.head), bytearray()
            # Nothing but the head of what came before is known any more, and only of another protocol is that less.
            self._feed(side, 0, memoryview(head), *side.marks.at(0))

    # Waiting: in a capture of the verifier's direction alone its offer seems not to be answered.

    def _must_wait(self, side: Side) -> bool:
        other = self._other(side)
        return (
            side.role is Direction.VERIFIER
            and self._judge is not None
            and self._judge.state is ConnectionState.OFFERED
            and side.mode is Mode.TOGETHER
            and other.mode is Mode.TOGETHER
            and not other.bytes
            and not other.ended
        )

    def _end_waiting(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for event in waiting:
            self._handle(self._sides[event.direction], event)

    # What is missing.

    def _stream_finding(self, side: Side, finding: StreamFinding) -> None:
        if self._judge is None:
            if len(self._early) < _MAX_EARLY:
                self._early.append((side, finding))
            if finding.code in _MISSING:
                if side.mode is Mode.ALONE and side.alone is not None:
                    side.alone.skip(finding.length)
                elif len(side.head) < HEAD:
                    side.late = True
                    if finding.length:
                        # Not even the first bytes seen are the first ones sent.
                        side.head = bytearray()
                        side.mode, side.uncertain = Mode.ALONE, True
                        side.alone = OneWay(offset=finding.offset + finding.length, synced=False)
                side.end = finding.offset + finding.length
            return
        self._tell.stream_finding(side, finding)
        if finding.code is FindingCode.CONFLICT:
            self._tell.doubtful = True
        elif finding.code in _MISSING:
            self._miss(side, finding.offset + finding.length, finding.time_ns, self._judge, finding.length)

    def _miss(self, side: Side, end: int, time_ns: int | None, judge: Conversation, length: int = 0) -> None:
        """The `length` bytes before `end` are missing, or more than is known."""
        side.end = end
        if side.mode is Mode.ALONE and side.alone is not None:
            side.uncertain = True
            self._tell.take(side, side.alone.skip(length), time_ns)
        elif side.mode is Mode.TOGETHER:
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
            self._tell.find(None, Severity.INCOMPLETE, CaptureCode.ONE_WAY, message)
        for side in self._sides.values():
            if side.mode is not Mode.TOGETHER or side.handover is not None:
                continue
            if self._judge.agreement is None and side.own_hello not in self._tell.hellos:
                # A HELLO that the other side's loss made useless there is still worth judging here.
                opening = bytes(side.opening)
                self._go_alone(side, 0, synced=True)
            elif side.walk.next <= side.end:
                opening = bytes(side.walk.head)
                self._go_alone(side, side.walk.next, synced=True)
            else:
                side.handover = side.walk.next
                continue
            if side.alone is not None and opening:
                self._tell.take(side, side.alone.feed(opening), None)

    def _go_alone(self, side: Side, offset: int, *, synced: bool) -> None:
        agreement = None if self._judge is None else self._judge.agreement
        own = self._tell.hellos.get(side.own_hello)
        # In one direction's capture from its beginning everything is there but the other's; elsewhere context is gone.
        side.uncertain = side.uncertain or not synced or agreement is not None
        side.alone = OneWay(
            side.role,
            offset=offset,
            synced=synced,
            agreement=agreement,
            hello=None if agreement is not None else own or next(iter(self._tell.hellos.values()), None),
            next_sequence=side.walk.sequence + 1 if synced else None,
        )
        side.mode, side.handover = Mode.ALONE, None

    def _ended(self, side: Side, event: Ended, judge: Conversation) -> None:
        held = side.held
        if event.reason is EndReason.MISSING:
            cut = f", {held} bytes into a frame" if held else ""
            message = f"the capture ends before this direction does{cut}"
            self._tell.find(side, Severity.INCOMPLETE, CaptureCode.UNFINISHED, message, offset=event.offset)
        elif side.mode is Mode.TOGETHER:
            self._tell.take(side, judge.close(side.role), event.time_ns)
        elif side.mode is Mode.ALONE and side.alone is not None:
            self._tell.take(side, side.alone.close(), event.time_ns)

    # What is there.

    def _feed(self, side: Side, offset: int, data: memoryview, packet: int | None, time_ns: int | None) -> None:
        if not len(data):
            return
        side.marks.add(offset, packet, time_ns)
        if side.mode is Mode.TOGETHER:
            cut = len(data) if side.handover is None else min(side.handover - offset, len(data))
            self._together(side, offset, data[:cut], time_ns)
            if cut == len(data):
                return
            if side.mode is Mode.TOGETHER:
                self._go_alone(side, side.walk.next, synced=True)
            offset, data = offset + cut, data[cut:]
        if side.mode is Mode.ALONE and side.alone is not None:
            for hello in self._tell.hellos.values():
                side.alone.learn(hello)
            self._tell.take(side, side.alone.feed(data), time_ns)
            side.marks.forget(offset + len(data) - side.alone.held)
        else:
            self._summary.unjudged_bytes += len(data)

    def _together(self, side: Side, offset: int, data: memoryview, time_ns: int | None) -> None:
        if self._judge is None:
            return
        side.walk.feed(offset, data)
        if self._judge.agreement is None:
            side.opening += data[: HELLO_FRAME_BYTES - len(side.opening)]
        verdicts = self._judge.feed(side.role, data)
        self._tell.take(side, verdicts, time_ns)
        if side.mode is Mode.OVER and verdicts and (error := verdicts[-1].error) is not None:
            self._summary.unjudged_bytes += offset + len(data) - error.offset
        side.marks.forget(side.walk.begin)
