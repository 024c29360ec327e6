"""q of `dyadic24-standard-v1`: integer counts summing to 2^24, from logits or from given weights.

This is not softmax sampling: the counts themselves are the law that is drawn from and sent.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.allocate import allocate
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.grid import probability_grid
from pp1wire.sampling.weights import Float32, Int64, check_temperature, integer_weights, logit_row

__all__ = [
    "BACKENDS",
    "Counts",
    "Ids",
    "Row",
    "counts_from_weights",
    "dense_row",
    "dyadic_counts",
    "dyadic_counts_dense",
]

BACKENDS = ("numpy",)

Ids = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]
Row = tuple[Ids, Counts]
"""One row of q: int32 ids, strictly rising, and their int32 counts, which sum to 2^24."""


def dyadic_counts(
    logits: npt.NDArray[Any], temperature: SupportsFloat, top_k: SupportsIndex | None = None, backend: str = "numpy"
) -> Row:
    """The non-zero counts of one row of logits: (ids int32 rising, counts int32 summing to 2^24).

    `logits` is float32 [V] (float16 and bfloat16 widen exactly), draft logits plus Markov bias, −inf for a masked token.
    `temperature` is a double > 0. With `top_k`, the support is exactly min(k, finite) tokens, the largest logits, ties
    to the lowest id; entries whose count is zero are dropped. Raises SamplingError for NaN, +inf, no finite logit, a
    temperature that is not finite and positive, k < 1 or an unknown backend; FlushToZeroError; AllocationError.
    """
    _check_backend(backend)
    t = check_temperature(temperature)
    row, largest = logit_row(logits)
    support = None if top_k is None else _largest(row, _check_k(top_k))
    if support is not None:
        row = row[support]
    places, weights = integer_weights(row, largest, t)
    return _row(allocate(weights), _compose(support, places))


def dyadic_counts_dense(logits: npt.NDArray[Any], temperature: SupportsFloat, backend: str = "numpy") -> Counts:
    """`dyadic_counts` over the full support as one int32 [V] array, zeros included. Raises as `dyadic_counts`."""
    _check_backend(backend)
    t = check_temperature(temperature)
    row, largest = logit_row(logits)
    places, weights = integer_weights(row, largest, t)
    counts = allocate(weights)
    if places is None:
        return counts.astype(np.int32)
    dense = np.zeros(row.size, np.int32)
    dense[places] = counts
    return dense


def counts_from_weights(weights: npt.NDArray[Any], top_k: SupportsIndex | None = None, backend: str = "numpy") -> Row:
    """The non-zero counts of given normalised weights [V], float64 or float32.

    The weights are put on the grid of 2^-38 as target probabilities are (`probability_grid`); the top k by weight, ties
    to the lowest id, among those with positive weight. Raises SamplingError for NaN, negative, ≥ 2, a sum further from
    one than 2^-10, k < 1 or an unknown backend; AllocationError.
    """
    _check_backend(backend)
    row = np.asarray(weights)
    if row.ndim != 1:
        raise SamplingError(f"weights: expected shape [V], got {row.shape}")
    grid = probability_grid(row, "weights", SamplingError)
    support = None if top_k is None else _largest(np.where(row > 0, row, -np.inf), _check_k(top_k))
    if support is not None:
        grid = grid[support]
    return _row(allocate(grid), support)


def dense_row(row: Row, vocabulary: int) -> Counts:
    """A row spread over the vocabulary: int32 [V]. Raises SamplingError if an id is not below V."""
    ids, counts = row
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        raise SamplingError(f"ids: expected 0 <= id < {vocabulary}, got {int(ids.min())} to {int(ids.max())}")
    dense = np.zeros(vocabulary, np.int32)
    dense[ids] = counts
    return dense


def _check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise SamplingError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}")


def _check_k(top_k: SupportsIndex) -> int:
    try:
        k = operator.index(top_k)
    except TypeError:
        raise SamplingError(f"top_k: expected an integer >= 1 or None, got {type(top_k).__name__}") from None
    if k < 1:
        raise SamplingError(f"top_k: expected an integer >= 1 or None, got {k}")
    return k


def _largest(row: Float32 | npt.NDArray[Any], k: int) -> npt.NDArray[np.intp] | None:
    """Places of the min(k, finite) largest entries in rising order, ties to the lowest; None if nothing is left out."""
    if k >= row.size:
        return None
    threshold = np.partition(row, row.size - k)[row.size - k]
    if threshold == -np.inf:
        return np.flatnonzero(row > threshold)
    chosen = row > threshold
    tied = np.flatnonzero(row == threshold)
    chosen[tied[: k - int(np.count_nonzero(chosen))]] = True
    return np.flatnonzero(chosen)


def _compose(outer: npt.NDArray[np.intp] | None, inner: npt.NDArray[np.intp] | None) -> npt.NDArray[np.intp] | None:
    if outer is None or inner is None:
        return inner if outer is None else outer
    return outer[inner]


def _row(counts: Int64, places: npt.NDArray[np.intp] | None) -> Row:
    kept = np.flatnonzero(counts)
    ids = kept if places is None else places[kept]
    return ids.astype(np.int32), counts[kept].astype(np.int32)
