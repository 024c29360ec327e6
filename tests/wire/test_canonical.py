"""The verdict over all rows, the reason for one row, and the rules restated in Fractions agree on every row.

[no repair] [not peers' bugs] Nothing is clipped, sorted or defaulted, and no NaN reaches a cast.
"""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pp1wire.wire import (
    Agreement,
    FrameSplitter,
    RejectCode,
    RemoteProtocolError,
    ReplyBatch,
    Representation,
    decode,
    decode_replies,
    encode_replies,
    read_rows,
)
from pp1wire.wire._schema_v2 import Q_TOTAL
from pp1wire.wire.faults import row_fault
from tests.wire.frames import DENSE, SPARSE, frame_of, q_of, reply, sealed
from tests.wire.strategies import agreements, batches, rows

C = RejectCode
BITS = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x33000000, 0x33800000, 0x34000000, 0x3E800000, 0x3F000000,
    0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40000000, 0x4B800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0xBF800000,
    0xFF800000, 0xFFC00000, 0xFFFFFFFF, 0x3E800001, 0xB3800000,
]  # fmt: skip
DYADIC = st.integers(0, Q_TOTAL).map(lambda c: struct.unpack("<I", q_of(c).tobytes())[0])
q_bits = st.sampled_from(BITS) | DYADIC | st.integers(0, 2**32 - 1)
small = st.integers(-2, 20)


@st.composite
def hostile_rows(draw: st.DrawFn) -> tuple[Agreement, bytes]:
    """A REPLY body of random columns, or a legal one with a few fields overwritten."""
    agreement = draw(agreements(max_vocab=6))
    k, width = agreement.id_entries, agreement.q_entries
    ids, counts = draw(rows(agreement))
    sparse = agreement.representation is Representation.SPARSE
    id_column, q_column = [0] * k, [0] * width
    for index, (token, count) in enumerate(zip(ids.tolist(), counts.tolist(), strict=True)):
        if sparse:
            id_column[index] = token
        q_column[index if sparse else token] = struct.unpack("<I", q_of(count).tobytes())[0]
    token = int(draw(st.sampled_from(ids.tolist())))
    entries = len(ids) if sparse else agreement.vocab_size
    shard = [0, agreement.vocab_size]
    representation = int(agreement.representation)
    for what in draw(st.lists(st.sampled_from("idqtesrwm"), max_size=3)):
        if what == "i" and k:
            id_column[draw(st.integers(0, k - 1))] = draw(small | st.sampled_from([2**31 - 1, -(2**31)]))
        elif what == "d" and k > 1:
            at = draw(st.integers(1, k - 1))
            id_column[at] = max(min(id_column[at - 1] + draw(st.integers(-1, 1)), 2**31 - 1), -(2**31))
        elif what == "q":
            q_column[draw(st.integers(0, width - 1))] = draw(q_bits)
        elif what == "m" and width > 1:
            # Mass moved from one entry to another, so that the total stays.
            a, b = draw(st.integers(0, width - 1)), draw(st.integers(0, width - 1))
            q_column[a], q_column[b] = q_column[b], q_column[a]
        elif what == "t":
            token = draw(small | st.sampled_from([2**31 - 1, -(2**31)]))
        elif what == "e":
            entries = draw(st.integers(0, width + 2) | st.sampled_from([2**31, 2**32 - 1]))
        elif what == "s":
            shard[draw(st.integers(0, 1))] = draw(st.integers(0, 8) | st.just(2**32 - 1))
        elif what == "r":
            representation = draw(st.integers(0, 3))
        elif what == "w":
            id_column = draw(st.lists(small, min_size=k, max_size=k))
            q_column = draw(st.lists(q_bits, min_size=width, max_size=width))
    body = struct.pack("<IiIB3sII8s", 3, token, entries, representation, b"\0" * 3, *shard, b"\0" * 8)
    body += struct.pack(f"<{k}i{width}I", *id_column, *q_column)
    return agreement, body


def frame_around(agreement: Agreement, body: bytes, sequence: int = 0) -> bytes:
    header = struct.pack("<4sHBxQIHxxQQIIQQ", b"PP1W", 2, 3, sequence, len(body), 0, agreement.id, 1, 1, 1, 0, 0)
    return sealed(header + body)


def is_canonical(agreement: Agreement, body: bytes) -> bool:
    """The rules of a row in the plainest words and exact numbers."""
    _, token, entries, representation, pad, first, count, pad2 = struct.unpack_from("<IiIB3sII8s", body)
    if representation != agreement.representation or (first, count) != (0, agreement.vocab_size) or any(pad + pad2):
        return False
    k, width = agreement.id_entries, agreement.q_entries
    ids = list(struct.unpack_from(f"<{k}i", body, 32))
    bits = struct.unpack_from(f"<{width}I", body, 32 + 4 * k)
    if any(b >> 31 or b >> 23 & 255 == 255 for b in bits):
        return False
    counts = [Fraction(struct.unpack("<f", struct.pack("<I", b))[0]) * Q_TOTAL for b in bits]
    if any(c.denominator != 1 for c in counts) or sum(counts) != Q_TOTAL:
        return False
    vocab = range(agreement.vocab_size)
    if agreement.representation is Representation.DENSE:
        held = dict(enumerate(counts))
        if entries != agreement.vocab_size or any(counts[agreement.vocab_size :]):
            return False
    else:
        if not 1 <= entries <= k or any(ids[entries:]) or any(counts[entries:]) or not all(counts[:entries]):
            return False
        if ids[:entries] != sorted(set(ids[:entries])) or any(i not in vocab for i in ids[:entries]):
            return False
        held = dict(zip(ids[:entries], counts[:entries], strict=True))
    return token in vocab and held.get(token, 0) > 0


def judgements(agreement: Agreement, body: bytes) -> list[RejectCode | None]:
    """What each way to judge one row says: the code, or None for a good row."""
    frame = frame_around(agreement, body)
    [split] = FrameSplitter(agreement).feed(frame)
    batch, error = read_rows([split], agreement)
    assert len(batch) == (error is None)
    fault = row_fault(split, agreement)
    said = [error.code if error else None, fault.code if fault else None]
    for judge in (decode_replies, decode):
        try:
            judge(frame, agreement)
            said.append(None)
        except RemoteProtocolError as caught:
            said.append(caught.code)
    # Behind a good row of its own kind, rows are judged together.
    sure = [(np.array([0], np.int32), np.array([Q_TOTAL], np.int32))]
    before = ReplyBatch.from_rows(
        agreement, session=1, slot=0, generation=1, round=1, position=0, tokens=[0], rows=sure
    )
    pair = bytes(encode_replies(before, agreement, 0)) + frame_around(agreement, body, 1)
    _, error = read_rows(FrameSplitter(agreement).feed(pair), agreement)
    said.append(error.code if error else None)
    try:
        decode_replies(pair, agreement)
        said.append(None)
    except RemoteProtocolError as caught:
        said.append(caught.code)
    return said


K1 = Agreement(1, Representation.SPARSE, 1, 3, 1, 1, 4, 1)


@settings(max_examples=max(500, settings.default.max_examples))
@given(hostile_rows())
@example((K1, struct.pack("<IiIB3xII8x4i4I", 3, 0, 2**32 - 1, 2, 0, 1, 0, 0, 0, 0, 0x3F800000, 0, 0, 0)))
@example((K1, struct.pack("<IiIB3xII8x4i4I", 3, 0, 4, 2, 0, 1, 0, 1, 2, 3, *[0x3E800000] * 4)))
def test_verdict_and_reason_agree_on_every_row(row: tuple[Agreement, bytes]) -> None:
    agreement, body = row
    with np.errstate(all="raise"):
        said = judgements(agreement, body)
    assert len(set(said)) == 1, said
    assert (said[0] is None) == is_canonical(agreement, body), said


@settings(max_examples=max(100, settings.default.max_examples))
@given(st.data())
def test_verdict_over_many_rows_stops_at_the_first_bad_one(data: st.DataObject) -> None:
    agreement, body = data.draw(hostile_rows())
    batch = data.draw(batches(agreement, max_rows=3))
    after = data.draw(batches(agreement, max_rows=2))
    n = len(batch)
    stream = encode_replies(batch, agreement, 0) + frame_around(agreement, body, n)
    stream += encode_replies(after, agreement, n + 1)
    [expected] = set(judgements(agreement, body))
    frames = FrameSplitter(agreement).feed(stream)
    for given_frames in (frames, [split for f in frames for split in FrameSplitter(agreement).feed(bytes(f.data))]):
        found, error = read_rows(given_frames, agreement)
        if expected is None:
            assert error is None
            assert len(found) == len(frames)
        else:
            assert error is not None
            assert (error.code, len(found)) == (expected, n)
        assert [found[i] for i in range(n)] == [batch[i] for i in range(n)]
    if expected is not None:
        with pytest.raises(RemoteProtocolError) as caught:
            decode_replies(stream, agreement)
        assert caught.value.code is expected
        assert caught.value.offset // agreement.reply_frame_bytes == n


@given(st.sampled_from([SPARSE, DENSE]), st.data())
def test_no_repair_nan_never_reaches_a_cast(agreement: Agreement, data: st.DataObject) -> None:
    """Columns of nothing but NaN, infinities, huge and subnormal numbers raise no floating-point flag."""
    wild = st.sampled_from([0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0x7F7FFFFF, 0x00000001, 0xFF7FFFFF])
    width = agreement.q_entries
    body = frame_of(reply(agreement), agreement)[64:]
    body[32 + 4 * agreement.id_entries :] = struct.pack(
        f"<{width}I", *data.draw(st.lists(wild, min_size=width, max_size=width))
    )
    with np.errstate(all="raise"):
        said = judgements(agreement, bytes(body))
    assert len(set(said)) == 1
    assert said[0] is not None


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_no_repair_nothing_that_the_decoder_refuses_would_be_mended(agreement: Agreement) -> None:
    """Each of these is legal after one clip, sort, drop or rescale; none is accepted."""
    good = frame_of(reply(agreement), agreement)
    at = 64 + 32 + 4 * agreement.id_entries
    for word, pattern in ((0, 0x3E800001), (0, 0x80000000), (1, 0xBE800000)):
        frame = bytearray(good)
        frame[at + 4 * word : at + 4 * word + 4] = pattern.to_bytes(4, "little")
        with pytest.raises(RemoteProtocolError):
            decode(sealed(frame), agreement)


def wide(vocab: int, padded: int) -> tuple[Agreement, np.ndarray]:
    agreement = Agreement(1, Representation.DENSE, vocab, padded, 1, 1, 1, 1)
    q = np.zeros(padded, np.float32)
    q[:vocab] = np.float32(1 / Q_TOTAL)
    q[vocab - 1] = np.float32((Q_TOTAL - vocab + 1) / Q_TOTAL)
    return agreement, q


@pytest.mark.parametrize(("vocab", "padded"), [(262144, 262144), (129_280, 131_072), (1, 262144), (1, 1)])
def test_wide_dense_rows_total_exactly(vocab: int, padded: int) -> None:
    """A float32 sum would lose a count of 1 beside one of nearly 2^24; one count too many or too few is refused."""
    agreement, q = wide(vocab, padded)
    head = struct.pack("<IiIB3xII8x", 3, vocab - 1, vocab, 1, 0, vocab)
    assert set(judgements(agreement, head + q.tobytes())) == {None}
    for change in (-1, 1):
        off = q.copy()
        off[vocab // 2] += np.float32(change / Q_TOTAL)
        expected = C.Q_MASS_MISMATCH
        if vocab == 1 and change == 1:
            # 1 + 2^-24 is no float32: the row is the good one.
            continue
        assert set(judgements(agreement, head + off.tobytes())) == {expected}


def test_wide_dense_rows_of_ones_do_not_overflow() -> None:
    """262,144 entries of q = 1 total 2^42 counts: more than 32 bits, and a mass fault, not a wrap."""
    agreement, q = wide(262144, 262144)
    head = struct.pack("<IiIB3xII8x", 3, 0, 262144, 1, 0, 262144)
    for value in (1.0, 2.0, 2.0**-8, 3e38):
        q[:] = value
        with np.errstate(all="raise"):
            assert set(judgements(agreement, head + q.tobytes())) == {C.Q_MASS_MISMATCH}
