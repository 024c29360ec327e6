"""What came of an attack, as a table for people and as plain values for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pp1wire.attack.case import Case
from pp1wire.attack.outcomes import Observation, Result, Target, Verdict

__all__ = ["Report", "judged", "not_run", "skipped"]


def judged(case: Case, seen: Observation) -> Result:
    """The verdict on what was seen."""
    right = seen.outcome in case.expect and seen.fits
    return _result(
        case, str(seen.outcome), Verdict.RIGHT if right else Verdict.WRONG, seen.detail or _visible(case, right)
    )


def skipped(case: Case, why: str) -> Result:
    """A case that this endpoint, or what it agreed on, does not allow."""
    return _result(case, None, Verdict.SKIPPED, why)


def not_run(case: Case, why: str) -> Result:
    """A case that there was no time, or nobody left, for."""
    return _result(case, None, Verdict.NOT_RUN, why)


def _result(case: Case, observed: str | None, verdict: Verdict, detail: str) -> Result:
    code = None if case.code is None else case.code.name.lower()
    return Result(case.name, code, tuple(sorted(map(str, case.expect))), observed, verdict, detail)


def _visible(case: Case, right: bool) -> str:
    # The protocol tells a peer that it was refused, never why.
    return "code not visible" if right and case.code is not None else ""


@dataclass(slots=True)
class Report:
    """The results so far; they are added as they come, so that an interrupted attack can be told, too."""

    target: Target
    address: str
    seed: int
    results: list[Result] = field(default_factory=list)
    terms: dict[str, Any] = field(default_factory=dict)
    """What the endpoint is bound to, as `--terms` takes it."""
    interrupted: bool = False

    @property
    def wrong(self) -> list[Result]:
        """What the endpoint did wrong."""
        return [r for r in self.results if r.verdict is Verdict.WRONG]

    @property
    def complete(self) -> bool:
        """Whether every case was run, or skipped for a reason."""
        return not self.interrupted and all(r.verdict is not Verdict.NOT_RUN for r in self.results)

    def counts(self) -> dict[str, int]:
        """Cases by verdict."""
        found = Counter(r.verdict for r in self.results)
        return {str(verdict): found[verdict] for verdict in Verdict}

    def to_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`; the keys are stable."""
        return {
            "target": str(self.target), "address": self.address, "seed": self.seed, "ok": not self.wrong,
            "complete": self.complete, "counts": self.counts(), "terms": self.terms,
            "cases": [r.to_json() for r in self.results],
        }  # fmt: skip

    def lines(self) -> list[str]:
        """A table with a line a case that was run, then what was wrong, then the totals."""
        run = [r for r in self.results if r.verdict is not Verdict.NOT_RUN]
        rows = [
            (r.case, r.code or "-", " or ".join(r.expected), r.observed or "-", str(r.verdict), r.detail) for r in run
        ]
        lines = table(("case", "code", "expected", "observed", "verdict", "detail"), rows)
        if self.wrong:
            lines += ["", f"The {self.target} at {self.address} is wrong in:"]
            lines += [f"  {r.case}: {_told(r)}" for r in self.wrong]
        left = [r for r in self.results if r.verdict is Verdict.NOT_RUN]
        if left:
            lines += ["", f"Not run, from {left[0].case} on: {left[0].detail}"]
        counts = self.counts()
        told = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v] or v in (Verdict.RIGHT, Verdict.WRONG))
        return [*lines, "", f"{len(self.results)} cases: {told}" + ("" if self.complete else "; not complete")]


def _told(result: Result) -> str:
    what = f"{result.observed} instead of {' or '.join(result.expected)}"
    if result.observed in result.expected:
        what = f"{result.observed}, but not as it should be"
    return what + (f" ({result.detail})" if result.detail else "")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their longest entry; the last is not padded."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
