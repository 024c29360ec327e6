"""Agreements and their arithmetic; [caps reached] every named limit one below, at and one above."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import (
    Agreement,
    MessageType,
    RejectCode,
    RemoteProtocolError,
    Representation,
    agreement_id,
    decode,
    encode,
)
from pp1wire.wire._schema_v2 import MAX_DEPTH, MAX_PREFIX, MAX_SLOTS, MAX_VOCAB
from tests.wire.frames import DENSE, EVERY_KIND, SPARSE, changed, completion, frame_of, hello
from tests.wire.strategies import agreements

LIMITS = {
    "id": (0, 2**64 - 1), "vocab_size": (1, MAX_VOCAB), "padded_vocab_size": (1, MAX_VOCAB), "max_slots": (1, MAX_SLOTS),
    "max_depth": (1, MAX_DEPTH), "max_support": (1, MAX_VOCAB), "max_prefix": (1, MAX_PREFIX),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_caps_reached_in_an_agreement(name: str) -> None:
    smallest, largest = LIMITS[name]
    base = replace(SPARSE, vocab_size=1) if name == "padded_vocab_size" else SPARSE
    pair = {"padded_vocab_size": MAX_VOCAB} if name == "vocab_size" else {}
    for good in (smallest, smallest + 1, largest - 1, largest):
        assert getattr(replace(base, **pair | {name: good}), name) == good
    for bad in (smallest - 1, largest + 1, -1, 2**200, 10**5000, 1.0, "1", None):
        with pytest.raises(LocalProtocolError, match=name):
            replace(base, **{name: bad})


def test_an_agreement_is_of_one_representation_and_pads_upwards() -> None:
    for bad in (1, 2, "sparse", None):
        with pytest.raises(LocalProtocolError, match="representation"):
            replace(SPARSE, representation=bad)
    with pytest.raises(LocalProtocolError, match="padded_vocab_size"):
        replace(SPARSE, padded_vocab_size=10)
    assert replace(SPARSE, padded_vocab_size=11).padded_vocab_size == 11


HELLO_LIMITS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "representations": (1, 3, {}), "max_slots": (1, MAX_SLOTS, {}),
    "vocab_size": (1, MAX_VOCAB, {"padded_vocab_size": MAX_VOCAB}),
    "padded_vocab_size": (1, MAX_VOCAB, {"vocab_size": 1}), "max_support": (1, MAX_VOCAB, {}), "max_prefix": (1, MAX_PREFIX, {}),
    "max_depth": (1, MAX_DEPTH, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", HELLO_LIMITS)
def test_caps_reached_in_a_hello(name: str) -> None:
    smallest, largest, others = HELLO_LIMITS[name]
    for good in {smallest, smallest + 1, largest - 1, largest}:
        message = hello(**others | {name: good})
        assert decode(encode(message, None, 0), None) == message
    frame = frame_of(hello(**others), None)
    for bad in (smallest - 1, largest + 1):
        with pytest.raises(RemoteProtocolError) as caught:
            decode(changed(frame, None, **{f"hello__{name}": bad}), None)
        assert (caught.value.code, caught.value.path) == (RejectCode.VALUE_OUT_OF_BOUNDS, f"hello.{name}")


def test_caps_reached_for_slots_and_rows() -> None:
    for slots in range(1, MAX_SLOTS + 1):
        agreement = replace(SPARSE, max_slots=slots)
        for slot in range(slots):
            message = completion(agreement, slot=slot, rows=MAX_DEPTH)
            assert decode(encode(message, agreement, 0), agreement) == message
        data = changed(frame_of(completion(agreement, slot=0), agreement), agreement, header__slot=slots)
        with pytest.raises(RemoteProtocolError) as caught:
            decode(data, agreement)
        assert caught.value.code is RejectCode.HEADER_OUT_OF_BOUNDS


def test_agreement_id_is_over_both_bodies_in_order() -> None:
    offer, answer = encode(hello(), None, 0)[64:], encode(hello(role=2), None, 0)[64:]
    expected = int.from_bytes(hashlib.blake2b(offer + answer, digest_size=8).digest(), "little")
    assert agreement_id(offer, answer) == expected
    assert agreement_id(answer, offer) != expected


def test_agreement_id_changes_with_every_bit_of_either_body() -> None:
    offer, answer = encode(hello(), None, 0)[64:], encode(hello(role=2), None, 0)[64:]
    seen = {agreement_id(offer, answer)}
    for bit in range(8 * len(offer)):
        other = bytearray(offer)
        other[bit // 8] ^= 1 << bit % 8
        seen |= {agreement_id(bytes(other), answer), agreement_id(offer, bytes(other))}
    assert len(seen) == 1 + 2 * 8 * len(offer)


@given(agreements())
def test_sizes_are_those_of_real_frames(agreement: Agreement) -> None:
    sparse = agreement.representation is Representation.SPARSE
    columns = 2 * agreement.max_support if sparse else agreement.padded_vocab_size
    assert agreement.payload_bytes == 4 * columns == 4 * (agreement.id_entries + agreement.q_entries)
    assert agreement.reply_frame_bytes == 96 + agreement.payload_bytes
    assert agreement.longest_body == max(32 + agreement.payload_bytes, 32 + 4 * agreement.max_prefix, 72)


def test_sizes_of_fixed_bodies() -> None:
    sizes = {"STEP": 48, "COMPLETION": 40, "COMMIT": 72}
    for agreement in (SPARSE, DENSE):
        for name, size in sizes.items():
            assert agreement.body_bytes(MessageType[name]) == (size, size, 1)
        assert agreement.body_bytes(MessageType.RESET) == (32, 32 + 4 * agreement.max_prefix, 4)
        assert agreement.body_bytes(MessageType.REPLY) == (64, 64, 1)
    assert len(EVERY_KIND) == 11
