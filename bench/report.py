"""Results for people, and all of them as data."""

from __future__ import annotations

from typing import Any

from .harness import Formats, Growth, Outcome, Result, Timing


def lines(result: Result) -> list[str]:
    """A result for people: a ratio with its goal and the times behind it, a shape in every format, or a curve's exponents."""
    if isinstance(result, Formats):
        return _formats(result)
    if isinstance(result, Growth):
        found = ", ".join(f"{name} {exponent:.2f}" for name, exponent in result.exponents().items())
        return [f"{result.name}: cost ~ size^e with e = {found}"]
    times = ", ".join(f"{name} {duration(t.median)} ± {duration(t.spread)}" for name, t in result.timings.items())
    goal = "" if result.goal is None else f"   goal {goal_text(result)}: {verdict(result)}"
    return [f"{result.name}: {result.ratio:.2f} {result.unit}{goal}"] + [
        f"    {text}" for text in (times, result.note) if text
    ]


def goal_text(outcome: Outcome) -> str:
    """The goal as a bound; a dash without one."""
    return "–" if outcome.goal is None else f"{'≤' if outcome.at_most else '≥'} {outcome.goal:g}"


def verdict(outcome: Outcome) -> str:
    """met, MISSED, or a dash."""
    return "–" if outcome.met is None else "met" if outcome.met else "MISSED"


def duration(seconds: float) -> str:
    """Seconds in a unit for people."""
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _formats(result: Formats) -> list[str]:
    width = max(map(len, result.bytes))
    found = [f"a round of {result.shape}, from arrays and to arrays:"]
    for name, size in result.bytes.items():
        encode, decode = (_cell(times.get(name)) for times in (result.encode, result.decode))
        found.append(f"    {name:<{width}}  {size:>10,} B  encode {encode:>20}  decode {decode:>20}")
    return found


def _cell(timing: Timing | None) -> str:
    return "–" if timing is None else f"{duration(timing.median)} ± {duration(timing.spread)}"


def as_data(results: list[Result], environment: dict[str, Any]) -> dict[str, Any]:
    """Results and environment for `--json`."""
    return {
        "environment": environment,
        "rows": [_row(r) for r in results if isinstance(r, Outcome)],
        "formats": [
            {"shape": r.shape, "bytes": r.bytes, "encode": _times(r.encode), "decode": _times(r.decode)}
            for r in results
            if isinstance(r, Formats)
        ],
        "growth": [
            {"name": r.name, "label": r.label, "unit": r.unit, "x": r.x, "series": r.series, "exponents": r.exponents()}
            for r in results
            if isinstance(r, Growth)
        ],
    }


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "ratio": outcome.ratio,
        "unit": outcome.unit,
        "goal": outcome.goal,
        "goal_is": "at most" if outcome.at_most else "at least",
        "met": outcome.met,
        "note": outcome.note,
        "seconds": _times(outcome.timings),
    }


def _times(timings: dict[str, Timing]) -> dict[str, dict[str, float]]:
    return {name: {"median": t.median, "spread": t.spread, "best": t.best} for name, t in timings.items()}
