"""Standard rejection verification of a drafted chain, on integers: `standard-residual-v1`.

With P the target's row on the 2^-38 grid, U = ΣP, and Q the proposal's counts out of 2^24, token x drawn from Q is
accepted with probability min(1, (P(x)/U) / (Q(x)/2^24)); after a rejection the token comes from
max(P·2^24 − Q·U, 0) over the whole target vocabulary; after none, from the target's next row. The emitted law is
exactly P/U: docs/exactness.md has the proof.

Source: Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", ICML 2023; Chen et al.,
"Accelerating large language model decoding with speculative sampling", 2023.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.allocate import MASS_BITS
from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.draw import Integers, check_counts, check_row
from pp1wire.sampling.errors import ProposalRefused, TargetRefused
from pp1wire.sampling.grid import logit_grid, probability_grid
from pp1wire.sampling.philox import Domain, below, below_many
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.weights import Int64

__all__ = [
    "ChainDetails",
    "Verdict",
    "VerdictKind",
    "accepts",
    "first_above",
    "leading_run",
    "residual",
    "target_only_token",
    "target_only_token_logits",
    "verify_chain",
    "verify_chain_logits",
    "verify_grid",
]

QRow = tuple[Integers | None, Integers]
"""(ids, counts) of one proposed row, or (None, counts [V]) for a dense one."""


class VerdictKind(enum.StrEnum):
    """Where the token after the accepted run came from."""

    CORRECTION = "correction"
    BONUS = "bonus"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one chain yields: the first `accepted` drafted tokens (0 … depth), then `token`, of that `kind`."""

    accepted: int
    token: int
    kind: VerdictKind


@dataclass(frozen=True, slots=True)
class ChainDetails:
    """A verdict and the integers behind it, one entry a drafted position.

    `target` is P(x), `draft` is Q(x), `totals` is U (depth + 1 entries), `draws` the acceptance draw in [0, Q(x)·U),
    `passed` whether that position by itself passed, also beyond the first rejection. All int64 but `passed`.
    """

    verdict: Verdict
    target: Int64
    draft: Int64
    totals: Int64
    draws: Int64
    passed: npt.NDArray[np.bool_]


def accepts(draws: Int64, target: Int64) -> npt.NDArray[np.bool_]:
    """Whether draws in [0, Q(x)·U) accept tokens of target mass P(x): draw < P(x)·2^24. P(x) = 0 never passes."""
    return draws < (target << MASS_BITS)


def residual(target: Int64, draft: Integers, totals: Int64 | int) -> Int64:
    """R = max(P·2^24 − Q·U, 0) over the whole vocabulary (last axis); `totals` must broadcast. ΣR stays below 2^63."""
    scaled: Int64 = np.left_shift(target, MASS_BITS)
    np.subtract(scaled, np.multiply(draft, totals, dtype=np.int64), out=scaled)
    np.maximum(scaled, 0, out=scaled)
    return scaled


def first_above(weights: Int64, tickets: Int64 | int) -> Int64:
    """The first id (last axis) whose running weight exceeds the ticket; zero-weight ids own none. int64 [...]."""
    below_ticket = np.cumsum(weights, axis=-1) <= np.asarray(tickets)[..., None]
    return np.asarray(np.count_nonzero(below_ticket, axis=-1), np.int64)


def leading_run(passed: npt.NDArray[np.bool_]) -> Int64:
    """Length of the leading run of passes (last axis): int64 [...]."""
    return np.asarray(np.where(passed.all(axis=-1), passed.shape[-1], (~passed).argmax(axis=-1)), np.int64)


def verify_chain(
    p: npt.NDArray[Any],
    q_rows: Sequence[QRow],
    tokens: Sequence[int] | Integers,
    key: Key,
    backend: str = "numpy",
) -> Verdict:
    """Verify one drafted chain against target probabilities.

    `p` is float64 or float32 [depth + 1, V]: the target's law at each drafted position and at the one after. `q_rows`
    holds depth rows (ids, counts), or (None, counts [V]); `tokens` the drafted ids [depth]; `key` the verification
    seed's. Raises TargetRefused for a bad p; ProposalRefused (discard the whole proposal) for rows or tokens that do
    not fit, a row that is not a law of mass 2^24, or Q(x) = 0 at a drafted token; SamplingError for positions beyond
    2^32. With another backend, p and q's rows are tensors.
    """
    if backend != "numpy":
        verdict: Verdict = device_sampler(backend).verify_chain(p, q_rows, tokens, key)
        return verdict
    return verify_grid(probability_grid(_axes(p, 2, "p")), q_rows, tokens, key).verdict


def verify_chain_logits(
    logits: npt.NDArray[Any],
    q_rows: Sequence[QRow],
    tokens: Sequence[int] | Integers,
    key: Key,
    backend: str = "numpy",
) -> Verdict:
    """`verify_chain` for target logits float32 [depth + 1, V], after the unchanged processors; no T is applied."""
    if backend != "numpy":
        verdict: Verdict = device_sampler(backend).verify_chain_logits(logits, q_rows, tokens, key)
        return verdict
    return verify_grid(logit_grid(_axes(logits, 2, "logits")), q_rows, tokens, key).verdict


def verify_grid(grid: Int64, q_rows: Sequence[QRow], tokens: Sequence[int] | Integers, key: Key) -> ChainDetails:
    """`verify_chain` for target rows on the grid (int64 [depth + 1, V]), with the integers behind the verdict."""
    rows, drawn = _check_proposal(grid, q_rows, tokens)
    depth = len(rows)
    key.span(depth)
    totals = grid.sum(axis=1)
    draft = np.array([_count_of(row, int(token)) for row, token in zip(rows, drawn, strict=True)], np.int64)
    if not draft.all():
        i = int((draft == 0).argmax())
        raise ProposalRefused(f"q[{i}]: zero probability at the drafted token {int(drawn[i])}")
    target = grid[np.arange(depth), drawn]
    positions = np.arange(depth, dtype=np.int64) + key.position
    draws = below_many(draft * totals[:depth], key.seed, key.generation, key.round, positions, Domain.ACCEPTANCE)
    passed = accepts(draws, target)
    accepted = int(leading_run(passed))
    if accepted < depth:
        kind, domain = VerdictKind.CORRECTION, Domain.CORRECTION
        weights = residual(grid[accepted], _spread(rows[accepted], grid.shape[1]), int(totals[accepted]))
    else:
        kind, domain, weights = VerdictKind.BONUS, Domain.BONUS, grid[depth]
    token = _draw(weights, key, accepted, domain)
    return ChainDetails(Verdict(accepted, token, kind), target, draft, totals, draws, passed)


def target_only_token(p_row: npt.NDArray[Any], key: Key, backend: str = "numpy") -> int:
    """A token of the target alone, from probabilities [V], at `key.position` in domain 5. Raises TargetRefused."""
    if backend != "numpy":
        return int(device_sampler(backend).target_only_token(p_row, key))
    return _draw(probability_grid(_axes(p_row, 1, "p")), key, 0, Domain.TARGET_ONLY)


def target_only_token_logits(logits: npt.NDArray[Any], key: Key, backend: str = "numpy") -> int:
    """`target_only_token` for target logits float32 [V], after the unchanged processors. Raises TargetRefused."""
    if backend != "numpy":
        return int(device_sampler(backend).target_only_token_logits(logits, key))
    return _draw(logit_grid(_axes(logits, 1, "logits")), key, 0, Domain.TARGET_ONLY)


def _draw(weights: Int64, key: Key, offset: int, domain: Domain) -> int:
    ticket = below(int(weights.sum()), key.seed, key.generation, key.round, key.position + offset, domain)
    return int(first_above(weights, ticket))


def _axes(array: npt.NDArray[Any], axes: int, name: str) -> npt.NDArray[Any]:
    array = np.asarray(array)
    if array.ndim != axes:
        raise TargetRefused(
            f"{name}: expected {axes} axes ({'[V]' if axes == 1 else '[depth + 1, V]'}), got {array.shape}"
        )
    return array


def _check_proposal(
    grid: Int64, q_rows: Sequence[QRow], tokens: Sequence[int] | Integers
) -> tuple[list[QRow], npt.NDArray[np.int64]]:
    """Rows and tokens that fit the target and each other. Every row is looked at before any coin is."""
    depth, vocabulary = grid.shape[0] - 1, grid.shape[1]
    drawn = np.asarray(tokens)
    if drawn.dtype.kind not in "iu" or drawn.ndim != 1:
        raise ProposalRefused(f"tokens: expected integers [depth], got {drawn.dtype} {drawn.shape}")
    if depth < 1:
        raise TargetRefused(f"p: expected depth + 1 >= 2 rows, got {grid.shape[0]}")
    if len(q_rows) != depth or drawn.size != depth:
        raise ProposalRefused(f"rows: expected depth {depth}, got {len(q_rows)} rows of q and {drawn.size} tokens")
    outside = np.flatnonzero((drawn < 0) | (drawn >= vocabulary))
    if outside.size:
        i = int(outside[0])
        raise ProposalRefused(f"tokens[{i}]: expected 0 <= token < {vocabulary}, got {int(drawn[i])}")
    return [_check_q(row, vocabulary, f"q[{i}]") for i, row in enumerate(q_rows)], drawn.astype(np.int64)


def _check_q(row: QRow, vocabulary: int, name: str) -> QRow:
    ids, counts = row
    if ids is None:
        counts = np.asarray(counts)
        if counts.shape != (vocabulary,):
            raise ProposalRefused(f"{name}: expected dense counts of shape ({vocabulary},), got {counts.shape}")
        return None, check_counts(counts, name, ProposalRefused)
    ids, counts = check_row(ids, counts, name, ProposalRefused)
    if int(ids[-1]) >= vocabulary:
        raise ProposalRefused(f"{name}: expected ids below {vocabulary}, got {int(ids[-1])}")
    return ids, counts


def _count_of(row: QRow, token: int) -> int:
    ids, counts = row
    if ids is None:
        return int(counts[token])
    place = int(np.searchsorted(ids, token))
    return int(counts[place]) if place < ids.size and int(ids[place]) == token else 0


def _spread(row: QRow, vocabulary: int) -> Integers:
    ids, counts = row
    if ids is None:
        return counts
    dense = np.zeros(vocabulary, np.int64)
    dense[ids] = counts
    return dense
