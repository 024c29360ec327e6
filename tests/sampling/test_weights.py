"""The project's own exponential and the integer weights made with it."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import SamplingError, oracle, weights
from pp1wire.sampling.weights import GRID, check_temperature, integer_weights, logit_row

LOGIT = st.floats(-60, 60, width=32)
TEMPERATURE = st.floats(0.05, 20)


def plain_weights(row, temperature=1.0):
    row = np.asarray(row, np.float32)
    places, u = integer_weights(*logit_row(row), temperature)
    if places is None:
        return u
    full = np.zeros(row.size, np.int64)
    full[places] = u
    return full


def test_constants_are_those_of_the_semantic():
    assert weights.LOG2_E == math.log2(math.e) == float.fromhex("0x1.71547652b82fep+0")
    assert float.fromhex("0x1.62e42fee00000p-1") == weights.LN2_HIGH
    assert float.fromhex("0x1.a39ef35793c76p-33") == weights.LN2_LOW
    assert weights.LOWEST == -30.0
    assert [Fraction(c) for c in weights.COEFFICIENTS] == [
        Fraction(float(Fraction(1, math.factorial(n)))) for n in range(13, -1, -1)
    ]


@given(st.lists(LOGIT, min_size=1, max_size=40), TEMPERATURE)
def test_weights_equal_the_oracle_bit_for_bit(logits, temperature):
    largest = max(logits)
    expected = [oracle.grid_exp((float(np.float32(x)) - largest) / temperature) for x in logits]
    assert plain_weights(logits, temperature).tolist() == expected


@given(st.floats(-30, 0))
def test_exponential_is_within_one_grid_unit_of_the_true_one(d):
    getcontext().prec = 50
    true = Decimal(d).exp() * 2**38
    # 1.2 ulp of a value below 2^38 is below 2^-13 of a grid unit; the rounding itself is half a unit.
    assert abs(Decimal(oracle.grid_exp(d)) - true) <= Decimal("0.5002")


def test_ends_of_the_exponential():
    assert oracle.grid_exp(0.0) == oracle.grid_exp(-0.0) == GRID
    assert oracle.grid_exp(-30.0) == oracle.grid_exp(-1e300) == oracle.grid_exp(-math.inf) == 0
    assert plain_weights([0.0, -27.0, -27.1, -29.0, -3e38, -np.inf]).tolist() == [GRID, 1, 0, 0, 0, 0]


def test_blocks_do_not_change_a_weight(monkeypatch):
    row = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    expected = plain_weights(row, 0.7)
    monkeypatch.setattr(weights, "_BLOCK", 7)
    assert np.array_equal(plain_weights(row, 0.7), expected)


@given(
    st.lists(st.floats(width=32, allow_nan=False).filter(lambda x: x != math.inf), min_size=1, max_size=30),
    st.floats(5e-324, 1.7e308),
)
def test_weightless_tokens_left_out_would_have_had_weight_zero(logits, temperature):
    """Any finite logits, any temperature from the smallest subnormal on: the shortcut changes nothing."""
    row = np.array(logits, np.float32)
    if not np.isfinite(row).any():
        return
    checked, largest = logit_row(row)
    with np.errstate(all="ignore"):
        full = weights._grid_exp(checked, largest, temperature)
    assert np.array_equal(plain_weights(row, temperature), full)


def test_shortcut_is_taken_when_most_tokens_are_weightless():
    row = np.full(1000, -1000.0, np.float32)
    row[[3, 500]] = 0.0
    places, u = integer_weights(*logit_row(row), 1.0)
    assert places.tolist() == [3, 500]
    assert u.tolist() == [GRID, GRID]


def test_callers_numpy_error_state_does_not_matter():
    with np.errstate(all="raise"):
        assert plain_weights([3e38, -3e38, -np.inf], 5e-324).tolist() == [GRID, 0, 0]


@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1.0, math.inf, -math.inf, math.nan, 10**400, "warm", None])
def test_refused_temperature(value):
    with pytest.raises(SamplingError, match="temperature: expected a finite number > 0"):
        check_temperature(value)


@pytest.mark.parametrize("value", [5e-324, 1.7e308, 1, np.float32(0.5), Fraction(1, 3)])
def test_temperature_is_taken_as_a_double(value):
    assert check_temperature(value) == float(value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.0, np.nan], "NaN at id 1"),
        ([-np.inf, np.nan], "NaN at id 1"),
        ([np.inf, np.nan], "NaN at id 1"),
        ([0.0, 1.0, np.inf], r"\+inf at id 2"),
        ([-np.inf, -np.inf], "no finite logit among 2"),
        ([], r"expected shape \[V\]"),
        ([[0.0]], r"expected shape \[V\]"),
    ],
)
def test_refused_logits(row, message):
    with pytest.raises(SamplingError, match=message):
        logit_row(np.array(row, np.float32))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, bool, complex])
def test_refused_dtypes_would_round_or_reinterpret(dtype):
    with pytest.raises(SamplingError, match="expected float32"):
        logit_row(np.ones(3, dtype))


@given(st.lists(st.floats(-100, 100, width=16), min_size=1, max_size=20))
def test_half_precision_logits_widen_exactly(logits):
    half = np.array(logits, np.float16)
    assert np.array_equal(logit_row(half)[0].astype(np.float64), half.astype(np.float64))
