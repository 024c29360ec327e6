"""What came of judging files, in one shape for text, JSON and pages."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from pp1wire.capture.connections import ConnectionFacts
from pp1wire.capture.findings import ExitStatus, Finding, Severity
from pp1wire.capture.rounds import Rounds
from pp1wire.capture.summary import Summary

__all__ = ["REPORT_VERSION", "FileResult", "Result"]

REPORT_VERSION: Final = 1
"""Of what `Result.to_json` gives; another one when something that was there changes or goes."""

_STATUSES: Final = (
    (Severity.INVALID, ExitStatus.INVALID),
    (Severity.UNREADABLE, ExitStatus.UNREADABLE),
    (Severity.INCOMPLETE, ExitStatus.INCOMPLETE),
)


@dataclass(slots=True)
class FileResult:
    """One file: its kind ("pcapng", "pcap", "stream", or None), bytes read, times of its packets, and findings by severity.

    `source` is what it is opened by again: a URL may hold a secret there that `name` leaves out. It is not shown.
    """

    name: str
    kind: str | None = None
    size: int = 0
    began_ns: int | None = None
    ended_ns: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    source: str | None = field(default=None, repr=False)

    @property
    def status(self) -> ExitStatus:
        """What a run on this file alone would end with."""
        return _status(self.counts)

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {
            "name": self.name,
            "kind": self.kind,
            "bytes": self.size,
            "began_ns": self.began_ns,
            "ended_ns": self.ended_ns,
            "status": self.status.name.lower(),
            "findings": _by_severity(self.counts),
        }


@dataclass(slots=True)
class Result:
    """What came of all files.

    Attributes:
        files: in the order given.
        findings: in the order of the capture; at most so many of each severity as the validator keeps.
        counts: all findings by severity, also those not kept.
        connections: those that speak PP1, by file and number; the first `MAX_CONNECTIONS_TOLD`.
        summary: totals.
        rounds: single rounds, where somebody followed them; not put there by `validate`.
    """

    files: list[FileResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    connections: list[ConnectionFacts] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)
    rounds: Rounds | None = None

    @property
    def left_out(self) -> int:
        """Findings that were counted but not kept."""
        return sum(self.counts.values()) - len(self.findings)

    @property
    def status(self) -> ExitStatus:
        """The exit status: invalid before unreadable before incomplete."""
        return _status(self.counts)

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`; the same for the same files. `report_schema` describes it."""
        return {
            "report_version": REPORT_VERSION,
            "status": self.status.name.lower(),
            "counts": _by_severity(self.counts),
            "findings": [finding.to_json() for finding in self.findings],
            "findings_left_out": self.left_out,
            "summary": self.summary.to_json(),
            "files": [file.to_json() for file in self.files],
            "connections": [facts.to_json() for facts in self.connections],
            "connections_left_out": self.summary.connections - len(self.connections),
            "rounds": None if self.rounds is None else self.rounds.to_json(),
        }


def _status(counts: Counter[str]) -> ExitStatus:
    return next((status for severity, status in _STATUSES if counts[str(severity)]), ExitStatus.VALID)


def _by_severity(counts: Counter[str]) -> dict[str, int]:
    return {str(severity): counts[str(severity)] for severity in Severity}
