"""The exact sampler against torch: its own torch backend, and torch's rounded samplers of the same row, on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from pp1wire.sampling import dyadic_counts, dyadic_counts_dense, sample

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
    yield _outcome("exact counts and token, dense, one thread", "× torch softmax + multinomial", 2.0, times)
    times = race({"pp1wire": lambda: exact(SUPPORT), "torch": rounded_sparse}, seconds=seconds)
    yield _outcome("exact counts and token, k=32, one thread", "× torch topk + softmax + multinomial", 1.2, times)


def _outcome(name: str, unit: str, goal: float, times: dict) -> Outcome:
    first, second = times
    ratio = times[first].median / times[second].median
    note = f"{first} {times[first].median * 1e3:.2f} ms, {second} {times[second].median * 1e3:.2f} ms"
    return Outcome(name, unit, ratio, goal, True, times, note)
