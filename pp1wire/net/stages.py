"""Where the time of rounds goes: seconds by stage, added up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Stages"]


class Stages:
    """Seconds spent in each stage, and how often it ran.

    A worker has `draft` (the model and drawing) and `encode`; a verifier has `propose` (STEP sent to proposal ready: draft,
    encode, wire and decode), `decode` (decoding and validating), `target` (the model) and `verify`. Stages of requests that
    run side by side overlap.
    """

    def __init__(self, *names: str) -> None:
        self.seconds = dict.fromkeys(names, 0.0)
        self.runs = dict.fromkeys(names, 0)

    def add(self, name: str, seconds: float) -> None:
        """One run of a stage."""
        self.seconds[name] += seconds
        self.runs[name] += 1

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
