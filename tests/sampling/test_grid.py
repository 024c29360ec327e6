"""p on the grid: rounding, bounds, and what is the target's own error."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import GRID, SamplingError, TargetRefused, logit_grid, oracle, probability_grid

LAW = st.lists(st.integers(0, 10**6), min_size=1, max_size=30).filter(any).map(lambda w: np.array(w) / sum(w))


@given(LAW)
def test_probabilities_round_half_to_even_on_the_grid(p):
    grid = probability_grid(p)
    assert grid.tolist() == [round(Fraction(float(x)) * GRID) for x in p]
    assert oracle.probability_law(list(p)) == tuple(Fraction(int(g), int(grid.sum())) for g in grid)


def test_ties_of_the_grid_go_to_even():
    half = 2.0**-39
    p = np.array([half, 3 * half, 1 - 4 * half, 0.0, -0.0])
    assert probability_grid(p).tolist() == [0, 2, GRID - 2, 0, 0]


@given(st.lists(st.floats(-40, 40, width=32) | st.just(-math.inf), min_size=1, max_size=30))
def test_logits_on_the_grid_equal_the_oracle(logits):
    if all(x == -math.inf for x in logits):
        return
    grid = logit_grid(np.array(logits, np.float32))
    assert tuple(Fraction(int(g), int(grid.sum())) for g in grid) == oracle.logit_law(logits)
    assert abs(int(grid.sum()) - GRID) <= len(logits)


def test_exact_law_is_within_the_documented_distance_of_softmax():
    """Total variation below V·2^-38: half of it from the weights, half from the grid."""
    logits = np.random.default_rng(5).normal(scale=3, size=20_000).astype(np.float32)
    exact = np.exp(logits.astype(np.longdouble) - np.longdouble(logits.max()))
    exact /= exact.sum()
    grid = logit_grid(logits)
    distance = float(np.abs(grid / np.longdouble(grid.sum()) - exact).sum() / 2)
    assert 0 < distance < 20_000 * 2.0**-38


def test_float32_probabilities_are_widened_exactly():
    p = np.array([[0.1, 0.9], [0.25, 0.75]], np.float32)
    assert probability_grid(p).tolist() == [[round(Fraction(float(x)) * GRID) for x in row] for row in p]


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, math.nan], r"p\[1\]: expected 0 <= value < 2, got nan"),
        ([[0.5, 0.5], [1.1, -0.1]], r"p\[1, 1\]: expected 0 <= value < 2, got -0.1"),
        ([-5e-324, 1.0], r"p\[0\]"),
        ([2.0, 0.0], r"p\[0\]"),
        ([math.inf, 0.0], r"p\[0\]"),
        ([0.0, 0.0], "p: expected a sum of one within 2\\^-10, got 0"),
        ([[0.5, 0.5], [0.5, 0.49]], r"p\[1\]: expected a sum of one"),
        ([1.5, 0.6], "expected a sum of one"),
        (0.5, "expected a last axis"),
        ([], "expected a last axis"),
    ],
)
def test_refused_probabilities(p, message):
    with pytest.raises(TargetRefused, match=message):
        probability_grid(np.array(p))


def test_tolerance_is_reached_exactly():
    """One grid unit below and above |U − 2^38| = 2^28."""
    for sign in (1, -1):
        edge = 0.5 + sign * 2.0**-10
        assert int(probability_grid(np.array([0.5, edge])).sum()) == GRID + sign * 2**28
        with pytest.raises(TargetRefused, match="sum of one"):
            probability_grid(np.array([0.5, edge + sign * 2.0**-38]))


@pytest.mark.parametrize("dtype", [np.float16, np.int64, object])
def test_refused_dtypes(dtype):
    with pytest.raises(TargetRefused, match="expected float64 or float32"):
        probability_grid(np.ones(1, dtype))


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([[0.0, 1.0], [math.nan, 0.0]], r"logits\[1\]: NaN at id 0"),
        ([0.0, math.inf], r"logits: \+inf at id 1"),
        ([-math.inf], "no finite logit"),
        (0.0, "expected a last axis"),
        ([], "expected shape"),
    ],
)
def test_refused_target_logits(logits, message):
    with pytest.raises(TargetRefused, match=message):
        logit_grid(np.array(logits, np.float32))


def test_empty_batches_are_harmless():
    assert probability_grid(np.zeros((0, 3))).shape == (0, 3)
    assert issubclass(TargetRefused, SamplingError)
