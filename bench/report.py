"""An outcome of the table for people, and all of them as data."""

from __future__ import annotations

from typing import Any

from .environment import environment
from .harness import Outcome


def lines(outcome: Outcome) -> list[str]:
    """An outcome for people: the ratio, its goal, and the times behind it."""
    goal = ""
    if outcome.goal is not None:
        verdict = "met" if outcome.met else "MISSED"
        goal = f"   goal {'≤' if outcome.at_most else '≥'} {outcome.goal:g}: {verdict}"
    times = ", ".join(f"{name} {_duration(t.median)} ± {_duration(t.spread)}" for name, t in outcome.timings.items())
    return [f"{outcome.name}: {outcome.ratio:.2f} {outcome.unit}{goal}", f"    {times}"] + [
        f"    {note}" for note in [outcome.note] if note
    ]


def _duration(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def as_data(outcomes: list[Outcome]) -> dict[str, Any]:
    """The outcomes and the environment for `--json`."""
    return {
        "environment": environment(),
        "rows": [
            {
                "name": o.name,
                "ratio": o.ratio,
                "unit": o.unit,
                "goal": o.goal,
                "goal_is": "at most" if o.at_most else "at least",
                "met": o.met,
                "note": o.note,
                "seconds": {name: {"median": t.median, "spread": t.spread} for name, t in o.timings.items()},
            }
            for o in outcomes
        ],
    }
