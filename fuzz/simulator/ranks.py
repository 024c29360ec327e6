"""The ranks of a target model: the real ProposalRanks on a group whose exchanges happen in this process, one rank at a time.

Each rank runs inside the exchange of the one before it: rank 0 votes, and while it waits for the others' votes the next rank
makes its own call. So no threads are needed, and who writes the decision first is a choice of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fuzz.simulator.violation import violate
from pp1wire.errors import PP1Error
from pp1wire.protocol import Proposal
from pp1wire.protocol.ranks import LOST, ProposalRanks, RankDiscard, RankProposal
from pp1wire.sampling import Key, Verdict, verify_grid
from pp1wire.sampling.rank_group import CONTROL_WORDS, RankGroup, RanksLost
from pp1wire.wire import Agreement, ReplyBatch, decode_replies, encode_replies

if TYPE_CHECKING:
    from fuzz.simulator.world import World

__all__ = ["Team"]

FAULTS = ("copy_flipped", "copy_other", "check_refuses", "verdict_other", "verdict_none", "rank_lost", "handed_twice")
_LOSSES = ("before the copy", "before the vote", "leader deaf", "follower deaf")
_PREAMBLE = 16


class _Register:
    """One rank's way to the decisions, which live outside the ranks."""

    def __init__(self, team: Team, rank: int) -> None:
        self._team, self._rank = team, rank

    def propose(self, key: str, value: str) -> str:
        if self._rank and self._team.leader_writes_lost:
            self._team.decisions.setdefault(key, LOST)
        return self._team.decisions.setdefault(key, value)

    def forget(self, key: str) -> None:
        self._team.decisions.pop(key, None)

    def close(self) -> None:
        """Nothing to close."""


class _Group(RankGroup):
    """A membership whose exchanges are the team's; voting and deciding are the product's own."""

    def __init__(self, team: Team, rank: int) -> None:
        self.rank, self.ranks, self.timeout = rank, team.size, 1.0
        self._team = team
        self._number = 0
        self._over = False
        self._control = self._data = team
        self._register: Any = _Register(team, rank)

    def broadcast(self, buffer: npt.NDArray[np.uint8]) -> None:
        self._require(self._control)
        self._team.broadcast(self, buffer)

    def words(self, *words: int) -> npt.NDArray[np.int64]:
        self._require(self._control)
        return self._team.words(self, words)


class Team:
    """All ranks that share one connection's proposals.

    Attributes:
        decisions: the register.
        over: whether a rank was lost, so that another team must be made.
    """

    def __init__(self, world: World, agreement: Agreement) -> None:
        self.size = world.scenario.ranks
        self._world, self._agreement = world, agreement
        self.decisions: dict[str, str] = {}
        self.leader_writes_lost = False
        self.over = False
        self._groups = [_Group(self, rank) for rank in range(self.size)]
        self._parts = [
            ProposalRanks(group, agreement, check=partial(self._check, group.rank)) for group in self._groups
        ]
        self._calls: list[Callable[[], Any]] = []
        self._outcomes: dict[int, Any] = {}
        self._votes: dict[int, tuple[int, ...]] = {}
        self._payload = np.zeros(0, np.uint8)
        self._fault = self._loss = ""

    def verdict(self, proposal: Proposal, seed: int, grids: npt.NDArray[np.int64], key: Key) -> Verdict | None:
        """What all ranks agree on; None if the round must be discarded."""
        copies = self._hand_over(proposal, seed)
        if copies is None:
            return None
        verdicts: list[Verdict | None] = [verify_grid(grids, copy.rows(), copy.tokens, key).verdict for copy in copies]
        last = self.size - 1
        if self._fault == "verdict_other" and (verdict := verdicts[last]) is not None:
            verdicts[last] = Verdict(verdict.accepted, (verdict.token + 1) % self._world.scenario.vocab, verdict.kind)
        elif self._fault == "verdict_none":
            verdicts[last] = None
        agreed = self._settle(copies, verdicts)
        if self._fault == "handed_twice":
            self._hand_over_again(proposal, seed)
        return agreed

    # One proposal.

    def _hand_over(self, proposal: Proposal, seed: int) -> list[RankProposal] | None:
        self._choose_fault()
        outcomes = self._run(self._hand_over_calls(proposal, seed))
        copies = [o for o in outcomes.values() if isinstance(o, RankProposal)]
        if self._same_end(outcomes, len(copies)):
            return None
        first = copies[0]
        for copy in copies:
            if copy.identity != first.identity or not _same_rows(copy, first):
                violate("ranks", f"ranks hold different copies of {first.identity}")
        return copies

    def _hand_over_again(self, proposal: Proposal, seed: int) -> None:
        """A round that was handed over is older than itself, on every rank."""
        outcomes = self._run(self._hand_over_calls(proposal, seed))
        if not self._same_end(outcomes, 0):
            violate("ranks", f"{proposal!r} was handed over twice")

    def _hand_over_calls(self, proposal: Proposal, seed: int) -> list[Callable[[], Any]]:
        return [partial(self._parts[0].lead, proposal, seed), *(part.follow for part in self._parts[1:])]

    def _settle(self, copies: list[RankProposal], verdicts: list[Verdict | None]) -> Verdict | None:
        calls: list[Callable[[], Any]] = [
            partial(part.settle, copy, verdict)
            for part, copy, verdict in zip(self._parts, copies, verdicts, strict=True)
        ]
        outcomes = self._run(calls)
        agreed = [rank for rank, outcome in outcomes.items() if outcome is None]
        if self._same_end(outcomes, len(agreed)):
            return None
        if len({repr(verdicts[rank]) for rank in agreed}) != 1 or verdicts[0] is None:
            violate("ranks", f"ranks would commit different verdicts: {verdicts}")
        return verdicts[0]

    def _run(self, calls: list[Callable[[], Any]]) -> dict[int, Any]:
        """Make one call on every rank; what each came to. A rank that is gone comes to nothing."""
        self._calls, self._outcomes, self._votes = calls, {}, {}
        self._outcomes[0] = calls[0]()
        return dict(sorted(self._outcomes.items()))

    def _same_end(self, outcomes: dict[int, Any], good: int) -> bool:
        """Whether the round is discarded, on all ranks by one reason."""
        reasons = {o.reason for o in outcomes.values() if isinstance(o, RankDiscard)}
        if not reasons:
            return False
        if good or len(reasons) > 1:
            violate("ranks", f"{good} ranks go on, others discard: {sorted(reasons)}")
        (reason,) = reasons
        self.over = reason == LOST
        self._world.stats[f"rank discards: {reason}"] += 1
        return True

    # Exchanges.

    def broadcast(self, group: _Group, buffer: npt.NDArray[np.uint8]) -> None:
        """Rank 0's bytes for everybody."""
        if group.rank == 0:
            self._payload = buffer.copy()
            return
        if self._loss == "before the copy" and group.rank == self.size - 1:
            group.abandon()
            raise RanksLost("this rank lost the others")
        buffer[:] = self._payload
        if group.rank != self.size - 1:
            return
        if self._fault == "copy_flipped":
            at = self._world.rng.randrange(_PREAMBLE * 8, len(buffer) * 8)
            buffer[at // 8] ^= 1 << at % 8
        elif self._fault == "copy_other":
            _another_legal_copy(buffer, self._agreement)

    def words(self, group: _Group, words: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Everybody's words, once everybody has spoken."""
        rank, last = group.rank, self.size - 1
        self._votes[rank] = words
        following = rank + 1
        if following < self.size and following not in self._outcomes:
            if following == last and self._loss == "before the vote":
                self._loss = ""
                self._groups[last].abandon()
            else:
                self._outcomes[following] = None
                self._outcomes[following] = self._calls[following]()
        deaf = (self._loss == "leader deaf" and rank == 0) or (self._loss == "follower deaf" and rank == last)
        if deaf or len(self._votes) < self.size:
            group.abandon()
            raise RanksLost("not every vote was heard")
        table = np.zeros((self.size, CONTROL_WORDS), np.int64)
        for voter, vote in self._votes.items():
            table[voter, : len(vote)] = vote
        return table

    # Faults.

    def _choose_fault(self) -> None:
        world = self._world
        self._fault = next((kind for kind in FAULTS if world.chance(kind)), "")
        self._loss = world.rng.choice(_LOSSES) if self._fault == "rank_lost" else ""
        self.leader_writes_lost = self._loss == "leader deaf" and world.rng.random() < 0.5

    def _check(self, rank: int, copy: RankProposal) -> None:
        if self._fault == "check_refuses" and rank == self.size - 1:
            raise PP1Error("no room on the device")


def _same_rows(a: RankProposal, b: RankProposal) -> bool:
    return bool(
        np.array_equal(a.tokens, b.tokens)
        and np.array_equal(a.batch.counts, b.batch.counts)
        and np.array_equal(a.batch.ids, b.batch.ids)
    )


def _another_legal_copy(buffer: npt.NDArray[np.uint8], agreement: Agreement) -> None:
    """Give row 0 another q that draws the same token, with right checksums: nothing on this rank alone is wrong."""
    frame = agreement.reply_frame_bytes
    depth = int.from_bytes(buffer[:8].tobytes(), "little")
    rows = buffer[_PREAMBLE : _PREAMBLE + depth * frame]
    good = decode_replies(rows.tobytes(), agreement, 0)
    counts = good.counts.copy()
    used = int(good.entry_counts[0])
    ids = good.ids[0, :used] if agreement.id_entries else np.arange(agreement.vocab_size)
    token = int(np.flatnonzero(ids == good.tokens[0])[0])
    # Two tokens on the same side of the drawn one trade a ticket, so its own tickets stay where they are.
    side = next((s for s in (range(token), range(token + 1, len(ids))) if sum(counts[0, i] > 1 for i in s) > 1), None)
    if side is None:
        return
    giver, taker = [i for i in side if counts[0, i] > 1][:2]
    counts[0, giver] -= 1
    counts[0, taker] += 1
    columns = {name: getattr(good, name) for name in ReplyBatch.__dataclass_fields__ if name not in ("counts", "_q")}
    encode_replies(ReplyBatch(**columns, counts=counts), agreement, 0, out=rows)
