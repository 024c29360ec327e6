"""Judges a raw stream: the bytes of one direction, without packets or times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pp1wire.capture._input import CutError
from pp1wire.capture.connections import ConnectionFacts
from pp1wire.capture.findings import CaptureCode, Finding, Severity, reject_finding
from pp1wire.capture.observing import Observe, Seen
from pp1wire.capture.one_way import HELLO_FRAME_BYTES, OneWay, Outcome, Resumed, UnjudgedFrame
from pp1wire.capture.pcapng import CaptureError, Readable
from pp1wire.capture.sources import CountingFile
from pp1wire.capture.summary import Latencies, Summary
from pp1wire.protocol import Direction, agree
from pp1wire.wire import Agreement, FrameReader, Hello, HelloRole, RemoteProtocolError

__all__ = ["first_hello", "judge_stream"]

_STEP: Final = 1 << 18

_NOT_JUDGED: Final = {
    Direction.VERIFIER: "the proposals that COMMITs refer to",
    Direction.WORKER: "freshness, positions, tickets and COMPLETIONs",
}
_CAPACITIES: Final = ", and capacities that the other side made smaller (the other direction as --peer settles those)"


def first_hello(file: Readable, name: str) -> Hello:
    """The HELLO that a raw stream begins with. Raises `CaptureError` where there is none."""
    data = CountingFile(file, name).read_fully(HELLO_FRAME_BYTES)
    reader = FrameReader()
    try:
        messages = reader.feed(data)
        reader.close()
    except RemoteProtocolError as error:
        raise CaptureError(error.offset, f"{name}: expected a HELLO: {error}") from error
    if not messages or not isinstance(messages[0], Hello):
        raise CaptureError(0, f"{name}: expected a HELLO, got no bytes")
    return messages[0]


def judge_stream(
    file: CountingFile,
    start: bytes,
    name: str,
    report: Callable[[Finding], None],
    summary: Summary,
    peer: Hello | None = None,
    observe: Observe | None = None,
) -> ConnectionFacts:
    """Judge a raw stream to its end: what is told of it by itself.

    Args:
        file: behind `start`.
        start: its first bytes.
        name: for findings.
        report: receives each finding.
        summary: totals to add to.
        peer: the other direction's HELLO: settles the agreement.
        observe: receives each verdict.
    """
    facts = ConnectionFacts(name, 1, None)

    def tell(finding: Finding) -> None:
        facts.add_finding(finding)
        report(finding)

    judge = _StreamJudge(name, tell, summary, peer, observe)
    judge.run(file, start)
    judge.describe(facts)
    return facts


class _StreamJudge:
    def __init__(
        self,
        name: str,
        report: Callable[[Finding], None],
        summary: Summary,
        peer: Hello | None,
        observe: Observe | None,
    ) -> None:
        self._name = name
        self._report = report
        self._summary = summary
        self._peer = peer
        self._observe = observe
        self._rounds = Latencies(summary)  # without times, what became of proposals
        self._judge = OneWay()
        self._hellos: dict[HelloRole, Hello] = {}
        self._agreement: Agreement | None = None
        self._settled = False
        self._size = 0
        self._unjudged_told = False

    def run(self, file: CountingFile, start: bytes) -> None:
        self._summary.connections += 1
        # The HELLO first, since it may settle what the rest is judged by.
        opening = start + file.read_fully(HELLO_FRAME_BYTES - len(start))
        self._size = len(opening)
        outcomes = self._judge.feed(opening)
        self._take(outcomes)
        hello = next((o.message for o in outcomes if not isinstance(o, Resumed | UnjudgedFrame)), None)
        if isinstance(hello, Hello):
            self._hellos[hello.role] = hello
            self._settle(hello)
        try:
            while data := file.read(_STEP):
                self._size += len(data)
                self._take(self._judge.feed(data))
        except CutError as error:  # what ends here is the file, not the stream
            self._report(
                Finding(Severity.INCOMPLETE, CaptureCode.TRUNCATED, error.reason, self._name, offset=self._size)
            )
        else:
            self._take(self._judge.close())
        self._summary.unjudged_bytes += self._judge.unjudged_bytes
        self._summary.add_rounds(self._judge.counters, both_seen=False)
        direction = self._judge.direction
        if direction is not None:
            self._summary.bytes[str(direction)] += self._size
            message = f"one direction alone: not judged are {_NOT_JUDGED[direction]}"
            if self._settled:
                message += "; the peer's HELLO settled the agreement, so its id and capacities were judged"
            elif self._peer is None:
                message += _CAPACITIES
            self._find(Severity.NOTE, CaptureCode.ONE_WAY, message, None)

    def describe(self, facts: ConnectionFacts) -> None:
        """What is told of the stream by itself."""
        facts.hellos, facts.agreement = self._hellos, self._agreement
        facts.add_rounds(self._judge.counters)
        if self._judge.direction is not None:
            facts.bytes[str(self._judge.direction)] = self._size

    def _settle(self, own: Hello) -> None:
        """Judge what follows by the agreement, if the peer's HELLO was given."""
        if self._peer is None:
            return
        offer, answer = (own, self._peer) if own.role is HelloRole.OFFER else (self._peer, own)
        try:
            agreement = agree(offer, answer)
        except RemoteProtocolError as error:
            self._reject(error)
            return
        self._judge = OneWay(
            self._judge.direction,
            offset=HELLO_FRAME_BYTES,
            agreement=agreement,
            hello=own,
            next_sequence=1,
        )
        self._settled, self._agreement = True, agreement

    def _take(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, UnjudgedFrame):
                self._summary.frames[outcome.message_type.name.lower()] += 1
                self._summary.unjudged_frames += 1
                if not self._unjudged_told:
                    self._unjudged_told = True
                    message = "without a HELLO only headers and checksums can be judged, from this frame on"
                    self._find(Severity.INCOMPLETE, CaptureCode.UNJUDGED, message, outcome.offset)
            elif not isinstance(outcome, Resumed):
                self._summary.count_frame(outcome)
                if self._judge.follows_sessions:
                    self._rounds.see(outcome, None)
                if self._observe is not None:
                    self._observe(Seen(self._name, 1, None, outcome.direction, outcome, None, None, uncertain=False))
                if outcome.error is not None:
                    self._reject(outcome.error)

    def _reject(self, error: RemoteProtocolError) -> None:
        self._report(
            reject_finding(
                error,
                file=self._name,
                packet=None,
                time_ns=None,
                connection=1,
                endpoints=None,
                direction=self._direction,
                uncertain=False,
            )
        )

    @property
    def _direction(self) -> str | None:
        return None if self._judge.direction is None else str(self._judge.direction)

    def _find(self, severity: Severity, code: CaptureCode, message: str, offset: int | None) -> None:
        direction = self._direction
        self._report(Finding(severity, code, message, self._name, connection=1, direction=direction, offset=offset))
