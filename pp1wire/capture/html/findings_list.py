"""The findings: each a line that opens to where it is, what it means, and the bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pp1wire.capture.findings import Finding, Severity
from pp1wire.capture.html.excerpts import Excerpt
from pp1wire.capture.html.hex_view import hex_view
from pp1wire.capture.html.markup import Html, element, join
from pp1wire.capture.html.places import place_of
from pp1wire.capture.html.tables import counted, facts
from pp1wire.capture.text import time_text
from pp1wire.wire import RejectCode

__all__ = ["MAX_EXCERPTS", "MAX_FINDINGS", "chosen", "findings_list"]

MAX_FINDINGS: Final = 1000
MAX_EXCERPTS: Final = 200
_LONGEST: Final = 2000  # of a message, which may quote what strangers sent
_BADGES: Final = {"invalid": "✗ invalid", "unreadable": "⚠ unreadable", "incomplete": "◐ incomplete", "note": "• note"}
_MEANINGS: Final = {code.name.lower(): code.meaning for code in RejectCode}
_SCOPES: Final = {
    "connection": "online it ends the connection",
    "proposal": "online it costs this round",
    "stale": "online it is dropped and counted",
}


def chosen(findings: Sequence[Finding], most: int) -> list[Finding]:
    """At most so many, the worst first where some are left out, in the order of the capture."""
    ranks = {severity: rank for rank, severity in enumerate(Severity)}
    worst = sorted(range(len(findings)), key=lambda index: (ranks[findings[index].severity], index))[:most]
    return [findings[index] for index in sorted(worst)]


def findings_list(findings: Sequence[Finding], excerpts: Mapping[int, Excerpt | None], total: int) -> Html:
    """The section's content.

    Args:
        findings: those shown.
        excerpts: by index in `findings`; None for those that were looked for and not found.
        total: how many there are, also those not shown.
    """
    if not total:
        return element("p", "No findings: nothing is wrong, and nothing is missing.")
    counts = Counter(str(finding.severity) for finding in findings)
    items = [
        _item(index, finding, excerpts.get(index), sought=index in excerpts) for index, finding in enumerate(findings)
    ]
    left_out = total - len(findings)
    more = f"{counted(left_out, 'more finding')} {'is' if left_out == 1 else 'are'} only counted." if left_out else ""
    return join(
        _controls(counts) if findings else None,
        element("ol", *items, class_="findings"),
        element("p", more, class_="dim") if more else None,
    )


def _controls(counts: Counter[str]) -> Html:
    boxes = [
        element(
            "label",
            element("input", type="checkbox", checked=True, data_severity=str(severity)),
            f"{severity} ({counts[str(severity)]:,})",
            class_=str(severity),
        )
        for severity in Severity
        if counts[str(severity)]
    ]
    return element(
        "div",
        element("label", "Search", element("input", type="search", id="search", autocomplete="off", spellcheck="false")),
        element("span", *boxes, role="group", aria_label="Severities", class_="controls"),
        element("button", "Open all", type="button", id="expand"),
        element("button", "Close all", type="button", id="collapse"),
        element("span", id="shown", role="status", class_="dim"),
        class_="controls", hidden=True, data_needs_script=True,
    )  # fmt: skip


def _item(index: int, finding: Finding, excerpt: Excerpt | None, *, sought: bool) -> Html:
    severity = str(finding.severity)
    what = element(
        "span",
        element("code", finding.code), " ", _cut(finding.message),
        element("small", _where(finding)),
        class_="what",
    )  # fmt: skip
    summary = element("summary", element("span", _BADGES[severity], class_=f"badge {severity}"), what)
    inside = element("div", _facts(finding), _bytes(finding, excerpt, sought=sought), class_="inside")
    details = element("details", summary, inside, class_="finding", id=f"finding-{index + 1}")
    return element("li", details, data_severity=severity)


def _where(finding: Finding) -> str:
    parts = [
        None if finding.packet is None else f"packet {finding.packet}",
        None if finding.connection is None else f"connection {finding.connection}",
        finding.direction,
        None if finding.offset is None else f"byte {finding.offset}",
        "uncertain" if finding.uncertain else None,
        finding.file,
    ]
    return ", ".join(part for part in parts if part)


def _facts(finding: Finding) -> Html:
    identity = finding.identity if finding.identity is not None and any(finding.identity) else None
    scope = finding.scope
    stream = "the file" if finding.direction is None else f"what the {finding.direction} sent"
    return facts(
        [
            ("rule", _MEANINGS.get(finding.code)),
            ("field", None if finding.path is None else element("code", finding.path)),
            ("expected", None if finding.expected is None else _cut(finding.expected)),
            ("found", None if finding.actual is None else _cut(finding.actual)),
            ("scope", None if scope is None else f"{scope}: {_SCOPES.get(scope, '')}"),
            ("message", None if finding.message_type is None else finding.message_type.upper()),
            ("session", None if identity is None else "{}, generation {}, round {}".format(*identity)),
            ("file", finding.file),
            ("packet", None if finding.packet is None else str(finding.packet)),
            ("time", None if finding.time_ns is None else time_text(finding.time_ns)),
            ("connection", _connection(finding)),
            ("offset", None if finding.offset is None else f"{finding.offset} in {stream}"),
            ("bytes", None if finding.length is None else f"{finding.length:,}"),
            ("certainty", "uncertain: behind a gap, a conflict, or a beginning that is not there" if finding.uncertain else None),
        ]
    )  # fmt: skip


def _connection(finding: Finding) -> str | None:
    if finding.connection is None:
        return None
    return f"{finding.connection}" if finding.endpoints is None else f"{finding.connection} ({finding.endpoints})"


def _bytes(finding: Finding, excerpt: Excerpt | None, *, sought: bool) -> Html | None:
    if excerpt is not None:
        return hex_view(finding, excerpt)
    if place_of(finding) is None:
        return None
    why = "the file could not be read again"
    if finding.file == "-":
        why = "the standard input cannot be read twice; judge a file to see them"
    elif not sought:
        why = f"only {MAX_EXCERPTS} findings have theirs in the page"
    return element("p", f"No bytes: {why}.", class_="dim")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
