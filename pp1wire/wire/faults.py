"""The first fault of a row: the authority on what is wrong with it, and where.

One row at a time, in the order of checks (structure, canonical form, meaning; within a stage in byte order), with work that
grows with the row's bytes as it does for a good row.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pp1wire.wire._schema_v2 import BODY_STRUCTS, Q_TOTAL, MessageType, RejectCode, Representation
from pp1wire.wire.agreement import Agreement
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import HEADER_BYTES
from pp1wire.wire.messages import check_body_checksum, check_fixed_fields, reject_in
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["row_fault"]

_COLUMNS_AT = BODY_STRUCTS[MessageType.REPLY].size
# Wide rows are walked in blocks, so that a bad row needs no more memory than a good one.
_BLOCK = 32768
_SIGN, _EXPONENT, _ONE_BITS = 0x80000000, 0x7F800000, 0x3F800000
_SMALLEST_BITS = 0x33800000  # of 2^-24


def row_fault(frame: Frame, agreement: Agreement, *, checksum: bool = True) -> RemoteProtocolError | None:
    """The first fault of the row in a REPLY frame with a verified header; None if it is good.

    Args:
        frame: the whole frame.
        agreement: what it belongs to.
        checksum: False for a row that is still to be sealed.
    """
    try:
        if checksum:
            check_body_checksum(frame)
        _check_row(frame, agreement)
    except RemoteProtocolError as error:
        # Without the traceback, which names arrays that view the frame.
        return error.with_traceback(None)
    return None


def _check_row(frame: Frame, agreement: Agreement) -> None:
    values = check_fixed_fields(frame)
    _check_structure(frame, values, agreement)
    columns = frame.data[HEADER_BYTES + _COLUMNS_AT :]
    ids = np.frombuffer(columns, dtype="<i4", count=agreement.id_entries)
    q = np.frombuffer(columns, dtype="<f4", offset=4 * agreement.id_entries)
    used, token = values["entry_count"], values["token"]
    sparse = agreement.representation is Representation.SPARSE
    if sparse:
        _check_ids(frame, ids, used, agreement)
    _check_q(frame, q, used, agreement)
    _check_mass(frame, q[:used], agreement)
    if not 0 <= token < agreement.vocab_size:
        padded = agreement.vocab_size <= token < agreement.padded_vocab_size
        code = RejectCode.TOKEN_PADDED if padded else RejectCode.TOKEN_OUT_OF_RANGE
        reject_in(frame, code, 4, "token", f"0 to {agreement.vocab_size - 1}", token)
    if not (q[:used][ids[:used] == token].any() if sparse else q[token]):
        reject_in(frame, RejectCode.Q_ZERO_AT_TOKEN, 4, "token", "a token with q above 0", token)


def _check_structure(frame: Frame, v: dict[str, Any], agreement: Agreement) -> None:
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


def _check_ids(frame: Frame, ids: npt.NDArray[np.int32], used: int, agreement: Agreement) -> None:
    bad = ids[:used].view(np.uint32) >= agreement.vocab_size
    bad[1:] |= ids[1:used] <= ids[: used - 1]
    if bad.any():
        index = int(bad.argmax())
        token, previous = int(ids[index]), int(ids[index - 1]) if index else -1
        if not 0 <= token < agreement.padded_vocab_size:
            _fail(frame, agreement, RejectCode.ID_OUT_OF_RANGE, "ids", index, f"0 to {agreement.vocab_size - 1}", token)
        if token >= agreement.vocab_size:
            _fail(frame, agreement, RejectCode.ID_PADDED, "ids", index, f"below {agreement.vocab_size}", token)
        code = RejectCode.IDS_DUPLICATE if token == previous else RejectCode.IDS_UNSORTED
        _fail(frame, agreement, code, "ids", index, f"above {previous}", token)
    _check_padding(frame, agreement, RejectCode.SPARSE_PADDING_NOT_ZERO, "ids", ids, used)


def _check_q(frame: Frame, q: npt.NDArray[np.float32], used: int, agreement: Agreement) -> None:
    sparse = agreement.representation is Representation.SPARSE
    for start in range(0, used, _BLOCK):
        bad = _bad_entries(q[start : min(start + _BLOCK, used)], sparse)
        if bad.any():
            index = start + int(bad.argmax())
            code, expected = _q_fault(int(q.view(np.uint32)[index]))
            _fail(frame, agreement, code, "q", index, expected, float(q[index]))
    code = RejectCode.SPARSE_PADDING_NOT_ZERO if sparse else RejectCode.DENSE_PADDING_NOT_ZERO
    _check_padding(frame, agreement, code, "q", q, used)


def _bad_entries(q: npt.NDArray[np.float32], sparse: bool) -> npt.NDArray[np.bool_]:
    bits = q.view(np.uint32)
    usable = bits & np.uint32(_EXPONENT) != _EXPONENT
    scaled = np.where(usable, q, np.float32(0)).astype(np.float64) * Q_TOTAL
    # By bits, as a thread may take subnormal numbers for zero.
    too_small = (bits != 0) & (bits < _SMALLEST_BITS)
    bad = ~usable | (bits >= _SIGN) | too_small | (np.trunc(scaled) != scaled)
    return np.asarray(bad | (bits == 0) if sparse else bad)


def _q_fault(pattern: int) -> tuple[RejectCode, str]:
    if pattern & _EXPONENT == _EXPONENT:
        return RejectCode.Q_NOT_FINITE, "a finite number"
    if pattern == _SIGN:
        return RejectCode.Q_NEGATIVE_ZERO, "plus zero"
    if pattern & _SIGN:
        return RejectCode.Q_NEGATIVE, "at least 0"
    if pattern == 0:
        return RejectCode.Q_ZERO_ENTRY, "above 0 in a sparse support"
    return RejectCode.Q_NOT_DYADIC, "a whole multiple of 2^-24"


def _check_mass(frame: Frame, q: npt.NDArray[np.float32], agreement: Agreement) -> None:
    if q.view(np.uint32).max() > _ONE_BITS:
        # One entry alone is more than the total; the sum of such entries is for the reader only.
        _fail(
            frame,
            agreement,
            RejectCode.Q_MASS_MISMATCH,
            "q",
            None,
            Q_TOTAL,
            f"about {q.sum(dtype=np.float64) * Q_TOTAL:g}",
        )
    blocks = (q[start : start + _BLOCK] for start in range(0, len(q), _BLOCK))
    total = sum(int((block.astype(np.float64) * Q_TOTAL).astype(np.int64).sum()) for block in blocks)
    if total != Q_TOTAL:
        _fail(frame, agreement, RejectCode.Q_MASS_MISMATCH, "q", None, Q_TOTAL, total)


def _check_padding(
    frame: Frame, agreement: Agreement, code: RejectCode, column: str, values: npt.NDArray[Any], used: int
) -> None:
    # Bit patterns, so that a minus zero is not taken for zero.
    behind = values[used:].view(np.uint32) != 0
    if behind.any():
        index = used + int(behind.argmax())
        _fail(frame, agreement, code, column, index, 0, values[index].item())


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
