"""The digest of an id map."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.net import NetError, id_map_sha256

MAPS = st.lists(st.binary(max_size=6), max_size=6)


def test_the_digest_is_over_length_and_bytes_of_each_token():
    stream = b"\x02\0\0\0ab" + b"\0\0\0\0" + b"\x01\0\0\0c"
    assert id_map_sha256([b"ab", b"", b"c"]) == hashlib.sha256(stream).digest()
    assert id_map_sha256(iter([b"ab", b"", b"c"])) == id_map_sha256((b"ab", b"", b"c"))
    assert id_map_sha256([]) == hashlib.sha256().digest()


@given(MAPS, MAPS)
def test_maps_have_one_digest_only_if_they_are_equal(one, other):
    assert (id_map_sha256(one) == id_map_sha256(other)) == (one == other)


@pytest.mark.parametrize("token", ["c", 3, None, bytearray(b"c")])
def test_a_token_that_is_not_bytes_is_named(token):
    with pytest.raises(NetError, match=rf"id map: id 1: expected bytes, got {type(token).__name__}"):
        id_map_sha256([b"a", token])
