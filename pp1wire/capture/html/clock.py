"""Times as they are drawn: idle stretches are cut short, and lengths get a unit that fits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

__all__ = ["Clock", "duration_text"]

_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_IDLE_SHARE: Final = 0.03


def duration_text(nanoseconds: float) -> str:
    """A length of time with three or four digits and its unit."""
    size = abs(nanoseconds)
    if size >= 60_000_000_000:
        minutes, seconds = divmod(round(size / 1e9), 60)
        hours, minutes = divmod(minutes, 60)
        long = f"{hours:,} h {minutes} min" if hours else f"{minutes} min {seconds} s"
        return f"-{long}" if nanoseconds < 0 else long
    unit, name = next(((u, n) for u, n in _UNITS if size >= u), _UNITS[-1])
    value = nanoseconds / unit
    digits = 0 if unit == 1 or abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    shown = f"{value:,.{digits}f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown} {name}"


class Clock:
    """Maps times to places from 0 to 1, with a fixed little room for each stretch in which nothing happens.

    Args:
        spans: begin and end of everything that is drawn, in nanoseconds; at least one.
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        busy: list[tuple[int, int]] = []
        for begin, end in sorted(spans):
            if busy and begin <= busy[-1][1]:
                busy[-1] = busy[-1][0], max(busy[-1][1], end)
            else:
                busy.append((begin, end))
        self.begin = busy[0][0]
        """The earliest time."""
        self.end = busy[-1][1]
        """The latest time."""
        longest = max(int(_IDLE_SHARE * sum(end - begin for begin, end in busy)), 1)
        self._times = [busy[0][0]]
        self._places = [0]
        self.idle: list[tuple[int, int]] = []
        """Stretches that were cut short."""
        for (_, before), (begin, end) in zip([(0, busy[0][0]), *busy], busy, strict=False):
            gap = begin - before
            if gap > longest:
                self.idle.append((before, begin))
            self._add(begin, min(gap, longest))
            self._add(end, end - begin)
        self._total = max(self._places[-1], 1)

    def _add(self, time: int, length: int) -> None:
        self._times.append(time)
        self._places.append(self._places[-1] + length)

    def place(self, time: int) -> float:
        """Where a time is drawn; one that lies outside, as of a clock that was set back, at the nearest end."""
        time = min(max(time, self.begin), self.end)
        index = min(max(bisect_right(self._times, time) - 1, 0), len(self._times) - 2)
        begin, end = self._times[index], self._times[index + 1]
        low, high = self._places[index], self._places[index + 1]
        inside = 0.0 if end == begin else (time - begin) / (end - begin)
        return (low + inside * (high - low)) / self._total

    def time(self, place: float) -> int:
        """What time is drawn at a place."""
        wanted = place * self._total
        index = min(max(bisect_right(self._places, wanted) - 1, 0), len(self._times) - 2)
        low, high = self._places[index], self._places[index + 1]
        inside = 0.0 if high == low else (wanted - low) / (high - low)
        # Times since 1970 in nanoseconds are more than a float holds.
        return self._times[index] + round(inside * (self._times[index + 1] - self._times[index]))
