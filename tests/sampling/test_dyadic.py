"""Counts of real rows bit for bit, supports, ties, refusals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import (
    GRID,
    MASS,
    SamplingError,
    counts_from_weights,
    dense_row,
    dyadic_counts,
    dyadic_counts_dense,
    oracle,
)

GOLDEN = Path(__file__).parent.parent / "data" / "sampling_golden.npz"
LOGIT = st.floats(-40, 40, width=32) | st.just(-math.inf) | st.sampled_from([0.0, -0.0, 1.0])
ROW = st.lists(LOGIT, min_size=1, max_size=30).filter(lambda row: any(math.isfinite(x) for x in row))
TOP_K = st.none() | st.integers(1, 35)


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as data:
        return dict(data)


@pytest.mark.parametrize(("temperature", "name"), [(0.6, "T06"), (0.8, "T08"), (1.0, "T10")])
@pytest.mark.parametrize("top_k", [None, 32])
def test_golden_counts_of_a_real_model_bit_for_bit(golden, temperature, name, top_k):
    prefix = f"{name}_{'full' if top_k is None else 'k32'}"
    edges = golden[f"{prefix}_indptr"]
    for i, row in enumerate(golden["logits"]):
        ids, counts = dyadic_counts(row, temperature, top_k)
        assert np.array_equal(ids, golden[f"{prefix}_ids"][edges[i] : edges[i + 1]])
        assert np.array_equal(counts, golden[f"{prefix}_counts"][edges[i] : edges[i + 1]])
        assert ids.dtype == counts.dtype == np.int32
        if top_k is None:
            assert np.array_equal(dyadic_counts_dense(row, temperature), dense_row((ids, counts), row.size))


@given(ROW, st.floats(0.05, 10), TOP_K)
def test_counts_equal_the_oracle(logits, temperature, top_k):
    ids, counts = dyadic_counts(np.array(logits, np.float32), temperature, top_k)
    exact = [float(np.float32(x)) for x in logits]
    assert tuple(dense_row((ids, counts), len(logits))) == oracle.dyadic_counts(exact, temperature, top_k)
    assert int(counts.sum()) == MASS
    assert counts.min() > 0
    assert np.all(np.diff(ids) > 0)


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, -math.inf]), min_size=1, max_size=2000), st.integers(1, 40))
def test_ties_exactly_k_lowest_ids(logits, k):
    """Few distinct values, so that the k-th one repeats; long rows take the lane shortcut."""
    row = np.array(logits, np.float32)
    finite = np.flatnonzero(row > -np.inf)
    if not finite.size:
        return
    order = sorted(finite, key=lambda i: (-row[i], i))[:k]
    assert dyadic_counts(row, 1.0, k)[0].tolist() == sorted(order)


@pytest.mark.parametrize("k", [1, 2, 31, 32, 33, 500])
def test_ties_over_a_whole_vocabulary(k):
    for row in (np.zeros(20_000, np.float32), np.arange(20_000, dtype=np.float32) % 5):
        order = np.lexsort((np.arange(row.size), -row))[:k]
        assert np.array_equal(dyadic_counts(row, 50.0, k)[0], np.sort(order))


def test_support_smaller_than_k_is_what_is_finite():
    row = np.full(5000, -np.inf, np.float32)
    row[[7, 4000]] = [1.0, 1.0]
    assert dyadic_counts(row, 1.0, 32)[0].tolist() == [7, 4000]
    assert dyadic_counts(row, 1.0, 5000)[0].tolist() == [7, 4000]
    assert dyadic_counts(row, 1.0, 10**6)[0].tolist() == [7, 4000]


def test_top_k_is_normalised_within_the_support():
    row = np.log(np.array([1, 2, 4, 1], np.float32))
    ids, counts = dyadic_counts(row, 1.0, 2)
    assert ids.tolist() == [1, 2]
    assert abs(counts[1] - 2 * MASS / 3) < 2


def test_minus_zero_is_zero():
    a, b = (
        dyadic_counts(np.array([-0.0, 0.0, -0.0], np.float32), 1.0, 2),
        dyadic_counts(np.zeros(3, np.float32), 1.0, 2),
    )
    assert [x.tolist() for x in a] == [x.tolist() for x in b] == [[0, 1], [MASS // 2] * 2]


@pytest.mark.parametrize("temperature", [5e-324, 1e-39, 1.0, 1.7e308])
def test_extreme_temperatures_and_logits(temperature):
    top = np.float32(3.4e38)
    ids, counts = dyadic_counts(np.array([-top, top, 0.0], np.float32), temperature)
    if temperature < 1e38:
        assert (ids.tolist(), counts.tolist()) == ([1], [MASS])
    else:
        assert counts.tolist() == [MASS // 3 + 1, MASS // 3, MASS // 3]


def test_one_token_vocabulary_and_k_of_one():
    assert [x.tolist() for x in dyadic_counts(np.array([-5.0], np.float32), 0.6)] == [[0], [MASS]]
    assert [x.tolist() for x in dyadic_counts(np.array([1.0, 3.0, 3.0], np.float32), 0.6, 1)] == [[1], [MASS]]


def test_subnormal_logits_at_a_subnormal_temperature():
    """What flush-to-zero would break: exp(−6) between the two."""
    row = np.array([3e-39, -3e-39], np.float32)
    exact = [float(x) for x in row]
    assert tuple(dyadic_counts(row, 1e-39)[1]) == oracle.dyadic_counts(exact, 1e-39)
    assert dyadic_counts(row, 1e-39)[1][1] == pytest.approx(MASS / (1 + math.exp(6)), rel=1e-3)


@pytest.mark.parametrize(
    ("row", "temperature", "top_k", "message"),
    [
        ([0.0, math.nan], 1.0, None, "NaN at id 1"),
        ([0.0, math.nan], 1.0, 1, "NaN at id 1"),
        ([0.0, math.inf], 1.0, 1, r"\+inf at id 1"),
        ([-math.inf], 1.0, None, "no finite logit"),
        ([0.0], 0.0, None, "temperature"),
        ([0.0], -1.0, None, "temperature"),
        ([0.0], math.nan, None, "temperature"),
        ([0.0], 1.0, 0, "top_k: expected an integer >= 1 or None, got 0"),
        ([0.0], 1.0, -3, "top_k"),
        ([0.0], 1.0, 1.5, "top_k: .* got float"),
    ],
)
def test_refused_rows(row, temperature, top_k, message):
    with pytest.raises(SamplingError, match=message):
        dyadic_counts(np.array(row, np.float32), temperature, top_k)
    if top_k is None:
        with pytest.raises(SamplingError, match=message):
            dyadic_counts_dense(np.array(row, np.float32), temperature)


@pytest.mark.parametrize("backend", ["cupy", "NumPy", "", None])
def test_refused_backend_names_those_that_exist(backend):
    row = np.zeros(2, np.float32)
    for call in (
        lambda: dyadic_counts(row, 1.0, backend=backend),
        lambda: dyadic_counts_dense(row, 1.0, backend=backend),
        lambda: counts_from_weights(np.array([1.0]), backend=backend),
    ):
        with pytest.raises(SamplingError, match="backend: expected one of numpy, torch, triton, got"):
            call()


def laws(size):
    return st.lists(st.integers(0, 1000), min_size=size, max_size=size).filter(any)


@given(st.integers(1, 12).flatmap(laws), TOP_K)
def test_given_weights_equal_the_oracle(parts, top_k):
    weights = np.array(parts, np.float64) / sum(parts)
    row = counts_from_weights(weights, top_k)
    grid = [round(float(w) * GRID) for w in weights]
    order = sorted((i for i in range(len(parts)) if parts[i]), key=lambda i: (-weights[i], i))[:top_k]
    grid = [w if i in order else 0 for i, w in enumerate(grid)]
    assert tuple(dense_row(row, len(parts))) == oracle.allocate(grid)


def test_given_weights_in_fp32():
    ids, counts = counts_from_weights(np.array([0.5, 0.0, 0.25, 0.25], np.float32))
    assert ids.tolist() == [0, 2, 3]
    assert counts.tolist() == [MASS // 2, MASS // 4, MASS // 4]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, math.nan], "expected 0 <= value < 2, got nan"),
        ([1.5, -0.5], "expected 0 <= value < 2, got -0.5"),
        ([0.0, 0.0], "expected a sum of one within"),
        ([0.5, 0.4], "expected a sum of one within"),
        ([math.inf, 0.0], "expected 0 <= value < 2, got inf"),
        ([2.0, 0.0], "expected 0 <= value < 2, got 2.0"),
        ([[0.5, 0.5]], r"expected shape \[V\]"),
    ],
)
def test_refused_weights(weights, message):
    with pytest.raises(SamplingError, match=message):
        counts_from_weights(np.array(weights))


def test_dense_row_refuses_ids_outside_the_vocabulary():
    with pytest.raises(SamplingError, match="expected 0 <= id < 3"):
        dense_row((np.array([0, 3], np.int32), np.array([1, 1], np.int32)), 3)
