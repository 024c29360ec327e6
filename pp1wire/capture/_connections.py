"""The connections of one file that are open, and what they hold together."""

from __future__ import annotations

from collections.abc import Callable

from pp1wire.capture.connection_judge import ConnectionJudge
from pp1wire.capture.connections import ConnectionFacts
from pp1wire.capture.events import Chunk, Connection, Ended, Opened, PacketFinding
from pp1wire.capture.findings import Finding, Severity
from pp1wire.capture.observing import Observe
from pp1wire.capture.packets import SkipCode
from pp1wire.capture.reassembly import StreamEvent
from pp1wire.capture.summary import Summary

__all__ = ["Connections"]


class Connections:
    """Hands each its events, until `finish`.

    Args:
        file: its name.
        report: takes findings.
        keep: takes what is told of each that speaks PP1, when it is over.
        summary: takes totals.
        ports: of servers that speak PP1.
        max_held: bytes of unfinished frames held, over all connections.
        observe: receives each verdict.
    """

    def __init__(
        self,
        file: str,
        report: Callable[[Finding], None],
        keep: Callable[[ConnectionFacts], None],
        summary: Summary,
        ports: frozenset[int],
        max_held: int,
        observe: Observe | None,
    ) -> None:
        self._file = file
        self._report = report
        self._keep = keep
        self._summary = summary
        self._ports = ports
        self._max_held = max_held
        self._observe = observe
        self._open: dict[int, ConnectionJudge] = {}
        self._ended: dict[int, int] = {}
        self._held: dict[int, int] = {}
        self._total = 0
        self._told: set[str] = set()

    def packet(self, finding: PacketFinding) -> None:
        """A packet that cannot be read: counted, and told the first time for each reason."""
        code = str(finding.code)
        self._summary.skipped_packets[code] += 1
        if code not in self._told:
            self._told.add(code)
            message = f"{finding.message}; more packets of this kind are only counted"
            severity = Severity.NOTE if finding.code is SkipCode.NOT_SEND else Severity.INCOMPLETE
            self._report(Finding(severity, code, message, self._file, packet=finding.packet, time_ns=finding.time_ns))

    def take(self, event: StreamEvent) -> None:
        """The next event of any connection."""
        number = event.connection.number
        if isinstance(event, Opened):
            self._open[number] = self._judge(event.connection)
            self._held[number] = 0
            return
        judge = self._open.get(number)
        if judge is None:
            return  # what comes behind both ends changes nothing
        if isinstance(event, Chunk) and (size := judge.put_off(event)):
            self._total += size
            self._held[number] += size
            if judge.is_due:
                judge.catch_up()
                self._weigh(number, judge)
        else:
            judge.take(event)
            self._weigh(number, judge)
        while self._total > self._max_held:
            self._give_up_largest()
        if isinstance(event, Ended):
            self._ended[number] = self._ended.get(number, 0) + 1
            if self._ended[number] == 2:  # directions
                self._close(number)

    def finish(self) -> None:
        """The file is over."""
        for number in list(self._open):
            self._close(number)

    def _judge(self, connection: Connection) -> ConnectionJudge:
        named = connection.server.port in self._ports
        return ConnectionJudge(connection, self._file, self._report, self._summary, named=named, observe=self._observe)

    def _give_up_largest(self) -> None:
        number = max(self._held, key=lambda n: (self._held[n], -n))
        judge = self._open[number]
        judge.catch_up()
        if judge.held == self._held[number]:
            judge.give_up(self._max_held)
        self._weigh(number, judge)

    def _weigh(self, number: int, judge: ConnectionJudge) -> None:
        held = judge.held
        self._total += held - self._held[number]
        self._held[number] = held

    def _close(self, number: int) -> None:
        facts = self._open.pop(number).finish()
        if facts is not None:
            self._keep(facts)
        self._total -= self._held.pop(number, 0)
        self._ended.pop(number, None)
