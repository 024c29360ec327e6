"""One row judged alone: its counts, or its first fault. The authority on what is wrong with a row, and where.

In the order of checks (structure, canonical form, meaning; within a stage in byte order). Each stage asks one question of all
entries and looks for the entry only when the answer is no, so that a bad row costs no more than a good one.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from pp1wire.wire._schema_v2 import BODY_STRUCTS, Q_TOTAL, MessageType, RejectCode, Representation
from pp1wire.wire.agreement import Agreement
from pp1wire.wire.bodies import BODIES
from pp1wire.wire.canonical import BLOCK, dyadic_counts
from pp1wire.wire.frames import Frame, check_body_checksum, fault_in
from pp1wire.wire.header import HEADER_BYTES
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["row_fault"]

_ROW_HEADER: Final = BODY_STRUCTS[MessageType.REPLY]
_COLUMNS_AT: Final = _ROW_HEADER.size
_SIGN, _EXPONENT, _ONE_BITS = 0x80000000, 0x7F800000, 0x3F800000
_SMALLEST_BITS = 0x33800000  # of 2^-24
_NO_PADDING = (bytes(3), bytes(8))

Counts = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint32]


def row_fault(
    frame: Frame, agreement: Agreement, counts: Counts | None = None, *, checksum: bool = True
) -> RemoteProtocolError | None:
    """The first fault of the row in a REPLY frame with a verified header; None if it is good.

    Args:
        frame: the whole frame.
        agreement: what it belongs to.
        counts: int32 [q_entries], where the counts of a good row are written; those of a bad one mean nothing.
        checksum: False for a row that is still to be sealed.
    """
    if counts is None:
        counts = np.empty(agreement.q_entries, dtype=np.int32)
    try:
        if checksum:
            check_body_checksum(frame)
        _check_row(frame, agreement, counts)
    except RemoteProtocolError as error:
        # Without the traceback, which names arrays that view the frame.
        return error.with_traceback(None)
    return None


def _check_row(frame: Frame, agreement: Agreement, counts: Counts) -> None:
    token, used = _check_structure(frame, agreement)
    columns, k = frame.data[HEADER_BYTES + _COLUMNS_AT :], agreement.id_entries
    ids = np.frombuffer(columns, dtype="<i4", count=k)
    bits = np.frombuffer(columns, dtype="<u4", offset=4 * k)
    if k:
        _check_ids(frame, ids[:used].view(np.uint32), agreement)
        _check_padding(frame, agreement, RejectCode.SPARSE_PADDING_NOT_ZERO, "ids", ids, used)
    total = _check_q(frame, agreement, bits[:used], counts)
    code = RejectCode.SPARSE_PADDING_NOT_ZERO if k else RejectCode.DENSE_PADDING_NOT_ZERO
    _check_padding(frame, agreement, code, "q", bits.view(np.float32), used)
    counts[used:] = 0
    if total != Q_TOTAL:
        actual = "more in one entry" if total is None else total
        _fail(frame, agreement, RejectCode.Q_MASS_MISMATCH, "q", None, Q_TOTAL, actual)
    if not 0 <= token < agreement.vocab_size:
        padded = agreement.vocab_size <= token < agreement.padded_vocab_size
        code = RejectCode.TOKEN_PADDED if padded else RejectCode.TOKEN_OUT_OF_RANGE
        raise fault_in(frame, code, 4, "token", range(agreement.vocab_size), token)
    if not (np.count_nonzero(ids[:used] == token) if k else counts[token]):
        raise fault_in(frame, RejectCode.Q_ZERO_AT_TOKEN, 4, "token", "a token with q above 0", token)


def _check_structure(frame: Frame, agreement: Agreement) -> tuple[int, int]:
    """The row's token and the number of entries it uses."""
    _, token, entries, representation, reserved_1, first_id, id_count, reserved_2 = _ROW_HEADER.unpack_from(
        frame.data, HEADER_BYTES
    )
    vocab = agreement.vocab_size
    agreed = (agreement.representation, agreement.shard_first_id, vocab, *_NO_PADDING)
    if (representation, first_id, id_count, reserved_1, reserved_2) != agreed:
        BODIES[MessageType.REPLY].read(frame)
        if representation != agreement.representation:
            actual = Representation(representation).name
            expected = agreement.representation.name
            raise fault_in(frame, RejectCode.REPRESENTATION_MISMATCH, 12, "representation", expected, actual)
        if first_id != agreement.shard_first_id:
            raise fault_in(frame, RejectCode.SHARD_MISMATCH, 16, "shard_first_id", agreement.shard_first_id, first_id)
        raise fault_in(frame, RejectCode.SHARD_MISMATCH, 20, "shard_id_count", vocab, id_count)
    if entries == 0:
        raise fault_in(frame, RejectCode.MISSING_Q, 8, "entry_count", "at least 1", 0)
    dense = agreement.representation is Representation.DENSE
    if entries > agreement.q_entries or (dense and entries != vocab):
        expected = str(vocab) if dense else f"at most {agreement.q_entries}"
        raise fault_in(frame, RejectCode.ENTRY_COUNT_MISMATCH, 8, "entry_count", expected, entries)
    return token, entries


def _check_ids(frame: Frame, ids: Bits, agreement: Agreement) -> None:
    # A negative id read as unsigned lies above every vocabulary. If all rise and the last is in it, so are the others.
    rises = ids[1:] > ids[:-1]
    if ids[-1] < agreement.vocab_size and np.count_nonzero(rises) == len(rises):
        return
    bad = ids >= agreement.vocab_size
    bad[1:] |= ~rises
    index = int(bad.argmax())
    token = int(ids[index])
    if token >= agreement.padded_vocab_size:
        signed = token - 2**32 if token & _SIGN else token
        _fail(frame, agreement, RejectCode.ID_OUT_OF_RANGE, "ids", index, range(agreement.vocab_size), signed)
    if token >= agreement.vocab_size:
        _fail(frame, agreement, RejectCode.ID_PADDED, "ids", index, f"below {agreement.vocab_size}", token)
    previous = int(ids[index - 1])
    code = RejectCode.IDS_DUPLICATE if token == previous else RejectCode.IDS_UNSORTED
    _fail(frame, agreement, code, "ids", index, f"above {previous}", token)


def _check_q(frame: Frame, agreement: Agreement, bits: Bits, counts: Counts) -> int | None:
    """The total of the counts, which are written; None if one entry alone is more than that."""
    sparse, total = agreement.representation is Representation.SPARSE, 0
    too_large = False
    scratch = np.empty((2, min(BLOCK, len(bits))), dtype=np.float32)
    for start in range(0, len(bits), BLOCK):
        part = bits[start : start + BLOCK]
        mass = dyadic_counts(part, counts[start : start + len(part)], scratch[:, : len(part)])
        if mass is None:
            bad = _bad_entries(part, sparse, scratch[:, : len(part)])
            index = int(bad.argmax())
            if bad[index]:
                _fail_entry(frame, agreement, start + index, part[index])
            too_large = True
        elif sparse and np.count_nonzero(part) != len(part):
            index = int(part.argmin())
            _fail_entry(frame, agreement, start + index, part[index])
        else:
            total += mass
    return None if too_large else total


def _bad_entries(bits: Bits, sparse: bool, scratch: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    scaled, whole = scratch
    # What no total can hold is for the mass to tell; here it counts as 1, so that nothing overflows and no NaN is computed with.
    np.minimum(bits, np.uint32(_ONE_BITS), out=scaled.view(np.uint32))
    np.multiply(scaled, np.float32(Q_TOTAL), out=scaled)
    np.trunc(scaled, out=whole)
    bad = whole != scaled
    # By bits, as a thread may take subnormal numbers for zero. Zero wraps to the largest.
    bad |= np.subtract(bits, np.uint32(1), out=whole.view(np.uint32)) < np.uint32(_SMALLEST_BITS - 1)
    bad |= bits >= _EXPONENT
    if sparse:
        bad |= bits == 0
    return np.asarray(bad)


def _fail_entry(frame: Frame, agreement: Agreement, index: int, bits: np.uint32) -> NoReturn:
    code, expected = _q_fault(int(bits))
    _fail(frame, agreement, code, "q", index, expected, float(bits.view(np.float32)))


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


def _check_padding(
    frame: Frame, agreement: Agreement, code: RejectCode, column: str, values: npt.NDArray[Any], used: int
) -> None:
    behind = values[used:]
    # Bit patterns, so that a minus zero is not taken for zero.
    if np.count_nonzero(behind.view(np.uint32)):
        index = used + int((behind.view(np.uint32) != 0).argmax())
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
    raise fault_in(frame, code, at, column if index is None else f"{column}[{index}]", expected, actual)
