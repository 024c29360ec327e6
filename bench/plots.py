"""The figures of a run as SVG, with the same names and the same bytes for the same figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

from .harness import Formats, Growth, Outcome, Result, Timing

mpl.use("Agg")
from matplotlib import pyplot as plt  # after the choice of the backend

# Okabe and Ito's colours, which people with any colour vision tell apart; markers tell them apart without colours.
_COLOURS = ("#D55E00", "#000000", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#999999", "#F0E442")
_MARKERS = "osD^vP*XH"
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "pp1wire", "svg.fonttype": "none", "figure.facecolor": "white", "axes.facecolor": "white",
    "savefig.facecolor": "white", "text.color": "black", "axes.labelcolor": "black", "axes.grid": True, "grid.color": "#DDDDDD",
    "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "figure.dpi": 100,
}  # fmt: skip


def write(results: list[Result], folder: Path) -> list[Path]:
    """One file for formats in each direction and kind of rows, one for round trips, one a curve; the paths, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = [r for r in results if isinstance(r, Formats)]
    with mpl.rc_context(_STYLE):
        figures = [*_formats(shapes), *_trips(results), *_curves(results)]
        paths = []
        for slug, figure in figures:
            path = folder / f"{slug}.svg"
            figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": "pp1wire bench"})
            plt.close(figure)
            paths.append(path)
    return paths


def _formats(results: list[Formats]) -> Iterator[tuple[str, Any]]:
    for rows in dict.fromkeys(r.shape.rpartition(", ")[2] for r in results):
        own = [r for r in results if r.shape.endswith(rows)]
        for direction in ("decode", "encode"):
            yield f"{direction}-{rows}", _bars(own, direction, rows)


def _bars(results: list[Formats], direction: str, rows: str) -> Any:
    names = list(dict.fromkeys(name for r in results for name in getattr(r, direction)))
    figure, axes = plt.subplots(figsize=(max(7.0, 1.25 * len(results)), 4.2))
    for index, name in enumerate(names):
        found: list[tuple[int, Timing]] = [
            (place, getattr(r, direction)[name]) for place, r in enumerate(results) if name in getattr(r, direction)
        ]
        axes.errorbar(
            [place + (index - len(names) / 2) * 0.08 for place, _ in found],
            [t.median * 1e6 for _, t in found],
            # A spread wider than the median would leave a logarithmic axis.
            yerr=[[min(t.spread, t.median * 0.9) * 1e6 for _, t in found], [t.spread * 1e6 for _, t in found]],
            fmt=_MARKERS[index % len(_MARKERS)], color=_COLOURS[index % len(_COLOURS)], label=name, markersize=6,
            markeredgecolor="black", markeredgewidth=0.4, elinewidth=1,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_xticks(range(len(results)), [r.shape.rpartition(", ")[0].replace(", ", "\n") for r in results])
    axes.set_xlabel("requests × depth, entries a row")
    axes.set_ylabel(f"time to {direction} a round (µs, median and spread)")
    axes.set_title(f"{direction}, {rows} rows; of these formats only pp1wire checks what it carries")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def _trips(results: list[Result]) -> Iterator[tuple[str, Any]]:
    times: dict[str, Timing] = {}
    for r in results:
        if isinstance(r, Outcome) and r.name.startswith("round trip"):
            times |= r.timings
    if not times:
        return
    ordered = sorted(times.items(), key=lambda item: item[1].median)
    figure, axes = plt.subplots(figsize=(7.5, 0.5 * len(ordered) + 1.2))
    axes.barh(
        [name for name, _ in ordered], [t.median * 1e6 for _, t in ordered], xerr=[t.spread * 1e6 for _, t in ordered],
        color=[_COLOURS[0] if name.startswith("pp1wire") else _COLOURS[6] for name, _ in ordered], edgecolor="black",
        linewidth=0.5, error_kw={"elinewidth": 1, "capsize": 2},
    )  # fmt: skip
    axes.set_xlabel("one round trip on loopback, 4 requests × 5 rows (µs, median and spread)")
    axes.invert_yaxis()
    yield "round-trip", figure


def _curves(results: list[Result]) -> Iterator[tuple[str, Any]]:
    for r in results:
        if not isinstance(r, Growth):
            continue
        figure, axes = plt.subplots(figsize=(6.4, 4.0))
        exponents = r.exponents()
        scale, unit = (1e3, "ms") if r.unit == "s" else (1e-6, "MB")
        for index, (name, costs) in enumerate(r.series.items()):
            e = exponents[name]
            axes.plot(
                r.x, [cost * scale for cost in costs], marker=_MARKERS[index], color=_COLOURS[index],
                label=f"{name}: size^{e:.2f}" if e == e else name,
            )  # fmt: skip
            axes.plot(
                r.x, [costs[-1] * scale * x / r.x[-1] for x in r.x], linestyle=":", color=_COLOURS[index], linewidth=1,
                label="linear" if index == 0 else None,
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(r.x, [f"{x:,}" for x in r.x], rotation=30, ha="right")
        axes.minorticks_off()
        axes.set_xlabel(r.label)
        axes.set_ylabel(f"{'time' if r.unit == 's' else 'memory'} ({unit})")
        axes.set_title(r.name)
        axes.legend(frameon=False)
        yield f"growth-{r.slug}", figure
