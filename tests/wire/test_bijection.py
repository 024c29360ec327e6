"""[bijection] Every message has one spelling: what decodes is what encoding gives, and nothing else decodes to it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.wire import (
    FrameReader,
    Message,
    RemoteProtocolError,
    Reply,
    ReplyBatch,
    decode,
    decode_replies,
    encode,
    encode_replies,
)
from pp1wire.wire import _schema_v2 as schema
from tests.wire.frames import EVERY_KIND, KIND_NAMES, KINDS, frame_of, sealed
from tests.wire.strategies import U64, agreements, batches, conversations, hellos, messages, unsigned


@given(st.data())
def test_bijection_of_every_message(data: st.DataObject) -> None:
    agreement = data.draw(agreements())
    message = data.draw(messages(agreement))
    sequence = data.draw(unsigned(U64))
    frame = encode(message, agreement, sequence)
    decoded = decode(frame, agreement, sequence)
    assert decoded == message
    assert hash(decoded) == hash(message)
    assert encode(decoded, agreement, sequence) == frame
    assert len(frame) == 64 + struct.unpack_from("<I", frame, 16)[0]


@given(hellos(), unsigned(U64))
def test_bijection_of_hello(message: Message, sequence: int) -> None:
    frame = encode(message, None, sequence)
    assert decode(frame, None, sequence) == message
    assert encode(decode(frame, None), None, sequence) == frame


@given(st.data())
def test_bijection_of_batches_and_agreement_with_scalar_encoding(data: st.DataObject) -> None:
    agreement = data.draw(agreements())
    batch = data.draw(batches(agreement))
    sequence = data.draw(st.integers(0, U64 - 8))
    stream = encode_replies(batch, agreement, sequence)
    scalar = [encode(batch[i], agreement, sequence + i) for i in range(len(batch))]
    assert stream == b"".join(scalar)
    decoded = decode_replies(stream, agreement)
    assert len(decoded) == len(batch)
    for i, frame in enumerate(scalar):
        assert decoded[i] == batch[i] == decode(frame, agreement)
        assert int(decoded.row_checksums[i]) == int.from_bytes(frame[48:56], "little")
        for mine, theirs in zip(decoded.row(i), batch.row(i), strict=True):
            assert mine.dtype == theirs.dtype == np.int32
            assert np.array_equal(mine, theirs)
    assert encode_replies(decoded, agreement, sequence) == stream
    assert decoded.q.tobytes() == batch.q.tobytes()
    assert np.array_equal(decoded.counts, batch.counts)
    assert FrameReader(agreement).feed(stream) == [batch[i] for i in range(len(batch))]


@given(conversations())
def test_bijection_of_a_conversation(conversation: tuple) -> None:
    agreement, sent = conversation
    stream = b"".join(encode(m, agreement, i) for i, m in enumerate(sent))
    reader = FrameReader(agreement, 0)
    assert reader.feed(stream) == sent
    reader.close()


@given(st.data())
def test_bijection_no_other_bytes_decode_to_a_message(data: st.DataObject) -> None:
    """Change any bytes of a body and repair the checksums: it decodes to another message, or not at all."""
    name, agreement, message = data.draw(st.sampled_from(EVERY_KIND))
    frame = frame_of(message, agreement)
    at = data.draw(st.integers(64, len(frame) - 1))
    size = data.draw(st.sampled_from([1, 2, 4]))
    frame[at : at + size] = data.draw(st.binary(min_size=size, max_size=size))[: len(frame) - at]
    other = sealed(frame)
    try:
        decoded = decode(other, agreement)
    except RemoteProtocolError:
        return
    assert encode(decoded, agreement, 0) == other
    assert (decoded == message) == (other == encode(message, agreement, 0)), name


@pytest.mark.parametrize(("agreement", "message"), KINDS, ids=KIND_NAMES)
def test_bijection_every_single_bit_of_a_body_means_something(agreement: object, message: Message) -> None:
    """Exhaustive: each bit of the body flipped, checksums repaired; what still decodes is another message."""
    good = frame_of(message, agreement)
    accepted = 0
    for bit in range(64 * 8, len(good) * 8):
        frame = bytearray(good)
        frame[bit // 8] ^= 1 << bit % 8
        other = sealed(frame)
        try:
            decoded = decode(other, agreement)
        except RemoteProtocolError:
            continue
        assert decoded != message
        assert encode(decoded, agreement, 0) == other
        accepted += 1
    assert accepted > 0


def test_bijection_of_floats_by_bits() -> None:
    q = np.array([2**-24, 1 - 2**-24], np.float32)
    first = Reply(session=1, slot=0, generation=1, round=1, position=0, token=0, ids=[0, 1], q=q)
    assert first == Reply(session=1, slot=0, generation=1, round=1, position=0, token=0, ids=[0, 1], q=q.copy())
    assert first != Reply(session=1, slot=0, generation=1, round=1, position=0, token=0, ids=[0, 1], q=[0.0, 1.0])
    zero = {"session": 1, "slot": 0, "generation": 1, "round": 1, "position": 0, "token": 0, "ids": []}
    assert Reply(**zero, q=[0.0]) != Reply(**zero, q=[-0.0])
    assert first != "a reply"


@given(st.data())
def test_bijection_a_second_decoder_agrees_on_every_field(data: st.DataObject) -> None:
    """The Construct declarations of the same schemas, which judge nothing, read the same values at the same places."""
    agreement = data.draw(agreements())
    message = data.draw(messages(agreement) | hellos())
    hello = isinstance(message, schema.Hello)
    frame = encode(message, None if hello else agreement, 9)
    name = type(message).__name__.lower()
    widths = {"id_entries": agreement.id_entries, "q_entries": agreement.q_entries}
    parsed = CONSTRUCTS[name].parse(frame, **widths)
    number = schema.MessageType[name.upper()]
    assert parsed.header.sequence == 9
    assert parsed.header.body_length == len(frame) - 64
    assert int(parsed.header.message_type) == number
    assert parsed.header.agreement_id == (0 if hello else agreement.id)
    for field in schema.IDENTITY_FIELDS[number]:
        assert parsed.header[field] == getattr(message, field)
    for spec in schema.BODY_FIELDS[number]:
        value = parsed[spec.name]
        if spec.kind == "zeros":
            assert value == bytes(spec.size)
        elif spec.name in schema.DERIVED_FIELDS[number]:
            assert value == len(getattr(message, schema.DERIVED_FIELDS[number][spec.name]))
        elif spec.name in schema.AGREED_FIELDS[number]:
            assert int(value) == getattr(agreement, schema.AGREED_FIELDS[number][spec.name])
        elif spec.kind == "text":
            assert value == getattr(message, spec.name).encode().ljust(spec.size, b"\0")
        else:
            assert (int(value) if spec.kind == "enum" else value) == getattr(message, spec.name)
    for column, code, _ in schema.BODY_COLUMNS[number]:
        own = getattr(message, column)
        values = np.array(list(parsed[column]), dtype=code)
        assert values[: len(own)].tobytes() == own.tobytes()
        assert not values[len(own) :].any()


CONSTRUCTS = schema.constructs()


def test_bijection_a_batch_of_no_rows_is_no_bytes() -> None:
    for _, agreement, _ in EVERY_KIND[1:3]:
        assert agreement is not None
        empty = decode_replies(b"", agreement)
        assert len(empty) == 0
        assert encode_replies(empty, agreement, 0) == b""
        assert encode_replies(ReplyBatch.from_replies([], agreement), agreement, U64) == b""
        out = bytearray()
        assert encode_replies(empty, agreement, 0, out) == b""
