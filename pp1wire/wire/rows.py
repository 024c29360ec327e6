"""REPLY frames ↔ arrays: all rows at hand are encoded, or judged, together."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from pp1wire.errors import LocalProtocolError, PP1Error
from pp1wire.wire._schema_v2 import (
    BODY_STRUCTS,
    HEADER_STRUCT,
    MAGIC,
    Q_TOTAL,
    WIRE_VERSION,
    MessageType,
    RejectCode,
    Representation,
    reply_frame_dtype,
)
from pp1wire.wire.agreement import HEADER_BYTES, Agreement
from pp1wire.wire.batch import ReplyBatch
from pp1wire.wire.canonical import (
    BLOCK,
    ROUND_ROWS,
    counts_from_q,
    dense_counts_are_canonical,
    dense_row_counts,
    sparse_counts_are_canonical,
)
from pp1wire.wire.checksums import Buffer, body_checksum
from pp1wire.wire.faults import row_fault
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import Header, check_header, check_opening
from pp1wire.wire.messages import check_integer
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["decode_replies", "encode_replies", "read_rows"]

_INVERSE_TOTAL = np.float32(1 / Q_TOTAL)
_PREFIX_BYTES = HEADER_BYTES + BODY_STRUCTS[MessageType.REPLY].size
_HEADER_SUM_AT = HEADER_BYTES - 8
_SMALL_FRAME = 4096

Rows = npt.NDArray[np.void]
Counts = npt.NDArray[np.int32]
_Part = tuple[slice, slice, slice]
Words = npt.NDArray[np.uint64]


class _Layout(NamedTuple):
    """What every REPLY of an agreement has in common, so that all headers are filled and compared at once."""

    dtype: np.dtype[np.void]
    size: int
    constant: npt.NDArray[np.uint64]
    """The header and row header as 12 words, with zeros where rows differ."""
    fixed: npt.NDArray[np.uint64]
    """Ones in the bits of those words that are the same in every row."""


@lru_cache(maxsize=64)
def _numbers(n: int) -> npt.NDArray[np.uint64]:
    return np.arange(n, dtype=np.uint64)


@lru_cache(maxsize=64)
def _layout(agreement: Agreement) -> _Layout:
    dtype = reply_frame_dtype(agreement.id_entries, agreement.q_entries)
    dense = agreement.representation is Representation.DENSE
    length = agreement.reply_frame_bytes - HEADER_BYTES

    def words(fixed: bool) -> npt.NDArray[np.uint64]:
        # Bits that differ from row to row are zero in both; reserved bytes are zero, and fixed.
        ones = 2**64 - 1 if fixed else 0
        header = HEADER_STRUCT.pack(
            b"\xff" * 4 if fixed else MAGIC, 0xFFFF if fixed else WIRE_VERSION, 0xFF if fixed else MessageType.REPLY,
            b"\xff" if fixed else b"\0", 0, 0xFFFFFFFF if fixed else length, 0, b"\xff\xff" if fixed else b"\0\0",
            ones or agreement.id, 0, 0, 0, 0, 0,
        )  # fmt: skip
        row = BODY_STRUCTS[MessageType.REPLY].pack(
            0, 0, (0xFFFFFFFF if fixed else agreement.vocab_size) if dense else 0, 0xFF if fixed else agreement.representation,
            b"\xff" * 3 if fixed else bytes(3), 0xFFFFFFFF if fixed else agreement.shard_first_id,
            0xFFFFFFFF if fixed else agreement.vocab_size, b"\xff" * 8 if fixed else bytes(8),
        )  # fmt: skip
        return np.frombuffer(header + row, dtype="<u8")

    return _Layout(dtype, agreement.reply_frame_bytes, words(False), words(True))


def encode_replies(
    batch: ReplyBatch,
    agreement: Agreement,
    sequence: int,
    out: bytearray | memoryview | npt.NDArray[np.uint8] | None = None,
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
    n, layout = len(batch), _layout(agreement)
    check_integer("header.sequence", sequence, 8)
    if int(sequence) + n > 2**64:
        raise LocalProtocolError(f"expected sequence numbers in 64 bits, got {sequence} to {int(sequence) + n - 1}")
    target = memoryview(bytearray(n * layout.size)) if out is None else _writable(out, n * layout.size)
    frames = np.frombuffer(target, dtype=layout.dtype)
    batch.check_columns(agreement, None if out is None else frames)
    _fill(frames, target, batch, agreement, sequence)
    if not _is_legal(batch, agreement):
        raise _illegal(target, batch, agreement)
    _seal(target, frames, layout.size)
    return bytes(target) if out is None else target


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
    layout = _layout(agreement)
    n, rest = divmod(len(source), layout.size)
    view = memoryview(source)
    frames = np.frombuffer(source, dtype=layout.dtype, count=n)
    words = _words(source, n, layout.size)
    counts = None
    if _headers_are_good(frames, words, agreement, sequence) and _checksums_are_good(source, frames, layout.size):
        counts = _counts(frames, agreement)
    if counts is None:
        raise _first_fault(view, n, agreement, sequence)
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
    layout, first = _layout(agreement), frames[0]
    together = all(f.source is first.source and f.start == first.start + i * layout.size for i, f in enumerate(frames))
    if together:
        view = first.source[first.start : first.start + len(frames) * layout.size]
    else:
        view = memoryview(b"".join(f.data for f in frames))
    rows = np.frombuffer(view, dtype=layout.dtype)
    good = _words_are_fixed(_words(view, len(frames), layout.size), layout)
    if good and all(body_checksum(f.data) == f.header.body_checksum for f in frames):
        counts = _counts(rows, agreement)
        if counts is not None:
            return _batch(rows, counts), None
    for index, frame in enumerate(frames):
        error = row_fault(frame, agreement)
        if error is not None:
            return _batch(rows[:index], _required(_counts(rows[:index], agreement))), error
    raise _no_reason(first.offset)


def _writable(out: bytearray | memoryview | npt.NDArray[np.uint8], needed: int) -> memoryview:
    view = memoryview(out.data if isinstance(out, np.ndarray) else out)
    if view.readonly or not view.c_contiguous or view.nbytes < needed:
        state = "read-only" if view.readonly else f"{view.nbytes} bytes"
        raise LocalProtocolError(f"out: expected a writable contiguous buffer of {needed} bytes, got {state}")
    return view.cast("B")[:needed]


def _words(source: Buffer, n: int, size: int) -> Words:
    """Header and row header of n frames as little-endian words [n, 12], whatever the alignment of the source."""
    return np.ndarray((n, _PREFIX_BYTES // 8), dtype="<u8", buffer=source, strides=(size, 8))


def _words_are_fixed(words: Words, layout: _Layout) -> bool:
    return not np.count_nonzero((words & layout.fixed) != layout.constant)


def _headers_are_good(frames: Rows, words: Words, agreement: Agreement, sequence: int | None) -> bool:
    n = len(frames)
    if n == 0 or not _words_are_fixed(words, _layout(agreement)):
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


def _parts(n: int, size: int) -> Iterable[_Part]:
    """Of each of n frames: what its header checksum covers, its identity, and its body."""
    return _round_parts(n, size) if n <= ROUND_ROWS else map(_part, range(0, n * size, size), repeat(size))


def _part(start: int, size: int) -> _Part:
    return (
        slice(start, start + _HEADER_SUM_AT),
        slice(start + 16, start + 48),
        slice(start + HEADER_BYTES, start + size),
    )


@lru_cache(maxsize=64)
def _round_parts(n: int, size: int) -> tuple[_Part, ...]:
    return tuple(_part(start, size) for start in range(0, n * size, size))


def _checksums_are_good(source: bytes, frames: Rows, size: int) -> bool:
    digest = xxhash.xxh3_64_intdigest
    header_sums = frames["header_header_checksum"].tolist()
    body_sums = frames["header_body_checksum"].tolist()
    # Slices of bytes are copies, cheaper than views while they are small.
    data: bytes | memoryview = source if size <= _SMALL_FRAME else memoryview(source)
    parts = _parts(len(frames), size)
    for (header, identity, body), header_sum, body_sum in zip(parts, header_sums, body_sums, strict=True):
        if digest(data[header]) != header_sum or digest(data[body], digest(data[identity])) != body_sum:
            return False
    return True


def _counts(frames: Rows, agreement: Agreement) -> Counts | None:
    """The counts [n, q_entries] of rows whose constant fields are right; None if a row is not canonical."""
    tokens, q = frames["token"], frames["q"]
    if agreement.representation is Representation.SPARSE:
        counts = counts_from_q(np.ascontiguousarray(q))
        good = counts is not None and sparse_counts_are_canonical(
            frames["ids"], counts, frames["entry_count"], tokens, agreement.vocab_size
        )
        return counts if good else None
    # Row by row, so that the temporaries stay in the cache and memory stays at one row beyond the result.
    counts = np.empty(q.shape, dtype=np.int32)
    scratch = np.empty((2, min(BLOCK, q.shape[1])), dtype=np.float32)
    for row, token in enumerate(tokens.tolist()):
        if not dense_row_counts(q[row], counts[row], scratch, token, agreement.vocab_size):
            return None
    return counts


def _first_fault(view: memoryview, n: int, agreement: Agreement, sequence: int | None) -> PP1Error:
    """The first fault in n back-to-back frames, one of which is bad."""
    size, expected = agreement.reply_frame_bytes, sequence
    for index in range(n):
        start = index * size
        try:
            header = _reply_header(view, start, agreement, expected)
        except RemoteProtocolError as error:
            return error
        fault = row_fault(Frame(header, view[start : start + size], start, view, start), agreement)
        if fault is not None:
            return fault
        expected = header.sequence + 1
    return _no_reason(0)


def _no_reason(offset: int) -> PP1Error:
    return PP1Error(f"rows at byte {offset} were judged bad, but no rule rejects one: please report this")


def _required(counts: Counts | None) -> Counts:
    if counts is None:
        raise _no_reason(0)
    return counts


def _reply_header(view: memoryview, start: int, agreement: Agreement, sequence: int | None) -> Header:
    header = check_header(view[start : start + HEADER_BYTES], start, agreement, sequence)
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


def _fill(frames: Rows, target: memoryview, batch: ReplyBatch, agreement: Agreement, sequence: int) -> None:
    n, layout = len(batch), _layout(agreement)
    prefix = np.frombuffer(target, dtype=np.uint8).reshape(n, layout.size)[:, :_PREFIX_BYTES]
    prefix[...] = layout.constant.view(np.uint8)
    frames["header_sequence"] = _numbers(n) + np.uint64(sequence)
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


def _illegal(target: memoryview, batch: ReplyBatch, agreement: Agreement) -> LocalProtocolError:
    size = agreement.reply_frame_bytes
    for index in range(len(batch)):
        identity = [int(column[index]) for column in (batch.slots, batch.sessions, batch.generations, batch.rounds)]
        if identity[0] >= agreement.max_slots or not all(identity[1:]):
            return LocalProtocolError(
                f"row {index}: expected a slot below {agreement.max_slots} and session, generation and round from 1, "
                f"got {identity}"
            )
        frame = target[index * size : (index + 1) * size]
        slot, session, generation, round_ = identity
        header = Header(MessageType.REPLY, 0, size - HEADER_BYTES, slot, agreement.id, session, generation, round_, 0)
        fault = row_fault(Frame(header, frame, 0, frame, 0), agreement, checksum=False)
        if fault is not None:
            return LocalProtocolError(
                f"row {index}: {fault.path}: expected {fault.expected}, got {fault.actual} ({fault.code.name.lower()})"
            )
    # A count that float32 cannot hold looks legal once it is rounded; the integers are what was judged.
    return LocalProtocolError(f"expected counts from 0 to {Q_TOTAL} with total {Q_TOTAL} in every row")


def _seal(target: memoryview, frames: Rows, size: int) -> None:
    digest = xxhash.xxh3_64_intdigest
    n = len(frames)
    frames["header_body_checksum"] = [digest(target[b], digest(target[i])) for _, i, b in _parts(n, size)]
    frames["header_header_checksum"] = [digest(target[header]) for header, _, _ in _parts(n, size)]


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
