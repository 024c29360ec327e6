"""Rows to be hard on a sampler, and one step of a backend on numpy rows."""

from __future__ import annotations

import numpy as np
import torch

from bench.fuzz_rows import KINDS, fuzzed
from pp1wire.sampling import Key, dyadic_counts
from pp1wire.sampling.cuda.backend import key_tensor, make_backend
from pp1wire.sampling.cuda.plan import StepRows
from pp1wire.sampling.cuda.state import raise_fault

__all__ = ["CPU", "KEY", "KINDS", "SIZES", "assert_row_is", "columns", "fuzzed", "step", "supports"]

CPU = torch.device("cpu")
SIZES = (1, 2, 3, 16, 17, 63, 64, 65, 255, 1000, 2047, 2048, 2049)
KEY = Key(0xFEDCBA9876543210, 7, 3, 1000)


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
