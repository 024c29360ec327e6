"""Dissection: every field by name, whatever the bytes are."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.pcapng import CaptureError
from pp1wire.capture.show import show, show_file
from pp1wire.wire import MessageType, Representation, decode
from pp1wire.wire._schema_v2 import BODY_FIELDS, HEADER_FIELDS
from pp1wire.wire.header import seal
from tests.capture.golden import NOW, VERIFIER, WORKER, capture, flip_row, golden
from tests.capture.test_validate import HTTP, blocks, frames_of, without

SPARSE = golden()
DENSE = golden(Representation.DENSE, rounds=1)


def shown(data: bytes, **options):
    return list(show_file(io.BytesIO(data), "capture", **options))


@pytest.mark.parametrize("talk", [SPARSE, DENSE], ids=["sparse", "dense"])
@pytest.mark.parametrize("piece", [None, 90])
def test_every_frame_is_shown_with_its_place_and_every_field_of_the_schema(talk, piece) -> None:
    items = shown(capture(talk.sent, piece=piece), rows=True)
    assert {item.kind for item in items} == {"frame"}
    for who in (VERIFIER, WORKER):
        sender = "10.0.0.1" if who is VERIFIER else "10.0.0.2"
        own = [item for item in items if item.endpoints.startswith(sender)]
        frames = frames_of(talk, who)
        assert [(item.offset, item.length) for item in own] == [(f.offset, len(f.data)) for f in frames]
        for item, frame in zip(own, frames, strict=True):
            assert item.packet >= 4
            assert item.time_ns > NOW
            check_fields(item.fields, frame, talk.verifier.agreement)


def check_fields(fields, frame, agreement) -> None:
    kind = frame.header.message_type
    assert list(fields["header"]) == [spec.name for spec in HEADER_FIELDS]
    assert fields["header"]["sequence"] == frame.header.sequence
    assert fields["header"]["message_type"] == fields["message"] == kind.name.lower()
    columns = {MessageType.REPLY: ["ids", "q"], MessageType.COMMIT: ["tokens"], MessageType.RESET: ["prefix_ids"]}
    assert list(fields["body"]) == [spec.name for spec in BODY_FIELDS[kind]] + columns.get(kind, [])
    message = decode(frame.data, None if kind is MessageType.HELLO else agreement)
    for name in message.__dataclass_fields__:
        value, found = getattr(message, name), (fields["header"] | fields["body"])[name]
        if hasattr(value, "tolist"):
            assert found[: len(value)] == value.tolist()
        elif isinstance(value, bytes):
            assert found == value.hex()
        else:
            assert found == (value.name.lower() if hasattr(value, "name") else value)


def test_rows_are_summarised_unless_asked_for() -> None:
    (first, *_) = [i for i in shown(DENSE.stream(WORKER)) if i.kind == "frame" and i.fields["message"] == "reply"]
    assert first.fields["body"]["ids"] == {"count": 0, "first": []}
    assert first.fields["body"]["q"]["count"] == DENSE.verifier.agreement.padded_vocab_size
    assert len(first.fields["body"]["q"]["first"]) == 4
    text = "\n".join(first.lines())
    assert "64 entries: " in text
    (whole, *_) = [i for i in shown(DENSE.stream(WORKER), rows=True) if i.fields["message"] == "reply"]
    assert len(whole.fields["body"]["q"]) == 64


def test_lines_name_message_place_and_fields() -> None:
    lines = [line for item in shown(capture(SPARSE.sent)) for line in item.lines()]
    assert lines[0] == (
        "HELLO  packet 4, 2027-01-15T08:00:00.000001000Z, connection 1, 10.0.0.1:40000 → 10.0.0.2:9009, byte 0, 376 bytes"
    )
    text = "\n".join(lines)
    for piece in ("role                    offer", "q_semantic              dyadic24-standard-v1", "kind"):
        assert piece in text
    assert "reserved" not in text
    assert all(line.isprintable() for line in lines)


def test_json_goes_round_one_object_a_line() -> None:
    for item in shown(capture(SPARSE.sent, piece=70)):
        text = json.dumps(item.to_json(), allow_nan=False)
        assert "\n" not in text
        assert json.loads(text) == item.to_json()


def test_undecodable_bytes_are_shown_and_reading_goes_on() -> None:
    frames = frames_of(SPARSE, WORKER)
    stream = SPARSE.stream(WORKER)
    junk = b"\0junk PP1W junk\xff"
    place = frames[2].offset
    items = shown(stream[:place] + junk + stream[place:] + b"PP1W\x02")
    undecoded = [i for i in items if i.kind == "undecoded"]
    assert [(i.offset, i.length) for i in undecoded] == [(place, len(junk)), (len(stream) + len(junk), 5)]
    assert undecoded[0].message == junk[:16].hex(" ")
    assert len(items) == len(frames) + 2
    damaged = bytearray(stream)
    damaged[place + 20] ^= 1
    (lost,) = [i for i in shown(bytes(damaged)) if i.kind == "undecoded"]
    assert (lost.offset, lost.length) == (place, len(frames[2].data))
    assert "header_checksum_mismatch" in lost.message


def test_gaps_are_shown_where_they_are() -> None:
    items = shown(without(capture(SPARSE.sent), 7))
    (gap,) = [i for i in items if i.kind == "gap"]
    assert gap.length > 100
    later = [i for i in items if i.kind == "frame" and i.endpoints == gap.endpoints and i.offset > gap.offset]
    assert later


def test_bodies_that_do_not_fit_are_said_not_to() -> None:
    reset = next(f for f in frames_of(SPARSE, VERIFIER) if f.header.message_type is MessageType.RESET)
    frame = bytearray(reset.data)
    frame[64 + 24 : 64 + 28] = b"\xff\xff\xff\xff"  # prefix_count
    (item,) = shown(bytes(frame))
    assert "undecodable" in item.fields["body"]
    longer = bytearray(bytes(reset.data) + b"\0\0\0\0\0")
    seal(longer, MessageType.RESET, sequence=1, agreement_id=7, session=1, slot=0, generation=1)
    (item,) = shown(bytes(longer))
    assert item.fields["body"]["undecodable"] == "5 bytes more than the fields take"
    assert item.fields["body"]["prefix_ids"]["count"] == 3


def test_values_that_no_enumeration_or_json_knows_are_shown() -> None:
    step = next(f for f in frames_of(SPARSE, VERIFIER) if f.header.message_type is MessageType.STEP)
    frame = bytearray(step.data)
    frame[64 + 5] = 77  # support_policy
    frame[64 + 8 : 64 + 16] = b"\0\0\0\0\0\0\xf8\x7f"  # temperature
    frame[64 + 6] = 1  # reserved
    (item,) = shown(bytes(frame))
    body = item.fields["body"]
    assert (body["support_policy"], body["temperature"], body["reserved_1"]) == (77, "nan", "0100")
    assert any("reserved_1" in line for line in item.lines())
    json.dumps(item.to_json(), allow_nan=False)


def test_other_protocols_cuts_and_unreadable_files(tmp_path) -> None:
    items = shown(capture(HTTP))
    assert {i.kind for i in items} == {"undecoded"}
    cut = shown(capture(SPARSE.sent, end="leave")[:-3])
    assert [i.kind for i in cut].count("truncated") == 1
    parts = blocks(capture(SPARSE.sent))
    damaged = b"".join(parts[:9]) + b"\x06\0\0\0\x05\0\0\0" + bytes(20)
    seen = []
    with pytest.raises(CaptureError, match="multiple of 4"):
        seen.extend(show_file(io.BytesIO(damaged), "capture"))
    assert {item.kind for item in seen} == {"frame"}
    for name in ("missing", "."):
        with pytest.raises(CaptureError):
            list(show(tmp_path / name))
    (tmp_path / "stream").write_bytes(SPARSE.stream(VERIFIER))
    assert len(list(show(tmp_path / "stream"))) == len(frames_of(SPARSE, VERIFIER))


@given(st.binary(max_size=300), st.integers(0, 10**6), st.binary(min_size=1, max_size=12))
@settings(max_examples=80)
def test_one_family_show_stands_any_bytes(data, place, patch) -> None:
    stream = bytearray(SPARSE.stream(WORKER))
    stream[place % len(stream) : place % len(stream) + len(patch)] = patch
    for content in (b"PP1W" + data, b"PP1W" + bytes(stream), capture([(VERIFIER, bytes(stream))], piece=99)):
        try:
            items = shown(content)
        except CaptureError:
            continue
        for item in items:
            json.dumps(item.to_json(), allow_nan=False)
            assert all(line.isprintable() for line in item.lines())
        lengths = sum(item.length for item in items if item.kind in ("frame", "undecoded"))
        assert lengths == (len(content) if content[:4] == b"PP1W" else len(stream))


@given(st.data())
@settings(max_examples=60)
def test_any_frame_with_a_valid_header_is_dissected_or_said_not_to_fit(data) -> None:
    kind = data.draw(st.sampled_from(MessageType))
    frame = bytearray(64) + data.draw(st.binary(max_size=400))
    seal(frame, kind, sequence=3, agreement_id=1, session=1, slot=1, generation=1, round=1)
    (item,) = shown(bytes(frame), rows=True)
    assert item.fields["message"] == kind.name.lower()
    json.dumps(item.to_json(), allow_nan=False)
    assert list(item.lines())


def test_a_frame_with_a_wrong_body_checksum_is_marked_and_no_other_is() -> None:
    sent = list(SPARSE.sent)
    at = next(i for i, (who, data) in enumerate(sent) if who is WORKER and data[6] == MessageType.REPLY)
    sent[at] = (WORKER, flip_row(sent[at][1]))
    items = shown(capture(sent))
    (marked,) = [item for item in items if item.body_checksum_ok is False]
    headline, *_ = marked.lines()
    assert headline.startswith("REPLY  ✗ BODY CHECKSUM  packet ")
    assert marked.to_json()["body_checksum_ok"] is False
    others = [item for item in items if item is not marked]
    assert all(item.to_json()["body_checksum_ok"] is True for item in others)
    assert "✗" not in "".join(line for item in others for line in item.lines())


def test_committed_tokens_are_shown_without_padding_unless_it_is_wrong() -> None:
    frame = next(f for f in frames_of(SPARSE, VERIFIER) if f.header.message_type is MessageType.COMMIT)
    tokens = decode(frame.data, SPARSE.verifier.agreement).tokens.tolist()
    assert 1 <= len(tokens) < 6
    (item,) = shown(bytes(frame.data), rows=True)
    assert item.fields["body"]["tokens"] == tokens
    wrong = bytearray(frame.data)
    wrong[-4] = 9
    (item,) = shown(bytes(wrong), rows=True)
    assert item.fields["body"]["tokens"] == [*tokens, *[0] * (5 - len(tokens)), 9]


def test_the_header_takes_two_short_lines_without_what_never_changes() -> None:
    for item in shown(capture(SPARSE.sent)):
        lines = [line for line in item.lines() if line.startswith("    header ")]
        assert len(lines) == 2
        assert "wire_version" not in lines[0] + lines[1]
        for line, names in zip(lines, (("sequence", "slot", "round"), ("agreement_id", "body_checksum")), strict=True):
            assert all(name in line for name in names)
            assert len(line) <= 150
