"""Largest remainders in exact integers: weights become 2^24 counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.errors import AllocationError

__all__ = ["MASS", "MASS_BITS", "allocate"]

MASS_BITS = 24
MASS = 1 << MASS_BITS
"""Total count of a row: q(v) = count_v / 2^24."""

_RADIX_BITS = 11

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]


def allocate(weights: Int64) -> Int64:
    """Counts in proportion to int64 weights, summing to 2^24: floors, then the largest remainders, ties to the first.

    Every weight must lie in [0, 2^39) and the sum in [1, 2^63). Raises AllocationError when the floors or the
    remainders contradict the total.
    """
    total = int(weights.sum())
    if total <= 0:
        raise AllocationError(f"weights: expected a positive total, got {total}")
    shifted = np.left_shift(weights, MASS_BITS).view(np.uint64)
    divisor = np.uint64(total)
    counts = np.floor_divide(shifted, divisor)
    product = np.multiply(counts, divisor)
    remainders = np.subtract(shifted, product, out=product)
    floors = int(counts.sum())
    remaining = MASS - floors
    if not 0 <= remaining < MASS:
        raise AllocationError(f"floors: expected 0 <= 2^24 - sum < 2^24, got sum {floors}")
    result = counts.view(np.int64)
    if remaining:
        _hand_out(result, remainders, remaining, total)
    if int(result.sum()) != MASS:
        raise AllocationError(f"counts: expected a sum of 2^24, got {int(result.sum())}")
    return result


def _hand_out(counts: Int64, remainders: UInt64, remaining: int, total: int) -> None:
    """One more to each of the `remaining` largest remainders, ties to the lowest index.

    A remainder of zero must never get one: a masked token would gain probability.
    """
    positive = int(np.count_nonzero(remainders))
    if remaining >= positive:
        raise AllocationError(f"remainders: expected more than {remaining} positive ones, got {positive}")
    # A radix step finds the bin of the threshold; only that bin is looked at closely.
    bins = np.right_shift(remainders, np.uint64(max(0, total.bit_length() - _RADIX_BITS))).view(np.int64)
    histogram = np.bincount(bins)
    from_top = histogram[::-1].cumsum()
    rank = int(np.searchsorted(from_top, remaining))
    edge = histogram.size - 1 - rank
    counts += bins > edge
    quota = remaining - (int(from_top[rank - 1]) if rank else 0)
    inside = np.flatnonzero(bins == edge)
    values = remainders[inside]
    threshold = np.partition(values, values.size - quota)[values.size - quota]
    above = values > threshold
    counts[inside[above]] += 1
    tied = inside[values == threshold]
    counts[tied[: quota - int(np.count_nonzero(above))]] += 1
