"""Counters of several connections, added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

__all__ = ["Tally", "add"]

Value: TypeAlias = int | Mapping[str, int] | Sequence[int]
Tally: TypeAlias = dict[str, int | dict[str, int] | list[int]]
"""As `pp1wire.protocol.Counters.as_dict` makes it."""


def add(*tallies: Mapping[str, Value]) -> Tally:
    """The sum, number by number; all tallies have the same keys."""
    total: Tally = {}
    for tally in tallies:
        for name, value in tally.items():
            total[name] = _sum(total.get(name), value)
    return total


def _sum(before: int | dict[str, int] | list[int] | None, value: Value) -> int | dict[str, int] | list[int]:
    if isinstance(value, int):
        return value + (before if isinstance(before, int) else 0)
    if isinstance(value, Mapping):
        old = before if isinstance(before, dict) else {}
        return {key: number + old.get(key, 0) for key, number in value.items()}
    numbers = before if isinstance(before, list) else [0] * len(value)
    return [a + b for a, b in zip(numbers, value, strict=True)]
