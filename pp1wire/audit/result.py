"""What an audit comes to."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Any

from pp1wire.audit.surprise import Surprise
from pp1wire.capture.findings import ExitStatus, Finding, KeptFindings, Severity
from pp1wire.capture.validate import Result as Validation

__all__ = ["AuditCode", "Result", "schema"]

_SHOWN_CONNECTIONS = 100


class AuditCode(StrEnum):
    """Codes of the audit's findings; those of the judge stand beside them."""

    WRONG_Q = "wrong_q"
    """A row is not what its logits make it."""
    WRONG_TOKEN = "wrong_token"  # noqa: S105 - a code
    """The row is right, and the token is not the ticket's."""
    WRONG_COMMIT = "wrong_commit"
    """A COMMIT is not what target rows, proposal and coins give."""
    REUSED_TICKETS = "reused_tickets"
    """Two rounds of different texts have the address of their randomness in common."""
    REPEATED_REQUEST = "repeated_request"
    """A request with the seed and the tokens of another one: run again, or not to be told from it."""
    STEERED = "steered"
    """The drawn tokens are more, or less, likely than honest drawing makes them."""
    UNUSABLE_ARRAY = "unusable_array"
    """An array cannot be read, or is no law."""
    NOT_AUDITED = "not_audited"
    """Something the files should have is not there."""
    UNUSED_ARRAYS = "unused_arrays"
    """Arrays that no round asked for."""


@dataclass(slots=True)
class Result:
    """An audit.

    Attributes:
        validation: the judge's.
        backend: what recomputed.
        rows, rows_recomputed, rows_wrong: rows that passed the judge; those with logits; those of these that differ.
        commits, commits_replayed, commits_wrong: COMMITs likewise.
        steps, steps_reused, steps_not_compared: rounds asked for; those whose tickets were used before; those that
            later ones were not compared with, as memory is bounded.
        surprise: over all rows.
        by_position: by place in the round, from 0.
        by_connection: by number.
        left_out: what was not audited, by reason.
        unused_arrays: in the files, but of no round of the capture.
    """

    validation: Validation
    backend: str = "numpy"
    rows: int = 0
    rows_recomputed: int = 0
    rows_wrong: int = 0
    commits: int = 0
    commits_replayed: int = 0
    commits_wrong: int = 0
    steps: int = 0
    steps_reused: int = 0
    steps_not_compared: int = 0
    surprise: Surprise = field(default_factory=Surprise)
    by_position: dict[int, Surprise] = field(default_factory=dict)
    by_connection: dict[int, Surprise] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    unused_arrays: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """The audit's own findings, by severity."""
    findings: list[Finding] = field(default_factory=list)
    """The audit's own, in the order of the capture."""

    @property
    def status(self) -> ExitStatus:
        """0 all right; 1 something is wrong; 3 something is unreadable; 2 not everything could be audited."""
        for severity, status in (
            (Severity.INVALID, ExitStatus.INVALID),
            (Severity.UNREADABLE, ExitStatus.UNREADABLE),
            (Severity.INCOMPLETE, ExitStatus.INCOMPLETE),
        ):
            if self.counts[str(severity)] or self.validation.counts[str(severity)]:
                return status
        return ExitStatus.VALID

    @property
    def word(self) -> str:
        """The status for people."""
        return {0: "all right", 1: "wrong", 2: "incomplete", 3: "unreadable"}[int(self.status)]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as `schema()` says."""
        shown = sorted(self.by_connection)[:_SHOWN_CONNECTIONS]
        return {
            "status": self.word.replace(" ", "_"),
            "backend": self.backend,
            "rows": {"seen": self.rows, "recomputed": self.rows_recomputed, "wrong": self.rows_wrong},
            "commits": {"seen": self.commits, "replayed": self.commits_replayed, "wrong": self.commits_wrong},
            "steps": {"seen": self.steps, "reused": self.steps_reused, "not_compared": self.steps_not_compared},
            "surprise": {
                "total": self.surprise.to_json(),
                "by_position": [{"position": n, **self.by_position[n].to_json()} for n in sorted(self.by_position)],
                "by_connection": [{"connection": n, **self.by_connection[n].to_json()} for n in shown],
                "connections_left_out": len(self.by_connection) - len(shown),
            },
            "left_out": dict(sorted(self.left_out.items())),
            "unused_arrays": self.unused_arrays,
            "counts": {str(severity): self.counts[str(severity)] for severity in Severity},
            "findings": [finding.to_json() for finding in self.findings],
            "findings_left_out": sum(self.counts.values()) - len(self.findings),
            "validation": {
                "status": self.validation.status.name.lower(),
                "counts": {str(severity): self.validation.counts[str(severity)] for severity in Severity},
                "findings": [finding.to_json() for finding in self.validation.findings],
                "findings_left_out": self.validation.left_out,
            },
        }

    def lines(self, most: int = 12) -> list[str]:
        """The report for people, with at most so many findings of the judge and of the audit."""
        told = self.surprise
        z = (
            "nothing was left to chance"
            if told.z is None
            else f"z = {told.z:+.2f}, evidence {told.evidence:.2g} of 1e+06"
        )
        lines = [
            f"audit: {self.word}",
            f"  judge      {self.validation.status.name.lower()}",
            f"  q          {self.rows} rows, {self.rows_recomputed} recomputed ({self.backend}), {self.rows_wrong} wrong",
            f"  decisions  {self.commits} COMMITs, {self.commits_replayed} replayed, {self.commits_wrong} wrong",
            f"  tickets    {self.steps} rounds, {self.steps_reused} with tickets used before",
            f"  steering   Σ(−ln q(x) − H(q)) = {told.sum:+.3f} nats over {told.rows} rows, variance {told.variance:.3f}: {z}",
        ]
        for position in sorted(self.by_position):
            one = self.by_position[position]
            score = "–" if one.z is None else f"{one.z:+.2f}"
            lines.append(
                f"    position {position}: {one.sum:+.3f} over {one.rows} rows, z = {score}, evidence {one.evidence:.2g}"
            )
        lines += [f"  left out   {count} × {reason}" for reason, count in sorted(self.left_out.items())]
        for findings, total in (
            (self.validation.findings, sum(self.validation.counts.values())),
            (self.findings, sum(self.counts.values())),
        ):
            lines += [_line(finding) for finding in findings[:most]]
            if total > most:
                lines.append(f"  and {total - most} more; --json has them")
        return lines


def _line(finding: Finding) -> str:
    place = f"packet {finding.packet}, " if finding.packet is not None else ""
    if finding.connection is not None:
        place += f"connection {finding.connection}, "
    if finding.identity is not None:
        place += "session {}, generation {}, round {}, ".format(*finding.identity)
    return f"{finding.severity}: {place}{finding.code}: {finding.message}"


class Findings:
    """Keeps the audit's findings and counts them all."""

    def __init__(self, result: Result, most: int) -> None:
        self._result = result
        self._kept = KeptFindings(most)
        self._most = most

    def add(self, finding: Finding) -> None:
        """Count it, and keep it if there is room."""
        self._result.counts[str(finding.severity)] += 1
        self._kept.add(finding)

    def finish(self) -> None:
        """Hand over what was kept."""
        self._result.findings = self._kept.ordered()


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """The JSON schema of `Result.to_json`."""
    loaded: dict[str, Any] = json.loads(files("pp1wire.audit").joinpath("audit.schema.json").read_text("utf-8"))
    return loaded
