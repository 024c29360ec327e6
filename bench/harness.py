"""Interleaved measurement: contestants take turns, so that what disturbs one disturbs all."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

TURN = 0.002
"""Seconds that a turn lasts at least, so that the clock's own cost does not count."""
QUICK = 1.0
"""Seconds a row below which rows take fewer turns and smaller inputs: they are run to see that they run."""
_FEWEST = 5
_LONG = 0.25
_FEW_SIZES = 4


@dataclass(frozen=True)
class Timing:
    """Seconds a call: median of the turns, half the distance between the quartiles as the spread, and the best turn."""

    median: float
    spread: float
    best: float

    @classmethod
    def of(cls, turns: list[float]) -> Timing:
        """The timing of at least one turn."""
        quarters = statistics.quantiles(turns, n=4) if len(turns) > 1 else [turns[0]] * 3
        return cls(statistics.median(turns), (quarters[2] - quarters[0]) / 2, min(turns))


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


@dataclass(frozen=True)
class Formats:
    """One shape of a round in every format; per format the bytes, and seconds to encode and to decode."""

    shape: str
    bytes: dict[str, int]
    encode: dict[str, Timing]
    decode: dict[str, Timing]
    met: None = None


@dataclass(frozen=True)
class Growth:
    """How a cost grows: `series` of costs in `unit` (s or B) at the sizes `x`."""

    name: str
    slug: str
    label: str
    unit: str
    x: list[int]
    series: dict[str, list[float]]
    note: str = ""
    met: None = None

    def exponents(self) -> dict[str, float]:
        """The e of cost ~ size^e by least squares over the larger half of the sizes, or all of a few; 1 is linear."""
        half = len(self.x) // 2 if len(self.x) > _FEW_SIZES else 0
        places = [math.log(x) for x in self.x[half:]]
        return {name: _slope(places, [math.log(max(y, 1e-12)) for y in ys[half:]]) for name, ys in self.series.items()}


Result = Outcome | Formats | Growth


def _slope(x: list[float], y: list[float]) -> float:
    if len(x) < 2:
        return math.nan
    return statistics.linear_regression(x, y).slope


def race(contestants: Mapping[str, Callable[[], object]], *, seconds: float) -> dict[str, Timing]:
    """Time the contestants in turns for about `seconds` in all; each turn repeats a call until it is long enough to time.

    A contestant that is far slower than the time allows takes part in the first turns only.
    """
    repeats, fewest = {}, _FEWEST if seconds >= QUICK else 3
    turns: dict[str, list[float]] = {name: [] for name in contestants}
    share = seconds / max(len(contestants), 1)
    for name, call in contestants.items():
        first = _timed(call, 1)
        if first < _LONG:  # what a first call imports and fills is not what is measured
            first = _timed(call, 1)
        repeats[name] = max(1, int(TURN / max(first, 1e-7)))
        if first >= share:
            turns[name].append(first)
    slow = {name for name, taken in turns.items() if taken}
    end = time.perf_counter() + seconds
    while True:
        done = min((len(taken) for name, taken in turns.items() if name not in slow), default=fewest)
        if time.perf_counter() >= end and done >= fewest:
            return {name: Timing.of(taken) for name, taken in turns.items()}
        for name, call in contestants.items():
            if name not in slow or (len(turns[name]) < fewest and time.perf_counter() < end):
                turns[name].append(_timed(call, repeats[name]))


def _timed(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats
