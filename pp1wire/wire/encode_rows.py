"""Arrays → REPLY frames: all rows at hand are filled, judged and sealed together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import xxhash

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import Q_TOTAL, MessageType, Representation
from pp1wire.wire.agreement import HEADER_BYTES, Agreement
from pp1wire.wire.batch import ReplyBatch
from pp1wire.wire.canonical import dense_counts_are_canonical, sparse_counts_are_canonical
from pp1wire.wire.faults import row_fault
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import Header
from pp1wire.wire.messages import check_integer
from pp1wire.wire.row_layout import PREFIX_BYTES, Rows, frame_parts, numbers, row_layout
from pp1wire.wire.rows import sparse_row_counts

__all__ = ["encode_replies", "seal_replies"]

_INVERSE_TOTAL = np.float32(1 / Q_TOTAL)

Out = bytearray | memoryview | npt.NDArray[np.uint8]


def encode_replies(
    batch: ReplyBatch,
    agreement: Agreement,
    sequence: int,
    out: Out | None = None,
) -> bytes | memoryview:
    """All rows of `batch` as REPLY frames, numbered from `sequence` on.

    Args:
        batch: n rows; `counts` is what goes on the wire, as q = count / 2^24.
        agreement: fixes the length of every frame.
        sequence: number of the first frame.
        out: writable buffer of at least n · reply_frame_bytes to encode into; None makes new bytes.

    Returns:
        The frames: bytes, or the used part of `out` as a memoryview.

    Raises:
        LocalProtocolError: a row is not legal or does not fit, or `out` is too small, read-only, or shares memory with the
            batch. `out` is then unspecified.
    """
    n, layout = len(batch), row_layout(agreement)
    target = memoryview(bytearray(n * layout.size)) if out is None else _writable(out, n * layout.size)
    frames = np.frombuffer(target, dtype=layout.dtype)
    batch.check_columns(agreement, None if out is None else frames)
    _fill(frames, target, batch, agreement, sequence)
    if not _is_legal(batch, agreement):
        raise _illegal(target, frames, agreement)
    _seal(target, frames, layout.size)
    return bytes(target) if out is None else target


def seal_replies(
    frames: Out,
    agreement: Agreement,
    sequence: int,
    *,
    session: int,
    slot: int,
    generation: int,
    round: int,
    position: int,
) -> memoryview:
    """Make REPLY frames of rows that lie in their places already, as a device wrote them: fill in all but the rows themselves.

    Args:
        frames: writable, n · reply_frame_bytes; `token`, `entry_count`, `ids` and `q` of every frame are in place.
        agreement: fixes where that is.
        sequence: number of the first frame.
        session, slot, generation, round: identity of the round.
        position: of the first row; the others follow.

    Returns:
        `frames` as a memoryview of bytes.

    Raises:
        LocalProtocolError: `frames` is read-only or no whole number of frames, a number does not fit, or a row is not legal.
            `frames` is then unspecified.
    """
    layout = row_layout(agreement)
    view = memoryview(frames.data if isinstance(frames, np.ndarray) else frames)
    n, rest = divmod(view.nbytes, layout.size)
    if rest:
        raise LocalProtocolError(f"frames: expected a multiple of {layout.size} bytes, got {view.nbytes}")
    for name, value, size in (
        ("session", session, 8), ("slot", slot, 2), ("generation", generation, 4), ("round", round, 4),
        ("position", position, 4),
    ):  # fmt: skip
        check_integer(name, value, size)
    check_integer("position", position + max(n - 1, 0), 4)
    target = _writable(frames, view.nbytes)
    rows = np.frombuffer(target, dtype=layout.dtype)
    tokens, entries = rows["token"].copy(), rows["entry_count"].copy()
    _fill_constants(rows, target, agreement, sequence)
    rows["header_session"], rows["header_slot"] = session, slot
    rows["header_generation"], rows["header_round"] = generation, round
    rows["position"] = np.arange(position, position + n, dtype=np.uint32)
    rows["token"], rows["entry_count"] = tokens, entries
    identified = 0 not in (session, generation, round) and slot < agreement.max_slots
    sparse = agreement.representation is Representation.SPARSE
    if not (identified and sparse and sparse_row_counts(rows, agreement) is not None):
        error = _first_fault(target, rows, agreement)
        if error is not None:
            raise error
    _seal(target, rows, layout.size)
    return target


def _writable(out: Out, needed: int) -> memoryview:
    view = memoryview(out.data if isinstance(out, np.ndarray) else out)
    if view.readonly or not view.c_contiguous or view.nbytes < needed:
        state = "read-only" if view.readonly else f"{view.nbytes} bytes"
        raise LocalProtocolError(f"out: expected a writable contiguous buffer of {needed} bytes, got {state}")
    return view.cast("B")[:needed]


def _fill_constants(frames: Rows, target: memoryview, agreement: Agreement, sequence: int) -> None:
    """Everything that all rows share, and the sequence numbers; what differs from row to row is zero afterwards."""
    n, layout = len(frames), row_layout(agreement)
    check_integer("header.sequence", sequence, 8)
    if int(sequence) + n > 2**64:
        raise LocalProtocolError(f"expected sequence numbers in 64 bits, got {sequence} to {int(sequence) + n - 1}")
    prefix = np.frombuffer(target, dtype=np.uint8).reshape(n, layout.size)[:, :PREFIX_BYTES]
    prefix[...] = layout.constant.view(np.uint8)
    frames["header_sequence"] = numbers(n) + np.uint64(sequence)


def _fill(frames: Rows, target: memoryview, batch: ReplyBatch, agreement: Agreement, sequence: int) -> None:
    _fill_constants(frames, target, agreement, sequence)
    frames["header_slot"] = batch.slots
    frames["header_session"] = batch.sessions
    frames["header_generation"] = batch.generations
    frames["header_round"] = batch.rounds
    frames["position"] = batch.positions
    frames["token"] = batch.tokens
    frames["entry_count"] = batch.entry_counts
    frames["ids"] = batch.ids
    q = frames["q"]
    if agreement.representation is Representation.SPARSE:
        np.multiply(batch.counts, _INVERSE_TOTAL, out=q, dtype=np.float32, casting="unsafe")
        return
    for counts, row in zip(batch.counts, q, strict=True):
        # Cast, then scale in place: two passes over a row in the cache, and no temporary. Exact up to 2^24.
        np.copyto(row, counts, casting="unsafe")
        np.multiply(row, _INVERSE_TOTAL, out=row)


def _is_legal(batch: ReplyBatch, agreement: Agreement) -> bool:
    n = len(batch)
    if n and (
        np.count_nonzero(batch.sessions) < n
        or np.count_nonzero(batch.generations) < n
        or np.count_nonzero(batch.rounds) < n
        or np.count_nonzero(batch.slots >= agreement.max_slots)
    ):
        return False
    if agreement.representation is Representation.SPARSE:
        return sparse_counts_are_canonical(
            batch.ids, batch.counts, batch.entry_counts, batch.tokens, agreement.vocab_size
        )
    return np.count_nonzero(batch.entry_counts != agreement.vocab_size) == 0 and dense_counts_are_canonical(
        batch.counts, batch.tokens, agreement.vocab_size
    )


def _illegal(target: memoryview, rows: Rows, agreement: Agreement) -> LocalProtocolError:
    # A count that float32 cannot hold looks legal once it is rounded; the integers are what was judged.
    return _first_fault(target, rows, agreement) or LocalProtocolError(
        f"expected counts from 0 to {Q_TOTAL} with total {Q_TOTAL} in every row"
    )


def _first_fault(target: memoryview, rows: Rows, agreement: Agreement) -> LocalProtocolError | None:
    size, counts = agreement.reply_frame_bytes, np.empty(agreement.q_entries, dtype=np.int32)
    for index, row in enumerate(rows):
        identity = [int(row[f"header_{name}"]) for name in ("slot", "session", "generation", "round")]
        if identity[0] >= agreement.max_slots or not all(identity[1:]):
            return LocalProtocolError(
                f"row {index}: expected a slot below {agreement.max_slots} and session, generation and round from 1, "
                f"got {identity}"
            )
        frame = target[index * size : (index + 1) * size]
        slot, session, generation, round_ = identity
        header = Header(MessageType.REPLY, 0, size - HEADER_BYTES, slot, agreement.id, session, generation, round_, 0)
        fault = row_fault(Frame(header, frame, 0, frame, 0), agreement, counts, checksum=False)
        if fault is not None:
            return LocalProtocolError(
                f"row {index}: {fault.path}: expected {fault.expected}, got {fault.actual} ({fault.code.name.lower()})"
            )
    return None


def _seal(target: memoryview, frames: Rows, size: int) -> None:
    digest = xxhash.xxh3_64_intdigest
    n = len(frames)
    frames["header_body_checksum"] = [digest(target[b], digest(target[i])) for _, i, b in frame_parts(n, size)]
    frames["header_header_checksum"] = [digest(target[header]) for header, _, _ in frame_parts(n, size)]
