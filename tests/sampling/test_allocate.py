"""Largest remainders on exact integers against fractions."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import MASS, AllocationError, oracle

# By name: the package exports no function of this module.
allocate_module = importlib.import_module("pp1wire.sampling.allocate")


def counts(weights):
    return allocate_module.allocate(np.array(weights, np.int64)).tolist()


WEIGHT = st.integers(0, 2**38) | st.integers(0, 3) | st.sampled_from([1, 2**24, 2**38 - 1, 2**38])


@given(st.lists(WEIGHT, min_size=1, max_size=60).filter(any))
def test_allocation_equals_the_oracle(weights):
    assert tuple(counts(weights)) == oracle.allocate(weights)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=300))
def test_ties_go_to_the_lowest_index(weights):
    """Small integers make many equal remainders: floating point shares break these ties wrongly."""
    result = counts(weights)
    assert tuple(result) == oracle.allocate(weights)
    for weight in set(weights):
        same = [c for c, w in zip(result, weights, strict=True) if w == weight]
        assert same == sorted(same, reverse=True)


def test_equal_weights_of_a_whole_vocabulary():
    result = np.array(counts([2**38] * 129_280))
    assert np.array_equal(np.flatnonzero(result == 130), np.arange(100_096))
    assert np.array_equal(np.flatnonzero(result == 129), np.arange(100_096, 129_280))


def test_blocks_do_not_change_a_count(monkeypatch):
    weights = np.random.default_rng(3).integers(0, 2**38, 3000)
    expected = counts(weights)
    assert tuple(expected) == oracle.allocate([int(w) for w in weights])
    monkeypatch.setattr(allocate_module, "_BLOCK", 11)
    assert counts(weights) == expected


def test_zero_weights_never_get_a_ticket():
    assert counts([0, 1, 0, 2, 0]) == [0, MASS // 3, 0, MASS - MASS // 3, 0]
    assert counts([0, 7, 0]) == [0, MASS, 0]


def test_total_of_zero_is_refused():
    with pytest.raises(AllocationError, match="positive total, got 0"):
        counts([0, 0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c, r: c.__iadd__(2**24), "floors: expected"),
        (lambda c, r: c.__isub__(2**24), "floors: expected"),
        (lambda c, r: c.__isub__(9), "remainders: expected more than 28 positive ones, got 3"),
        (lambda c, r: c.__isub__([2, 0, 0]), "remainders: expected more than 3 positive ones, got 3"),
    ],
)
def test_inconsistent_allocation_raises_and_repairs_nothing(spoil, message, monkeypatch):
    real = allocate_module._divide

    def broken(weights, result, total, shift):
        answer = real(weights, result, total, shift)
        spoil(result, weights)
        return answer

    monkeypatch.setattr(allocate_module, "_divide", broken)
    with pytest.raises(AllocationError, match=message):
        counts([3, 5, 7])


def test_wrong_sum_after_handing_out_raises(monkeypatch):
    monkeypatch.setattr(allocate_module, "_hand_out", lambda *a: None)
    with pytest.raises(AllocationError, match=r"counts: expected a sum of 2\^24"):
        counts([3, 5, 7])
