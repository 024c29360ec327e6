"""The loop without dependencies: mutate an input, and keep what reached something that none before it did."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fuzz.mutation import mutated
from fuzz.outcome import MESSAGES, Harness
from fuzz.tally import Tally

__all__ = ["ENGINE", "Finding", "fuzz"]

ENGINE: Final = "own"
_MOST_KEPT: Final = 3000
_FROM_FOUND: Final = 0.3


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that broke the invariant, and what it raised."""

    data: bytes
    error: Exception


def fuzz(
    harness: Harness,
    start: Sequence[bytes],
    rng: random.Random,
    *,
    seconds: float | None = None,
    inputs: int | None = None,
    until: Callable[[Tally], bool] | None = None,
) -> tuple[Tally, Finding | None]:
    """Run until the time or the number of inputs is over, or something is found; the same `rng` makes the same inputs.

    Args:
        harness: what judges them.
        start: inputs to begin with.
        rng: makes all choices.
        seconds: at most so long; None for no limit.
        inputs: at most so many; None for no limit.
        until: asked after each input; True ends the run.
    """
    tally, found, seen = Tally(harness.name, ENGINE), list[bytes](), set[tuple[str, int]]()
    groups: dict[str, list[bytes]] = {}
    begin, queue = time.monotonic(), list(start)[::-1]
    while (inputs is None or tally.inputs < inputs) and (seconds is None or tally.seconds < seconds):
        first = bool(queue)
        data = queue.pop() if first else mutated(harness.name, _base(groups, found, rng), rng.choice(start), rng)
        try:
            outcome = harness.run(data)
        except Exception as error:
            return tally, Finding(data, error)
        tally.add(data, outcome)
        tally.seconds = time.monotonic() - begin
        words = outcome.split()
        # Once, twice, four times: a fault that needs eight of its kind is found by way of those that have four.
        new = {(word, min(count, 8).bit_length()) for word, count in Counter(words).items()} - seen
        seen |= new
        if first:
            groups.setdefault(next((w for w in reversed(words) if w in MESSAGES), ""), []).append(data)
        elif new and len(found) < _MOST_KEPT:
            found.append(data)
        if until is not None and until(tally):
            break
    return tally, None


def _base(groups: Mapping[str, Sequence[bytes]], found: Sequence[bytes], rng: random.Random) -> bytes:
    """What to change: every kind of end is as likely as any other, however many inputs have it."""
    # Most of what was found ends in an error, behind which changes show nothing: so begin anew as often.
    if found and rng.random() < _FROM_FOUND:
        return rng.choice(found)
    return rng.choice(groups[rng.choice([*groups])])
