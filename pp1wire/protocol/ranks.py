"""Handing a proposal to the ranks of a target model: q is ready on every rank, or the round is discarded on all of them.

Rank 0 holds the connection. It sends the proposal's rows to every rank as the REPLY frames that they are, and each rank,
rank 0 too, judges the copy that it will use: with the validator of the wire, the ticket rule and freshness. Then all vote,
with a digest of their copy. Only if every copy passed and all are the same is the proposal ready. The verdict on it is voted
on in the same way before anything is committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError, PP1Error
from pp1wire.protocol.counters import CONSUMER
from pp1wire.protocol.slots import Proposal
from pp1wire.sampling import Verdict, proposal_tickets, tickets_agree
from pp1wire.sampling.rank_group import LOST, RankGroup, RanksLost
from pp1wire.wire import Agreement, RejectCode, RemoteProtocolError, ReplyBatch, decode_replies, encode_replies
from pp1wire.wire._schema_v2 import Q_TOTAL

__all__ = ["DISAGREED", "LOST", "REFUSED", "ProposalRanks", "RankDiscard", "RankProposal"]

REFUSED: Final = "rank_refused"
"""A rank's copy, or a rank's own check of it, failed."""
DISAGREED: Final = "rank_disagreed"
"""Every copy passed, but they, or the verdicts on them, differ."""

_READY: Final = "ready"
_PREAMBLE: Final = np.dtype([("depth", "<u8"), ("proposal_seed", "<u8")])
_HAND_OVER, _SETTLE = 1, 2
_PASSED, _REJECTED, _FAILED, _ABSENT = range(4)

Row = tuple[npt.NDArray[np.int32] | None, npt.NDArray[np.int32]]


@dataclass(frozen=True, slots=True, eq=False)
class RankProposal:
    """This rank's own copy of a proposal that is ready on every rank; its arrays are read-only and stay as they are."""

    batch: ReplyBatch
    vocab_size: int

    @property
    def depth(self) -> int:
        """Drafted tokens."""
        return len(self.batch)

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """int32 [depth]."""
        return self.batch.tokens

    @property
    def identity(self) -> tuple[int, int, int, int, int]:
        """Slot, session, generation, round, and the position of the first drafted token."""
        batch = self.batch
        columns = (batch.slots, batch.sessions, batch.generations, batch.rounds, batch.positions)
        slot, session, generation, round_, position = (int(column[0]) for column in columns)
        return slot, session, generation, round_, position

    def rows(self) -> list[Row]:
        """Each row as (ids int32 [n], counts int32 [n]); dense as (None, counts [vocab_size]), as `verify_chain` takes them."""
        batch = self.batch
        if not batch.ids.shape[1]:
            return [(None, row[: self.vocab_size]) for row in batch.counts]
        return [(batch.ids[i, :n], batch.counts[i, :n]) for i, n in enumerate(batch.entry_counts.tolist())]


@dataclass(frozen=True, slots=True)
class RankDiscard:
    """The round is discarded on every rank, by this reason on each of them."""

    counter: ClassVar[str] = CONSUMER
    """What rank 0 gives to `Verifier.discard`, whatever the reason."""

    reason: str
    """rank_refused, rank_disagreed or rank_lost. After rank_lost the group is over."""
    detail: str
    """For people: which rank, and what it found."""


class ProposalRanks:
    """One rank's part in handing over proposals. Every rank makes the same calls in the same order.

    `lead` and `follow` return within 3 · `group.timeout` and the time of the checks, `settle` within 2 · `group.timeout`,
    whatever becomes of other ranks.

    Args:
        group: the ranks.
        agreement: of the connection that rank 0 holds, the same on every rank.
        check: called with this rank's copy before it votes: for what the wire cannot know (the committed length, say),
            and for bringing the copy to where it will be used; waits until it is there. Refuses by raising a PP1Error.
    """

    def __init__(
        self, group: RankGroup, agreement: Agreement, *, check: Callable[[RankProposal], None] | None = None
    ) -> None:
        self._group = group
        self._agreement = agreement
        self._check = check
        self._frame_bytes = agreement.reply_frame_bytes
        # One broadcast of a fixed length, like everything of an agreement; 16 bytes keep the frames aligned.
        self._buffer = np.zeros(_PREAMBLE.itemsize + agreement.max_depth * self._frame_bytes, np.uint8)
        self._last: dict[int, tuple[int, int, int]] = {}
        self._open: dict[int, RankProposal] = {}

    def lead(self, proposal: Proposal, proposal_seed: int) -> RankProposal | RankDiscard:
        """Rank 0: hand over `proposal`. Its buffer is not needed any more when this returns.

        A proposal that cannot be sent is discarded on every rank. Raises LocalProtocolError on another rank.
        """
        self._require_leader(True)
        try:
            self._write(proposal, proposal_seed)
        except PP1Error:
            self._buffer[:] = 0
        return self._hand_over()

    def follow(self) -> RankProposal | RankDiscard:
        """Every other rank: receive the proposal that rank 0 leads with. Raises LocalProtocolError on rank 0."""
        self._require_leader(False)
        return self._hand_over()

    def settle(self, proposal: RankProposal, verdict: Verdict | None) -> RankDiscard | None:
        """Agree on the verdict before it is committed: None if every rank has the same one, and may commit it.

        A rank that could not come to a verdict, for whatever reason (RanksLost too), calls with None. Raises
        LocalProtocolError for a proposal that is not the open one of its slot.
        """
        slot, *_ = proposal.identity
        if self._open.get(slot) is not proposal:
            raise LocalProtocolError(
                f"slot {slot}: expected the proposal that was handed over last, and not settled yet"
            )
        del self._open[slot]
        status = _PASSED if verdict is not None else _ABSENT
        words = repr((proposal.identity, verdict)).encode()
        return _discard(self._group.agree((_SETTLE, status, 0, *_digest(words)), _judge))

    def _hand_over(self) -> RankProposal | RankDiscard:
        try:
            self._group.broadcast(self._buffer)
        except RanksLost as error:
            # This vote reaches nobody, but the decision does: no rank can be ready without this one.
            outcome = self._group.agree((_HAND_OVER, _FAILED), _judge)
            return _discard(outcome) or RankDiscard(LOST, str(error))
        copy, vote = self._judge_copy()
        discard = _discard(self._group.agree(vote, _judge))
        if discard is not None:
            return discard
        if copy is None:
            return RankDiscard(LOST, "this rank has no copy of what was agreed on")
        slot, *freshness, _ = copy.identity
        session, generation, round_ = freshness
        self._last[slot] = (session, generation, round_)
        self._open[slot] = copy
        return copy

    def _judge_copy(self) -> tuple[RankProposal | None, tuple[int, ...]]:
        """This rank's copy, if it passes every check, and its vote."""
        try:
            copy = self._read()
            if self._check is not None:
                self._check(copy)
        except RemoteProtocolError as error:
            return None, (_HAND_OVER, _REJECTED, int(error.code))
        except PP1Error:
            return None, (_HAND_OVER, _FAILED)
        except BaseException:
            self._group.abandon()
            raise
        seen = self._buffer[: _PREAMBLE.itemsize].tobytes() + copy.batch.row_checksums.tobytes()
        return copy, (_HAND_OVER, _PASSED, 0, *_digest(seen))

    def _write(self, proposal: Proposal, proposal_seed: int) -> None:
        depth = proposal.depth
        if not 1 <= depth <= self._agreement.max_depth or not 0 <= proposal_seed < 2**64:
            raise LocalProtocolError(f"expected 1 to {self._agreement.max_depth} rows and a u64 seed, got {depth} rows")
        self._buffer[:] = 0
        preamble = self._buffer[: _PREAMBLE.itemsize].view(_PREAMBLE)
        preamble["depth"], preamble["proposal_seed"] = depth, proposal_seed
        encode_replies(_batch(proposal, self._agreement), self._agreement, 0, out=self._frames(depth))

    def _frames(self, depth: int) -> npt.NDArray[np.uint8]:
        return self._buffer[_PREAMBLE.itemsize :][: depth * self._frame_bytes]

    def _read(self) -> RankProposal:
        preamble = self._buffer[: _PREAMBLE.itemsize].view(_PREAMBLE)
        depth, seed = int(preamble["depth"][0]), int(preamble["proposal_seed"][0])
        if not 1 <= depth <= self._agreement.max_depth:
            raise LocalProtocolError(f"depth: expected 1 to {self._agreement.max_depth}, got {depth}")
        copy = RankProposal(
            decode_replies(self._frames(depth).tobytes(), self._agreement, 0), self._agreement.vocab_size
        )
        _check_identity(copy.batch)
        slot, session, generation, round_, position = copy.identity
        if (session, generation, round_) <= self._last.get(slot, (0, 0, 0)):
            raise LocalProtocolError(f"slot {slot}: expected a proposal after {self._last[slot]}, got an earlier one")
        positions = position + np.arange(depth, dtype=np.int64)
        tickets = proposal_tickets(np.uint64(seed), generation, round_, positions)
        ids = copy.batch.ids if self._agreement.id_entries else None
        if not tickets_agree(copy.batch.counts, tickets, copy.tokens, ids).all():
            raise RemoteProtocolError(
                RejectCode.TICKET_MISMATCH, offset=0, path="token", expected="the tokens that their tickets draw",
                actual=copy.tokens.tolist(),
            )  # fmt: skip
        return copy

    def _require_leader(self, leader: bool) -> None:
        if (self._group.rank == 0) is not leader:
            raise LocalProtocolError(f"rank {self._group.rank}: rank 0 leads, and every other rank follows")


def _batch(proposal: Proposal, agreement: Agreement) -> ReplyBatch:
    depth, q = proposal.depth, proposal.q
    used = np.count_nonzero(q, axis=1) if agreement.id_entries else np.full(depth, agreement.vocab_size)
    return ReplyBatch(
        sessions=np.full(depth, proposal.session, np.uint64),
        slots=np.full(depth, proposal.slot, np.uint16),
        generations=np.full(depth, proposal.generation, np.uint32),
        rounds=np.full(depth, proposal.round, np.uint32),
        positions=(proposal.position + np.arange(depth)).astype(np.uint32),
        tokens=proposal.tokens,
        entry_counts=used.astype(np.uint32),
        ids=proposal.ids,
        counts=np.multiply(q, np.float32(Q_TOTAL)).astype(np.int32),
        row_checksums=np.zeros(depth, np.uint64),
    )


def _check_identity(batch: ReplyBatch) -> None:
    one = all(len(set(c.tolist())) == 1 for c in (batch.slots, batch.sessions, batch.generations, batch.rounds))
    if not one or set(np.diff(batch.positions.astype(np.int64)).tolist()) - {1}:
        raise LocalProtocolError("rows: expected one round, at consecutive positions")


def _digest(data: bytes) -> tuple[int, int]:
    """128 bits as two signed integers. A checksum of checksums: it finds accidents, not attackers."""
    digest = hashlib.blake2b(data, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:], "little", signed=True)


def _judge(votes: npt.NDArray[np.int64]) -> str:
    """The outcome that the votes amount to: (step, status, code, digest, digest) a rank."""
    for rank, (_, status, code, *_) in enumerate(votes.tolist()):
        if status != _PASSED:
            what = {_REJECTED: "its copy", _FAILED: "its own check", _ABSENT: "it has no verdict"}[status]
            name = f" ({RejectCode(code).name.lower()})" if status == _REJECTED else ""
            return f"{REFUSED}: rank {rank}: {what}{name}"
    other = np.flatnonzero((votes != votes[0]).any(axis=1))
    if other.size:
        return f"{DISAGREED}: rank {int(other[0])} differs from rank 0"
    return _READY


def _discard(outcome: str) -> RankDiscard | None:
    if outcome == _READY:
        return None
    reason, _, detail = outcome.partition(": ")
    return RankDiscard(reason, detail or "a rank failed, stalled or is gone")
