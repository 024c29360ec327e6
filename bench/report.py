"""Runs the rows; the outcome as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .harness import Outcome, environment
from .rows import all_rows


def run(seconds: float) -> Iterator[Outcome]:
    """Every row of the table, each raced for about `seconds`, as it is finished."""
    yield from all_rows(seconds)


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
