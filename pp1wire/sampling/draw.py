"""Drawing a token with a ticket, and checking that a token was drawn with it.

A ticket is an integer in [0, 2^24). The token is the first, in id order, whose running count exceeds the ticket; so
token v owns exactly count_v tickets, and a token of count zero owns none.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.allocate import MASS
from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.philox import unsigned
from pp1wire.sampling.weights import Int64

__all__ = ["check_counts", "check_row", "sample", "tickets_agree"]

Integers = npt.NDArray[np.integer[Any]]
Row = tuple[Integers, Integers]


def check_row(ids: Integers, counts: Integers, name: str = "row", refuse: type[SamplingError] = SamplingError) -> Row:
    """A row of q as arrays, refused unless ids rise strictly from 0, no count is negative and they sum to 2^24.

    Zero counts are harmless here (the wire is stricter about spelling). Raises `refuse`.
    """
    ids, counts = np.asarray(ids), np.asarray(counts)
    if ids.ndim != 1 or ids.shape != counts.shape or not ids.size:
        raise refuse(f"{name}: expected ids and counts of one shape [n], n >= 1, got {ids.shape} and {counts.shape}")
    if ids.dtype.kind not in "iu":
        raise refuse(f"{name}: expected integer ids, got {ids.dtype}")
    if int(ids[0]) < 0 or not bool((ids[1:] > ids[:-1]).all()):
        raise refuse(f"{name}: expected ids rising strictly from 0")
    return ids, check_counts(counts, name, refuse)


def check_counts(counts: Integers, name: str = "row", refuse: type[SamplingError] = SamplingError) -> Integers:
    """Integer counts, refused unless none is negative and they sum to 2^24. Raises `refuse`."""
    if counts.dtype.kind not in "iu":
        raise refuse(f"{name}: expected integer counts, got {counts.dtype}")
    lowest, highest = int(counts.min()), int(counts.max())
    if lowest < 0 or highest > MASS:
        raise refuse(f"{name}: expected 0 <= count <= 2^24, got {lowest} to {highest}")
    mass = int(counts.sum(dtype=np.int64))
    if mass != MASS:
        raise refuse(f"{name}: expected counts summing to 2^24, got {mass}")
    return counts


def sample(ids: Integers, counts: Integers, ticket: SupportsIndex, backend: str = "numpy") -> int:
    """The token of a row that owns `ticket`: the first whose running count exceeds it.

    `ids` and `counts` are integer arrays [n], ids strictly rising, counts ≥ 0 and summing to 2^24. Raises SamplingError
    for any other row, and for a ticket outside [0, 2^24). With another backend, ids and counts are tensors.
    """
    if backend != "numpy":
        return int(device_sampler(backend).sample(ids, counts, ticket))
    ids, counts = check_row(ids, counts)
    # The row sums to 2^24, so its running sums fit 32 bits.
    running = np.cumsum(counts, dtype=np.int32)
    return int(ids[np.searchsorted(running, unsigned(ticket, 24, "ticket"), side="right")])


def tickets_agree(
    counts: npt.NDArray[Any], tickets: Integers, tokens: Integers, ids: Integers | None = None
) -> npt.NDArray[np.bool_]:
    """For each of n rows, whether `tokens[i]` is the token that owns `tickets[i]`: bool [n].

    Sparse: `ids` and `counts` are [n, k], ids rising, unused entries at the end with count zero; one vectorised pass.
    Dense: `ids` is None and `counts` is [n, V], either integer counts or the float32 q itself (partial sums of
    dyadic values are exact in FP32); nothing of the size of a row is allocated.

    The rows must already be known to be canonical (no negative count, sum 2^24), as a decoded message is. A token out
    of range agrees with nothing. Raises SamplingError for shapes that do not fit together.
    """
    counts, tickets, tokens = np.asarray(counts), np.asarray(tickets), np.asarray(tokens)
    if counts.ndim != 2 or tickets.shape != counts.shape[:1] or tokens.shape != counts.shape[:1]:
        raise SamplingError(
            "tickets_agree: expected counts [n, k], tickets [n], tokens [n], "
            f"got {counts.shape}, {tickets.shape}, {tokens.shape}"
        )
    if counts.dtype.kind not in "iu" and not (ids is None and counts.dtype == np.float32):
        raise SamplingError(f"tickets_agree: expected integer counts, or float32 q if dense, got {counts.dtype}")
    if ids is None:
        before, own = _dense_spans(counts, tokens)
    else:
        if np.shape(ids) != counts.shape:
            raise SamplingError(f"tickets_agree: expected ids of shape {counts.shape}, got {np.shape(ids)}")
        before, own = _sparse_spans(np.asarray(ids), counts, tokens)
    return (before <= tickets) & (tickets < before + own)


def _sparse_spans(ids: Integers, counts: npt.NDArray[Any], tokens: Integers) -> tuple[Int64, Int64]:
    column = tokens[:, None]
    before = np.einsum("nk,nk->n", counts, ids < column, dtype=np.int64)
    own = np.einsum("nk,nk->n", counts, ids == column, dtype=np.int64)
    return before, own


def _dense_spans(counts: npt.NDArray[Any], tokens: Integers) -> tuple[Int64, Int64]:
    # The sum of a canonical row fits the row's own dtype, which spares numpy the buffered cast of a wider one.
    scale = MASS if counts.dtype == np.float32 else 1
    n, vocabulary = counts.shape
    before, own = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        token = operator.index(tokens[i])
        if 0 <= token < vocabulary:
            before[i] = int(np.add.reduce(counts[i, :token], dtype=counts.dtype) * scale)
            own[i] = int(counts[i, token] * scale)
    return before, own
