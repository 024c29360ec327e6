"""The tables of docs/performance.md, between markers, so that nobody has to copy figures and none can drift."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pp1wire.errors import PP1Error

from .formats import MODULES
from .formats.codec import Codec
from .harness import Formats, Growth, Outcome, Result
from .report import duration, goal_text, verdict

NAMES = ("machine", "goals", "formats", "checks", "growth")


def rewrite(page: Path, results: list[Result], environment: dict[str, Any], plots: list[Path]) -> None:
    """Put the tables of a run into `page`, each between its `<!-- bench:NAME -->` and `<!-- /bench:NAME -->`.

    Raises:
        PP1Error: a marker is missing.
    """
    text = page.read_text(encoding="utf-8")
    pictures = {path.stem: Path(os.path.relpath(path, page.parent)).as_posix() for path in plots}
    tables = {
        "machine": _machine(environment),
        "goals": _goals([r for r in results if isinstance(r, Outcome)], pictures),
        "formats": _formats([r for r in results if isinstance(r, Formats)], pictures),
        "checks": _checks(),
        "growth": _growth([r for r in results if isinstance(r, Growth)], pictures),
    }
    for name in NAMES:
        text = _between(text, name, "\n".join(tables[name]), page)
    page.write_text(text, encoding="utf-8")


def _between(text: str, name: str, table: str, page: Path) -> str:
    start, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise PP1Error(f"{page}: expected {start} and {end}")
    return f"{before}{start}\n{table}\n{end}{after}"


def _machine(environment: dict[str, Any]) -> Iterator[str]:
    packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
    yield f"{environment['cpu']}, {environment['cores']} cores, one thread; {environment['system']}, {environment['python']};"
    yield f"{packages}."
    if environment["loaded"]:
        yield ""
        yield (
            f"> **Measured on a busy machine** (load {environment['load_at_start']} on {environment['cores']} cores before the "
            "first row): times are too long, and only ratios of rows that were measured side by side mean something."
        )
    if environment.get("quick"):
        yield ""
        yield "> **Measured with `--quick`**: a second or so a row; these figures are rough."


def _goals(outcomes: list[Outcome], pictures: dict[str, str]) -> Iterator[str]:
    yield "| row | measured | goal | | times |"
    yield "| --- | --- | --- | --- | --- |"
    for o in outcomes:
        times = "; ".join(f"{name} {duration(t.median)} ± {duration(t.spread)}" for name, t in o.timings.items())
        said = verdict(o)
        times += f"{'; ' if times else ''}{o.note}" if o.note else ""
        yield f"| {o.name} | {o.ratio:.2f} {o.unit} | {goal_text(o)} | {'**MISSED**' if said == 'MISSED' else said} | {times} |"
    yield from _pictures(pictures, "round-trip")


def _formats(results: list[Formats], pictures: dict[str, str]) -> Iterator[str]:
    names = list(dict.fromkeys(name for r in results for name in r.bytes))
    for direction in ("decode", "encode"):
        yield f"Median time to {direction} a round; n/a where a format cannot, or would take a second a round."
        yield ""
        yield f"| {direction} | " + " | ".join(names) + " |"
        yield "| --- |" + " --- |" * len(names)
        for r in results:
            times = getattr(r, direction)
            yield (
                f"| {r.shape} | "
                + " | ".join(duration(times[name].median) if name in times else "n/a" for name in names)
                + " |"
            )
        yield ""
    yield from _pictures(pictures, *(stem for stem in pictures if stem.startswith(("decode-", "encode-"))))


def _checks() -> Iterator[str]:
    from . import data

    agreed = data.agreement(data.Shape(1, 32).representation)
    found: list[Codec] = [module.codec(agreed) for module in MODULES]
    yield "| format | its decoder checks |"
    yield "| --- | --- |"
    yield from (f"| {codec.name} | {codec.checks} |" for codec in found)


def _growth(results: list[Growth], pictures: dict[str, str]) -> Iterator[str]:
    yield "| cost | sizes | exponent e of cost ~ size^e, over the larger half of more than four sizes |"
    yield "| --- | --- | --- |"
    for r in results:
        sizes = f"{r.x[0]:,} to {r.x[-1]:,} {r.label}"
        yield f"| {r.name} | {sizes} | " + "; ".join(f"{n} {e:.2f}" for n, e in r.exponents().items()) + " |"
    yield ""
    yield from _pictures(pictures, *(stem for stem in pictures if stem.startswith("growth-")))


def _pictures(pictures: dict[str, str], *stems: str) -> Iterator[str]:
    for stem in stems:
        if stem in pictures:
            yield ""
            yield f"![{stem.replace('-', ' ')}]({pictures[stem]})"
