"""Turns what has been judged of one connection into findings and totals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pp1wire.capture._side import Mode, Side
from pp1wire.capture.connections import ConnectionFacts
from pp1wire.capture.events import Chunk, Connection, FindingCode, StreamFinding
from pp1wire.capture.events import Direction as Way
from pp1wire.capture.findings import CaptureCode, Finding, Severity, reject_finding
from pp1wire.capture.observing import Observe, Seen
from pp1wire.capture.one_way import Outcome, Resumed, UnjudgedFrame
from pp1wire.capture.summary import Latencies, Summary
from pp1wire.protocol import Counters, Judged
from pp1wire.wire import Hello, HelloRole, RejectCode, RemoteProtocolError

__all__ = ["Teller"]

_LACKING: Final = (FindingCode.GAP, FindingCode.CUT)
_HARMLESS: Final = (FindingCode.OUTSIDE_WINDOW, FindingCode.AFTER_END)


class Teller:
    """Reports and counts for one connection.

    Attributes:
        hellos: those that passed, by role.
        facts: of the connection by itself.
        doubtful: which bytes were delivered is not known, so nothing is certain.
        advice: what to do about a stream that does not begin as PP1; "" for nothing.
    """

    def __init__(
        self,
        connection: Connection,
        file: str,
        report: Callable[[Finding], None],
        summary: Summary,
        observe: Observe | None = None,
    ) -> None:
        self._connection = connection
        self._endpoints = f"{connection.client} → {connection.server}"
        self._file = file
        self.facts = ConnectionFacts(file, connection.number, self._endpoints)
        self._report = report
        self._summary = summary
        self._observe = observe
        self._latencies = Latencies(summary)
        self.hellos: dict[HelloRole, Hello] = {}
        self.facts.hellos = self.hellos
        self.doubtful = False
        self.advice = ""

    def take(self, side: Side, outcomes: Sequence[Outcome], time_ns: int | None) -> None:
        """Tell and count what has been judged; `time_ns` is when its last byte came."""
        for outcome in outcomes:
            if isinstance(outcome, UnjudgedFrame):
                self._unjudged(side, outcome)
            elif isinstance(outcome, Resumed):
                message = "from here on each frame is judged by itself; sessions are not followed"
                self.find(side, Severity.NOTE, CaptureCode.RESUMED, message, offset=outcome.offset, located=True)
            else:
                self._summary.count_frame(outcome, uncertain=self._is_uncertain(side))
                if not side.uncertain:  # behind a gap no round is followed, nor counted
                    self._latencies.see(outcome, time_ns)
                if isinstance(outcome.message, Hello):
                    self.hellos[outcome.message.role] = outcome.message
                if self._observe is not None:
                    self._observe(self._seen(side, outcome, time_ns))
                if outcome.error is not None:
                    self._reject(side, outcome.error)

    @property
    def is_watched(self) -> bool:
        """Whether somebody wants every verdict."""
        return self._observe is not None

    def take_all(
        self, sides: Mapping[Way, Side], batch: Sequence[Chunk], verdicts: Sequence[tuple[int, Judged]]
    ) -> None:
        """Tell and count what chunks have settled, none of it wrong; each verdict with the index of the chunk that settled it."""
        self.facts.saw(batch[0].time_ns)
        self.facts.saw(batch[-1].time_ns)
        if self._observe is None:
            for index, verdict in verdicts:
                self._summary.count_frame(verdict, uncertain=self.doubtful)
                self._latencies.see(verdict, batch[index].time_ns)
            for side in sides.values():
                self._pass_over(side, [chunk for chunk in batch if sides[chunk.direction] is side])
            return
        told = 0
        for index, chunk in enumerate(batch):
            side = sides[chunk.direction]
            self._pass_over(side, [chunk])
            while told < len(verdicts) and verdicts[told][0] == index:
                verdict = verdicts[told][1]
                told += 1
                self._summary.count_frame(verdict, uncertain=self.doubtful)
                self._latencies.see(verdict, chunk.time_ns)
                self._observe(self._seen(side, verdict, chunk.time_ns))

    def _pass_over(self, side: Side, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            side.marks.add(chunk.offset, chunk.packet, chunk.time_ns)
        if chunks:
            end = chunks[-1].offset + len(chunks[-1].data)
            side.bytes += end - chunks[0].offset
            side.end = end

    def _is_uncertain(self, side: Side) -> bool:
        return side.uncertain or self.doubtful

    def _seen(self, side: Side, verdict: Judged, time_ns: int | None) -> Seen:
        packet, _ = side.marks.at(verdict.offset)
        uncertain = self._is_uncertain(side)
        return Seen(
            self._file, self._connection.number, self._endpoints, side.role, verdict, packet, time_ns, uncertain
        )

    def add_rounds(self, counters: Counters, *, both_seen: bool) -> None:
        """Count what was counted of the sessions, once it is over."""
        self._summary.add_rounds(counters, both_seen=both_seen)
        self.facts.add_rounds(counters)

    def _unjudged(self, side: Side, outcome: UnjudgedFrame) -> None:
        self._summary.frames[outcome.message_type.name.lower()] += 1
        self._summary.unjudged_frames += 1
        self._summary.uncertain_frames += self._is_uncertain(side)
        if not side.unjudged_told:
            side.unjudged_told = True
            message = "without the HELLOs only headers and checksums can be judged, from this frame on"
            self.find(side, Severity.INCOMPLETE, CaptureCode.UNJUDGED, message, offset=outcome.offset, located=True)

    def _reject(self, side: Side, error: RemoteProtocolError) -> None:
        packet, time_ns = side.marks.at(error.offset)
        finding = reject_finding(
            error,
            file=self._file,
            packet=packet,
            time_ns=time_ns,
            connection=self._connection.number,
            endpoints=self._endpoints,
            direction=str(side.role),
            uncertain=self._is_uncertain(side),
            advice=self.advice if error.code is RejectCode.BAD_MAGIC else "",
        )
        self.facts.add_finding(finding)
        self._report(finding)
        if error.scope == "connection" and side.mode is Mode.TOGETHER:
            side.mode = Mode.OVER

    def find(
        self,
        side: Side | None,
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
        self.facts.add_finding(finding)
        self._report(finding)

    def stream_finding(self, side: Side, finding: StreamFinding) -> None:
        severity = Severity.NOTE if finding.code in _HARMLESS else Severity.INCOMPLETE
        if severity is Severity.INCOMPLETE:
            self._summary.holes[str(finding.code)] += 1
            length = finding.length if finding.code in _LACKING else 0
            self._summary.missing_bytes += length
            self.facts.missing_bytes += length
        self.find(
            side,
            severity,
            finding.code,
            finding.message,
            packet=finding.packet,
            time_ns=finding.time_ns,
            offset=finding.offset,
            length=finding.length,
        )
