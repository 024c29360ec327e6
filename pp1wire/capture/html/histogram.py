"""Lengths of time counted in bounded memory: two significant digits are kept of each."""

from __future__ import annotations

from collections import Counter

__all__ = ["Histogram"]

_BITS = 8  # steps of less than 1 %


class Histogram:
    """Counts lengths of time; what it tells of them is at most 1 % too long, but for the least and the most."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self.count = 0
        self.least: int | None = None
        self.most: int | None = None

    def add(self, nanoseconds: int) -> None:
        """Count one; a clock that was set back makes it 0."""
        value = max(nanoseconds, 0)
        self.count += 1
        self.least = value if self.least is None else min(self.least, value)
        self.most = value if self.most is None else max(self.most, value)
        shift = max(value.bit_length() - _BITS, 0)
        self._counts[shift, value >> shift] += 1

    def points(self) -> list[tuple[int, float]]:
        """Lengths, rising, and the share of all that took no longer."""
        if self.most is None:
            return []
        points, passed = [], 0
        for (shift, value), count in sorted(self._counts.items()):
            passed += count
            points.append((min(((value + 1) << shift) - 1, self.most), passed / self.count))
        return points

    def quantile(self, share: float) -> int | None:
        """The length that this share of all did not exceed; None without any."""
        return next((time for time, reached in self.points() if reached >= share), None)
