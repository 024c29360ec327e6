"""Lengths of time counted in bounded memory: two digits are kept of each, and the least, the most and the sum exactly."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["Histogram"]

_BITS = 8  # steps of less than 1 %
_COARSE_BITS = 4


class Histogram:
    """Counts lengths of time in nanoseconds.

    What it tells of them is at most 1 % too long, but for the least, the most and the mean. Counting in parts and adding those up
    gives the same as counting all at once.
    """

    __slots__ = ("_counts", "count", "least", "most", "total")

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()
        self.count = 0
        self.total = 0
        """The sum of all."""
        self.least: int | None = None
        self.most: int | None = None

    def add(self, nanoseconds: int) -> None:
        """Count one; a clock that was set back makes it 0."""
        value = max(nanoseconds, 0)
        self.count += 1
        self.total += value
        self.least = value if self.least is None else min(self.least, value)
        self.most = value if self.most is None else max(self.most, value)
        shift = max(value.bit_length() - _BITS, 0)
        self._counts[shift, value >> shift] += 1

    def add_all(self, other: Histogram) -> None:
        """Count what another has counted."""
        self._counts.update(other._counts)
        self.count += other.count
        self.total += other.total
        self.least = min((n for n in (self.least, other.least) if n is not None), default=None)
        self.most = max((n for n in (self.most, other.most) if n is not None), default=None)

    @property
    def mean(self) -> int | None:
        """Rounded down; None without any."""
        return self.total // self.count if self.count else None

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

    def buckets(self) -> list[tuple[int, int]]:
        """The longest length that belongs to a bucket, and how many do, rising; without empty ones.

        Eight to each power of two, which is coarser than what `quantile` knows.
        """
        coarse: Counter[int] = Counter()
        for (shift, value), count in self._counts.items():
            end = ((value + 1) << shift) - 1
            coarse[end | ((1 << max(end.bit_length() - _COARSE_BITS, 0)) - 1)] += count
        return sorted(coarse.items())

    def to_json(self) -> dict[str, Any]:
        """Count, nanoseconds (None without any), and buckets."""
        return {
            "count": self.count,
            "least_ns": self.least,
            "mean_ns": self.mean,
            "p50_ns": self.quantile(0.5),
            "p90_ns": self.quantile(0.9),
            "p99_ns": self.quantile(0.99),
            "most_ns": self.most,
            "buckets": [{"up_to_ns": end, "count": count} for end, count in self.buckets()],
        }
