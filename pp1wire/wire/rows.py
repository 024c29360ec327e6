"""REPLY frames → arrays: all rows at hand are judged together."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from pp1wire.errors import PP1Error
from pp1wire.wire._schema_v2 import (
    MessageType,
    RejectCode,
    Representation,
)
from pp1wire.wire.agreement import HEADER_BYTES, Agreement
from pp1wire.wire.batch import ReplyBatch
from pp1wire.wire.canonical import counts_from_q, sparse_counts_are_canonical
from pp1wire.wire.checksums import Buffer, body_checksum
from pp1wire.wire.faults import row_fault
from pp1wire.wire.frame_columns import FrameColumns
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import Header, check_header, check_opening
from pp1wire.wire.reject import RemoteProtocolError
from pp1wire.wire.row_layout import Rows, Words, frame_parts, prefix_words, row_layout, words_are_fixed

__all__ = ["decode_replies", "read_rows", "read_rows_together", "sparse_row_counts"]

_SMALL_FRAME = 4096

Counts = npt.NDArray[np.int32]


def decode_replies(buffer: Buffer, agreement: Agreement, sequence: int | None = None) -> ReplyBatch:
    """Judge and decode REPLY frames that lie back to back in `buffer`.

    Args:
        buffer: whole frames. The result views it if it is immutable bytes, and owns a copy otherwise.
        agreement: what the frames must belong to.
        sequence: number that the first frame must have; None takes the first frame's.

    Raises:
        RemoteProtocolError: the first fault of the first bad frame; TRUNCATED when `buffer` ends inside a frame.
    """
    source = buffer if isinstance(buffer, bytes) else bytes(buffer)
    # A numpy number of few bits would wrap where the sequence goes on.
    sequence = None if sequence is None else operator.index(sequence)
    layout = row_layout(agreement)
    n, rest = divmod(len(source), layout.size)
    view = memoryview(source)
    frames = np.frombuffer(source, dtype=layout.dtype, count=n)
    counts, together = None, n > 1 and agreement.representation is Representation.SPARSE
    if together:
        words = prefix_words(source, n, layout.size)
        if _headers_are_good(frames, words, agreement, sequence) and _checksums_are_good(source, frames, layout.size):
            counts = sparse_row_counts(frames, agreement)
    if counts is None:
        counts = _counts_one_by_one(view, n, agreement, sequence)
        if together:
            raise _no_reason(0)
    if rest:
        expected = int(frames["header_sequence"][-1]) + 1 if n else sequence
        _reject_rest(view, n * layout.size, agreement, expected)
    return _batch(frames, counts)


def read_rows(frames: Sequence[Frame], agreement: Agreement) -> tuple[ReplyBatch, RemoteProtocolError | None]:
    """Judge REPLY frames whose headers a `FrameSplitter` has verified.

    Returns:
        The rows before the first bad one, and that one's fault. The rows may view the frames' buffer, so they are valid
        as long as the frames are.
    """
    if not frames:
        return decode_replies(b"", agreement), None
    layout, first = row_layout(agreement), frames[0]
    if all(f.source is first.source and f.start == first.start + i * layout.size for i, f in enumerate(frames)):
        view = first.source[first.start : first.start + len(frames) * layout.size]
    else:
        view = memoryview(b"".join(f.data for f in frames))
    rows = np.frombuffer(view, dtype=layout.dtype)
    together = len(frames) > 1 and agreement.representation is Representation.SPARSE
    if (
        together
        and words_are_fixed(prefix_words(view, len(frames), layout.size), layout)
        and all(body_checksum(f.data) == f.header.body_checksum for f in frames)
    ):
        verdict = sparse_row_counts(rows, agreement)
        if verdict is not None:
            return _batch(rows, verdict), None
    counts = np.empty((len(frames), agreement.q_entries), dtype=np.int32)
    for index, frame in enumerate(frames):
        error = row_fault(frame, agreement, counts[index])
        if error is not None:
            return _batch(rows[:index], counts[:index]), error
    if together:
        raise _no_reason(first.offset)
    return _batch(rows, counts), None


def read_rows_together(columns: FrameColumns, chosen: Sequence[int], agreement: Agreement) -> ReplyBatch | None:
    """The rows of the `chosen` REPLYs, in that order; None if one is not as it should be. Sparse rows are copied."""
    if agreement.representation is Representation.DENSE:
        view = memoryview(columns.data)
        batch, error = read_rows([columns.frame(index, view, 0, agreement) for index in chosen], agreement)
        return batch if error is None else None
    layout = row_layout(agreement)
    starts = np.array([columns.bounds[index] for index in chosen], np.intp)
    data = np.frombuffer(columns.data, np.uint8)[starts[:, None] + np.arange(layout.size)]
    data.flags.writeable = False
    if not words_are_fixed(prefix_words(data.data, len(chosen), layout.size), layout):
        return None
    rows = data.view(layout.dtype).reshape(len(chosen))
    counts = sparse_row_counts(rows, agreement)
    return None if counts is None else _batch(rows, counts)


def _headers_are_good(frames: Rows, words: Words, agreement: Agreement, sequence: int | None) -> bool:
    n = len(frames)
    if n == 0 or not words_are_fixed(words, row_layout(agreement)):
        return n == 0
    # A round has few rows, and lists of few numbers compare faster than arrays.
    numbers = frames["header_sequence"].tolist()
    first = numbers[0] if sequence is None else sequence
    return bool(
        numbers == list(range(first, first + n))
        and 0 not in frames["header_session"].tolist()
        and 0 not in frames["header_generation"].tolist()
        and 0 not in frames["header_round"].tolist()
        and max(frames["header_slot"].tolist()) < agreement.max_slots
    )


def _checksums_are_good(source: bytes, frames: Rows, size: int) -> bool:
    digest = xxhash.xxh3_64_intdigest
    header_sums = frames["header_header_checksum"].tolist()
    body_sums = frames["header_body_checksum"].tolist()
    # Slices of bytes are copies, cheaper than views while they are small.
    data: bytes | memoryview = source if size <= _SMALL_FRAME else memoryview(source)
    parts = frame_parts(len(frames), size)
    for (header, identity, body), header_sum, body_sum in zip(parts, header_sums, body_sums, strict=True):
        if digest(data[header]) != header_sum or digest(data[body], digest(data[identity])) != body_sum:
            return False
    return True


def sparse_row_counts(frames: Rows, agreement: Agreement) -> Counts | None:
    """The counts [n, k] of sparse rows whose constant fields are right; None if a row is not canonical."""
    counts = counts_from_q(np.ascontiguousarray(frames["q"]))
    good = counts is not None and sparse_counts_are_canonical(
        frames["ids"], counts, frames["entry_count"], frames["token"], agreement.vocab_size
    )
    return counts if good else None


def _counts_one_by_one(view: memoryview, n: int, agreement: Agreement, sequence: int | None) -> Counts:
    """The counts [n, q_entries] of n back-to-back frames; raises the first fault."""
    size, expected = agreement.reply_frame_bytes, sequence
    counts = np.empty((n, agreement.q_entries), dtype=np.int32)
    for index in range(n):
        start = index * size
        header = _reply_header(view, start, agreement, expected)
        fault = row_fault(Frame(header, view[start : start + size], start, view, start), agreement, counts[index])
        if fault is not None:
            raise fault
        expected = header.sequence + 1
    return counts


def _no_reason(offset: int) -> PP1Error:
    return PP1Error(f"rows at byte {offset} were judged bad, but no rule rejects one: please report this")


def _reply_header(view: memoryview, start: int, agreement: Agreement, sequence: int | None) -> Header:
    header = check_header(view, start, agreement, sequence, start=start)
    if header.message_type is not MessageType.REPLY:
        raise RemoteProtocolError(
            RejectCode.UNEXPECTED_MESSAGE, offset=start + 6, path="header.message_type", expected="REPLY",
            actual=header.message_type.name, message_type=header.message_type, identity=header.identity,
        )  # fmt: skip
    return header


def _reject_rest(view: memoryview, start: int, agreement: Agreement, sequence: int | None) -> None:
    """What is wrong with the bytes from `start` on, which are fewer than a frame."""
    check_opening(view[start : start + 6], start)
    if len(view) - start >= HEADER_BYTES:
        _reply_header(view, start, agreement, sequence)
    raise RemoteProtocolError(
        RejectCode.TRUNCATED, offset=len(view), path="frame",
        expected=f"{agreement.reply_frame_bytes} bytes of the frame at byte {start}", actual=len(view) - start,
    )  # fmt: skip


def _batch(frames: Rows, counts: Counts) -> ReplyBatch:
    counts.flags.writeable = False
    return ReplyBatch(
        frames["header_session"],
        frames["header_slot"],
        frames["header_generation"],
        frames["header_round"],
        frames["position"],
        frames["token"],
        frames["entry_count"],
        frames["ids"],
        counts,
        frames["header_body_checksum"],
        frames["q"],
    )
