"""Frames are changed in the named field alone, and their checksums are right again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.attack.crafting import (
    AttackError,
    Facts,
    HashedFor,
    changed,
    header_of,
    identity_of,
    ids_of,
    numbered,
    plus,
)
from pp1wire.wire import RejectCode, RemoteProtocolError, decode
from pp1wire.wire import _schema_v2 as schema
from tests.wire.frames import DENSE, EVERY_KIND, KIND_NAMES, SPARSE, commit, encode, hello, reply, reset, sealed, step


def facts(agreement=SPARSE):
    return Facts(hello(), agreement)


def code_of(data, agreement):
    try:
        decode(data, agreement)
    except RemoteProtocolError as error:
        return error.code
    return None


@pytest.mark.parametrize(("name", "agreement", "message"), EVERY_KIND, ids=KIND_NAMES)
def test_every_field_of_every_message_can_be_changed_alone(name, agreement, message):
    frame = encode(message, agreement, 0)
    fields = [(f"header.{s.name}", s, 0) for s in schema.HEADER_FIELDS]
    fields += [(s.name, s, 64) for s in schema.BODY_FIELDS[frame[6]]]
    for path, spec, base in fields:
        at = base + spec.offset
        text = spec.kind in ("magic", "zeros", "bytes", "text")
        flipped = bytes(b ^ 0x5A for b in frame[at : at + spec.size])
        value = flipped if text else 1.25 if spec.kind == "float" else lambda old, _: int(old) ^ 1
        out = changed(frame, {path: value}, facts(agreement))
        checksums = {*range(48, 64)}
        differs = {i for i in range(len(frame)) if frame[i] != out[i]} - checksums
        assert differs <= {*range(at, at + spec.size)}, path
        assert differs or path in ("header.body_checksum", "header.header_checksum"), path
        if path not in ("header.body_checksum", "header.header_checksum"):
            assert out[56:64] == sealed(out)[56:64], path


def test_checksums_can_be_wrong_alone():
    frame = encode(step(SPARSE), SPARSE, 0)
    assert code_of(changed(frame, {}, facts()), SPARSE) is None
    for name in ("body", "header"):
        out = changed(frame, {f"header.{name}_checksum": lambda old, _: int(old) ^ 1}, facts())
        assert code_of(out, SPARSE) is RejectCode[f"{name.upper()}_CHECKSUM_MISMATCH"]


def test_a_body_that_was_hashed_for_another_identity():
    frame = encode(step(SPARSE), SPARSE, 0)
    out = changed(frame, {"header.body_checksum": HashedFor({"header.round": 9})}, facts())
    assert header_of(out)["round"] == header_of(frame)["round"]
    assert code_of(out, SPARSE) is RejectCode.BODY_CHECKSUM_MISMATCH
    assert (
        code_of(changed(out, {"header.round": 9, "header.body_checksum": lambda old, _: old}, facts()), SPARSE) is None
    )


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_entries_of_columns_are_found_from_both_ends(agreement):
    frame = encode(reply(agreement), agreement, 0)
    last = changed(frame, {"q[-1]": -0.0}, facts(agreement))
    assert last[-4:] == b"\0\0\0\x80"
    first = changed(frame, {"q[0]": 2.0}, facts(agreement))
    assert first[96 + 4 * agreement.id_entries :][:4] == b"\0\0\0\x40"
    if agreement.id_entries:
        assert changed(frame, {"ids[1]": -1}, facts(agreement))[100:104] == b"\xff" * 4


def test_bodies_grow_and_shrink_with_their_length():
    frame = encode(reset(SPARSE), SPARSE, 0)
    assert code_of(changed(frame, {}, facts(), grow=bytes(4)), SPARSE) is RejectCode.PREFIX_COUNT_MISMATCH
    assert code_of(changed(frame, {}, facts(), grow=bytes(2)), SPARSE) is RejectCode.WRONG_BODY_LENGTH
    assert code_of(changed(frame, {}, facts(), shrink=4), SPARSE) is RejectCode.PREFIX_COUNT_MISMATCH


@given(number=st.integers(0, 2**64 - 1))
def test_another_number_leaves_the_rest_as_it_was(number):
    frame = encode(commit(SPARSE), SPARSE, 0)
    out = numbered(frame, number)
    assert out == sealed(out)
    assert out[:8] + frame[8:16] + out[16:56] == frame[:56]
    assert out[64:] == frame[64:]
    assert header_of(out)["sequence"] == number


@given(old=st.integers(0, 2**32 - 1), more=st.integers(-(2**33), 2**33))
def test_sums_wrap_as_the_field_does(old, more):
    frame = changed(encode(step(SPARSE), SPARSE, 0), {"header.round": old}, facts())
    assert header_of(changed(frame, {"header.round": plus(more)}, facts()))["round"] == (old + more) % 2**32


def test_what_is_read_of_a_frame_needs_not_be_legal():
    frame = encode(reset(SPARSE), SPARSE, 0)
    assert identity_of(frame) == (7, 3, 0)
    assert ids_of(changed(frame, {"prefix_ids[1]": -5}, facts())).tolist() == [1, -5, 5]
    assert ids_of(encode(commit(SPARSE), SPARSE, 0)).tolist() == [2, 4]


def test_fields_that_are_not_there_are_told():
    frame = encode(step(SPARSE), SPARSE, 0)
    with pytest.raises(AttackError, match="no field 'depht'; there are position, depth"):
        changed(frame, {"depht": 1}, facts())
    with pytest.raises(AttackError, match="no sum"):
        changed(frame, {"prefix_digest": plus(1)}, facts())
    with pytest.raises(AttackError, match="no agreement yet"):
        _ = Facts(hello(), None).agreed
