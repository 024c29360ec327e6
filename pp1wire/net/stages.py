"""Where the time of rounds goes: seconds by stage, added up and by size."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["BOUNDS", "Stages"]

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds: the upper bounds of the histograms' buckets, each with what lies on it."""


class Stages:
    """Seconds spent in each stage, and how often it ran.

    A worker has `draft` (the model and drawing) and `encode`; a verifier has `propose` (STEP sent to proposal ready: draft,
    encode, wire and decode), `decode` (decoding and validating), `target` (the model) and `verify`. Stages of requests that
    run side by side overlap.
    """

    def __init__(self, *names: str) -> None:
        self.seconds = dict.fromkeys(names, 0.0)
        self.runs = dict.fromkeys(names, 0)
        self._buckets = {name: [0] * (len(BOUNDS) + 1) for name in names}

    def add(self, name: str, seconds: float) -> None:
        """One run of a stage."""
        self.seconds[name] += seconds
        self.runs[name] += 1
        self._buckets[name][bisect_left(BOUNDS, seconds)] += 1

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """One run of a stage, timed."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def as_dict(self) -> dict[str, dict[str, float]]:
        """A copy as plain numbers: {stage: {"seconds": …, "runs": …}}."""
        return {name: {"seconds": self.seconds[name], "runs": self.runs[name]} for name in self.seconds}

    def buckets(self, name: str) -> list[int]:
        """How many runs took up to each of `BOUNDS` and more than the one before; the last, longer than all."""
        return list(self._buckets[name])
