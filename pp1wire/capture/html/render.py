"""The report as one HTML page."""

from __future__ import annotations

from typing import Final

import pp1wire
from pp1wire.capture.findings import ExitStatus, Severity
from pp1wire.capture.html.clock import duration_text
from pp1wire.capture.html.excerpts import excerpts_of
from pp1wire.capture.html.findings_list import MAX_EXCERPTS, MAX_FINDINGS, chosen, findings_list
from pp1wire.capture.html.markup import Html, element, join
from pp1wire.capture.html.page import document
from pp1wire.capture.html.places import place_of
from pp1wire.capture.html.plots import Curve, acceptance_table, latency_plot
from pp1wire.capture.html.tables import counted, facts, table
from pp1wire.capture.html.timeline import patterns, rounds_table, timeline
from pp1wire.capture.rounds import MAX_KEPT, Rounds
from pp1wire.capture.validate import Result

__all__ = ["render"]

_VERDICTS: Final = {
    ExitStatus.VALID: ("✓ valid", "Every byte was judged, and nothing is wrong."),
    ExitStatus.INVALID: ("✗ invalid", "A rule of the protocol was broken."),
    ExitStatus.INCOMPLETE: ("◐ incomplete", "What is there is right, but not everything is there."),
    ExitStatus.UNREADABLE: ("⚠ unreadable", "A file is no capture, or is damaged from some byte on."),
}


_STAGES: Final = {
    "step_to_first_row": "STEP to first row",
    "step_to_completion": "STEP to COMPLETION",
    "completion_to_commit": "COMPLETION to COMMIT",
}


def render(result: Result, rounds: Rounds) -> bytes:
    """The whole page, in UTF-8; the same for the same files.

    The files' bytes around wrong fields are read here, from the files again.

    Args:
        result: of `validate`.
        rounds: what was its `observe`.
    """
    shown = chosen(result.findings, MAX_FINDINGS)
    speaking = [finding for finding in shown if place_of(finding) is not None]
    sought = {id(finding) for finding in chosen(speaking, MAX_EXCERPTS)}
    indexes = [index for index, finding in enumerate(shown) if id(finding) in sought]
    found = excerpts_of([shown[index] for index in indexes], _sources(result))
    excerpts = {index: found.get(number) for number, index in enumerate(indexes)}
    several = len(result.files) > 1
    sections = [
        ("summary", "Summary", _summary(result)),
        ("findings", "Findings", findings_list(shown, excerpts, sum(result.counts.values()))),
        ("rounds", "Rounds", _rounds(rounds, several)),
        ("acceptance", "Acceptance", _acceptance(result, rounds)),
        ("latency", "Latency", _latency(result)),
        ("terms", "Negotiated terms", _terms(rounds, several)),
        ("discards", "Discards and gaps", _losses(result)),
        ("files", "Files", _files(result)),
    ]
    names = ", ".join(file.name for file in result.files[:3])
    return document(f"{_VERDICTS[result.status][0]}: {names}", sections, join(patterns(), _top(result)), _foot())


def _sources(result: Result) -> dict[str, str]:
    """What the files are opened by again, by name; "" for those whose names are shown alike, but are not."""
    sources: dict[str, str] = {}
    for file in result.files:
        if file.source is not None and sources.setdefault(file.name, file.source) != file.source:
            sources[file.name] = ""
    return sources


def _top(result: Result) -> Html:
    verdict, meaning = _VERDICTS[result.status]
    counts = [f"{result.counts[str(s)]:,} {s}" for s in Severity if result.counts[str(s)]]
    return join(
        element("h1", "PP1 capture report"),
        element(
            "p",
            element("span", verdict, class_=f"badge large {result.status.name.lower()}"),
            element("span", meaning),
            element("span", f"Findings: {', '.join(counts) or 'none'}.", class_="dim"),
            class_="verdict",
        ),
        element(
            "p",
            element("strong", "This page holds user content: "),
            "token ids, proposal seeds and bytes of the capture. Keep it as private as the capture itself.",
            class_="private",
        ),
    )


def _foot() -> Html:
    keys = (
        ("j", "next finding"),
        ("k", "finding before"),
        ("Enter", "open or close it"),
        ("/", "search"),
        ("?", "this help"),
    )
    help_ = element(
        "dialog",
        element("h2", "Keys", id="help-title"),
        facts((key, what) for key, what in keys),
        element("p", "Arrows, Home and End move between the bars of the timeline; Escape leaves the search."),
        element("p", element("label", element("input", type="checkbox", id="keys", checked=True), " keys of one letter are on")),
        element("form", element("button", "Close"), method="dialog"),
        id="help", aria_labelledby="help-title",
    )  # fmt: skip
    return join(
        element(
            "p",
            f"Written by pp1wire {pp1wire.__version__}, pp1wire validate --html. Nothing in this page is fetched from anywhere. ",
            element("button", "Keys", type="button", id="show-help", hidden=True, data_needs_script=True),
        ),
        help_,
    )


def _summary(result: Result) -> Html:
    summary = result.summary
    drafted = summary.tokens - summary.target_only
    tiles = [
        ("rounds", f"{summary.rounds:,}", f"{summary.proposals:,} proposals"),
        ("discarded", f"{sum(summary.discards.values()):,}", f"{summary.unanswered:,} unanswered"),
        ("tokens committed", f"{summary.tokens:,}", f"{summary.target_only:,} of the target alone"),
    ]
    if summary.commits:
        tiles.append(("tokens a proposal", f"{drafted / summary.commits:.2f}", f"{summary.commits:,} committed"))
    span = summary.latencies["step_to_completion"]
    if span.count:
        mean = duration_text(span.total // span.count)
        tiles.append(("STEP to COMPLETION", mean, f"mean of {span.count:,}"))
    frames = [(name.upper(), f"{count:,}") for name, count in summary.frames.items()]
    read = [
        ("files", f"{summary.files:,}"),
        ("packets", f"{summary.packets:,}"),
        ("PP1 connections", f"{summary.connections:,}"),
        ("other connections", f"{summary.skipped_connections:,}"),
        *((f"bytes sent by the {name}", f"{count:,}") for name, count in summary.bytes.items()),
    ]
    return join(
        element("dl", *(_tile(*tile) for tile in tiles), class_="tiles"),
        element(
            "div",
            element("div", element("h3", "Read"), table("What was read", ("what", "count"), read, numbers=[1])),
            element("div", element("h3", "Frames"), table("Frames by message", ("message", "frames"), frames, numbers=[1])),
            class_="pair",
        ),
    )  # fmt: skip


def _tile(name: str, value: str, more: str) -> Html:
    return element("div", element("dt", name), element("dd", value, element("small", more)))


def _rounds(rounds: Rounds, several: bool) -> Html:
    timed = [one for one in rounds.kept[:MAX_KEPT] if "step" in one.times]
    if not timed:
        why = "No round has a time: raw streams have no packets." if rounds.count else "No rounds were judged."
        return element("p", why, class_="dim")
    of = (
        f"The first {len(timed):,} of {rounds.count:,} rounds"
        if rounds.count > len(timed)
        else f"All {rounds.count:,} rounds"
    )
    how = "Point at a bar, or move with Tab and the arrow keys, for its packets; choose it for its line in the table."
    return join(element("p", f"{of}. {how}", class_="dim"), timeline(timed, several), rounds_table(timed, several))


def _acceptance(result: Result, rounds: Rounds) -> Html:
    summary = result.summary
    if not summary.offered[0]:
        return element("p", "No proposal was committed.", class_="dim")
    kinds = [(name, f"{count:,}") for name, count in sorted(rounds.commits.items())]
    return join(
        acceptance_table(summary.committed, summary.offered, summary.reached),
        table("COMMITs by kind", ("kind", "count"), kinds, numbers=[1]),
    )


def _latency(result: Result) -> Html:
    held = {name: result.summary.latencies[stage] for stage, name in _STAGES.items()}
    if not any(one.count for one in held.values()):
        return element("p", "No stage of a round was seen whole, with times.", class_="dim")
    rows = []
    for name, one in held.items():
        times = (one.least, one.quantile(0.5), one.quantile(0.9), one.quantile(0.99), one.most)
        rows.append((name, f"{one.count:,}", *("–" if time is None else duration_text(time) for time in times)))
    titles = ("stage", "count", "least", "p50", "p90", "p99", "most")
    plot = latency_plot([Curve(name, one.points()) for name, one in held.items() if one.count])
    values = table("By the capture's clock", titles, rows, numbers=range(1, 7))
    return element("div", plot, values, class_="pair")


def _terms(rounds: Rounds, several: bool) -> Html:
    told = rounds.terms.told()
    if not told:
        return element("p", "No HELLO was judged.", class_="dim")
    held = []
    for one in told:
        first = [f"{file}: {number}" if several else str(number) for file, number in one.connections[:8]]
        more = f" and {len(one.connections) - 8:,} more" if len(one.connections) > 8 else ""
        name = f"Connection{'' if len(one.connections) == 1 else 's'} {', '.join(first)}{more}"
        held.append(element("div", element("h3", name), facts(one.terms)))
    left_out = rounds.terms.left_out
    rest = element("p", f"{counted(left_out, 'more connection')}.", class_="dim") if left_out else None
    return join(element("div", *held, class_="pair"), rest)


def _losses(result: Result) -> Html:
    summary = result.summary
    held: list[Html] = []
    for caption, counts in (
        ("Rounds discarded, by reason", summary.discards),
        ("Messages that came too late, dropped", summary.stale),
        ("Faults that ended a direction", summary.faults),
        ("Packets not read, by reason", summary.skipped_packets),
        ("What the capture lacks or contradicts, by code", summary.holes),
    ):
        if counts:
            rows = [(name, f"{count:,}") for name, count in sorted(counts.items())]
            held.append(table(caption, ("reason", "count"), rows, numbers=[1]))
    costs = (
        ("frames not judged", summary.unjudged_frames),
        ("other bytes not judged", summary.unjudged_bytes),
        ("bytes missing", summary.missing_bytes),
        ("uncertain frames", summary.uncertain_frames),
        ("STEPs among them", summary.uncertain_rounds),
        ("uncertain findings", summary.uncertain_findings),
    )
    if any(count for _, count in costs):
        rows = [(name, f"{count:,}") for name, count in costs if count]
        held.append(table("What faults and gaps cost", ("what", "count"), rows, numbers=[1]))
    if not held:
        return element("p", "None.", class_="dim")
    return element("div", *(element("div", one) for one in held), class_="pair")


def _files(result: Result) -> Html:
    rows = [
        (
            file.name, file.kind or "–", f"{file.size:,}", file.status.name.lower(),
            *(f"{file.counts[str(severity)]:,}" for severity in Severity),
        )
        for file in result.files[:1000]
    ]  # fmt: skip
    titles = ("file", "kind", "bytes", "status", *(str(severity) for severity in Severity))
    left_out = len(result.files) - len(rows)
    more = element("p", f"{counted(left_out, 'more file')}.", class_="dim") if left_out else None
    return join(table("Files in the order they were given", titles, rows, numbers=[2, 4, 5, 6, 7]), more)
