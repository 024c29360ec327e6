"""Virtual time: events in order of their time, and the log of what happened."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from typing import Any

__all__ = ["Clock", "Log"]

Trace = Callable[[str], None]


class Log:
    """Every line of a run goes into one hash, so that two runs can be compared; the lines are kept by nobody.

    Args:
        trace: called with each line.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._trace = trace
        self.lines = 0

    def write(self, now: float, text: str) -> None:
        """Add one line."""
        line = f"{now:.6f} {text}"
        self._hash.update(line.encode() + b"\n")
        self.lines += 1
        if self._trace is not None:
            self._trace(line)

    def digest(self) -> str:
        """Of all lines so far, in hexadecimal."""
        return self._hash.hexdigest()


class Clock:
    """A queue of things to do. Seconds, from 0; nothing here looks at the machine's clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time: float, what: Callable[..., None], *arguments: Any) -> None:
        """Do `what(*arguments)` at `time`, after what was put there before; at once if that is past."""
        # The number makes the order of equal times that of the calls, and keeps functions from being compared.
        self._number += 1
        heapq.heappush(self._queue, (max(time, self.now), self._number, what, arguments))

    def after(self, delay: float, what: Callable[..., None], *arguments: Any) -> None:
        """Do `what(*arguments)` so many seconds from now."""
        self.at(self.now + delay, what, *arguments)

    def step(self) -> bool:
        """Do the next thing; False if there is none."""
        if not self._queue:
            return False
        self.now, _, what, arguments = heapq.heappop(self._queue)
        what(*arguments)
        return True
