"""The result of `validate` as text: one line a finding, then a summary that fits a screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pp1wire.capture.findings import Finding, Severity
from pp1wire.capture.histogram import Histogram
from pp1wire.capture.result import Result
from pp1wire.capture.sources import Kind
from pp1wire.capture.summary import Summary
from pp1wire.capture.text import printable, time_text

__all__ = ["MAX_COLUMNS", "MAX_LINES", "finding_line", "report_lines"]

MAX_LINES: Final = 24
"""Lines of a summary, whatever there is to tell."""

MAX_COLUMNS: Final = 100
"""Of a line of the summary; lines of findings are as long as they are."""

_NAME: Final = 22
_NARROW: Final = 11  # of a column of figures
_STAGES: Final = {
    "step_to_first_row": "STEP to first row",
    "step_to_completion": "STEP to COMPLETION",
    "completion_to_commit": "COMPLETION to COMMIT",
}
_UNITS: Final = ((10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))


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
    """The whole report for people, line by line; the same for the same files.

    Behind the findings at most `MAX_LINES` of at most `MAX_COLUMNS` each: the summary, and one line that says how it ended.
    """
    for finding in result.findings:
        yield finding_line(finding)
    if result.left_out:
        yield f"… and {_count(result.left_out, 'more finding')}, only counted"
    summary = result.summary
    if summary.packets or summary.connections:
        if result.findings:
            yield ""
        timed = all(file.kind != Kind.STREAM for file in result.files)
        yield from _summary_lines(summary, timed)
    counts = ", ".join(f"{result.counts[str(s)]:,} {s}" for s in Severity if result.counts[str(s)])
    yield f"{result.status.name.lower()}: {counts or 'no findings'}"


def _summary_lines(summary: Summary, timed: bool) -> Iterator[str]:
    read = [_count(summary.files, "file"), _count(summary.packets, "packet")]
    read += [_count(summary.connections, "PP1 connection"), f"{summary.skipped_connections:,} skipped"]
    yield from _rows("read", read)
    yield from _counts("packets not read", summary.skipped_packets)
    yield from _rows("bytes", [f"{name} {count:,}" for name, count in summary.bytes.items()])
    names = [f"{count:,} {name.upper()}" for name, count in summary.frames.items()]
    yield from _rows("frames", names, lines=2)
    if summary.unjudged_frames or summary.unjudged_bytes:
        unjudged = _count(summary.unjudged_frames, "frame"), _count(summary.unjudged_bytes, "other byte")
        yield from _rows("not judged", unjudged)
    if summary.holes:
        known = [_count(summary.missing_bytes, "byte")] if summary.missing_bytes else []
        yield from _rows("missing", [*_named(summary.holes), *known])
    if summary.uncertain_frames or summary.uncertain_findings:
        frames = _count(summary.uncertain_frames, "frame")
        of_rounds = f" ({_count(summary.uncertain_rounds, 'STEP')})" if summary.uncertain_rounds else ""
        yield from _rows("uncertain", [frames + of_rounds, _count(summary.uncertain_findings, "finding")])
    rounds = [f"{summary.rounds:,} asked for", _count(summary.proposals, "proposal")]
    yield from _rows("rounds", [*rounds, f"{summary.unanswered:,} unanswered"])
    yield from _counts("discarded", summary.discards, lines=2)
    yield from _counts("stale, dropped", summary.stale)
    yield from _counts("faults", summary.faults)
    committed = f"{_count(summary.tokens, 'token')} by {_count(summary.commits, 'proposal')}"
    yield from _rows("committed", [committed, f"{summary.target_only:,} of the target alone"])
    if summary.commits or summary.target_only:
        yield from _rows("pace", _pace(summary, timed))
    if summary.offered[0]:
        yield from _acceptance(summary)
    if any(summary.latencies[key].count for key in _STAGES):
        yield _figures("latency", ("least", "median", "99 %", "most", "rounds"))
    for key, name in _STAGES.items():
        if summary.latencies[key].count:
            yield _figures(name, _times(summary.latencies[key]))


def _pace(summary: Summary, timed: bool) -> Iterator[str]:
    """How much a round brought, and how fast it went, unless some of it was in raw streams, which have no times."""
    if summary.commits:
        yield f"{summary.tokens_a_proposal:.2f} tokens a proposal"
    if timed and summary.span_ns > 0:
        seconds = summary.span_ns / 1e9
        yield f"{_number(summary.rounds / seconds)} rounds/s"
        yield f"{_number(summary.tokens / seconds)} tokens/s"
        yield f"over {_time(summary.span_ns)}"


def _acceptance(summary: Summary) -> Iterator[str]:
    places = [place for place, offered in enumerate(summary.offered) if offered]
    yield _figures("position", [str(place + 1) for place in places])
    for name, of in (("accepted", summary.offered), ("accepted if reached", summary.reached)):
        yield _figures(name, [_percent(summary.committed[place], of[place]) for place in places])


def _times(times: Histogram) -> Iterator[str]:
    for value in (times.least, times.quantile(0.5), times.quantile(0.99), times.most):
        yield _time(0 if value is None else value)
    yield f"{times.count:,}"


def _counts(name: str, counts: Mapping[str, int], *, lines: int = 1) -> Iterator[str]:
    if counts:
        yield from _rows(name, _named(counts), lines=lines)


def _named(counts: Mapping[str, int]) -> list[str]:
    """The most frequent first."""
    return [f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]


def _rows(name: str, pieces: Iterable[str], *, lines: int = 1) -> Iterator[str]:
    """Pieces side by side, on so many lines at most; of those that do not fit, how many there are."""
    waiting = list(pieces)
    for left in reversed(range(lines)):
        line = ""
        while waiting:
            longer = f"{line}, {waiting[0]}" if line else waiting[0]
            behind = "," if left and len(waiting) > 1 else f", and {len(waiting) - 1} more" if len(waiting) > 1 else ""
            if line and _NAME + len(longer) + len(behind) > MAX_COLUMNS:
                break
            line = longer
            waiting.pop(0)
        if not left and waiting:
            line += f", and {len(waiting)} more"
        yield _row(name, line + ("," if left and waiting else ""))
        name = ""
        if not waiting:
            return


def _row(name: str, text: str) -> str:
    return f"{name:<{_NAME}}{text}"


def _figures(name: str, figures: Iterable[str]) -> str:
    return _row(name, "".join(f"{figure:>{_NARROW}}" for figure in figures))


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _percent(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else "–"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _time(nanoseconds: int) -> str:
    """Three digits or more and a unit."""
    unit, name = next(((u, n) for u, n in _UNITS if abs(nanoseconds) >= u), _UNITS[-1])
    value = nanoseconds / unit
    return f"{value:,.{0 if unit == 1 or abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f} {name}"
