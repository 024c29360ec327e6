"""The verdict over many headers says the same as the splitter that looks at one frame after another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.wire import FrameSplitter, MessageType, RemoteProtocolError, Representation
from pp1wire.wire.checksums import body_checksum, header_checksum
from pp1wire.wire.frame_columns import read_columns
from pp1wire.wire.frames import check_body_checksum
from tests.capture.golden import VERIFIER, WORKER, golden

HELLO = 376


def streams():
    for representation in Representation:
        talk = golden(representation, rounds=2)
        agreement = talk.verifier.agreement
        for who in (VERIFIER, WORKER):
            yield pytest.param(agreement, talk.stream(who)[HELLO:], id=f"{representation.name.lower()}-{who}")


STREAMS = list(streams())


def one_by_one(data, agreement, sequence):
    """The frames as a splitter has them; None if it rejects something, or a body that the columns hash is not what was sent."""
    splitter = FrameSplitter(agreement, sequence)
    try:
        frames = splitter.feed(data)
    except RemoteProtocolError:
        return None
    if splitter.error is not None:
        return None
    if agreement.representation is Representation.SPARSE:
        for frame in frames:
            try:
                if frame.header.message_type is MessageType.REPLY:
                    check_body_checksum(frame)
            except RemoteProtocolError:
                return None
    return [(frame.header, bytes(frame.data), frame.offset) for frame in frames]


def together(data, agreement, sequence):
    columns = read_columns(data, agreement, sequence)
    if columns is None:
        return None
    view = memoryview(data)
    frames = [columns.frame(i, view, 0, agreement) for i in range(len(columns.types))]
    return [(frame.header, bytes(frame.data), frame.offset) for frame in frames]


@pytest.mark.parametrize(("agreement", "data"), STREAMS)
@pytest.mark.parametrize("sequence", [None, 1])
def test_a_right_stream_is_the_same_frames(agreement, data, sequence):
    found = together(data, agreement, sequence)
    assert found == one_by_one(data, agreement, sequence)
    assert len(found) > 5


@pytest.mark.parametrize(("agreement", "data"), STREAMS)
def test_another_first_number_is_refused(agreement, data):
    assert together(data, agreement, 2) is None
    assert together(data, agreement, 0) is None


@pytest.mark.parametrize(("agreement", "data"), STREAMS)
@given(cut=st.integers(0, 1 << 16))
@settings(max_examples=60)
def test_a_stream_cut_anywhere(agreement, data, cut):
    part = data[: cut % (len(data) + 1)]
    assert together(part, agreement, 1) == one_by_one(part, agreement, 1)


@pytest.mark.parametrize(("agreement", "data"), STREAMS)
@given(place=st.integers(0, 1 << 16), bit=st.integers(0, 7))
@settings(max_examples=150)
def test_one_bit_anywhere(agreement, data, place, bit):
    damaged = bytearray(data)
    damaged[place % len(data)] ^= 1 << bit
    assert together(bytes(damaged), agreement, 1) == one_by_one(bytes(damaged), agreement, 1)


FIELDS = {
    "magic": (0, 4), "wire_version": (4, 2), "message_type": (6, 1), "reserved_1": (7, 1), "sequence": (8, 8),
    "body_length": (16, 4), "slot": (20, 2), "reserved_2": (22, 2), "agreement_id": (24, 8), "session": (32, 8),
    "generation": (40, 4), "round": (44, 4),
}  # fmt: skip


@pytest.mark.parametrize(("agreement", "data"), STREAMS)
@pytest.mark.parametrize("field", FIELDS)
def test_any_value_of_a_header_field_under_right_checksums(agreement, data, field):
    """Here the checksums hide nothing, so each rule stands for itself."""
    at, size = FIELDS[field]
    ends = together(data, agreement, 1)
    start = ends[3][2]
    seen = set()
    for value in (0, 1, 2, 3, 4, 5, 6, 7, 255, 256, 2**16 - 1, 2**32 - 1, 2**64 - 1):
        if value >= 1 << (8 * size):
            continue
        changed = bytearray(data)
        changed[start + at : start + at + size] = value.to_bytes(size, "little")
        sealed = memoryview(changed)[start : start + len(ends[3][1])]
        _reseal(sealed)
        found = together(bytes(changed), agreement, 1)
        assert found == one_by_one(bytes(changed), agreement, 1)
        seen.add(found is None)
    assert True in seen


def _reseal(frame: memoryview) -> None:
    frame[48:56] = body_checksum(frame).to_bytes(8, "little")
    frame[56:64] = header_checksum(frame).to_bytes(8, "little")


def test_the_last_number_is_not_passed():
    agreement, data = STREAMS[0].values
    last = 2**64 - 3
    changed = bytearray(data)
    for index, (_, body, offset) in enumerate(together(data, agreement, 1)):
        frame = memoryview(changed)[offset : offset + len(body)]
        frame[8:16] = ((last + index) % 2**64).to_bytes(8, "little")
        _reseal(frame)
    assert together(bytes(changed), agreement, last) is None
