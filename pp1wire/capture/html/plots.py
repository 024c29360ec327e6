"""Plots of acceptance and latency, drawn as SVG, with every value as text beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from pp1wire.capture.html.clock import duration_text
from pp1wire.capture.html.markup import Html, element

__all__ = ["Curve", "acceptance_table", "latency_plot"]

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 34
_CLASSES: Final = ("one", "two", "three")


class Curve(NamedTuple):
    """How long a stage took, over all rounds."""

    name: str
    points: Sequence[tuple[int, float]]
    """Nanoseconds, rising, and the share of rounds that took no longer."""


def acceptance_table(counts: Sequence[int], proposals: Sequence[int], reached: Sequence[int]) -> Html:
    """Drafted tokens committed by position, with a bar each.

    Args:
        counts: committed at each position.
        proposals: proposals decided that had this position.
        reached: those of them of which everything before it was committed.
    """
    titles = ("position", "committed", "of", "share", "after those before", "")
    rows = []
    for position, (count, of, after) in enumerate(zip(counts, proposals, reached, strict=True), start=1):
        if not of:
            break
        share = count / of
        given = f"{100 * count / after:.1f} %" if after else "0 of 0"
        bar = element(
            "svg",
            element("rect", width="100%", height="100%", class_="track"),
            element("rect", width=f"{100 * share:.3f}%", height="100%", class_="filled"),
            aria_hidden="true",
        )
        cells = (f"{count:,}", f"{of:,}", f"{100 * share:.1f} %", given)
        rows.append(
            element(
                "tr",
                element("th", str(position), scope="row"),
                *(element("td", cell, class_="right") for cell in cells),
                element("td", bar, class_="bar"),
            )
        )
    head = element(
        "tr",
        *(
            element("th", title, scope="col", class_="right" if 0 < i < 5 else None)
            for i, title in enumerate(titles[:-1])
        ),
        element("td", ""),
    )
    caption = element("caption", "Drafted tokens that were committed, of the proposals that reached the position")
    plot = element("table", caption, element("thead", head), element("tbody", *rows), class_="bars")
    return element("div", plot, class_="scroll", tabindex=0, role="group", aria_label="Acceptance by position")


def latency_plot(curves: Sequence[Curve]) -> Html:
    """Cumulative shares over time, on a logarithmic axis; at least one curve, each with a point."""
    least = min(max(curve.points[0][0], 1) for curve in curves)
    most = max(curve.points[-1][0] for curve in curves)
    low, high = math.log10(least), math.log10(max(most, least * 1.01))
    # A little room, so that curves of few values are no edge.
    room = max(0.04 * (high - low), 0.02)
    low, high = low - room, high + room

    def across(time: int) -> float:
        return _LEFT + (math.log10(max(time, 1)) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def up(share: float) -> float:
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    art = []
    for percent in (0, 25, 50, 75, 100):
        y = f"{up(percent / 100):.1f}"
        art.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        art.append(element("text", f"{percent} %", x=_LEFT - 6, y=f"{up(percent / 100) + 4:.1f}", text_anchor="end"))
    for time in _ticks(low, high):
        x = f"{across(time):.1f}"
        art.append(element("line", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM, class_="grid"))
        art.append(element("text", duration_text(time), x=x, y=_HEIGHT - _BOTTOM + 16, text_anchor="middle"))
    legend = []
    for curve, style in zip(curves, _CLASSES, strict=False):
        steps = [f"M{across(curve.points[0][0]):.1f} {up(0):.1f}"]
        for time, share in curve.points:
            steps.append(f"H{across(time):.1f}V{up(share):.1f}")
        steps.append(f"H{_WIDTH - _RIGHT}")
        art.append(element("path", d="".join(steps), class_=f"curve {style}"))
        sample = element("svg", element("path", d="M1 6H33", class_="curve"), width=34, height=12, aria_hidden="true")
        legend.append(element("li", sample, element("span", curve.name), class_=style))
    label = "Share of rounds that took no longer, by stage, over time on a logarithmic axis; the table has the values"
    svg = element("svg", *art, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label, class_="plot")
    return element(
        "figure",
        # On a narrow screen the drawing scrolls: made smaller, its text could not be read.
        element("div", svg, class_="scroll", tabindex=0, role="group", aria_label="Plot of latencies"),
        element("ul", *legend, class_="legend"),
        element("figcaption", "Share of rounds that took no longer (time on a logarithmic axis)"),
    )  # fmt: skip


def _ticks(low: float, high: float) -> list[int]:
    """At most about eight round times."""
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [
            step * 10**power
            for power in range(max(math.floor(low), 0), math.ceil(high) + 1)
            for step in steps
            if low <= math.log10(step * 10**power) <= high
        ]
        if len(found) <= 8:
            break
    if len(found) >= 2:
        return found
    # All within one decade's step: any times will do.
    return sorted({round(10 ** (low + (high - low) * part / 4)) for part in (1, 2, 3)})
