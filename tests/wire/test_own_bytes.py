"""[own bytes] A message never changes when a buffer is reused, and a held message or error never blocks receiving."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import (
    Agreement,
    Commit,
    FrameReader,
    FrameSplitter,
    Message,
    RemoteProtocolError,
    Reply,
    decode,
    decode_frame,
    decode_replies,
    encode,
    encode_replies,
    read_rows,
)
from tests.wire.frames import DENSE, KIND_NAMES, KINDS, SPARSE, changed, commit, completion, encode_all, reply, reset

every_kind = pytest.mark.parametrize(("agreement", "message"), KINDS, ids=KIND_NAMES)
both = pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])


def as_given(kind: str, data: bytes) -> tuple[object, object]:
    """(what is fed, what may be written to) of one kind of buffer."""
    buffer = bytearray(data)
    if kind == "bytearray":
        return buffer, buffer
    if kind == "memoryview":
        return memoryview(buffer), buffer
    if kind == "read-only view":
        return memoryview(buffer).toreadonly(), buffer
    if kind == "slice":
        longer = bytearray(b"\0" + data + b"\0")
        return memoryview(longer)[1:-1], longer
    if kind == "int32 view":
        return memoryview(buffer).cast("i"), buffer
    if kind == "matrix view":
        return memoryview(buffer).cast("B", shape=[len(buffer) // 4, 4]), buffer
    if kind == "mmap":
        shared = mmap.mmap(-1, len(data))
        shared[:] = data
        return memoryview(shared), shared
    array = np.frombuffer(buffer, np.uint8)
    return memoryview(array), array


BUFFERS = ["bytearray", "memoryview", "read-only view", "slice", "int32 view", "matrix view", "mmap", "numpy"]


def scribble(target: object) -> None:
    view = memoryview(target).cast("B")  # type: ignore[arg-type]
    view[:] = b"\xaa" * len(view)


@every_kind
@pytest.mark.parametrize("kind", BUFFERS)
def test_own_bytes_of_a_message_decoded_from(kind: str, agreement: Agreement | None, message: Message) -> None:
    frame = encode(message, agreement, 0)
    for read in (lambda data: decode(data, agreement), lambda data: FrameReader(agreement).feed(data)[0]):
        data, target = as_given(kind, frame)
        decoded = read(data)
        scribble(target)
        assert decoded == message


@both
@pytest.mark.parametrize("kind", BUFFERS)
def test_own_bytes_of_a_batch_decoded_from(kind: str, agreement: Agreement) -> None:
    stream = encode_all([reply(agreement), reply(agreement, position=4)], agreement)
    data, target = as_given(kind, stream)
    batch = decode_replies(data, agreement)  # type: ignore[arg-type]
    scribble(target)
    assert [batch[0], batch[1]] == [reply(agreement), reply(agreement, position=4)]
    for column in (batch.ids, batch.counts, batch.q, batch.tokens, batch.sessions, batch.row_checksums):
        with pytest.raises(ValueError, match="read-only"):
            column[...] = 0


@every_kind
def test_own_bytes_of_a_message_that_came_in_pieces(agreement: Agreement | None, message: Message) -> None:
    """The receive buffer is one and the same, refilled for every read."""
    frame = encode(message, agreement, 0)
    reader, buffer, found = FrameReader(agreement, 0), bytearray(50), []
    for start in range(0, len(frame), 50):
        piece = frame[start : start + 50]
        buffer[: len(piece)] = piece
        found += reader.feed(memoryview(buffer)[: len(piece)])
        buffer[:] = b"\xee" * 50
    assert found == [message]


@both
def test_own_bytes_held_messages_and_errors_never_block_the_buffer(agreement: Agreement) -> None:
    """A caller keeps all that it gets, and resizes its buffer after every call."""
    bad = changed(encode(reply(agreement), agreement, 1), agreement, reply__entry_count=0)
    worse = changed(encode(completion(agreement), agreement, 4), agreement, completion__rows=9)
    parts = [
        encode(reply(agreement), agreement, 0), bad, encode(completion(agreement), agreement, 2),
        encode(commit(agreement), agreement, 3), worse, encode(reset(agreement), agreement, 5), b"rubbish" * 20,
    ]  # fmt: skip
    stream = b"".join(parts)
    for size in (len(stream), 150, 33, 1):
        reader, held = FrameReader(agreement, 0), []
        for start in range(0, len(stream) + 5 * size, size):
            for view in (False, True):
                buffer = bytearray(stream[start : start + size] if not view else b"")
                try:
                    held.append(reader.feed(memoryview(buffer) if view else buffer))
                except RemoteProtocolError as error:
                    held.append(error)
                    buffer.clear()
                buffer += b"resized while everything is still held"
        kinds = [type(x).__name__ for x in held if isinstance(x, RemoteProtocolError) or x]
        assert kinds.count("RemoteProtocolError") >= 3
        messages = [m for x in held if isinstance(x, list) for m in x]
        assert messages == [reply(agreement), completion(agreement), commit(agreement), reset(agreement)]


@every_kind
def test_own_bytes_an_error_of_decode_never_blocks_the_buffer(agreement: Agreement | None, message: Message) -> None:
    frame = encode(message, agreement, 0)
    for cut in (frame[:-1], frame[:-1] + b"\x99", frame + b"\0"):
        buffer = bytearray(cut)
        with pytest.raises(RemoteProtocolError) as caught:
            decode(memoryview(buffer), agreement)
        buffer.clear()
        assert caught.value.code


@both
def test_own_bytes_splitter_errors_never_block_the_buffer(agreement: Agreement) -> None:
    splitter = FrameSplitter(agreement, 0)
    for _ in range(3):
        buffer = bytearray(b"PP1Q" * 30)
        with pytest.raises(RemoteProtocolError) as caught:
            splitter.feed(memoryview(buffer))
        buffer.clear()
        assert caught.value is splitter.error


@both
def test_own_bytes_frames_of_a_splitter_outlive_the_next_read(agreement: Agreement) -> None:
    """Frames completed by a later piece lie in the splitter's own buffer, which it leaves to them."""
    first, second = (encode(reply(agreement, position=i), agreement, i) for i in range(2))
    splitter = FrameSplitter(agreement, 0)
    assert splitter.feed(first[:90]) == []
    [one] = splitter.feed(first[90:] + second[:70])
    [two] = splitter.feed(second[70:])
    assert (bytes(one.data), bytes(two.data)) == (first, second)
    batch, error = read_rows([one, two], agreement)
    assert error is None
    assert [batch[0], batch[1]] == [reply(agreement, position=0), reply(agreement, position=1)]
    for frame in (one, two):
        # Nobody can write to these bytes any more, so messages view them.
        assert frame.data.readonly
        found = decode_frame(frame, agreement)
        assert isinstance(found, Reply)
        assert np.shares_memory(found.q, np.frombuffer(frame.data, np.uint8))


def test_own_bytes_arrays_given_to_a_message_are_copied_unless_immutable() -> None:
    base = np.array([2, 4], np.int32)
    alias = base[:]
    base.flags.writeable = False
    for ids in (base, alias, base.view(), np.array([2, 4], np.int64), [2, 4], (np.int16(2), 4)):
        message = commit(SPARSE, tokens=ids)
        assert message == commit(SPARSE)
        alias[:] = 9
        assert message == commit(SPARSE)
        alias[:] = [2, 4]
    q = np.array([1.0], np.float32)
    single = reply(SPARSE, ids=[2], q=q)
    q[0] = 0.5
    assert single.q[0] == 1.0
    immutable = np.frombuffer(np.array([2, 4], "<i4").tobytes(), "<i4")
    assert commit(SPARSE, tokens=immutable).tokens is immutable


def test_own_bytes_message_columns_are_read_only() -> None:
    for column in (commit(SPARSE).tokens, reset(SPARSE).prefix_ids, reply(SPARSE).ids, reply(DENSE).q):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
    with pytest.raises(AttributeError):
        commit(SPARSE).accepted = 2  # type: ignore[misc]


def test_own_bytes_encoding_into_a_callers_buffer_touches_no_more_than_it_says() -> None:
    for agreement in (SPARSE, DENSE):
        rows = decode_replies(encode_all([reply(agreement)] * 2, agreement), agreement)
        expected = encode_replies(rows, agreement, 0)
        for size in (len(expected), len(expected) + 1, len(expected) + 500):
            for out in (
                bytearray(b"\xee" * size),
                np.full(size, 0xEE, np.uint8),
                memoryview(bytearray(b"\xee" * size)),
            ):
                used = encode_replies(rows, agreement, 0, out)
                assert isinstance(used, memoryview)
                assert used == expected
                assert bytes(memoryview(out)[len(expected) :]) == b"\xee" * (size - len(expected))
        array = np.zeros((2, len(expected) // 2), np.uint8)
        assert encode_replies(rows, agreement, 0, array) == expected
        assert array.tobytes() == expected
        for out in (
            bytearray(len(expected) - 1), bytes(len(expected)), memoryview(bytes(len(expected))),
            np.zeros(2 * len(expected), np.uint8)[::2], np.zeros((len(expected), 2), np.uint8)[:, 0],
        ):  # fmt: skip
            with pytest.raises(LocalProtocolError, match="out: expected a writable contiguous buffer"):
                encode_replies(rows, agreement, 0, out)  # type: ignore[arg-type]


@both
def test_own_bytes_re_encoding_a_batch_over_the_buffer_it_views(agreement: Agreement) -> None:
    """Rows read from frames view the caller's buffer; encoding them back over it must not mix the two."""
    stream = encode_all([reply(agreement), reply(agreement, position=4)], agreement)
    for shift in (0, 8, agreement.reply_frame_bytes):
        buffer = bytearray(stream + bytes(shift))
        frames = FrameSplitter(agreement, 0).feed(memoryview(buffer)[: len(stream)])
        batch, error = read_rows(frames, agreement)
        assert error is None
        try:
            used = encode_replies(batch, agreement, 0, memoryview(buffer)[shift:])
        except LocalProtocolError:
            continue
        assert bytes(used) == stream


def test_own_bytes_non_contiguous_input_is_refused_by_name() -> None:
    frame = encode(commit(SPARSE), SPARSE, 0)
    spread = memoryview(np.repeat(np.frombuffer(frame, np.uint8), 2))[::2]
    for reader in (FrameReader(SPARSE), FrameSplitter(SPARSE)):
        with pytest.raises(LocalProtocolError, match="contiguous"):
            reader.feed(spread)
        # Nothing was taken: the same bytes, contiguous, go on from there.
        assert len(reader.feed(frame)) == 1
    assert isinstance(decode(spread, SPARSE), Commit)
    rows = encode(reply(SPARSE), SPARSE, 0)
    assert isinstance(decode_replies(memoryview(np.repeat(np.frombuffer(rows, np.uint8), 2))[::2], SPARSE)[0], Reply)
