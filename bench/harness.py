"""Interleaved measurement: contestants take turns, so that what disturbs one disturbs all."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Timing:
    """Seconds a call: median of the turns, half the distance between the quartiles as the spread, and the best turn."""

    median: float
    spread: float
    best: float


@dataclass(frozen=True)
class Outcome:
    """One row of the table: `ratio` compares to `goal` as `at_most` says; no goal means that the row only informs."""

    name: str
    unit: str
    ratio: float
    goal: float | None
    at_most: bool
    timings: dict[str, Timing] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal


def race(contestants: dict[str, Callable[[], object]], *, seconds: float) -> dict[str, Timing]:
    """Time the contestants in turns for about `seconds` in all; each turn repeats a call until it is long enough to time."""
    repeats = {}
    for name, call in contestants.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(0.002 / max(time.perf_counter() - start, 1e-7)))
    turns: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(turns[next(iter(turns))]) < 5:
        for name, call in contestants.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            turns[name].append((time.perf_counter() - start) / repeats[name])
    return {name: _timing(values) for name, values in turns.items()}


def _timing(values: list[float]) -> Timing:
    quarters = statistics.quantiles(values, n=4)
    return Timing(statistics.median(values), (quarters[2] - quarters[0]) / 2, min(values))


def environment() -> dict[str, str]:
    """What the figures depend on."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
    }
