"""numpy = torch = Triton, bit for bit: counts and tokens of fuzzed, real and full-vocabulary rows, and what is refused."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.sampling import (
    FlushToZeroError,
    Key,
    SamplingError,
    counts_from_weights,
    dyadic_counts,
    dyadic_counts_dense,
    environment,
    proposal_tickets,
    sample,
)
from pp1wire.sampling.allocate import allocate
from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.cuda import torch_math
from pp1wire.sampling.cuda.state import FINE, State
from pp1wire.sampling.cuda.triton_backend import TritonBackend
from pp1wire.sampling.cuda.triton_kernels import dense

from .util import KEY, KINDS, SIZES, assert_row_is, fuzzed, step, supports

GOLDEN = Path(__file__).parent.parent.parent / "data" / "sampling_golden.npz"
BOTH = ("torch", "triton")
V = 129_280


def tickets(n, offset=0):
    return proposal_tickets(KEY.seed, KEY.generation, KEY.round, np.full(n, KEY.position + offset))


@given(st.sampled_from(KINDS), st.sampled_from(SIZES), st.integers(0, 2**32), st.data())
def test_fuzzed_rows_torch_equals_numpy(kind, size, seed, data):
    row, temperature = fuzzed(kind, size, np.random.default_rng(seed))
    top_k = data.draw(st.none() | st.sampled_from(supports(row)))
    out = step("torch", row, [temperature], top_k)
    ids, counts = assert_row_is(out, 0, row, temperature, top_k)
    assert int(out.tokens[0]) == sample(ids, counts, int(tickets(1)[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_fuzzed_rows_triton_equals_numpy_dense(kind):
    """Rows of one block, and rows of several blocks with a rest."""
    rng = np.random.default_rng(sum(kind.encode()))
    for size, block in ((1, None), (70, 32), (300, None), (2049, 1024)):
        rows, temperatures = zip(*(fuzzed(kind, size, rng) for _ in range(2)), strict=True)
        out = step("triton", np.stack(rows), temperatures, block=block)
        for i, (row, temperature) in enumerate(zip(rows, temperatures, strict=True)):
            ids, counts = assert_row_is(out, i, row, temperature, None)
            assert int(out.tokens[i]) == sample(ids, counts, int(tickets(1)[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_fuzzed_rows_triton_equals_numpy_sparse(kind):
    rng = np.random.default_rng(sum(kind.encode()) + 1)
    for size in (1, 65, 2049):
        row, temperature = fuzzed(kind, size, rng)
        for top_k in supports(row):
            out = step("triton", row, [temperature], top_k)
            ids, counts = assert_row_is(out, 0, row, temperature, top_k)
            assert int(out.tokens[0]) == sample(ids, counts, int(tickets(1)[0]))


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(("temperature", "name"), [(0.6, "T06"), (1.0, "T10")])
def test_golden_counts_of_a_real_model_bit_for_bit(backend, temperature, name):
    with np.load(GOLDEN) as golden:
        logits = golden["logits"][:2]
        for kind, top_k in (("full", None), ("k32", 32)):
            edges = golden[f"{name}_{kind}_indptr"]
            out = step(backend, logits, [temperature] * 2, top_k)
            for i in range(2):
                assert_row_is(out, i, logits[i], temperature, top_k)
                used = out.counts[i].numpy()
                assert np.array_equal(used[used > 0], golden[f"{name}_{kind}_counts"][edges[i] : edges[i + 1]])


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [None, 32])
def test_full_vocabulary(backend, top_k):
    row = np.random.default_rng(5).normal(0, 3, V).astype(np.float32)
    row[::7] = -np.inf
    out = step(backend, row, [0.8], top_k)
    ids, counts = assert_row_is(out, 0, row, 0.8, top_k)
    assert int(out.tokens[0]) == sample(ids, counts, int(tickets(1)[0]))


@pytest.mark.parametrize("backend", BOTH)
def test_ties_over_the_full_vocabulary_go_to_the_lowest_ids(backend):
    counts = step(backend, np.zeros(V, np.float32), [1.0]).counts[0].numpy()
    assert np.array_equal(counts[:100_096], np.full(100_096, 130))
    assert np.array_equal(counts[100_096:], np.full(V - 100_096, 129))


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [None, 3])
def test_bias_is_added_once_in_fp32(backend, top_k):
    rng = np.random.default_rng(8)
    rows, bias = rng.normal(0, 3, (2, 40)).astype(np.float32), rng.normal(0, 3, (2, 40)).astype(np.float32)
    out = step(backend, rows, [1.0, 0.7], top_k, bias=bias, offset=4)
    for i, temperature in enumerate((1.0, 0.7)):
        ids, counts = assert_row_is(out, i, rows[i] + bias[i], temperature, top_k)
        assert int(out.tokens[i]) == sample(ids, counts, int(tickets(1, 4)[0]))


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [None, 2])
def test_refused_rows_one_bad_row_leaves_the_others(backend, top_k):
    """Faults are words beside the rows; a faulty row has no counts, and its neighbours are what they are alone."""
    rows = np.random.default_rng(3).normal(0, 1, (5, 70)).astype(np.float32)
    rows[1, [9, 60]] = math.nan
    rows[2, 5] = math.inf
    rows[3] = -math.inf
    out = step(backend, rows, [1.0] * 5, top_k, block=32 if backend == "triton" else None, check=False)
    assert [word == FINE for word in out.faults.tolist()] == [True, False, False, False, True]
    assert not out.counts[1:4].any()
    assert [0 <= token < 70 for token in out.tokens.tolist()] == [True] * 5
    for i in (0, 4):
        assert_row_is(out, i, rows[i], 1.0, top_k)


REFUSED = [
    ([0.0, math.nan, math.nan], 1.0, None),
    ([math.inf, math.nan], 1.0, None),
    ([0.0, math.nan], 1.0, 1),
    ([0.0, math.inf, math.inf], 1.0, 1),
    ([-math.inf] * 3, 1.0, None),
    ([-math.inf] * 3, 1.0, 2),
    ([math.nan], 1.0, 0),
    ([0.0], 0.0, None),
    ([0.0], -1.0, None),
    ([0.0], math.nan, None),
    ([0.0], math.inf, 1),
    ([0.0], "warm", 1),
    ([0.0], 1.0, 0),
    ([0.0], 1.0, 1.5),
    ([], 1.0, None),
    ([[0.0]], 1.0, None),
]


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(("row", "temperature", "top_k"), REFUSED)
def test_refused_rows_with_the_same_error(backend, row, temperature, top_k):
    array = np.array(row, np.float32)
    with pytest.raises(SamplingError) as expected:
        dyadic_counts(array, temperature, top_k)
    with pytest.raises(SamplingError) as actual:
        dyadic_counts(torch.from_numpy(array), temperature, top_k, backend=backend)
    assert (type(actual.value), str(actual.value)) == (type(expected.value), str(expected.value))


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [None, 5, 200])
def test_rows_at_once_equal_one_at_a_time(backend, top_k):
    rows = np.stack([fuzzed(kind, 65, np.random.default_rng(9))[0] for kind in ("plain", "masked", "one-hot")])
    temperatures = (0.5, 1.0, 2.0)
    ids, counts = device_sampler(backend).count_rows(torch.from_numpy(rows), temperatures, top_k)
    for i, row in enumerate(rows):
        want_ids, want_counts = dyadic_counts(row, temperatures[i], top_k)
        places = counts[i].nonzero()[:, 0]
        got_ids = places if ids is None else ids[i][places]
        assert got_ids.tolist() == want_ids.tolist()
        assert counts[i][places].tolist() == want_counts.tolist()
        assert top_k is None or places.tolist() == list(range(want_ids.size))
    rows[1, 3] = math.nan
    with pytest.raises(SamplingError, match=r"^logits\[1\]: NaN at id 3$"):
        device_sampler(backend).count_rows(torch.from_numpy(rows), temperatures, top_k)
    with pytest.raises(SamplingError, match=r"expected \[n, V\] and n temperatures, got \(3, 65\) and 2"):
        device_sampler(backend).count_rows(torch.from_numpy(rows), (1.0, 1.0), top_k)


@pytest.mark.parametrize("backend", BOTH)
def test_refused_dtypes_and_things_that_are_no_tensors(backend):
    with pytest.raises(SamplingError, match=r"expected float32 \(or float16, bfloat16\), got float64"):
        dyadic_counts(torch.zeros(3, dtype=torch.float64), 1.0, backend=backend)
    with pytest.raises(SamplingError, match="expected a tensor, got ndarray"):
        dyadic_counts(np.zeros(3, np.float32), 1.0, backend=backend)


@pytest.mark.parametrize("backend", BOTH)
def test_low_precision_logits_widen_exactly(backend):
    row = np.random.default_rng(2).normal(0, 3, 50).astype(np.float16)
    for tensor in (torch.from_numpy(row), torch.from_numpy(row.astype(np.float32)).bfloat16()):
        ids, counts = dyadic_counts(tensor.float().numpy(), 1.0)
        got = dyadic_counts(tensor, 1.0, backend=backend)
        assert [x.tolist() for x in got] == [ids.tolist(), counts.tolist()]
        assert (
            dyadic_counts_dense(tensor, 1.0, backend=backend).tolist()
            == dyadic_counts_dense(tensor.float().numpy(), 1.0).tolist()
        )


@pytest.mark.parametrize("backend", BOTH)
def test_flush_to_zero_really_set_is_refused(backend):
    row = torch.tensor([3e-39, -3e-39])
    assert torch.set_flush_denormal(True)
    try:
        with pytest.raises(FlushToZeroError, match=f"^{backend}: this thread flushes subnormal numbers to zero"):
            dyadic_counts(row, 1e-39, backend=backend)
    finally:
        torch.set_flush_denormal(False)
    environment.require_subnormals()
    assert dyadic_counts(row, 1e-39, backend=backend)[1].tolist() == dyadic_counts(row.numpy(), 1e-39)[1].tolist()


POOL = """
import numpy as np, torch
from pp1wire.sampling import FlushToZeroError, dyadic_counts, environment
torch.set_num_threads(2)
torch.set_flush_denormal(True)
torch.zeros(1 << 20) + 1
torch.set_flush_denormal(False)
environment.require_subnormals()
tiny = torch.full((1 << 17,), 5e-324, dtype=torch.float64)
print("pool flushes:", int((tiny * 2).view(torch.int64).count_nonzero()) < tiny.numel())
try:
    dyadic_counts(torch.zeros(100_000), 1.0, backend="torch")
except FlushToZeroError as error:
    print(error)
torch.set_num_threads(1)
print(dyadic_counts(torch.zeros(2), 1.0, backend="torch")[1].tolist())
"""


def test_flush_to_zero_that_only_torchs_pool_kept_is_refused():
    """The calling thread is healthy again, but half of every large tensor would be computed by a thread that flushes."""
    child = subprocess.run([sys.executable, "-c", POOL], capture_output=True, text=True, timeout=100, check=True)
    seen, refusal, counts = child.stdout.splitlines()
    assert seen == "pool flushes: True"
    assert refusal.startswith("torch: a thread of torch's pool flushes subnormal numbers to zero")
    assert counts == "[8388608, 8388608]"


@pytest.mark.parametrize("backend", BOTH)
def test_a_vocabulary_of_262144_needs_six_passes(backend):
    row = np.random.default_rng(1).integers(0, 3, 262_144).astype(np.float32) * np.float32(2.0**-20)
    assert_row_is(step(backend, row, [1.0]), 0, row, 1.0, None)


@pytest.mark.parametrize("backend", BOTH)
@settings(max_examples=25)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any), st.none() | st.integers(1, 35))
def test_given_weights_equal_numpy(backend, parts, top_k):
    given = np.array(parts, np.float64) / sum(parts)
    expected = counts_from_weights(given, top_k)
    got = counts_from_weights(torch.from_numpy(given), top_k, backend=backend)
    assert [x.tolist() for x in got] == [x.tolist() for x in expected]


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("given", [[0.5, math.nan], [1.5, -0.5], [0.5, 0.4], [2.0, 0.0], [[0.5, 0.5]]])
def test_refused_weights_with_the_same_error(backend, given):
    with pytest.raises(SamplingError) as expected:
        counts_from_weights(np.array(given))
    with pytest.raises(SamplingError) as actual:
        counts_from_weights(torch.tensor(given, dtype=torch.float64), backend=backend)
    assert (type(actual.value), str(actual.value)) == (type(expected.value), str(expected.value))


@pytest.mark.parametrize("backend", BOTH)
def test_ticket_ends_hit_the_first_and_last_positive_id(backend):
    ids, counts = np.array([2, 5, 9, 11], np.int32), np.array([0, 3, 2**24 - 3, 0], np.int32)
    for ticket in (0, 2, 3, 2**24 - 1):
        expected = sample(ids, counts, ticket)
        assert sample(torch.from_numpy(ids), torch.from_numpy(counts), ticket, backend=backend) == expected
    for bad_ids, bad_counts, ticket in (
        ([1, 1], [2**23, 2**23], 0),
        ([-1, 2], [2**23, 2**23], 0),
        ([0], [5], 0),
        ([0, 1], [-1, 2**24 + 1], 0),
        ([0], [2**24], 2**24),
        ([0.0], [2**24], 1),
        ([0], [float(2**24)], 1),
    ):
        with pytest.raises(SamplingError) as expected:
            sample(np.array(bad_ids), np.array(bad_counts), ticket)
        with pytest.raises(SamplingError) as actual:
            sample(torch.tensor(bad_ids, dtype=torch.float64 if isinstance(bad_ids[0], float) else None),
                   torch.tensor(bad_counts, dtype=torch.float64 if isinstance(bad_counts[0], float) else None),
                   ticket, backend=backend)  # fmt: skip
        assert str(actual.value) == str(expected.value)


def small_weights(rng, size):
    """Weights whose remainders fill their lowest digits evenly, so that every bin of the late passes is in use."""
    return rng.integers(0, 1 << int(rng.integers(1, 23)), size) + (np.arange(size) == 0)


def test_largest_remainders_of_torch_equal_numpy_down_to_the_last_bit():
    rng = np.random.default_rng(0)
    for _ in range(150):
        weights = small_weights(rng, int(rng.integers(1, 4000)))
        got, word = torch_math.allocate(torch.from_numpy(weights[None].copy()), torch.full((1,), FINE), 55)
        assert int(word[0]) == FINE
        assert np.array_equal(got[0].numpy(), allocate(weights))


def test_largest_remainders_of_triton_equal_numpy_down_to_the_last_bit(monkeypatch):
    """The weights are planted where the kernel of the exponential would write them."""
    rng = np.random.default_rng(1)
    launch = TritonBackend._launch
    for _ in range(6):
        weights = small_weights(rng, 3000)

        def plant(self, kernel, grid, *arguments, weights=weights, **constants):
            launch(self, kernel, grid, *arguments, **constants)
            if kernel is dense.weigh:
                arguments[2].copy_(torch.from_numpy(weights[None]))
                arguments[3][0, State.TOTAL] = int(weights.sum())

        monkeypatch.setattr(TritonBackend, "_launch", plant)
        out = step("triton", np.zeros(3000, np.float32), [1.0], block=1024)
        assert np.array_equal(out.counts[0].numpy(), allocate(weights.copy()))


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [None, 500])
def test_ticket_on_the_edge_between_two_tokens_is_the_second_ones(backend, top_k):
    """Positions are searched for tickets that are the first or the last of a token."""
    row = np.zeros(500, np.float32)
    ids, counts = dyadic_counts(row, 1.0, top_k)
    positions = np.arange(200_000)
    many = proposal_tickets(KEY.seed, KEY.generation, KEY.round, positions)
    edges = np.cumsum(counts)
    for wanted in (edges, edges - 1):
        position = int(positions[np.isin(many, wanted)][0])
        out = step(backend, row, [1.0], top_k, keys=[Key(KEY.seed, KEY.generation, KEY.round, position)])
        assert int(out.tokens[0]) == sample(ids, counts, int(many[position]))
