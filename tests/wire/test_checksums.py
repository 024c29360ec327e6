"""Checksums against xxhash used plainly, and a row that cannot be moved."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.wire import (
    PrefixDigest,
    RejectCode,
    RemoteProtocolError,
    decode,
    decode_replies,
    prefix_digest,
    rows_checksum,
)
from pp1wire.wire.checksums import body_checksum, header_checksum
from tests.wire.frames import DENSE, SPARSE, frame_of, header_resealed, reply

ids = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40)


def test_published_digests() -> None:
    assert prefix_digest([]).hex() == "99aa06d3014798d86001c324468d497f"
    assert prefix_digest([0]).hex() == "2a33816ed7e0c373dbe563c737220b65"
    assert prefix_digest([1, 2, 3]).hex() == "a76f94d1118f3bcfe6d1006dda205ce7"


@given(ids, st.integers(0, 40))
def test_prefix_digest_is_the_same_however_it_grows(tokens: list[int], cut: int) -> None:
    whole = xxhash.xxh3_128_digest(struct.pack(f"<{len(tokens)}i", *tokens))
    assert prefix_digest(tokens) == whole
    assert prefix_digest(np.array(tokens, np.int64)) == whole
    assert prefix_digest(np.repeat(np.array(tokens, np.int32), 2)[::2]) == whole
    grown = PrefixDigest(tokens[:cut])
    fork = grown.copy()
    grown.extend(tokens[cut:])
    assert (grown.digest(), grown.length) == (whole, len(tokens))
    assert (fork.digest(), fork.length) == (prefix_digest(tokens[:cut]), len(tokens[:cut]))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_rows_checksum(sums: list[int]) -> None:
    expected = xxhash.xxh3_128_digest(struct.pack(f"<{len(sums)}Q", *sums))
    assert rows_checksum(sums) == rows_checksum(iter(sums)) == rows_checksum(np.array(sums, np.uint64)) == expected


def test_checksums_of_a_frame() -> None:
    for agreement in (SPARSE, DENSE):
        frame = bytes(frame_of(reply(agreement), agreement))
        assert header_checksum(frame) == xxhash.xxh3_64_intdigest(frame[:56]) == int.from_bytes(frame[56:64], "little")
        seed = xxhash.xxh3_64_intdigest(frame[16:48])
        assert body_checksum(frame) == xxhash.xxh3_64_intdigest(frame[64:], seed=seed)
        assert body_checksum(frame) == int.from_bytes(frame[48:56], "little")
        assert decode_replies(frame, agreement).row_checksums.tolist() == [body_checksum(frame)]


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_a_body_moved_to_another_identity_fails_its_checksum(agreement: object) -> None:
    """[rows stay paired] Whole bytes, a header made right for the new place: still refused, for every identity field."""
    good = frame_of(reply(agreement), agreement)
    moves = {"slot": (20, 2, 1), "session": (32, 8, 8), "generation": (40, 4, 4), "round": (44, 4, 6)}
    for at, size, value in moves.values():
        moved = bytearray(good)
        moved[at : at + size] = value.to_bytes(size, "little")
        for read in (decode, decode_replies):
            with pytest.raises(RemoteProtocolError) as caught:
                read(header_resealed(bytes(moved)), agreement)
            assert (caught.value.code, caught.value.offset) == (RejectCode.BODY_CHECKSUM_MISMATCH, 48)
