"""What many runs came to: rounds, faults and rejects by kind, and the first invariant that broke."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from fuzz.simulator.violation import INVARIANTS
from fuzz.simulator.world import Outcome

__all__ = ["Report"]


class Report:
    """Sums over outcomes; its size does not depend on their number."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.seeds = self.rounds = self.steps = 0
        self.virtual = 0.0
        self.faults: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self.discards: Counter[str] = Counter()
        self.stats: Counter[str] = Counter()
        self.last: Outcome | None = None
        self.failure: Outcome | None = None

    def add(self, outcome: Outcome) -> None:
        """Count one run."""
        self.seeds += 1
        self.rounds += outcome.rounds
        self.steps += outcome.steps
        self.virtual += outcome.seconds
        self.faults += outcome.faults
        self.rejects += outcome.rejects
        self.discards += outcome.discards
        self.stats += outcome.stats
        self.last = outcome
        if outcome.invariant is not None and self.failure is None:
            self.failure = outcome

    def line(self) -> str:
        """Where it stands."""
        seconds = time.monotonic() - self._began
        return (
            f"{seconds:.0f} s: {self.seeds} seeds, {self.rounds} rounds ({self.rounds / max(seconds, 1e-9):.0f} a second), "
            f"{self.faults.total()} faults, {self.discards.total()} discards"
        )

    def text(self) -> str:
        """Everything, for people."""
        lines = [self.line()]
        for name in ("faults", "rejects", "discards", "stats"):
            counts: Counter[str] = getattr(self, name)
            lines.append(f"{name}: " + (", ".join(f"{kind} {n}" for kind, n in counts.most_common()) or "none"))
        if self.seeds == 1 and self.last is not None:
            lines.append(f"event log: {self.last.lines} lines, digest {self.last.digest}")
        if self.failure is not None:
            name = self.failure.invariant or ""
            lines += [f"BROKEN [{name}] {INVARIANTS[name]}", f"  {self.failure.detail}"]
        else:
            lines.append(f"all {len(INVARIANTS)} invariants held after each of {self.steps} steps")
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        failure = self.failure
        return {
            "seeds": self.seeds,
            "rounds": self.rounds,
            "steps": self.steps,
            "seconds": round(time.monotonic() - self._began, 3),
            "virtual_seconds": round(self.virtual, 3),
            "faults": dict(self.faults),
            "rejects": dict(self.rejects),
            "discards": dict(self.discards),
            "stats": dict(self.stats),
            "digest": self.last.digest if self.seeds == 1 and self.last is not None else None,
            "failure": None
            if failure is None
            else {"seed": failure.seed, "invariant": failure.invariant, "detail": failure.detail},
        }
