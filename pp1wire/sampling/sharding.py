"""Counts, draws and verdicts when each rank owns a range of the vocabulary: the same bits as unsharded.

Every function here is a rank program (see `collectives`): run one a rank, over contiguous shards in rank order that
together cover the vocabulary. What is refused is refused on every rank, since each check is of combined values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.allocate import MASS, MASS_BITS
from pp1wire.sampling.collectives import Collective, Combine, Program
from pp1wire.sampling.draw import Integers
from pp1wire.sampling.dyadic import Row, dyadic_counts
from pp1wire.sampling.errors import AllocationError, ProposalRefused, SamplingError, TargetRefused
from pp1wire.sampling.grid import TOLERANCE
from pp1wire.sampling.philox import Domain, below, below_many, unsigned
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.support import Places, check_k, largest
from pp1wire.sampling.verify import Verdict, VerdictKind, accepts, first_above, leading_run, residual
from pp1wire.sampling.weights import GRID, Float32, Int64, check_temperature, integer_weights

__all__ = [
    "Shard",
    "shard_counts",
    "shard_logit_grid",
    "shard_row",
    "shard_sample",
    "shard_target_only",
    "shard_verify",
    "split",
]

_RADIX_BITS = 11
_NO_KEY = np.iinfo(np.int64).min
_FINE, _NAN, _INFINITE = range(3)


@dataclass(frozen=True, slots=True)
class Shard:
    """The ids [first, first + size) of the vocabulary, owned by `rank` of `ranks`."""

    rank: int
    ranks: int
    first: int
    size: int

    def own(self, value: int) -> Int64:
        """An array with `value` in this rank's place: summed over ranks it lists every rank's value."""
        slots = np.zeros(self.ranks, np.int64)
        slots[self.rank] = value
        return slots


def split(vocabulary: int, ranks: int) -> list[Shard]:
    """Contiguous shards, the first ones larger by one where V is not a multiple. Raises SamplingError if V < ranks."""
    if not 1 <= ranks <= vocabulary:
        raise SamplingError(f"ranks: expected 1 <= ranks <= {vocabulary}, got {ranks}")
    edges = [rank * vocabulary // ranks for rank in range(ranks + 1)]
    return [Shard(rank, ranks, edges[rank], edges[rank + 1] - edges[rank]) for rank in range(ranks)]


def shard_counts(
    shard: Shard, logits: Float32, temperature: SupportsFloat, top_k: SupportsIndex | None = None
) -> Program[npt.NDArray[np.int32]]:
    """This shard's part of `dyadic_counts`: int32 [size], zeros included. `logits` is float32 [size]. Same errors."""
    t = check_temperature(temperature)
    highest = yield from _highest(shard, logits, SamplingError)
    if top_k is not None:
        logits = yield from _supported(shard, logits, check_k(top_k))
    weights = _dense_weights(logits, highest, t)
    (total,) = yield Collective(Combine.SUM, np.array([weights.sum()], np.int64))
    shifted = np.left_shift(weights, MASS_BITS)
    counts, remainders = np.divmod(shifted, total)
    sums = np.array([counts.sum(), np.count_nonzero(remainders)], np.int64)
    floors, positive = yield Collective(Combine.SUM, sums)
    remaining = MASS - int(floors)
    if not 0 <= remaining < MASS or (remaining and remaining >= positive):
        raise AllocationError(
            f"shards: {int(floors)} in floors and {int(positive)} positive remainders do not fit 2^24"
        )
    if remaining:
        counts += yield from _share(shard, remainders, remaining, int(total).bit_length())
    return counts.astype(np.int32)


def shard_row(shard: Shard, logits: Float32, temperature: SupportsFloat, top_k: SupportsIndex) -> Program[Row]:
    """`dyadic_counts` of a sparse row, whole on every rank: the merged keys say all that its counts depend on."""
    t, k = check_temperature(temperature), check_k(top_k)
    yield from _highest(shard, logits, SamplingError)
    _, _, merged = yield from _merged(shard, logits, k)
    merged = merged[merged != _NO_KEY][::-1]
    ids = 0xFFFFFFFF - (merged & 0xFFFFFFFF)
    order = ids.argsort()
    places, counts = dyadic_counts(_logits_of(merged >> 32)[order], t)
    return ids[order][places].astype(np.int32), counts


def shard_sample(shard: Shard, counts: Integers, ticket: SupportsIndex) -> Program[int]:
    """`sample` over shards: the shard by its mass, then the token inside it, from the one ticket; for all ranks."""
    return (yield from _pick(shard, np.asarray(counts, np.int64), unsigned(ticket, 24, "ticket"), MASS))


def shard_logit_grid(shard: Shard, logits: Float32) -> Program[Int64]:
    """This shard's part of `logit_grid` for one row: int64 [size]. Raises TargetRefused."""
    highest = yield from _highest(shard, logits, TargetRefused)
    weights = _dense_weights(logits, highest, 1.0)
    (total,) = yield Collective(Combine.SUM, np.array([weights.sum()], np.int64))
    return np.rint(weights.astype(np.float64) / float(int(total)) * float(GRID)).astype(np.int64)


def shard_verify(
    shard: Shard, grid: Int64, counts: Integers, tokens: Sequence[int] | Integers, key: Key
) -> Program[Verdict]:
    """`verify_chain` over shards; the same verdict on every rank.

    `grid` is this shard's int64 [depth + 1, size] part of the target on the grid, `counts` its [depth, size] part of q,
    `tokens` the global drafted ids. Raises ProposalRefused, TargetRefused or SamplingError, on all ranks alike.
    """
    drawn = np.asarray(tokens, np.int64)
    depth = drawn.size
    key.span(depth)
    local = drawn - shard.first
    mine = np.flatnonzero((local >= 0) & (local < shard.size))
    target, draft = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
    target[mine], draft[mine] = grid[mine, local[mine]], counts[mine, local[mine]]
    masses = np.asarray(counts.sum(axis=1, dtype=np.int64))
    combined = yield Collective(Combine.SUM, np.concatenate([grid.sum(axis=1), target, draft, masses]))
    totals, target, draft, masses = np.split(combined, [depth + 1, 2 * depth + 1, 3 * depth + 1])
    if bool((np.abs(totals - GRID) > TOLERANCE).any()):
        raise TargetRefused(f"p: expected sums of one within 2^-10, got {(totals / GRID).tolist()}")
    if bool((masses != MASS).any()) or not draft.all():
        raise ProposalRefused(
            f"q: expected mass 2^24 and positive counts at the tokens, got {masses.tolist()} and {draft.tolist()}"
        )
    positions = key.position + np.arange(depth, dtype=np.int64)
    draws = below_many(draft * totals[:depth], key.seed, key.generation, key.round, positions, Domain.ACCEPTANCE)
    accepted = int(leading_run(accepts(draws, target)))
    if accepted < depth:
        kind, domain = VerdictKind.CORRECTION, Domain.CORRECTION
        weights = residual(grid[accepted], counts[accepted], int(totals[accepted]))
    else:
        kind, domain, weights = VerdictKind.BONUS, Domain.BONUS, grid[depth]
    (mass,) = yield Collective(Combine.SUM, np.array([weights.sum()], np.int64))
    ticket = below(int(mass), key.seed, key.generation, key.round, key.position + accepted, domain)
    return Verdict(accepted, (yield from _pick(shard, weights, ticket, int(mass))), kind)


def shard_target_only(shard: Shard, grid: Int64, key: Key) -> Program[int]:
    """`target_only_token` over shards, from this one's int64 [size] part of the target on the grid; for all ranks.

    Raises TargetRefused on all ranks alike if the parts do not sum to one within 2^-10.
    """
    (total,) = yield Collective(Combine.SUM, np.array([grid.sum()], np.int64))
    if abs(int(total) - GRID) > TOLERANCE:
        raise TargetRefused(f"p: expected a sum of one within 2^-10, got {int(total) / GRID:.9g}")
    ticket = below(int(total), key.seed, key.generation, key.round, key.position, Domain.TARGET_ONLY)
    return (yield from _pick(shard, grid, ticket, int(total)))


def _highest(shard: Shard, logits: Float32, refuse: type[SamplingError]) -> Program[float]:
    """The global maximum, once every rank knows that no rank has a NaN or +inf."""
    if logits.dtype != np.float32 or logits.shape != (shard.size,):
        raise SamplingError(f"logits: expected float32 of shape ({shard.size},), got {logits.dtype} {logits.shape}")
    fault = _NAN if bool(np.isnan(logits).any()) else _INFINITE if bool((logits == np.inf).any()) else _FINE
    highest = _FINE if fault else int(_ordered(logits.max(keepdims=True))[0])
    fault, highest = (int(part) for part in (yield Collective(Combine.MAX, np.array([fault, highest], np.int64))))
    if fault:
        raise refuse(f"logits: {'NaN' if fault == _NAN else '+inf'} in a shard")
    if highest <= int(_ordered(np.array([-np.inf], np.float32))[0]):
        raise refuse("logits: no finite logit in any shard")
    return float(_logits_of(np.array([highest], np.int64))[0])


def _ordered(logits: Float32) -> Int64:
    """FP32 as integers of the same order; −0.0 becomes 0.0 first."""
    bits = (logits + np.float32(0.0)).view(np.int32).astype(np.int64)
    return np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _logits_of(ordered: Int64) -> Float32:
    """What `_ordered` made integers of."""
    return np.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered).astype(np.int32).view(np.float32)


def _supported(shard: Shard, logits: Float32, k: int) -> Program[Float32]:
    """The logits with everything outside the global top k masked."""
    places, keys, merged = yield from _merged(shard, logits, k)
    chosen = places[keys >= merged[0]]
    masked = np.full(logits.shape, -np.inf, np.float32)
    masked[chosen] = logits[chosen]
    return masked


def _merged(shard: Shard, logits: Float32, k: int) -> Program[tuple[Places, Int64, Int64]]:
    """Places and keys of this shard's k largest, and the k largest keys of all, rising; _NO_KEY where there are fewer.

    A key holds the logit above the inverted id: keys are unique, so the top k of the shards' top k is the global one.
    """
    places = largest(logits, k)
    keys = (_ordered(logits[places]) << 32) | (0xFFFFFFFF - shard.first - places)
    best = np.full(k, _NO_KEY, np.int64)
    best[: keys.size] = keys
    merged = yield Collective(Combine.MERGE, best)
    return places, keys, merged[-k:]


def _dense_weights(logits: Float32, highest: float, temperature: float) -> Int64:
    places, weights = integer_weights(logits, highest, temperature)
    if places is None:
        return weights
    dense = np.zeros(logits.size, np.int64)
    dense[places] = weights
    return dense


def _share(shard: Shard, remainders: Int64, remaining: int, bits: int) -> Program[Int64]:
    """1 for whom in this shard has one of the `remaining` largest remainders of all, ties to the lowest id; int64 [size].

    The threshold is found 11 bits at a time, from histograms summed over the shards.
    """
    prefix, quota = 0, remaining
    for shift in range((bits - 1) // _RADIX_BITS * _RADIX_BITS, -1, -_RADIX_BITS):
        inside = remainders[remainders >> (shift + _RADIX_BITS) == prefix]
        digits = (inside >> shift) & ((1 << _RADIX_BITS) - 1)
        histogram = yield Collective(Combine.SUM, np.bincount(digits, minlength=1 << _RADIX_BITS).astype(np.int64))
        from_top = histogram[::-1].cumsum()
        rank = int(np.searchsorted(from_top, quota))
        quota -= int(from_top[rank - 1]) if rank else 0
        prefix = prefix << _RADIX_BITS | (histogram.size - 1 - rank)
    tied = np.flatnonzero(remainders == prefix)
    ties = yield Collective(Combine.SUM, shard.own(tied.size))
    chosen = (remainders > prefix).astype(np.int64)
    chosen[tied[: max(0, quota - int(ties[: shard.rank].sum()))]] = 1
    return chosen


def _pick(shard: Shard, weights: Int64, ticket: int, total: int) -> Program[int]:
    """The global token that owns the ticket. Exactly one rank has it, and a rank without mass never does."""
    masses = yield Collective(Combine.SUM, shard.own(int(weights.sum())))
    if int(masses.sum()) != total:
        raise SamplingError(f"shards: expected masses that sum to {total}, got {masses.tolist()}")
    before = int(masses[: shard.rank].sum())
    found = 0
    if before <= ticket < before + int(masses[shard.rank]):
        found = shard.first + int(first_above(weights, ticket - before))
    (token,) = yield Collective(Combine.SUM, np.array([found], np.int64))
    return int(token)
