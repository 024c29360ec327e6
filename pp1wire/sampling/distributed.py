"""Counts, draws and verdicts over ranks on torch.distributed: the same bits as one process.

There are two ways to share the work, and they are two types. `VocabularyRanks`: every rank owns a range of ids and takes
part in every request. `RequestRanks`: every rank owns whole requests. Neither is accepted in place of the other.

All ranks call the same function in the same order. Before any work they compare what they were called with, so that a
rank with other arguments, or one that refuses its own part, is an error on all of them and not a hang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import SupportsFloat, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.allocate import MASS_BITS
from pp1wire.sampling.chain import Bias, Draft
from pp1wire.sampling.draw import Integers, check_counts, check_row
from pp1wire.sampling.dyadic import Counts, Row
from pp1wire.sampling.errors import ProposalRefused, SamplingError, TargetRefused
from pp1wire.sampling.philox import unsigned
from pp1wire.sampling.rank_calls import Prepared, compare_calls, run_call
from pp1wire.sampling.rank_group import RankGroup, RanksLost, connect_store, serve_store
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.shard_chain import ShardDraft, part_of, shard_draft, shard_target
from pp1wire.sampling.sharding import (
    Shard,
    shard_counts,
    shard_row,
    shard_sample,
    shard_target_only,
    shard_verify,
    split,
)
from pp1wire.sampling.support import check_k
from pp1wire.sampling.verify import QRow, Verdict, VerdictKind
from pp1wire.sampling.weights import Float32, Int64, check_temperature

__all__ = [
    "RankGroup",
    "RanksLost",
    "Refusal",
    "RequestRanks",
    "VocabularyRanks",
    "connect_store",
    "serve_store",
    "sharded_counts",
    "sharded_draft",
    "sharded_row",
    "sharded_sample",
    "sharded_target",
    "sharded_target_only",
    "sharded_verify",
    "verify_requests",
]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class VocabularyRanks:
    """Each rank owns a range of the vocabulary, in rank order.

    `sizes` are the shards' sizes where the model cuts it otherwise than as evenly as can be. Raises SamplingError for
    fewer ids than ranks, or sizes that do not fit.
    """

    group: RankGroup
    vocabulary: int
    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        sizes = self.sizes
        if sizes is None:
            split(self.vocabulary, self.group.ranks)
        elif len(sizes) != self.group.ranks or min(sizes) < 1 or sum(sizes) != self.vocabulary:
            raise SamplingError(
                f"sizes: expected {self.group.ranks} sizes >= 1 that sum to {self.vocabulary}, got {sizes}"
            )

    @property
    def shards(self) -> list[Shard]:
        """The shard of every rank."""
        ranks = self.group.ranks
        if self.sizes is None:
            return split(self.vocabulary, ranks)
        return [Shard(rank, ranks, sum(self.sizes[:rank]), size) for rank, size in enumerate(self.sizes)]

    @property
    def shard(self) -> Shard:
        """This rank's shard."""
        return self.shards[self.group.rank]


@dataclass(frozen=True, slots=True)
class RequestRanks:
    """Each rank owns whole requests, over the whole vocabulary: slot s of `slots` belongs to rank s mod ranks."""

    group: RankGroup
    slots: int

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise SamplingError(f"slots: expected at least 1, got {self.slots}")

    def owner(self, slot: int) -> int:
        """The rank that owns `slot`. Raises SamplingError for a slot that is not there."""
        if not 0 <= slot < self.slots:
            raise SamplingError(f"slot: expected 0 <= slot < {self.slots}, got {slot}")
        return slot % self.group.ranks

    def own(self) -> range:
        """This rank's slots."""
        return range(self.group.rank, self.slots, self.group.ranks)


class Refusal(StrEnum):
    """Why a request has no verdict."""

    PROPOSAL = "proposal"
    """The proposal cannot be verified; discard it whole."""
    TARGET = "target"
    """The target's own rows are no law: the verifier's fault."""


def sharded_counts(
    ranks: VocabularyRanks, logits: Float32, temperature: SupportsFloat, top_k: SupportsIndex | None = None
) -> Counts:
    """This shard's part of `dyadic_counts`: int32 [size], zeros included, from its float32 [size] logits."""

    def prepare() -> Prepared[Counts]:
        t, k = check_temperature(temperature), _support(ranks, top_k)
        return (t.hex(), k), shard_counts(ranks.shard, logits, t, k)

    return _run(ranks, "counts", prepare)


def sharded_row(ranks: VocabularyRanks, logits: Float32, temperature: SupportsFloat, top_k: SupportsIndex) -> Row:
    """`dyadic_counts` of a sparse row, whole and the same on every rank, from this shard's float32 [size] logits."""

    def prepare() -> Prepared[Row]:
        t, k = check_temperature(temperature), min(check_k(top_k), ranks.vocabulary)
        return (t.hex(), k), shard_row(ranks.shard, logits, t, k)

    return _run(ranks, "row", prepare)


def sharded_sample(ranks: VocabularyRanks, counts: Integers, ticket: SupportsIndex) -> int:
    """`sample` from a row of which this rank has the counts of its shard, integers [size]: one global id for all."""

    def prepare() -> Prepared[int]:
        _shape("counts", np.asarray(counts), (ranks.shard.size,))
        number = unsigned(ticket, MASS_BITS, "ticket")
        return (number,), shard_sample(ranks.shard, counts, number)

    return _run(ranks, "sample", prepare)


def sharded_draft(
    ranks: VocabularyRanks,
    logits: Float32,
    temperature: SupportsFloat,
    key: Key | None,
    *,
    bias: Bias | None = None,
    previous: SupportsIndex | None = None,
    top_k: SupportsIndex | None = None,
) -> Draft:
    """`draft_chain` over shards: the same whole rows and tokens, on every rank.

    Args:
        ranks: who owns which ids.
        logits: this shard's, float32 [depth, size].
        temperature, previous, top_k: as in `draft_chain`, the same on every rank.
        key: the proposal seed's; the leader's is used, and other ranks need none.
        bias: previous token -> this shard's float32 [size].
    """

    def prepare() -> Prepared[ShardDraft]:
        t, k = check_temperature(temperature), _support(ranks, top_k)
        before = None if previous is None else int(previous)
        program = shard_draft(ranks.shard, logits, t, key, bias=bias, previous=before, top_k=k)
        return (t.hex(), k, before, bias is None, logits.shape[:1]), program

    draft = _run(ranks, "draft", prepare)
    if draft.rows is not None:
        return Draft(draft.rows, draft.tokens)
    if draft.parts is None:
        raise SamplingError("draft: expected rows or parts, got neither")
    return Draft(_whole_rows(ranks, draft.parts), draft.tokens)


def sharded_target(ranks: VocabularyRanks, logits: Float32) -> Int64:
    """This shard's part of `logit_grid`: int64 [n, size], from its float32 [n, size] target logits after processors."""

    def prepare() -> Prepared[Int64]:
        return logits.shape[:1], shard_target(ranks.shard, logits)

    return _run(ranks, "target", prepare)


def sharded_verify(
    ranks: VocabularyRanks, grid: Int64, q_rows: Sequence[QRow], tokens: Sequence[int] | Integers, key: Key
) -> Verdict:
    """`verify_grid` over shards: one verdict for all ranks.

    Args:
        ranks: who owns which ids.
        grid: this shard's part of the target, int64 [depth + 1, size] (`sharded_target`).
        q_rows: depth whole rows of q, as `Proposal.rows` gives them.
        tokens: the drafted ids [depth].
        key: the verification seed's.
    """

    def prepare() -> Prepared[Verdict]:
        shard, drawn = ranks.shard, [int(token) for token in tokens]
        if len(q_rows) != len(drawn) or not drawn:
            raise ProposalRefused(f"rows: expected one a token, got {len(q_rows)} rows and {len(drawn)} tokens")
        _shape("grid", grid, (len(drawn) + 1, shard.size))
        counts = np.stack([_checked_part(row, ranks, f"q[{i}]") for i, row in enumerate(q_rows)])
        return (drawn, key), shard_verify(shard, grid, counts, drawn, key)

    return _run(ranks, "verify", prepare)


def sharded_target_only(ranks: VocabularyRanks, grid: Int64, key: Key) -> int:
    """`target_only_token` over shards, from this one's int64 [size] part of the target: one global id for all."""

    def prepare() -> Prepared[int]:
        _shape("grid", grid, (ranks.shard.size,))
        return (key,), shard_target_only(ranks.shard, grid, key)

    return _run(ranks, "target_only", prepare)


def verify_requests(ranks: RequestRanks, chains: Mapping[int, Callable[[], Verdict]]) -> dict[int, Verdict | Refusal]:
    """Verify this rank's requests, and hear the verdicts of all: slot -> verdict, the same on every rank.

    `chains` maps this rank's slots that hold a proposal to what verifies it, such as `partial(verify_chain, …)`. A chain
    that raises ProposalRefused or TargetRefused yields a Refusal, and harms no other. Raises SamplingError on all ranks if
    one was given a slot that it does not own.
    """
    if not isinstance(ranks, RequestRanks):
        raise SamplingError(f"ranks: expected RequestRanks, got {type(ranks).__name__}")
    foreign = [slot for slot in chains if slot not in ranks.own()]
    fault = SamplingError(f"chains: expected slots of {list(ranks.own())}, got {foreign}") if foreign else None
    compare_calls(ranks.group, "requests", (ranks.slots,), fault)
    table = np.zeros((ranks.slots, 4), np.int64)
    try:
        for slot, verify in chains.items():
            table[slot] = _verdict_words(verify)
        everyones = ranks.group.gather(table).sum(axis=0)
    except BaseException:
        ranks.group.abandon()
        raise
    return {slot: _verdict(*row) for slot, row in enumerate(everyones.tolist()) if row[0]}


_VERDICT, _NO_PROPOSAL, _NO_TARGET = 1, 2, 3


def _verdict_words(verify: Callable[[], Verdict]) -> tuple[int, int, int, int]:
    try:
        verdict = verify()
    except ProposalRefused:
        return _NO_PROPOSAL, 0, 0, 0
    except TargetRefused:
        return _NO_TARGET, 0, 0, 0
    return _VERDICT, verdict.accepted, verdict.token, int(verdict.kind is VerdictKind.BONUS)


def _verdict(kind: int, accepted: int, token: int, bonus: int) -> Verdict | Refusal:
    if kind != _VERDICT:
        return Refusal.PROPOSAL if kind == _NO_PROPOSAL else Refusal.TARGET
    return Verdict(accepted, token, VerdictKind.BONUS if bonus else VerdictKind.CORRECTION)


def _whole_rows(ranks: VocabularyRanks, parts: Counts) -> tuple[Row, ...]:
    """Dense rows put together from every rank's int32 [depth, size]."""
    shards = ranks.shards
    padded = np.zeros((parts.shape[0], max(shard.size for shard in shards)), np.int32)
    padded[:, : parts.shape[1]] = parts
    everyones = ranks.group.gather(padded)
    dense = np.concatenate([everyones[shard.rank, :, : shard.size] for shard in shards], axis=1)
    rows: list[Row] = []
    for row in dense:
        ids = np.flatnonzero(row).astype(np.int32)
        counts: Counts = row[ids]
        ids.flags.writeable = counts.flags.writeable = False
        rows.append((ids, counts))
    return tuple(rows)


def _checked_part(row: QRow, ranks: VocabularyRanks, name: str) -> Int64:
    ids, counts = row
    if ids is not None:
        ids, counts = check_row(ids, counts, name, ProposalRefused)
    elif np.shape(counts) != (ranks.vocabulary,):
        raise ProposalRefused(f"{name}: expected dense counts of shape ({ranks.vocabulary},), got {np.shape(counts)}")
    else:
        counts = check_counts(np.asarray(counts), name, ProposalRefused)
    return part_of((ids, counts), ranks.shard)


def _support(ranks: VocabularyRanks, top_k: SupportsIndex | None) -> int | None:
    return None if top_k is None else min(check_k(top_k), ranks.vocabulary)


def _shape(name: str, array: npt.NDArray[np.integer], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise SamplingError(f"{name}: expected shape {shape} of this shard, got {array.shape}")


def _run(ranks: VocabularyRanks, call: str, prepare: Callable[[], Prepared[Result]]) -> Result:
    # Types say so already, to whoever checks them; mixing the two up would give wrong laws without any error.
    if not isinstance(ranks, VocabularyRanks):
        raise SamplingError(f"ranks: expected VocabularyRanks, got {type(ranks).__name__}")

    def with_layout() -> Prepared[Result]:
        arguments, program = prepare()
        return (ranks.vocabulary, ranks.sizes, arguments), program

    return run_call(ranks.group, call, with_layout)
