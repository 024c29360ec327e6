"""The exact sampler against torch: its own torch backend, and torch's rounded samplers of the same row, on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from pp1wire.sampling import Domain, below, dyadic_counts, dyadic_counts_dense, logit_grid, sample
from pp1wire.sampling.verify import first_above, residual

from . import data
from .harness import Outcome, race

SUPPORT = 32
TICKET = 5_000_000


def torch_rows(seconds: float) -> Iterator[Outcome]:
    """Counts by torch beside counts by numpy; counts and a token by numpy beside softmax and multinomial."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield from _rows(seconds)
    finally:
        torch.set_num_threads(threads)


def _rows(seconds: float) -> Iterator[Outcome]:
    row = np.random.default_rng(7).normal(0.0, 3.0, data.VOCAB).astype(np.float32)
    tensor = torch.from_numpy(row)

    def exact(top_k: int | None) -> int:
        ids, counts = dyadic_counts(row, 1.0, top_k)
        return sample(ids, counts, TICKET)

    def rounded_dense() -> torch.Tensor:
        return torch.multinomial(torch.softmax(tensor, 0), 1)

    def rounded_sparse() -> torch.Tensor:
        values, ids = torch.topk(tensor, SUPPORT)
        return ids[torch.multinomial(torch.softmax(values, 0), 1)]

    times = race(
        {
            "torch": lambda: dyadic_counts_dense(tensor, 1.0, backend="torch"),
            "numpy": lambda: dyadic_counts_dense(row, 1.0),
        },
        seconds=seconds,
    )
    yield _outcome("exact counts by torch, dense, V = 129,280, one thread", "× numpy", 6.0, times)
    times = race({"pp1wire": lambda: exact(None), "torch": rounded_dense}, seconds=seconds)
    yield _outcome("exact counts and token, dense, one thread", "× torch softmax + multinomial", 1.5, times)
    times = race({"pp1wire": lambda: exact(SUPPORT), "torch": rounded_sparse}, seconds=seconds)
    yield _outcome("exact counts and token, k=32, one thread", "× torch topk + softmax + multinomial", 1.0, times)
    yield _residual(row, seconds)


def _residual(row: np.ndarray, seconds: float) -> Outcome:
    """The token behind a rejection: here max(P·2^24 − Q·U, 0) and an unbiased ticket, there clamp, normalise, multinomial."""
    target = np.random.default_rng(8).normal(0.0, 3.0, data.VOCAB).astype(np.float32)
    grid = logit_grid(target[None])[0]
    total, draft = int(grid.sum()), dyadic_counts_dense(row, 1.0)
    p, q = (torch.softmax(torch.from_numpy(logits), 0) for logits in (target, row))

    def exact() -> int:
        weights = residual(grid, draft, total)
        return int(first_above(weights, below(int(weights.sum()), 1, 1, 1, 100, Domain.CORRECTION)))

    def rounded() -> torch.Tensor:
        rest = torch.clamp(p - q, min=0)
        return torch.multinomial(rest / rest.sum(), 1)

    times = race({"pp1wire": exact, "torch": rounded}, seconds=seconds)
    return _outcome("residual token, V = 129,280, one thread", "× torch clamp + normalise + multinomial", None, times)


def _outcome(name: str, unit: str, goal: float | None, times: dict) -> Outcome:
    first, second = times
    ratio = times[first].median / times[second].median
    note = f"{first} {times[first].median * 1e3:.2f} ms, {second} {times[second].median * 1e3:.2f} ms"
    return Outcome(name, unit, ratio, goal, True, times, note)
