"""Verification of many chains of one shape at once: the same coins and verdicts as `verify_grid`, chain by chain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.allocate import MASS
from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.draw import Integers
from pp1wire.sampling.errors import ProposalRefused, SamplingError
from pp1wire.sampling.philox import Domain, below_many
from pp1wire.sampling.verify import accepts, first_above, leading_run, residual
from pp1wire.sampling.weights import Int64

__all__ = ["BatchVerdict", "verify_batch"]

Address = int | Integers


@dataclass(frozen=True, slots=True)
class BatchVerdict:
    """For n chains: drafted tokens accepted, the token that follows (both int64 [n]), whether that is a bonus."""

    accepted: Int64
    tokens: Int64
    bonus: npt.NDArray[np.bool_]


def verify_batch(
    grid: Int64,
    counts: Integers,
    tokens: Integers,
    seed: Address,
    generation: Address,
    round_: Address,
    position: Address,
    backend: str = "numpy",
) -> BatchVerdict:
    """Verify n chains of one depth, dense.

    `grid` is int64 [n, depth + 1, V] (`probability_grid` or `logit_grid`), `counts` integers [n, depth, V], `tokens`
    integers [n, depth]; the four parts of the key are scalars or arrays [n]. Raises ProposalRefused if any chain is to
    be refused, SamplingError for shapes that do not fit and positions beyond 2^32. With another
    backend, grid, counts and tokens are tensors, and so are the verdict's parts.
    """
    if backend != "numpy":
        verdict: BatchVerdict = device_sampler(backend).verify_batch(
            grid, counts, tokens, seed, generation, round_, position
        )
        return verdict
    n, depth = _shape(grid, counts, tokens)
    totals = grid.sum(axis=2)
    places = tokens[..., None]
    target = np.take_along_axis(grid[:, :depth], places, axis=2)[..., 0]
    draft = np.take_along_axis(counts, places, axis=2)[..., 0].astype(np.int64)
    if not draft.all():
        i, j = (int(place) for place in np.argwhere(draft == 0)[0])
        raise ProposalRefused(f"q[{i}, {j}]: zero probability at the drafted token {int(tokens[i, j])}")
    first = np.broadcast_to(np.asarray(position, np.int64), (n,))
    if n and int(first.max()) + depth >= 1 << 32:
        raise SamplingError(f"position: expected position + depth < 2^32, got {int(first.max())} + {depth}")
    a, b, c = (np.broadcast_to(np.asarray(part), (n,)) for part in (seed, generation, round_))
    draws = below_many(
        draft * totals[:, :depth],
        a[:, None],
        b[:, None],
        c[:, None],
        first[:, None] + np.arange(depth),
        Domain.ACCEPTANCE,
    )
    accepted = leading_run(accepts(draws, target))
    bonus = accepted == depth
    row = np.arange(n)
    cut = np.minimum(accepted, depth - 1)
    weights = np.where(
        bonus[:, None], grid[:, depth], residual(grid[row, cut], counts[row, cut], totals[row, cut][:, None])
    )
    domains = np.where(bonus, int(Domain.BONUS), int(Domain.CORRECTION))
    tickets = below_many(weights.sum(axis=1), a, b, c, first + accepted, domains)
    return BatchVerdict(accepted, first_above(weights, tickets), bonus)


def _shape(grid: Int64, counts: Integers, tokens: Integers) -> tuple[int, int]:
    n, depth = tokens.shape if tokens.ndim == 2 else (0, 0)
    vocabulary = grid.shape[-1]
    if depth < 1 or grid.shape != (n, depth + 1, vocabulary) or counts.shape != (n, depth, vocabulary):
        raise SamplingError(
            "verify_batch: expected grid [n, depth + 1, V], counts [n, depth, V], tokens [n, depth], "
            f"got {grid.shape}, {counts.shape}, {tokens.shape}"
        )
    if tokens.size and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary:
        raise ProposalRefused(
            f"tokens: expected 0 <= token < {vocabulary}, got {int(tokens.min())} to {int(tokens.max())}"
        )
    if counts.size and (int(counts.min()) < 0 or bool((counts.sum(axis=2, dtype=np.int64) != MASS).any())):
        raise ProposalRefused("counts: expected rows without negative counts that sum to 2^24")
    return n, depth
