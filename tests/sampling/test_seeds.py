"""Seeds and keys: fixed derivations, and ranges that never wrap."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import Key, SamplingError, choice_root, proposal_seed, verification_seed

U64 = st.integers(0, 2**64 - 1)


def blake(message: bytes, person: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(message, digest_size=8, person=person).digest(), "little")


@given(U64, U64)
def test_derivations_are_the_documented_byte_strings(root, index):
    message = root.to_bytes(8, "little")
    assert proposal_seed(root) == blake(message, b"pp1-v1 proposal")
    assert verification_seed(root) == blake(message, b"pp1-v1 verify")
    assert choice_root(root, index) == blake(message + index.to_bytes(8, "little"), b"")


def test_derivations_never_change():
    """Frozen: a capture made today must be recomputable by every later version."""
    assert proposal_seed(0) == 0x81223FFB4278DDDC
    assert verification_seed(0) == 0xF0D8EDB752F742D0
    assert choice_root(0, 1) == 0x70A94C03EEAA82EB


def test_domains_of_the_two_owners_do_not_meet():
    roots = range(500)
    seeds = (
        {proposal_seed(r) for r in roots} | {verification_seed(r) for r in roots} | {choice_root(r, 0) for r in roots}
    )
    assert len(seeds) == 1500


@pytest.mark.parametrize(
    "derive", [proposal_seed, verification_seed, lambda r: choice_root(r, 0), lambda r: choice_root(0, r)]
)
@pytest.mark.parametrize("value", [-1, 2**64, 0.5, "1"])
def test_refused_roots(derive, value):
    with pytest.raises(SamplingError, match="expected"):
        derive(value)


def test_key_is_frozen_hashable_and_takes_numpy_integers():
    key = Key(np.uint64(2**64 - 1), np.int32(1), np.int64(2), 3)
    assert key == Key(2**64 - 1, 1, 2, 3)
    assert all(type(part) is int for part in dataclasses.astuple(key))
    assert len({key, Key(2**64 - 1, 1, 2, 3)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        key.round = 5


@pytest.mark.parametrize("field", ["seed", "generation", "round", "position"])
def test_key_refuses_what_would_wrap(field):
    parts = {"seed": 1, "generation": 1, "round": 1, "position": 1}
    limit = 2**64 if field == "seed" else 2**32
    assert getattr(Key(**(parts | {field: limit - 1})), field) == limit - 1
    for value in (limit, -1):
        with pytest.raises(SamplingError, match=field):
            Key(**(parts | {field: value}))


def test_key_span_ends_below_two_to_the_32():
    Key(1, 1, 1, 2**32 - 6).span(5)
    with pytest.raises(SamplingError, match=r"position \+ depth < 2\^32"):
        Key(1, 1, 1, 2**32 - 5).span(5)
