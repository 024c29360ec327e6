"""The canonical rules of rows as one verdict over all of them: the hot path of both ends.

These functions say only whether every row is good. When one is not, `pp1wire.wire.faults` walks the rows in order and
finds the reason. The two agree on every row (tests/wire/test_canonical.py), so no row is judged bad without a reason or good
against one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pp1wire.wire._schema_v2 import MAX_DEPTH, MAX_SLOTS, Q_TOTAL

__all__ = [
    "BLOCK",
    "ROUND_ROWS",
    "counts_from_q",
    "dense_counts_are_canonical",
    "dyadic_counts",
    "sparse_counts_are_canonical",
]

BLOCK = 32768
"""Entries of a dense row that are judged at a time."""
ROUND_ROWS = MAX_SLOTS * MAX_DEPTH
"""Most rows of a round. What depends on a number of rows is cached up to here: beyond, a peer would choose what is kept."""

_ONE_BITS = 0x3F800000
_SCALE = np.float32(Q_TOTAL)
# float32 adds counts exactly up to 2^24, so a row summed in these many parts needs integers only when one part holds it all.
_EXACT_FLOAT32 = Q_TOTAL

Counts = npt.NDArray[np.int32]
Q = npt.NDArray[np.float32]


@lru_cache(maxsize=64)
def _indices(k: int) -> npt.NDArray[np.uint32]:
    return np.arange(k, dtype=np.uint32)


@lru_cache(maxsize=64)
def _whole_support(n: int, k: int) -> bytes:
    return np.full(n, k, dtype=np.uint32).tobytes()


def counts_from_q(q: Q) -> Counts | None:
    """q · 2^24 as integers, or None unless every q is a multiple of 2^-24 from 0 to 1 (and no minus zero)."""
    # Read as unsigned, the bit patterns of negatives, minus zero, infinities and NaN all lie above that of 1.0, so none of
    # them reaches the multiplication and the cast.
    if np.maximum.reduce(q.view(np.uint32), axis=None, initial=0) > _ONE_BITS:
        return None
    scaled = q * _SCALE
    if np.count_nonzero(np.trunc(scaled) != scaled):
        return None
    counts = scaled.astype(np.int32)
    # A thread that takes subnormal numbers for zero computes as if they were; the bits tell.
    return counts if np.count_nonzero(q.view(np.uint32)) == np.count_nonzero(counts) else None


def sparse_counts_are_canonical(
    ids: npt.NDArray[np.int32],
    counts: Counts,
    entry_counts: npt.NDArray[np.uint32],
    tokens: npt.NDArray[np.int32],
    vocab_size: int,
) -> bool:
    """Whether n sparse rows [n, k] are canonical, total 2^24 and have mass at their tokens [n]."""
    n, k = ids.shape
    ids = np.ascontiguousarray(ids)
    good = np.empty((n, k), dtype=np.bool_)
    np.greater(ids.reshape(-1)[1:], ids.reshape(-1)[:-1], out=good.reshape(-1)[1:])
    good[:, 0] = True
    # A used entry has a count and an id above the one before; no id, read as unsigned, reaches the vocabulary size.
    good &= counts > 0
    at_token = ids == tokens[:, None]
    whole = entry_counts.tobytes() == _whole_support(n, k) if n <= ROUND_ROWS else not np.any(entry_counts != k)
    if whole:
        bad = ~good
    else:
        # An unused entry has neither count nor id.
        used = np.asarray(_indices(k) < entry_counts[:, None])
        bad = good != used
        bad |= ((ids | counts) != 0) > used
        bad[:, 0] |= entry_counts > k
        at_token &= used
    bad |= ids.view(np.uint32) >= vocab_size
    # Ids rise, so no row has its token twice and n hits are one a row.
    if np.count_nonzero(bad) or np.count_nonzero(at_token) != n:
        return False
    return bool(np.count_nonzero(np.add.reduce(counts, axis=1, dtype=np.int64) != Q_TOTAL) == 0)


def dense_counts_are_canonical(counts: Counts, tokens: npt.NDArray[np.int32], vocab_size: int) -> bool:
    """Whether n dense rows [n, padded] have no negative count, no mass in the padding, total 2^24 and mass at the token."""
    for row, token in zip(counts, tokens.tolist(), strict=True):
        if row.view(np.uint32).max() > Q_TOTAL or row[vocab_size:].any():
            return False
        if not 0 <= token < vocab_size or row[token] == 0 or _total(row) != Q_TOTAL:
            return False
    return True


def dyadic_counts(bits: npt.NDArray[np.uint32], counts: Counts, scratch: Q) -> int | None:
    """The counts [n] of q given as bit patterns [n], n ≤ BLOCK, and their total; None if one is no multiple of 2^-24 from 0 to 1.

    Args:
        scratch: float32 [2, n]: block by block, the temporaries stay in the cache and add no memory that grows with the row.
    """
    # See counts_from_q; a comparison of a signalling NaN would raise a flag, too.
    if np.maximum.reduce(bits) > _ONE_BITS:
        return None
    scaled, whole = scratch
    np.multiply(bits.view(np.float32), _SCALE, out=scaled)
    np.trunc(scaled, out=whole)
    if np.count_nonzero(whole != scaled):
        return None
    np.copyto(counts, scaled, casting="unsafe")
    if np.count_nonzero(bits) != np.count_nonzero(counts):
        return None
    # Rounding is monotone, so a part whose true sum is 2^24 or more never shows as less; only then are integers needed.
    mass = int(np.add.reduce(scaled))
    return mass if mass < _EXACT_FLOAT32 else _total(counts)


def _total(counts: Counts) -> int:
    return int(counts.sum(dtype=np.int64))
