"""[every bit] [every prefix] Any bit flipped, any byte missing, any byte too many: no exceptions list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.wire import (
    FrameReader,
    Message,
    RejectCode,
    RemoteProtocolError,
    decode,
    decode_replies,
    encode,
)
from tests.wire.frames import DENSE, KIND_NAMES, KINDS, SPARSE, drain, frame_of, reply
from tests.wire.strategies import agreements, messages

every_kind = pytest.mark.parametrize(("agreement", "message"), KINDS, ids=KIND_NAMES)


@every_kind
def test_every_bit_of_every_message(agreement: object, message: Message) -> None:
    frame = frame_of(message, agreement, 3)
    for bit in range(8 * len(frame)):
        frame[bit // 8] ^= 1 << bit % 8
        data = bytes(frame)
        frame[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RemoteProtocolError):
            decode(data, agreement)
        outcomes = drain(FrameReader(agreement, 3), [data])
        assert outcomes
        assert all(isinstance(o, RemoteProtocolError) for o in outcomes)


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_every_bit_of_a_batch(agreement: object) -> None:
    rows = [frame_of(reply(agreement, position=3 + i), agreement, 3 + i) for i in range(3)]
    stream = bytearray(b"".join(rows))
    size = len(rows[0])
    assert len(decode_replies(stream, agreement, 3)) == 3
    for bit in range(8 * len(stream)):
        stream[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RemoteProtocolError) as caught:
            decode_replies(bytes(stream), agreement, 3)
        error = caught.value
        outcomes = drain(FrameReader(agreement, 3), [bytes(stream)])
        stream[bit // 8] ^= 1 << bit % 8
        assert error.offset // size == bit // 8 // size
        first = next(o for o in outcomes if isinstance(o, RemoteProtocolError))
        assert (first.code, first.offset, first.path) == (error.code, error.offset, error.path)


@given(st.data())
def test_every_bit_of_generated_messages(data: st.DataObject) -> None:
    agreement = data.draw(agreements())
    message = data.draw(messages(agreement))
    frame = frame_of(message, agreement)
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RemoteProtocolError):
        decode(frame, agreement)


@every_kind
def test_every_prefix_needs_more_data(agreement: object, message: Message) -> None:
    frame = encode(message, agreement, 0)
    for cut in range(len(frame)):
        with pytest.raises(RemoteProtocolError) as caught:
            decode(frame[:cut], agreement)
        assert (caught.value.code, caught.value.offset) == (RejectCode.TRUNCATED, cut)
        reader = FrameReader(agreement, 0)
        assert reader.feed(frame[:cut]) == []
        if cut:
            with pytest.raises(RemoteProtocolError) as caught:
                reader.close()
            assert (caught.value.code, caught.value.offset) == (RejectCode.TRUNCATED, cut)
        assert reader.feed(frame[cut:]) == [message]
        reader.close()


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_every_prefix_of_a_batch(agreement: object) -> None:
    rows = [encode(reply(agreement, position=i), agreement, i) for i in range(3)]
    stream, size = b"".join(rows), len(rows[0])
    for cut in range(len(stream) + 1):
        if cut % size == 0:
            assert len(decode_replies(stream[:cut], agreement, 0)) == cut // size
            continue
        with pytest.raises(RemoteProtocolError) as caught:
            decode_replies(stream[:cut], agreement, 0)
        assert (caught.value.code, caught.value.offset) == (RejectCode.TRUNCATED, cut)


@every_kind
def test_every_prefix_and_a_byte_more_anywhere(agreement: object, message: Message) -> None:
    frame = encode(message, agreement, 0)
    for at in range(len(frame) + 1):
        for byte in (b"\0", b"P", b"\xff"):
            with pytest.raises(RemoteProtocolError) as caught:
                decode(frame[:at] + byte + frame[at:], agreement)
            if at == len(frame):
                assert (caught.value.code, caught.value.offset) == (RejectCode.EXTRA_DATA, len(frame))
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frame + frame, agreement)
    assert (caught.value.code, caught.value.offset) == (RejectCode.EXTRA_DATA, len(frame))


@every_kind
def test_every_byte_missing_anywhere(agreement: object, message: Message) -> None:
    frame = encode(message, agreement, 0)
    for at in range(len(frame)):
        with pytest.raises(RemoteProtocolError):
            decode(frame[:at] + frame[at + 1 :], agreement)
