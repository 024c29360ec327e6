"""The support of a sparse row: exactly the k largest finite entries, ties to the lowest id."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.errors import SamplingError

__all__ = ["Places", "check_k", "largest"]

Places = npt.NDArray[np.intp]

_LANES_PER_ENTRY = 8


def check_k(top_k: SupportsIndex) -> int:
    """k as an int. Raises SamplingError unless it is an integer ≥ 1."""
    try:
        k = operator.index(top_k)
    except TypeError:
        raise SamplingError(f"top_k: expected an integer >= 1 or None, got {type(top_k).__name__}") from None
    if k < 1:
        raise SamplingError(f"top_k: expected an integer >= 1 or None, got {k}")
    return k


def largest(row: npt.NDArray[Any], k: int) -> Places:
    """Places of the min(k, finite) largest entries of a row without NaN or +inf, in rising order; −0.0 equals 0.0."""
    kept = np.flatnonzero(row >= _floor(row, k)) if k < row.size else np.flatnonzero(row > -np.inf)
    values = row[kept]
    if kept.size > k:
        threshold = np.partition(values, kept.size - k)[kept.size - k]
        chosen = values > threshold
        tied = np.flatnonzero(values == threshold)
        chosen[tied[: k - int(np.count_nonzero(chosen))]] = True
        kept, values = kept[chosen], values[chosen]
    masked = values == -np.inf
    return kept[~masked] if bool(masked.any()) else kept


def _floor(row: npt.NDArray[Any], k: int) -> Any:
    """A value that at least k entries reach, found in one pass, so that few candidates are left to select from.

    The row is cut into lanes; the k-th largest of the lanes' maxima is reached by k entries, one in each of k lanes.
    """
    lanes = _LANES_PER_ENTRY * k
    if row.size < 2 * lanes:
        return -np.inf
    depth = row.size // lanes
    maxima = row[: depth * lanes].reshape(depth, lanes).max(axis=0)
    return np.partition(maxima, lanes - k)[lanes - k]
