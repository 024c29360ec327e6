"""Drafting a chain, and the target's rows, when each rank owns a range of the vocabulary.

Rank programs, as in `sharding`. The leader, rank 0, alone owns the proposal's coins: it draws each token (sparse) or its
ticket (dense), and all ranks hear the token before the next row is made, because that row depends on it.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.chain import Bias
from pp1wire.sampling.collectives import Collective, Combine, Program, together
from pp1wire.sampling.draw import sample
from pp1wire.sampling.dyadic import Counts, Row
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.philox import proposal_tickets
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.sharding import Shard, shard_counts, shard_logit_grid, shard_row, shard_sample
from pp1wire.sampling.verify import QRow
from pp1wire.sampling.weights import Float32, Int64

__all__ = ["LEADER", "ShardDraft", "part_of", "shard_draft", "shard_target"]

LEADER = 0
"""The rank that owns the proposal's coins."""


@dataclass(frozen=True, slots=True)
class ShardDraft:
    """A drafted chain as one rank holds it. Sparse chains have `rows`, dense ones `parts`; the other is None."""

    tokens: npt.NDArray[np.int32]
    """int32 [depth], the same on every rank."""
    rows: tuple[Row, ...] | None
    """Whole rows (ids, counts)."""
    parts: Counts | None
    """int32 [depth, size], this shard's counts, zeros included."""


def part_of(row: QRow, shard: Shard) -> Int64:
    """This shard's counts of a whole row (ids, counts) or (None, counts [V]): int64 [size], zeros included."""
    ids, counts = row
    stop = shard.first + shard.size
    if ids is None:
        return np.asarray(counts[shard.first : stop], np.int64)
    part = np.zeros(shard.size, np.int64)
    mine = (ids >= shard.first) & (ids < stop)
    part[ids[mine] - shard.first] = counts[mine]
    return part


def shard_draft(
    shard: Shard,
    logits: Float32,
    temperature: SupportsFloat,
    key: Key | None,
    *,
    bias: Bias | None = None,
    previous: SupportsIndex | None = None,
    top_k: SupportsIndex | None = None,
) -> Program[ShardDraft]:
    """`draft_chain` over shards: the same rows and tokens.

    `logits` is this shard's float32 [depth, size], `bias(x)` its float32 [size]. `key` is the proposal seed's; the
    leader's alone is used, so other ranks may have None. Raises SamplingError as `draft_chain` does.
    """
    depth = _depth(shard, logits)
    if bias is not None and previous is None:
        raise SamplingError("previous: expected the last committed token, since there is a bias, got None")
    tickets = _tickets(shard, key, depth)
    last = 0 if previous is None else operator.index(previous)
    rows: list[Row] = []
    parts: list[Counts] = []
    tokens: list[int] = []
    for i in range(depth):
        row = logits[i] if bias is None else _biased(logits[i], bias(last), i)
        if top_k is None:
            part = yield from shard_counts(shard, row, temperature)
            (ticket,) = yield Collective(Combine.SUM, tickets[i : i + 1])
            last = yield from shard_sample(shard, part, int(ticket))
            parts.append(part)
        else:
            ids, counts = yield from shard_row(shard, row, temperature, top_k)
            last = yield from _leaders_token(shard, ids, counts, int(tickets[i]))
            ids.flags.writeable = counts.flags.writeable = False
            rows.append((ids, counts))
        tokens.append(last)
    drawn = np.array(tokens, np.int32)
    return ShardDraft(drawn, tuple(rows), None) if parts == [] else ShardDraft(drawn, None, np.stack(parts))


def shard_target(shard: Shard, logits: Float32) -> Program[Int64]:
    """This shard's part of `logit_grid`, all rows in one pair of exchanges: int64 [n, size]. Raises TargetRefused."""
    if logits.ndim != 2 or not logits.shape[0]:
        raise SamplingError(f"logits: expected shape [n, {shard.size}], n >= 1, got {logits.shape}")
    return np.stack((yield from together([shard_logit_grid(shard, row) for row in logits])))


def _leaders_token(shard: Shard, ids: npt.NDArray[np.int32], counts: Counts, ticket: int) -> Program[int]:
    own = sample(ids, counts, ticket) if shard.rank == LEADER else 0
    (token,) = yield Collective(Combine.SUM, np.array([own], np.int64))
    return int(token)


def _depth(shard: Shard, logits: Float32) -> int:
    if logits.ndim != 2 or not logits.shape[0] or logits.shape[1] != shard.size or logits.dtype != np.float32:
        raise SamplingError(
            f"logits: expected float32 of shape [depth, {shard.size}], got {logits.dtype} {logits.shape}"
        )
    return int(logits.shape[0])


def _tickets(shard: Shard, key: Key | None, depth: int) -> Int64:
    """The chain's tickets on the leader, zeros elsewhere: summed over ranks they are the leader's."""
    if shard.rank != LEADER:
        return np.zeros(depth, np.int64)
    if key is None:
        raise SamplingError("key: expected the proposal's key on the leader, got None")
    key.span(depth)
    positions = key.position + np.arange(depth, dtype=np.int64)
    return np.asarray(proposal_tickets(key.seed, key.generation, key.round, positions), np.int64)


def _biased(row: Float32, bias: Float32, i: int) -> Float32:
    if bias.dtype != np.float32 or bias.shape != row.shape:
        raise SamplingError(f"bias: expected float32 of shape {row.shape} for row {i}, got {bias.dtype} {bias.shape}")
    with np.errstate(all="ignore"):  # what overflows is refused with the row's own message
        return np.add(row, bias, dtype=np.float32)
