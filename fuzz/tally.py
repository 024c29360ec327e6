"""What a run reached: each message type and each reject code, by harness, as a table and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fuzz.outcome import CODES, MESSAGES

__all__ = ["Tally", "never_reached", "table"]

_REACHABLE: Final = (*MESSAGES, *CODES)


@dataclass
class Tally:
    """What one harness came to.

    Attributes:
        harness: its name.
        engine: what made the inputs.
        inputs: how many.
        seconds: spent on them.
        reached: by message or code, the inputs that reached it.
        smallest: by message or code, the smallest such input.
    """

    harness: str
    engine: str
    inputs: int = 0
    seconds: float = 0.0
    reached: Counter[str] = field(default_factory=Counter)
    smallest: dict[str, bytes] = field(default_factory=dict)

    def add(self, data: bytes, outcome: str) -> None:
        """Count one input."""
        self.inputs += 1
        for word in set(outcome.split()):
            self.reached[word] += 1
            if word not in self.smallest or len(data) < len(self.smallest[word]):
                self.smallest[word] = data

    @property
    def rate(self) -> float:
        """Inputs a second."""
        return self.inputs / self.seconds if self.seconds else 0.0

    def save(self, path: Path) -> None:
        """Write everything but the inputs, so that another process can read it at any moment."""
        part = path.with_suffix(".part")
        content = {name: getattr(self, name) for name in ("harness", "engine", "inputs", "seconds", "reached")}
        part.write_text(json.dumps(content), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Tally:
        """What `save` wrote."""
        content = json.loads(path.read_text(encoding="utf-8"))
        return cls(**(content | {"reached": Counter(content["reached"])}))


def never_reached(tallies: Iterable[Tally]) -> list[str]:
    """Messages and codes that no harness reached."""
    found = {word for tally in tallies for word, count in tally.reached.items() if count}
    return [word for word in _REACHABLE if word not in found]


def table(tallies: list[Tally]) -> list[str]:
    """Inputs that reached each message and code, a column a harness; then what else there was, and what was never reached."""
    heads = [f"{tally.harness} ({tally.engine})" for tally in tallies]
    width = max(map(len, _REACHABLE)) + 2

    def line(name: str, cells: Iterable[object]) -> str:
        return name.ljust(width) + "  ".join(f"{cell!s:>{len(h)}}" for cell, h in zip(cells, heads, strict=True))

    lines = [line("inputs that reached", heads)]
    lines += [line(word, (tally.reached[word] or "·" for tally in tallies)) for word in _REACHABLE]
    lines.append(line("inputs", (tally.inputs for tally in tallies)))
    lines.append(line("inputs a second", (f"{tally.rate:.0f}" for tally in tallies)))
    missing = never_reached(tallies)
    lines.append(
        f"never reached: {', '.join(missing)}" if missing else "every message and every reject code was reached"
    )
    return lines
