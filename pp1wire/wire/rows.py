"""REPLY frames ↔ arrays: all rows at hand are encoded, or judged, together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import (
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
from pp1wire.wire.canonical import dense_rows_are_canonical, reject_row, sparse_rows_are_canonical
from pp1wire.wire.checksums import Buffer, body_checksum
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import Header, check_header, check_opening
from pp1wire.wire.messages import check_body_checksum
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["decode_replies", "encode_replies", "read_rows"]

_INVERSE_TOTAL = np.float32(1 / Q_TOTAL)
Rows = npt.NDArray[np.void]


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
        LocalProtocolError: a row is not legal or does not fit, or `out` is too small or read-only. `out` is then unspecified.
    """
    n, size = len(batch), agreement.reply_frame_bytes
    if batch.ids.shape != (n, agreement.id_entries) or batch.counts.shape != (n, agreement.q_entries):
        raise LocalProtocolError(
            f"expected columns of {agreement.id_entries} ids and {agreement.q_entries} counts a row, "
            f"got {batch.ids.shape} and {batch.counts.shape}"
        )
    if sequence < 0 or sequence + n > 2**64:
        raise LocalProtocolError(f"expected sequence numbers in 64 bits, got {sequence} to {sequence + n - 1}")
    target = memoryview(bytearray(n * size)) if out is None else _writable(out, n * size)
    frames = np.frombuffer(target, dtype=reply_frame_dtype(agreement.id_entries, agreement.q_entries))
    _fill(frames, batch, agreement, sequence)
    bad = np.flatnonzero(~_judge(frames, agreement)[0])
    if bad.size:
        start = int(bad[0]) * size
        _refuse(target[start : start + size], int(bad[0]), agreement)
    _seal(target, frames, size)
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
    size = agreement.reply_frame_bytes
    n, rest = divmod(len(source), size)
    view = memoryview(source)
    frames = np.frombuffer(source, dtype=_dtype(agreement), count=n)
    batch, error = _read(view, frames, agreement, sequence)
    if error is not None:
        raise error
    if rest:
        _reject_rest(view[n * size :], n, size, agreement)
    return batch


def read_rows(frames: Sequence[Frame], agreement: Agreement) -> tuple[ReplyBatch, RemoteProtocolError | None]:
    """Judge REPLY frames whose headers a `FrameSplitter` has verified.

    Returns:
        The rows before the first bad one, and that one's fault. The rows may view the frames' buffer, so they are valid
        as long as the frames are.
    """
    size = agreement.reply_frame_bytes
    first = frames[0]
    together = all(f.source is first.source and f.start == first.start + i * size for i, f in enumerate(frames))
    view = (
        first.source[first.start :][: len(frames) * size] if together else memoryview(b"".join(f.data for f in frames))
    )
    rows = np.frombuffer(view, dtype=_dtype(agreement))
    checked = len(frames)
    error: RemoteProtocolError | None = None
    for index, frame in enumerate(frames):
        if body_checksum(frame.data) != frame.header.body_checksum:
            checked = index
            break
    good, counts = _judge(rows[:checked], agreement)
    bad = np.flatnonzero(~good)
    if bad.size:
        checked = int(bad[0])
    if checked < len(frames):
        error = _first_fault(frames[checked], agreement)
    return _batch(rows[:checked], counts[:checked]), error


def _dtype(agreement: Agreement) -> np.dtype[np.void]:
    return reply_frame_dtype(agreement.id_entries, agreement.q_entries)


def _writable(out: bytearray | memoryview | npt.NDArray[np.uint8], needed: int) -> memoryview:
    view = memoryview(out.data if isinstance(out, np.ndarray) else out)
    if view.readonly or not view.c_contiguous or view.nbytes < needed:
        state = "read-only" if view.readonly else f"{view.nbytes} bytes"
        raise LocalProtocolError(f"out: expected a writable contiguous buffer of {needed} bytes, got {state}")
    return view.cast("B")[:needed]


def _fill(frames: Rows, batch: ReplyBatch, agreement: Agreement, sequence: int) -> None:
    n = len(batch)
    frames["header_magic"] = MAGIC
    frames["header_wire_version"] = WIRE_VERSION
    frames["header_message_type"] = MessageType.REPLY
    frames["header_reserved_1"] = bytes(1)
    frames["header_sequence"] = np.arange(n, dtype=np.uint64) + np.uint64(sequence)
    frames["header_body_length"] = agreement.reply_frame_bytes - HEADER_BYTES
    frames["header_slot"] = batch.slots
    frames["header_reserved_2"] = bytes(2)
    frames["header_agreement_id"] = agreement.id
    frames["header_session"] = batch.sessions
    frames["header_generation"] = batch.generations
    frames["header_round"] = batch.rounds
    frames["position"] = batch.positions
    frames["token"] = batch.tokens
    frames["entry_count"] = batch.entry_counts
    frames["representation"] = agreement.representation
    frames["reserved_1"] = bytes(3)
    frames["shard_first_id"] = agreement.shard_first_id
    frames["shard_id_count"] = agreement.vocab_size
    frames["reserved_2"] = bytes(8)
    frames["ids"] = batch.ids
    np.multiply(batch.counts, _INVERSE_TOTAL, out=frames["q"], dtype=np.float32, casting="unsafe")


def _judge(frames: Rows, agreement: Agreement) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int32]]:
    tokens, entries = frames["token"], frames["entry_count"]
    if agreement.representation is Representation.SPARSE:
        good, counts = sparse_rows_are_canonical(frames["ids"], frames["q"], entries, tokens, agreement)
    else:
        good, counts = dense_rows_are_canonical(frames["q"], entries, tokens, agreement)
    good &= frames["representation"] == agreement.representation
    good &= (frames["shard_first_id"] == agreement.shard_first_id) & (frames["shard_id_count"] == agreement.vocab_size)
    good &= (frames["reserved_1"] == np.void(bytes(3))) & (frames["reserved_2"] == np.void(bytes(8)))
    return good, counts


def _seal(target: memoryview, frames: Rows, size: int) -> None:
    body_sums = np.empty(len(frames), dtype=np.uint64)
    for index in range(len(frames)):
        body_sums[index] = body_checksum(target[index * size : (index + 1) * size])
    frames["header_body_checksum"] = body_sums
    for index in range(len(frames)):
        start = index * size
        digest = xxhash.xxh3_64_intdigest(target[start : start + 56])
        target[start + 56 : start + 64] = digest.to_bytes(8, "little")


def _read(
    view: memoryview, frames: Rows, agreement: Agreement, sequence: int | None
) -> tuple[ReplyBatch, RemoteProtocolError | None]:
    n, size = len(frames), agreement.reply_frame_bytes
    good, counts = _judge(frames, agreement)
    good &= _headers_are_good(frames, agreement, sequence)
    digest = xxhash.xxh3_64_intdigest
    header_sums, body_sums = frames["header_header_checksum"].tolist(), frames["header_body_checksum"].tolist()
    for index in range(n):
        start = index * size
        seed = digest(view[start + 16 : start + 48])
        good[index] &= (
            digest(view[start : start + 56]) == header_sums[index]
            and digest(view[start + 64 : start + size], seed=seed) == body_sums[index]
        )
    bad = np.flatnonzero(~good)
    if not bad.size:
        return _batch(frames, counts), None
    index = int(bad[0])
    start = index * size
    expected = sequence
    if index or sequence is not None:
        first = int(frames["header_sequence"][0]) if sequence is None else sequence
        expected = first + index
    try:
        header = check_header(view[start : start + HEADER_BYTES], start, agreement, expected)
        if header.message_type is not MessageType.REPLY:
            raise RemoteProtocolError(
                RejectCode.UNEXPECTED_MESSAGE, offset=start + 6, path="header.message_type", expected="REPLY",
                actual=header.message_type.name, message_type=header.message_type, identity=header.identity,
            )  # fmt: skip
        frame = Frame(header, view[start : start + size], start, view, start)
    except RemoteProtocolError as error:
        return _batch(frames[:index], counts[:index]), error
    return _batch(frames[:index], counts[:index]), _first_fault(frame, agreement)


def _headers_are_good(frames: Rows, agreement: Agreement, sequence: int | None) -> npt.NDArray[np.bool_]:
    n = len(frames)
    if n == 0:
        return np.ones(0, dtype=np.bool_)
    numbers = frames["header_sequence"]
    first = numbers[0] if sequence is None else np.uint64(sequence)
    good = numbers == first + np.arange(n, dtype=np.uint64)
    good &= frames["header_magic"] == np.void(MAGIC)
    good &= frames["header_wire_version"] == WIRE_VERSION
    good &= frames["header_message_type"] == MessageType.REPLY
    good &= frames["header_reserved_1"] == np.void(bytes(1))
    good &= frames["header_reserved_2"] == np.void(bytes(2))
    good &= frames["header_body_length"] == agreement.reply_frame_bytes - HEADER_BYTES
    good &= frames["header_slot"] < agreement.max_slots
    good &= frames["header_agreement_id"] == np.uint64(agreement.id)
    good &= (frames["header_session"] != 0) & (frames["header_generation"] != 0) & (frames["header_round"] != 0)
    return np.asarray(good, dtype=np.bool_)


def _first_fault(frame: Frame, agreement: Agreement) -> RemoteProtocolError:
    try:
        check_body_checksum(frame)
        reject_row(frame, agreement)
    except RemoteProtocolError as error:
        return error


def _refuse(frame: memoryview, index: int, agreement: Agreement) -> None:
    header = Header(MessageType.REPLY, 0, len(frame) - HEADER_BYTES, 0, agreement.id, 1, 1, 1, 0)
    try:
        reject_row(Frame(header, frame, 0, frame, 0), agreement)
    except RemoteProtocolError as error:
        message = (
            f"row {index}: {error.path}: expected {error.expected}, got {error.actual} ({error.code.name.lower()})"
        )
        raise LocalProtocolError(message) from error


def _reject_rest(rest: memoryview, index: int, size: int, agreement: Agreement) -> None:
    start = index * size
    check_opening(rest[:6], start)
    if len(rest) >= HEADER_BYTES:
        check_header(rest[:HEADER_BYTES], start, agreement, None)
    raise RemoteProtocolError(
        RejectCode.TRUNCATED, offset=start + len(rest), path="frame",
        expected=f"{size} bytes of the frame at byte {start}", actual=len(rest),
    )  # fmt: skip


def _batch(frames: Rows, counts: npt.NDArray[np.int32]) -> ReplyBatch:
    counts.flags.writeable = False
    return ReplyBatch(
        sessions=frames["header_session"],
        slots=frames["header_slot"],
        generations=frames["header_generation"],
        rounds=frames["header_round"],
        positions=frames["position"],
        tokens=frames["token"],
        entry_counts=frames["entry_count"],
        ids=frames["ids"],
        counts=counts,
        row_checksums=frames["header_body_checksum"],
        _q=frames["q"],
    )
