"""q of `dyadic24-standard-v1`: integer counts summing to 2^24, from logits or from given weights.

This is not softmax sampling: the counts themselves are the law that is drawn from and sent.
"""

from __future__ import annotations

from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.allocate import allocate
from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.grid import probability_grid
from pp1wire.sampling.support import Places, check_k, largest
from pp1wire.sampling.weights import check_temperature, integer_weights, logit_row

__all__ = [
    "Counts",
    "Ids",
    "Row",
    "counts_from_weights",
    "dense_row",
    "dyadic_counts",
    "dyadic_counts_dense",
]

Ids = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]
Row = tuple[Ids, Counts]
"""One row of q: int32 ids, strictly rising, and their int32 counts, which sum to 2^24."""


def dyadic_counts(
    logits: npt.NDArray[Any], temperature: SupportsFloat, top_k: SupportsIndex | None = None, backend: str = "numpy"
) -> Row:
    """The non-zero counts of one row of logits: (ids int32 rising, counts int32 summing to 2^24).

    `logits` is float32 [V] (float16 and bfloat16 widen exactly): draft logits plus Markov bias, −inf for masked tokens.
    `temperature` is a double > 0. With `top_k`, the support is exactly min(k, finite) tokens, the largest logits, ties
    to the lowest id; entries whose count is zero are dropped. Raises SamplingError for NaN, +inf, no finite logit, a
    temperature that is not finite and positive, k < 1 or an unknown backend; FlushToZeroError; AllocationError;
    BackendUnavailable. With backend "torch" or "triton" (extra `cuda`), tensors in and out, the same counts.
    """
    if backend != "numpy":
        row_: Row = device_sampler(backend).dyadic_counts(logits, temperature, top_k)
        return row_
    t = check_temperature(temperature)
    row, highest = logit_row(logits)
    if top_k is None:
        places, weights = integer_weights(row, highest, t)
        return _row(allocate(weights), places)
    support = largest(row, check_k(top_k))
    places, weights = integer_weights(row[support], highest, t)
    return _row(allocate(weights), support if places is None else support[places])


def dyadic_counts_dense(logits: npt.NDArray[Any], temperature: SupportsFloat, backend: str = "numpy") -> Counts:
    """`dyadic_counts` over the full support as one int32 [V] array, zeros included. Raises as `dyadic_counts`."""
    if backend != "numpy":
        counts_: Counts = device_sampler(backend).dyadic_counts_dense(logits, temperature)
        return counts_
    t = check_temperature(temperature)
    row, highest = logit_row(logits)
    places, weights = integer_weights(row, highest, t)
    counts = allocate(weights)
    if places is None:
        return counts
    dense = np.zeros(row.size, np.int32)
    dense[places] = counts
    return dense


def counts_from_weights(weights: npt.NDArray[Any], top_k: SupportsIndex | None = None, backend: str = "numpy") -> Row:
    """The non-zero counts of given normalised weights [V], float64 or float32.

    The weights are put on the grid of 2^-38 as target probabilities are (`probability_grid`); the top k by weight, ties
    to the lowest id, among those with positive weight. Raises SamplingError for NaN, negative, ≥ 2, a sum further from
    one than 2^-10, k < 1 or an unknown backend; AllocationError; BackendUnavailable.
    """
    if backend != "numpy":
        row_: Row = device_sampler(backend).counts_from_weights(weights, top_k)
        return row_
    row = np.asarray(weights)
    if row.ndim != 1:
        raise SamplingError(f"weights: expected shape [V], got {row.shape}")
    grid = probability_grid(row, "weights", SamplingError)
    if top_k is None:
        return _row(allocate(grid), None)
    support = largest(np.where(row > 0, row, -np.inf), check_k(top_k))
    return _row(allocate(grid[support]), support)


def dense_row(row: Row, vocabulary: int) -> Counts:
    """A row spread over the vocabulary: int32 [V]. Raises SamplingError if an id is not below V."""
    ids, counts = row
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        raise SamplingError(f"ids: expected 0 <= id < {vocabulary}, got {int(ids.min())} to {int(ids.max())}")
    dense = np.zeros(vocabulary, np.int32)
    dense[ids] = counts
    return dense


def _row(counts: Counts, places: Places | None) -> Row:
    kept = np.flatnonzero(counts != 0)  # on a mask, several times faster than on the counts themselves
    ids = kept if places is None else places[kept]
    return ids.astype(np.int32), counts.take(kept)
