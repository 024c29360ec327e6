"""Counters of several connections, added up, and what is open on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pp1wire.protocol import Counters
from pp1wire.protocol.endpoint import Endpoint

__all__ = ["Books", "Tally", "add"]

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


class Books:
    """The counters of connections that come and go: sums never fall. Another thread may read them at any time."""

    def __init__(self) -> None:
        # One tuple, put in place whole: so nobody sees a connection both among the open and the closed ones, or in neither.
        self._state: tuple[Tally, frozenset[Endpoint[Any]]] = (add(Counters().as_dict()), frozenset())

    def open(self, end: Endpoint[Any]) -> None:
        """A connection begins."""
        closed, ends = self._state
        self._state = closed, ends | {end}

    def close(self, end: Endpoint[Any]) -> None:
        """A connection is over, and counts no more."""
        closed, ends = self._state
        if end in ends:
            self._state = add(closed, end.counters.as_dict()), ends - {end}

    def tally(self) -> Tally:
        """The sum over all connections; keys as of `pp1wire.protocol.Counters`."""
        closed, ends = self._state
        return add(closed, *(end.counters.as_dict() for end in ends))

    def levels(self) -> dict[str, int]:
        """What is open now: sessions, of how many slots, and rounds without and with a whole proposal."""
        _, ends = self._state
        levels = dict.fromkeys(("sessions", "slots", "drafting", "ready"), 0)
        for end in ends:
            drafting, ready = end.open_rounds
            levels["sessions"] += len(end.open_sessions)
            levels["slots"] += end.agreement.max_slots if end.agreement is not None and end.is_open else 0
            levels["drafting"] += drafting
            levels["ready"] += ready
        return levels


def _sum(before: int | dict[str, int] | list[int] | None, value: Value) -> int | dict[str, int] | list[int]:
    if isinstance(value, int):
        return value + (before if isinstance(before, int) else 0)
    if isinstance(value, Mapping):
        old = before if isinstance(before, dict) else {}
        return {key: number + old.get(key, 0) for key, number in value.items()}
    numbers = before if isinstance(before, list) else [0] * len(value)
    return [a + b for a, b in zip(numbers, value, strict=True)]
