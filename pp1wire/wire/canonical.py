"""The canonical rules of a row, twice: all rows at once for the verdict, one row in order for the reason.

`rows_are_canonical` is the hot path and only says which rows are good. `reject_row` walks one bad row in the order of checks
(structure, canonical form, meaning; within a stage in byte order) and raises its first fault. The two agree on every
row (tests/wire/test_canonical.py), so a row is never judged bad without a reason or good against one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pp1wire.errors import PP1Error
from pp1wire.wire._schema_v2 import BODY_STRUCTS, Q_TOTAL, MessageType, RejectCode, Representation
from pp1wire.wire.agreement import Agreement
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import HEADER_BYTES
from pp1wire.wire.messages import check_fixed_fields, reject_in

__all__ = ["dense_rows_are_canonical", "reject_row", "sparse_rows_are_canonical"]

_COLUMNS_AT = BODY_STRUCTS[MessageType.REPLY].size
_ONE_BITS = np.uint32(0x3F800000)
_SCALE = np.float32(Q_TOTAL)

Bools = npt.NDArray[np.bool_]


def sparse_rows_are_canonical(
    ids: npt.NDArray[np.int32],
    q: npt.NDArray[np.float32],
    entry_counts: npt.NDArray[np.uint32],
    tokens: npt.NDArray[np.int32],
    agreement: Agreement,
) -> tuple[Bools, npt.NDArray[np.int32]]:
    """Judge n sparse rows of k entries in one pass: (good bool [n], counts int32 [n, k], right where good)."""
    k = agreement.id_entries
    index = np.arange(k, dtype=np.int64)
    used = np.asarray(index < entry_counts[:, None])
    # Read as unsigned, the bit patterns of negatives, minus zero, infinities and NaN all lie above that of 1.0, so none of
    # them reaches the multiplication and the cast.
    in_range = (q.view(np.uint32) <= _ONE_BITS).all(axis=1)
    scaled = np.where(np.expand_dims(in_range, 1), q, np.float32(0)) * _SCALE
    counts = scaled.astype(np.int32)
    good = in_range & (counts == scaled).all(axis=1)
    # A used entry has a count and an unused one has not, in its count as in its id.
    good &= ((counts != 0) == used).all(axis=1)
    good &= (counts.sum(axis=1, dtype=np.int64) == Q_TOTAL) & (entry_counts <= k)
    # Behind the last used entry stand V, V+1, …: then the used ids rise and stay below V iff every step is upward.
    rising = np.where(used, ids, agreement.vocab_size + index - entry_counts[:, None])
    good &= (
        (rising[:, 1:] > rising[:, :-1]).all(axis=1) & (rising[:, 0] >= 0) & (rising[:, -1] < agreement.vocab_size + k)
    )
    good &= np.where(used, 0, ids).any(axis=1) == False  # noqa: E712 - an array
    good &= ((ids == tokens[:, None]) & used).any(axis=1)
    return good, counts


def dense_rows_are_canonical(
    q: npt.NDArray[np.float32],
    entry_counts: npt.NDArray[np.uint32],
    tokens: npt.NDArray[np.int32],
    agreement: Agreement,
) -> tuple[Bools, npt.NDArray[np.int32]]:
    """Judge n dense rows of the padded vocabulary: (good bool [n], counts int32 [n, padded], right where good).

    Row by row, so that the temporaries stay in the cache and memory stays at one row beyond the result.
    """
    n, width = q.shape
    good = np.asarray((entry_counts == agreement.vocab_size) & (tokens >= 0) & (tokens < agreement.vocab_size))
    counts = np.empty((n, width), dtype=np.int32)
    scaled = np.empty(width, dtype=np.float32)
    for row in range(n):
        if not good[row]:
            continue
        good[row] = _dense_row_is_canonical(q[row], counts[row], scaled, int(tokens[row]), agreement.vocab_size)
    return good, counts


def _dense_row_is_canonical(
    q: npt.NDArray[np.float32],
    counts: npt.NDArray[np.int32],
    scaled: npt.NDArray[np.float32],
    token: int,
    vocab_size: int,
) -> bool:
    # See sparse_rows_are_canonical for the comparison of bit patterns.
    if q.view(np.uint32).max() > _ONE_BITS:
        return False
    np.multiply(q, _SCALE, out=scaled)
    np.copyto(counts, scaled, casting="unsafe")
    if not np.array_equal(counts, scaled) or counts[vocab_size:].any():
        return False
    return bool(counts.sum(dtype=np.int64) == Q_TOTAL) and bool(counts[token])


def reject_row(frame: Frame, agreement: Agreement) -> NoReturn:
    """Raise the first fault of a row that was judged bad."""
    values = check_fixed_fields(frame)
    _structure(frame, values, agreement)
    columns = bytes(frame.data[HEADER_BYTES + _COLUMNS_AT :])
    ids = np.frombuffer(columns, dtype="<i4", count=agreement.id_entries)
    q = np.frombuffer(columns, dtype="<f4", offset=4 * agreement.id_entries)
    used = values["entry_count"]
    if agreement.representation is Representation.SPARSE:
        _ids(frame, ids, used, agreement)
    total, at_token = _q(frame, ids, q, used, values["token"], agreement)
    if total != Q_TOTAL:
        _fail(frame, agreement, RejectCode.Q_MASS_MISMATCH, "q", None, Q_TOTAL, total)
    token = values["token"]
    if not 0 <= token < agreement.vocab_size:
        padded = agreement.vocab_size <= token < agreement.padded_vocab_size
        code = RejectCode.TOKEN_PADDED if padded else RejectCode.TOKEN_OUT_OF_RANGE
        reject_in(frame, code, 4, "token", f"0 to {agreement.vocab_size - 1}", token)
    if not at_token:
        reject_in(frame, RejectCode.Q_ZERO_AT_TOKEN, 4, "token", "a token with q above 0", token)
    raise PP1Error(f"row at byte {frame.offset} was judged bad, but no rule rejects it: please report this")


def _structure(frame: Frame, v: dict[str, Any], agreement: Agreement) -> None:
    if v["representation"] is not agreement.representation:
        reject_in(
            frame, RejectCode.REPRESENTATION_MISMATCH, 12, "representation",
            agreement.representation.name, v["representation"].name,
        )  # fmt: skip
    if v["shard_first_id"] != agreement.shard_first_id:
        reject_in(frame, RejectCode.SHARD_MISMATCH, 16, "shard_first_id", agreement.shard_first_id, v["shard_first_id"])
    if v["shard_id_count"] != agreement.vocab_size:
        reject_in(frame, RejectCode.SHARD_MISMATCH, 20, "shard_id_count", agreement.vocab_size, v["shard_id_count"])
    entries = v["entry_count"]
    if entries == 0:
        reject_in(frame, RejectCode.MISSING_Q, 8, "entry_count", "at least 1", 0)
    dense = agreement.representation is Representation.DENSE
    if entries > agreement.q_entries or (dense and entries != agreement.vocab_size):
        expected = agreement.vocab_size if dense else f"at most {agreement.q_entries}"
        reject_in(frame, RejectCode.ENTRY_COUNT_MISMATCH, 8, "entry_count", expected, entries)


def _ids(frame: Frame, ids: npt.NDArray[np.int32], used: int, agreement: Agreement) -> None:
    previous = -1
    for index, token in enumerate(ids[:used].tolist()):
        fault = None
        if not 0 <= token < agreement.padded_vocab_size:
            fault = RejectCode.ID_OUT_OF_RANGE, f"0 to {agreement.vocab_size - 1}"
        elif token >= agreement.vocab_size:
            fault = RejectCode.ID_PADDED, f"below {agreement.vocab_size}"
        elif token == previous:
            fault = RejectCode.IDS_DUPLICATE, f"above {previous}"
        elif token < previous:
            fault = RejectCode.IDS_UNSORTED, f"above {previous}"
        if fault is not None:
            _fail(frame, agreement, fault[0], "ids", index, fault[1], token)
        previous = token
    behind = np.flatnonzero(ids[used:])
    if behind.size:
        index = used + int(behind[0])
        _fail(frame, agreement, RejectCode.SPARSE_PADDING_NOT_ZERO, "ids", index, 0, int(ids[index]))


def _q(
    frame: Frame, ids: npt.NDArray[np.int32], q: npt.NDArray[np.float32], used: int, token: int, agreement: Agreement
) -> tuple[int, int]:
    """Judge the q column; (total of the counts, count at the token)."""
    sparse = agreement.representation is Representation.SPARSE
    bits = q.view(np.uint32)
    total = at_token = 0
    for index in np.flatnonzero(bits[:used]).tolist() if not sparse else range(used):
        value, pattern = float(q[index]), int(bits[index])
        fault = None
        if pattern & 0x7F800000 == 0x7F800000:
            fault = RejectCode.Q_NOT_FINITE, "a finite number"
        elif pattern == 0x80000000:
            fault = RejectCode.Q_NEGATIVE_ZERO, "plus zero"
        elif value < 0:
            fault = RejectCode.Q_NEGATIVE, "at least 0"
        elif (count := Fraction(value) * Q_TOTAL).denominator != 1:
            fault = RejectCode.Q_NOT_DYADIC, "a whole multiple of 2^-24"
        elif sparse and not pattern:
            fault = RejectCode.Q_ZERO_ENTRY, "above 0 in a sparse support"
        if fault is not None:
            _fail(frame, agreement, fault[0], "q", index, fault[1], value)
        total += int(count)
        at_token += int(count) if (int(ids[index]) if sparse else index) == token else 0
    behind = np.flatnonzero(bits[used:])
    if behind.size:
        index = used + int(behind[0])
        code = RejectCode.SPARSE_PADDING_NOT_ZERO if sparse else RejectCode.DENSE_PADDING_NOT_ZERO
        _fail(frame, agreement, code, "q", index, "plus zero", float(q[index]))
    return total, at_token


def _fail(
    frame: Frame,
    agreement: Agreement,
    code: RejectCode,
    column: str,
    index: int | None,
    expected: object,
    actual: object,
) -> NoReturn:
    at = _COLUMNS_AT + (4 * agreement.id_entries if column == "q" else 0) + 4 * (index or 0)
    reject_in(frame, code, at, column if index is None else f"{column}[{index}]", expected, actual)
