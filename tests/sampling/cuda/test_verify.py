"""Verification on the device: grids, draws and verdicts equal numpy's, and so do the refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.sampling import (
    MASS,
    Key,
    SamplingError,
    VerdictKind,
    below_many,
    dense_row,
    dyadic_counts,
    logit_grid,
    probability_grid,
    sample,
    target_only_token,
    target_only_token_logits,
    verify_batch,
    verify_chain,
    verify_chain_logits,
    words_many,
)
from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.cuda import torch_math
from pp1wire.sampling.cuda.backend import key_tensor, make_backend
from pp1wire.sampling.cuda.state import FINE, Outcome
from pp1wire.sampling.cuda.triton_kernels.arithmetic import below as kernel_below
from pp1wire.sampling.cuda.triton_kernels.arithmetic import philox as kernel_philox

from .util import CPU, KINDS, SIZES, fuzzed

BOTH = ("torch", "triton")
V = 129_280


def tensors(rows):
    return [(None if ids is None else torch.from_numpy(ids), torch.from_numpy(counts)) for ids, counts in rows]


def proposal(rng, vocabulary, depth, noise, top_k=None, dense=False):
    """(target logits, probabilities, q rows, tokens, key): a draft near the target, so that both verdicts happen."""
    logits = rng.normal(0, 2, (depth + 1, vocabulary)).astype(np.float32)
    logits[rng.random(logits.shape) < 0.2] = -np.inf
    logits[:, 0] = 1
    p = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows, tokens = [], []
    for i in range(depth):
        draft = logits[i] + rng.normal(0, noise, vocabulary).astype(np.float32)
        ids, counts = dyadic_counts(draft, 1.0, top_k)
        tokens.append(sample(ids, counts, int(rng.integers(MASS))))
        rows.append((None, dense_row((ids, counts), vocabulary)) if dense else (ids, counts))
    key = Key(int(rng.integers(2**63)) * 2 + 1, *(int(x) for x in rng.integers(1, 2**31, 3)))
    return logits, p, rows, tokens, key


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("shape", ["sparse", "dense", "mixed"])
def test_verdicts_equal_numpy(backend, shape):
    rng = np.random.default_rng(len(shape))
    seen = {"accepted": 0, "correction": 0, "bonus": 0}
    for trial in range(12 if backend == "triton" else 60):
        vocabulary, depth = int(rng.integers(2, 400)), int(rng.integers(1, 6))
        top_k = 12 if shape == "sparse" else None
        logits, p, rows, tokens, key = proposal(rng, vocabulary, depth, 0.4 * (trial % 3), top_k, shape == "dense")
        if shape == "mixed":
            rows[0] = (None, dense_row(rows[0], vocabulary))
        expected = verify_chain(p, rows, tokens, key)
        assert verify_chain(torch.from_numpy(p), tensors(rows), tokens, key, backend=backend) == expected
        if trial % 3 == 0:
            expected = verify_chain_logits(logits, rows, tokens, key)
            got = verify_chain_logits(
                torch.from_numpy(logits), tensors(rows), torch.tensor(tokens), key, backend=backend
            )
            assert got == expected
        seen["accepted"] += expected.accepted
        seen[expected.kind.value] += 1
    assert all(seen.values())


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("sparse", [True, False])
def test_a_batch_of_chains_equals_one_at_a_time(backend, sparse):
    rng = np.random.default_rng(4)
    n, depth, vocabulary = 4, 3, 150
    chains = [proposal(rng, vocabulary, depth, 0.6, 10 if sparse else None, not sparse) for _ in range(n)]
    backend = make_backend(backend, CPU, 64 if backend == "triton" else None)
    p = torch.from_numpy(np.concatenate([chain[1] for chain in chains]))
    grid, totals, faults = backend.probability_target(p)
    ids = torch.zeros((n, depth, 10), dtype=torch.int32)
    counts = torch.zeros((n, depth, 10 if sparse else vocabulary), dtype=torch.int32)
    for i, (_, _, rows, _, _) in enumerate(chains):
        for j, (row_ids, row_counts) in enumerate(rows):
            if sparse:
                ids[i, j, : row_ids.size] = torch.from_numpy(row_ids)
            counts[i, j, : row_counts.size] = torch.from_numpy(row_counts)
    outcome = backend.verify(
        grid.view(n, depth + 1, vocabulary), totals.view(n, -1), faults.view(n, -1), ids if sparse else None, counts,
        torch.tensor([chain[3] for chain in chains], dtype=torch.int32), key_tensor([chain[4] for chain in chains], CPU),
    )  # fmt: skip
    for i, (_, p_row, rows, tokens, key) in enumerate(chains):
        verdict = verify_chain(p_row, rows, tokens, key)
        assert outcome[i, Outcome.FAULT] == FINE
        assert outcome[i, Outcome.ACCEPTED] == verdict.accepted
        assert outcome[i, Outcome.TOKEN] == verdict.token
        assert bool(outcome[i, Outcome.BONUS]) == (verdict.kind is VerdictKind.BONUS)


@pytest.mark.parametrize("backend", BOTH)
def test_verify_batch_and_target_only_tokens_equal_numpy(backend):
    rng = np.random.default_rng(12)
    n, depth, vocabulary = 3, 2, 100
    chains = [proposal(rng, vocabulary, depth, 0.6, None, True) for _ in range(n)]
    grid = np.stack([probability_grid(chain[1]) for chain in chains])
    counts = np.stack([np.stack([row[1] for row in chain[2]]) for chain in chains])
    tokens = np.array([chain[3] for chain in chains])
    seeds = np.array([chain[4].seed for chain in chains], np.uint64)
    tensors_ = [torch.from_numpy(x) for x in (grid, counts, tokens)]
    expected = verify_batch(grid, counts, tokens, seeds, 3, 4, np.array([5, 6, 7]))
    got = verify_batch(*tensors_, seeds, 3, 4, np.array([5, 6, 7]), backend=backend)
    for name in ("accepted", "tokens", "bonus"):
        assert getattr(got, name).tolist() == getattr(expected, name).tolist()
    for change in ((0, [1, 2, 3]), (1, counts * 2), (2, tokens + vocabulary), (2, tokens[0])):
        bad, bad_tensors = [grid, counts, tokens], list(tensors_)
        bad[change[0]] = grid[:, :2] if change[0] == 0 else change[1]
        bad_tensors[change[0]] = torch.from_numpy(np.ascontiguousarray(bad[change[0]]))
        with pytest.raises(SamplingError) as wanted:
            verify_batch(*bad, seeds, 3, 4, 5)
        with pytest.raises(SamplingError) as actual:
            verify_batch(*bad_tensors, seeds, 3, 4, 5, backend=backend)
        assert str(actual.value) == str(wanted.value)
    for logits, p, _, _, key in chains:
        assert target_only_token(torch.from_numpy(p[0]), key, backend=backend) == target_only_token(p[0], key)
        row = torch.from_numpy(logits[0])
        assert target_only_token_logits(row, key, backend=backend) == target_only_token_logits(logits[0], key)
    with pytest.raises(SamplingError, match=r"p: expected 1 axes"):
        target_only_token(torch.from_numpy(chains[0][1]), chains[0][4], backend=backend)


@pytest.mark.parametrize("backend", BOTH)
def test_full_vocabulary_target_mass_outside_the_support_is_emitted(backend):
    """A sparse q far from the target: the correction comes from ids that q does not know."""
    rng = np.random.default_rng(10)
    logits = rng.normal(0, 3, (2, V)).astype(np.float32)
    ids, counts = dyadic_counts(-logits[0], 1.0, 32)
    rows, tokens, key = [(ids, counts)], [int(ids[0])], Key(5, 1, 1, 9)
    expected = verify_chain_logits(logits, rows, tokens, key)
    assert expected.accepted == 0
    assert expected.token not in ids
    assert verify_chain_logits(torch.from_numpy(logits), tensors(rows), tokens, key, backend=backend) == expected


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_grids_equal_numpy(backend, kind):
    rng = np.random.default_rng(sum(kind.encode()))
    sampler = device_sampler(backend)
    for size in SIZES if backend == "torch" else (1, 65, 2049):
        rows = np.stack([fuzzed(kind, size, rng)[0] for _ in range(2)])
        assert np.array_equal(sampler.logit_grid(torch.from_numpy(rows)).numpy(), logit_grid(rows))
        weights = np.where(np.isfinite(rows), np.exp(np.clip(rows.astype(np.float64), -30, 30)), 0)
        for p in (
            weights / weights.sum(axis=1, keepdims=True),
            (weights / weights.sum(axis=1, keepdims=True)).astype("f4"),
        ):
            assert np.array_equal(sampler.probability_grid(torch.from_numpy(p)).numpy(), probability_grid(p))


HALF = np.array([2**23, 2**23], np.int32)
IDS = np.array([0, 2], np.int32)
GOOD = np.full((2, 3), 1 / 3)


def target(*values):
    return np.array([values, [1 / 3] * 3])


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(
    ("p", "rows", "tokens"),
    [
        (target(math.nan, 0.5, 0.5), [(IDS, HALF)], [0]),
        (target(-0.5, 1.0, 0.5), [(IDS, HALF)], [0]),
        (target(2.0, 0.0, 0.0), [(IDS, HALF)], [0]),
        (target(0.9, 0.0, 0.0), [(IDS, HALF)], [0]),
        (target(math.inf, 0.0, 0.0), [(IDS, HALF)], [0]),
        (GOOD.astype(np.int64), [(IDS, HALF)], [0]),
        (GOOD[0], [(IDS, HALF)], [0]),
        (GOOD[:1], [], []),
        (GOOD, [(IDS, HALF)], [1]),
        (GOOD, [(IDS, HALF)], [3]),
        (GOOD, [(IDS, HALF)], [-1]),
        (GOOD, [(IDS, HALF)], [0, 1]),
        (GOOD, [(IDS, HALF)], [0.5]),
        (GOOD, [(IDS, HALF), (IDS, HALF)], [0]),
        (GOOD, [(IDS[::-1].copy(), HALF)], [0]),
        (GOOD, [(np.array([0, 0], np.int32), HALF)], [0]),
        (GOOD, [(np.array([0, 3], np.int32), HALF)], [0]),
        (GOOD, [(np.array([-1, 2], np.int32), HALF)], [2]),
        (GOOD, [(IDS, HALF + 1)], [0]),
        (GOOD, [(IDS, np.array([-1, 2**24 + 1], np.int32))], [2]),
        (GOOD, [(IDS, HALF.astype(np.float32))], [0]),
        (GOOD, [(IDS, HALF[:1])], [0]),
        (GOOD, [(None, np.array([2**24, 0, 0], np.int32))], [1]),
        (GOOD, [(None, np.array([2**24, 1, 0], np.int32))], [0]),
        (GOOD, [(None, HALF)], [0]),
        (GOOD, [(None, np.array([2**24 + 1, -1, 0], np.int32))], [0]),
    ],
)
def test_refused_proposals_and_targets_with_the_same_error(backend, p, rows, tokens):
    """Not peers' bugs: q(x) = 0, NaN rows, over-full q and the rest are refused here, in numpy's words."""
    key = Key(1, 1, 1, 1)
    with pytest.raises(SamplingError) as expected:
        verify_chain(p, rows, tokens, key)
    with pytest.raises(SamplingError) as actual:
        verify_chain(torch.from_numpy(p), tensors(rows), tokens, key, backend=backend)
    assert (type(actual.value), str(actual.value)) == (type(expected.value), str(expected.value))


@pytest.mark.parametrize("backend", BOTH)
def test_refused_target_logits_and_positions_with_the_same_error(backend):
    for row in ([math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]):
        logits = np.array([row, [0.0, 0.0]], np.float32)
        with pytest.raises(SamplingError) as expected:
            logit_grid(logits)
        with pytest.raises(SamplingError) as actual:
            device_sampler(backend).logit_grid(torch.from_numpy(logits))
        assert str(actual.value) == str(expected.value)
    last = Key(1, 1, 1, 2**32 - 1)
    with pytest.raises(SamplingError, match="position \\+ depth"):
        verify_chain(torch.from_numpy(GOOD), tensors([(IDS, HALF)]), [0], last, backend=backend)


BOUNDS = st.integers(1, 2**63 - 1) | st.sampled_from([1, 2, 3 * 2**61 + 1, 2**62 + 2**61, 2**63 - 1, 2**62 + 1])


@settings(max_examples=300)
@given(BOUNDS, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_unbiased_draws_of_torch_equal_numpy(n, seed, position, domain):
    keys = key_tensor([Key(seed, 2**32 - 1, 77, position)], CPU)
    drawn = torch_math.below(torch.tensor([n]), keys, 0, domain)
    assert int(drawn[0]) == int(below_many(n, np.uint64(seed), 2**32 - 1, 77, position, domain))


@triton.jit
def draw_kernel(bounds, keys, out, first, DOMAIN: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    tl.store(out + row, kernel_below(tl.load(bounds + row), keys, row, 3, DOMAIN))
    w0, w1 = kernel_philox(keys, row, 3, DOMAIN, 0)
    tl.store(first + row * 2, w0.to(tl.int64))
    tl.store(first + row * 2 + 1, w1.to(tl.int64))


def test_unbiased_draws_and_words_of_triton_equal_numpy():
    """A third of the bounds near 3·2^61 reject their first draw, so later draw indices are seen."""
    rng = np.random.default_rng(1)
    n = 60
    bounds = np.concatenate([3 * 2**61 + rng.integers(1, 2**40, 40), rng.integers(1, 2**63, 20, np.int64)])
    seeds = rng.integers(0, 2**64, n, np.uint64)
    keys = key_tensor([Key(int(seed), 2**32 - 1, 5, i) for i, seed in enumerate(seeds)], CPU)
    out, first = torch.zeros(n, dtype=torch.int64), torch.zeros((n, 2), dtype=torch.int64)
    with np.errstate(all="ignore"):
        draw_kernel[(n,)](torch.from_numpy(bounds), keys, out, first, DOMAIN=3)
    positions = np.arange(n) + 3
    assert out.tolist() == below_many(bounds, seeds, 2**32 - 1, 5, positions, 3).tolist()
    words = words_many(seeds, 2**32 - 1, 5, positions, 3)[:, :2].astype(np.int64)
    assert np.array_equal(first.numpy(), words)
    x = (words[:, 0].astype(object) << 32) + words[:, 1]
    rejected = [int(v) * int(b) % 2**64 < 2**64 % int(b) for v, b in zip(x, bounds, strict=True)]
    assert 0 < sum(rejected) < n


def test_philox_gives_the_published_answers():
    cases = (
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D)),
        ((2**32 - 1,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E)),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), 0x299F31D0A4093822, (0xD16CFE09, 0x94FDCCEB)),
    )
    for counter, seed, expected in cases:
        signed = torch.tensor(seed - ((seed >> 63) << 64))
        got = torch_math.philox(*(torch.tensor(word) for word in counter), signed)
        assert tuple(int(word) for word in got) == expected
