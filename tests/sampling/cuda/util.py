"""Rows to be hard on a sampler, and one step of a backend on numpy rows."""

from __future__ import annotations

import numpy as np
import torch

from pp1wire.sampling import Key, dyadic_counts
from pp1wire.sampling.cuda.backend import key_tensor, make_backend
from pp1wire.sampling.cuda.plan import StepRows
from pp1wire.sampling.cuda.state import raise_fault

CPU = torch.device("cpu")
KINDS = ("ties", "one-hot", "masked", "near-uniform", "zeros", "subnormal", "huge", "plain", "peaked")
SIZES = (1, 2, 3, 16, 17, 63, 64, 65, 255, 1000, 2047, 2048, 2049)
KEY = Key(0xFEDCBA9876543210, 7, 3, 1000)


def fuzzed(kind, size, rng):
    """(row float32 [size], temperature): a row of one kind, which always has a finite logit."""
    temperature = float(rng.choice([0.3, 0.6, 0.8, 1.0, 1.7]))
    row = rng.normal(0, 3, size)
    if kind == "ties":
        row = rng.integers(0, 3, size).astype(float)
    elif kind == "one-hot":
        row = np.full(size, -np.inf)
        row[rng.integers(size)] = rng.normal()
    elif kind == "masked":
        row[rng.random(size) < 0.7] = -np.inf
        row[rng.integers(size)] = 1.0
    elif kind == "near-uniform":
        row = 1.0 + rng.integers(0, 3, size) * 2.0**-23
    elif kind == "zeros":
        row = rng.choice([0.0, -0.0], size)
    elif kind == "subnormal":
        row, temperature = rng.choice([3e-39, -3e-39, 1e-45, -0.0], size), float(rng.choice([1e-39, 5e-324, 1.0]))
    elif kind == "huge":
        row, temperature = rng.choice([3.4e38, -3.4e38, 0.0], size), float(rng.choice([1.0, 1e38, 1.7e308]))
    elif kind == "peaked":
        row = rng.normal(0, 30, size)
    return row.astype(np.float32), temperature


def supports(row):
    """Support sizes at and around the number of finite ids."""
    finite = int(np.isfinite(row).sum())
    return sorted({k for k in (1, finite - 1, finite, finite + 1) if k >= 1})


def step(name, rows, temperatures, top_k=None, keys=None, bias=None, offset=0, block=None, check=True):
    """One step of a backend on rows float32 [n, V]: the results as numpy arrays, in a StepRows."""
    rows = np.atleast_2d(rows)
    n, vocabulary = rows.shape

    def new(*shape, dtype=torch.int32):
        return torch.full(shape, 77, dtype=dtype)

    out = StepRows(
        new(n, top_k or vocabulary), new(n), new(n, dtype=torch.int64),
        new(n, top_k) if top_k else None, new(n) if top_k else None,
    )  # fmt: skip
    backend = make_backend(name, CPU, block)
    backend.step(
        torch.from_numpy(rows), None if bias is None else torch.from_numpy(bias),
        torch.tensor(temperatures, dtype=torch.float64), key_tensor(keys or [KEY] * n, CPU), offset, out,
    )  # fmt: skip
    if check:
        for word in out.faults.tolist():
            raise_fault(word, "logits", vocabulary)
    return out


def columns(out, i):
    """(ids, counts) of row i without the entries that have no count, and whether all unused entries are zero."""
    counts = out.counts[i].numpy()
    if out.ids is None:
        ids = np.flatnonzero(counts)
        return ids, counts[ids], True
    used = int(out.entries[i])
    ids = out.ids[i].numpy()
    return ids[:used], counts[:used], not ids[used:].any() and not counts[used:].any()


def assert_row_is(out, i, row, temperature, top_k):
    """The row of a backend is the numpy backend's, bit for bit."""
    ids, counts = dyadic_counts(row, temperature, top_k)
    got_ids, got_counts, clean = columns(out, i)
    assert np.array_equal(got_ids, ids)
    assert np.array_equal(got_counts, counts)
    assert clean
    return ids, counts
