"""The result of `validate` as text: one line a finding, then a summary that fits a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pp1wire.capture.findings import Finding, Severity
from pp1wire.capture.histogram import Histogram
from pp1wire.capture.summary import Summary
from pp1wire.capture.text import printable, time_text
from pp1wire.capture.validate import Result

__all__ = ["finding_line", "report_lines"]

_STAGES: Final = {
    "step_to_first_row": "STEP to first row",
    "step_to_completion": "STEP to COMPLETION",
    "completion_to_commit": "COMPLETION to COMMIT",
}
_WIDTH: Final = 100
_LABEL: Final = 22


def finding_line(finding: Finding) -> str:
    """One line: severity, code, where, what."""
    where: list[str] = []
    if finding.packet is not None:
        where.append(f"packet {finding.packet}")
    if finding.time_ns is not None:
        where.append(time_text(finding.time_ns))
    if finding.endpoints is not None:
        where.append(f"connection {finding.connection} ({finding.endpoints})")
    if finding.direction is not None:
        where.append(finding.direction)
    if finding.identity is not None and any(finding.identity):
        where.append("session {} generation {} round {}".format(*finding.identity))
    if finding.offset is not None:
        where.append(f"byte {finding.offset}")
    marks = [f"{finding.scope} scope"] if finding.scope is not None else []
    marks += ["uncertain"] if finding.uncertain else []
    behind = f" [{', '.join(marks)}]" if marks else ""
    place = f", {', '.join(where)}" if where else ""
    what = finding.code if finding.code == finding.severity else f"{finding.severity} {finding.code}"
    return printable(f"{what}: {finding.file}{place}: {finding.message}{behind}")


def report_lines(result: Result) -> Iterator[str]:
    """The whole report for people, line by line; the same for the same files."""
    for finding in result.findings:
        yield finding_line(finding)
    if result.left_out:
        yield f"… and {_count(result.left_out, 'more finding')}, only counted"
    summary = result.summary
    if summary.packets or summary.connections:
        if result.findings:
            yield ""
        yield from _summary_lines(summary)
    counts = ", ".join(f"{result.counts[str(s)]:,} {s}" for s in Severity if result.counts[str(s)])
    yield f"{result.status.name.lower()}: {counts or 'no findings'}"


def _summary_lines(summary: Summary) -> Iterator[str]:
    yield _row(
        "read",
        f"{_count(summary.files, 'file')}, {_count(summary.packets, 'packet')}, "
        f"{_count(summary.connections, 'PP1 connection')}, {summary.skipped_connections:,} skipped",
    )
    if summary.skipped_packets:
        yield _row("packets not read", _counts(summary.skipped_packets))
    yield _row("bytes", ", ".join(f"{name} {count:,}" for name, count in summary.bytes.items()))
    yield _row("frames", ", ".join(f"{count:,} {name.upper()}" for name, count in summary.frames.items()))
    if summary.unjudged_frames or summary.unjudged_bytes:
        unjudged = _count(summary.unjudged_frames, "frame"), _count(summary.unjudged_bytes, "other byte")
        yield _row("not judged", ", ".join(unjudged))
    proposals = _count(summary.proposals, "proposal")
    yield _row("rounds", f"{summary.rounds:,} asked for, {proposals}, {summary.unanswered:,} unanswered")
    for name, counts in (
        ("discarded", summary.discards),
        ("stale, dropped", summary.stale),
        ("faults", summary.faults),
    ):
        if counts:
            yield _row(name, _counts(counts))
    yield _row(
        "committed",
        f"{_count(summary.tokens, 'token')} by {_count(summary.commits, 'proposal')} "
        f"and {summary.target_only:,} of the target alone",
    )
    shares = [
        f"{100 * count / offered:.1f} %"
        for count, offered in zip(summary.committed, summary.offered, strict=True)
        if offered
    ]
    if shares:
        yield _row("accepted by position", ", ".join(shares) + f"; {summary.tokens_a_proposal:.2f} tokens a proposal")
    for stage, name in _STAGES.items():
        if summary.latencies[stage].count:
            yield _row(name, _times(summary.latencies[stage]))
    if summary.holes:
        yield _row("missing", f"{_counts(summary.holes)}; {_count(summary.missing_bytes, 'byte')} known to be")
    if summary.uncertain_frames or summary.uncertain_findings:
        uncertain = _count(summary.uncertain_frames, "frame"), _count(summary.uncertain_findings, "finding")
        yield _row("uncertain", f"{' and '.join(uncertain)}, behind what is missing or contradicts itself")


def _row(name: str, text: str) -> str:
    """One line of a screen: what would be too long ends in "…"; --json has it all."""
    line = f"{name:<{_LABEL}}{text}"
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _times(times: Histogram) -> str:
    named = {"least": times.least, "p50": times.quantile(0.5), "p99": times.quantile(0.99), "most": times.most}
    told = ", ".join(f"{name} {(ns or 0) / 1e6:.3f}" for name, ns in named.items())
    return f"{told} ms ({times.count:,})"
