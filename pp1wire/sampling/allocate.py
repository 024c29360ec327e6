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
_BINS = 1 << _RADIX_BITS
_BLOCK = 8192  # works in a core's cache, and spares the page faults of fresh arrays as large as a row

Int64 = npt.NDArray[np.int64]


def allocate(weights: Int64) -> npt.NDArray[np.int32]:
    """Counts (int32 [n]) in proportion to weights (int64 [n]), summing to 2^24.

    Floors first, then one more to each of the largest remainders, ties to the lowest index. Every weight must lie in
    [0, 2^39) and the sum in [1, 2^63). The weights are overwritten with their remainders. Raises AllocationError when
    the floors or the remainders contradict the total.
    """
    total = int(weights.sum())
    if total <= 0:
        raise AllocationError(f"weights: expected a positive total, got {total}")
    counts = np.empty(weights.size, np.int32)
    # A radix step: a histogram of the remainders' high bits finds the bin of the threshold; only that one is sorted.
    shift = np.uint64(max(0, total.bit_length() - _RADIX_BITS))
    histogram, positive = _divide(weights, counts, total, shift)
    floors = int(counts.sum(dtype=np.int64))
    remaining = MASS - floors
    if not 0 <= remaining < MASS:
        raise AllocationError(f"floors: expected 0 <= 2^24 - sum < 2^24, got sum {floors}")
    if remaining:
        # The remainders sum to remaining·total and each is below total. A remainder of zero must never get one more: a
        # masked token would gain probability.
        if remaining >= positive:
            raise AllocationError(f"remainders: expected more than {remaining} positive ones, got {positive}")
        _hand_out(weights, counts, remaining, histogram, shift)
    if int(counts.sum(dtype=np.int64)) != MASS:
        raise AllocationError(f"counts: expected a sum of 2^24, got {int(counts.sum(dtype=np.int64))}")
    return counts


def _divide(weights: Int64, counts: npt.NDArray[np.int32], total: int, shift: np.uint64) -> tuple[Int64, int]:
    """Turn weights into remainders and fill `counts` with floors; the remainders' histogram, how many are positive."""
    divisor = np.uint64(total)
    histogram = np.zeros(_BINS, np.int64)
    positive = 0
    width = min(weights.size, _BLOCK)
    shifted_, quotient_ = np.empty(width, np.uint64), np.empty(width, np.uint64)
    for start in range(0, weights.size, width):
        block = weights[start : start + width].view(np.uint64)
        shifted, quotient = shifted_[: block.size], quotient_[: block.size]
        np.left_shift(block, np.uint64(MASS_BITS), out=shifted)
        np.floor_divide(shifted, divisor, out=quotient)
        counts[start : start + width] = quotient
        np.multiply(quotient, divisor, out=quotient)
        np.subtract(shifted, quotient, out=block)
        positive += int(np.count_nonzero(block))
        np.right_shift(block, shift, out=quotient)
        histogram += np.bincount(quotient.view(np.int64), minlength=_BINS)
    return histogram, positive


def _hand_out(
    remainders: Int64, counts: npt.NDArray[np.int32], remaining: int, histogram: Int64, shift: np.uint64
) -> None:
    """One more to each of the `remaining` largest remainders, ties to the lowest index."""
    from_top = histogram[::-1].cumsum()
    rank = int(np.searchsorted(from_top, remaining))
    edge = _BINS - 1 - rank
    quota = remaining - (int(from_top[rank - 1]) if rank else 0)
    parts = []
    for start in range(0, remainders.size, _BLOCK):
        bins = np.right_shift(remainders[start : start + _BLOCK].view(np.uint64), shift).view(np.int64)
        counts[start : start + _BLOCK] += bins > edge
        parts.append(np.flatnonzero(bins == edge) + start)
    inside = np.concatenate(parts)
    values = remainders[inside]
    threshold = np.partition(values, values.size - quota)[values.size - quota]
    above = values > threshold
    counts[inside[above]] += 1
    tied = inside[values == threshold]
    counts[tied[: quota - int(np.count_nonzero(above))]] += 1
