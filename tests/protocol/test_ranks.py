"""Handing proposals to ranks (threads, over real process groups): ready on all or discarded on all, by one reason."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError, PP1Error
from pp1wire.protocol import ProposalReady, TargetOnly
from pp1wire.protocol.ranks import DISAGREED, LOST, REFUSED, ProposalRanks, RankDiscard, RankProposal
from pp1wire.sampling import Key, Verdict, VerdictKind, logit_grid, verify_chain_logits, verify_grid
from pp1wire.sampling.distributed import RanksLost, VocabularyRanks, sharded_target, sharded_verify
from pp1wire.wire import CommitKind, ReplyBatch, Representation, encode_replies
from tests.protocol.util import VOCAB, pair
from tests.rank_threads import values_on

SEED = 77
SPARSE, DENSE = Representation.SPARSE, Representation.DENSE
VERDICT = Verdict(1, 3, VerdictKind.CORRECTION)


class Rank:
    """One rank of a verifier: rank 0 has the connection, and all have the rest."""

    def __init__(self, group, representation=SPARSE, **options):
        self.group = group
        self.pair = pair(representation)
        self.session = self.pair.verifier.open([1, 2, 3], SEED)
        self.ranks = ProposalRanks(group, self.pair.verifier.agreement, **options)

    def propose(self, **options):
        """A new round at rank 0's worker: its proposal."""
        event = self.pair.round(self.session, **options)[-1]
        assert isinstance(event, ProposalReady)
        return event.proposal

    def hand_over(self, **options):
        return self.ranks.lead(self.propose(**options), SEED) if self.group.rank == 0 else self.ranks.follow()

    def commit(self, proposal, verdict):
        """What rank 0 tells its verifier once all have agreed."""
        kind = CommitKind.BONUS if verdict.kind is VerdictKind.BONUS else CommitKind.CORRECTION
        tokens = [*proposal.tokens[: verdict.accepted].tolist(), verdict.token]
        self.pair.verifier.commit(self.session, verdict.accepted, kind, tokens)
        self.pair.to_worker()

    def committed(self):
        """Ids behind the prompt, as the worker of rank 0 sees them."""
        return self.pair.worker.prefix_ids(self.session).tolist()[3:]


def target_of(proposal):
    return (
        np.random.default_rng(proposal.identity[3:])
        .normal(scale=2, size=(proposal.depth + 1, VOCAB))
        .astype(np.float32)
    )


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("representation", [SPARSE, DENSE])
def test_rank_agreement_rounds_are_those_of_one_process(ranks, representation):
    """Hand over, verify on vocabulary shards, settle, commit: 6 rounds, with evidence of acceptances and rejections."""

    def body(group):
        rank = Rank(group, representation)
        layout = VocabularyRanks(group, VOCAB)
        shard, verdicts = layout.shard, []
        for _ in range(6):
            copy = rank.hand_over(depth=3)
            assert isinstance(copy, RankProposal)
            assert copy.depth == 3
            key = Key(SEED + 1, *copy.identity[2:])
            logits = target_of(copy)
            grid = sharded_target(layout, logits[:, shard.first : shard.first + shard.size])
            verdict = sharded_verify(layout, grid, copy.rows(), copy.tokens, key)
            assert verdict == verify_chain_logits(logits, copy.rows(), copy.tokens, key)
            assert verdict == verify_grid(logit_grid(logits), copy.rows(), copy.tokens, key).verdict
            assert rank.ranks.settle(copy, verdict) is None
            if group.rank == 0:
                rank.commit(copy, verdict)
            verdicts.append((copy.identity, copy.tokens.tolist(), verdict))
        return verdicts, rank.committed() if group.rank == 0 else None

    (verdicts, committed), *others = values_on(ranks, body)
    assert [v for v, _ in others] == [verdicts] * (ranks - 1)
    assert len(committed) == sum(v.accepted + 1 for _, _, v in verdicts)
    assert len({v.accepted for _, _, v in verdicts}) > 1


@pytest.mark.parametrize("representation", [SPARSE, DENSE])
def test_one_q_the_copy_is_the_proposal_and_outlives_its_buffer(representation):
    def body(group):
        rank = Rank(group, representation)
        if group.rank:
            copy = rank.ranks.follow()
        else:
            proposal = rank.propose()
            rows, tokens = proposal.rows(), proposal.tokens.tolist()
            copy = rank.ranks.lead(proposal, SEED)
            assert copy.tokens.tolist() == tokens
            for (ids, counts), (own_ids, own_counts) in zip(rows, copy.rows(), strict=True):
                assert (ids is None and own_ids is None) or np.array_equal(ids, own_ids)
                assert np.array_equal(counts, own_counts)
            assert copy.identity == (
                proposal.slot,
                proposal.session,
                proposal.generation,
                proposal.round,
                proposal.position,
            )
        before = [counts.copy() for _, counts in copy.rows()]
        rank.ranks._buffer[:] = 255
        assert all(np.array_equal(a, b) for a, (_, b) in zip(before, copy.rows(), strict=True))
        return [c.tolist() for c in before]

    first, second = values_on(2, body)
    assert first == second


def spoil(rank, how):
    """Let `how(buffer)` change this rank's copy after it has arrived."""
    broadcast = rank.group.broadcast

    def tampered(buffer):
        broadcast(buffer)
        how(buffer, rank.ranks)

    rank.group.broadcast = tampered


def flip(place):
    def how(buffer, ranks):
        buffer[place] ^= 1

    return how


def another_legal_copy(buffer, ranks):
    """Row 0 with another canonical q that draws the same token, and right checksums: nothing on this rank alone is wrong."""
    good = ranks._read().batch
    counts = good.counts.copy()
    # The last entry with room gives one ticket to its right neighbour, behind or before the token's own tickets.
    token = int(np.flatnonzero(good.ids[0, : good.entry_counts[0]] == good.tokens[0])[0])
    used = int(good.entry_counts[0])
    places = [i for i in range(used) if i != token]
    side = [i for i in places if i > token] if sum(i > token for i in places) > 1 else [i for i in places if i < token]
    counts[0, side[0]] += 1
    counts[0, side[1]] -= 1
    columns = {name: getattr(good, name) for name in ReplyBatch.__dataclass_fields__ if name not in ("counts", "_q")}
    changed = ReplyBatch(**columns, counts=counts)
    encode_replies(changed, ranks._agreement, 0, out=ranks._frames(len(changed)))


def refuses(copy):
    raise PP1Error("no room on the device")


@pytest.mark.parametrize(
    ("how", "reason", "detail"),
    [
        (flip(0), DISAGREED, "rank 1 differs from rank 0"),
        (flip(7), REFUSED, "rank 1: its own check"),
        (flip(8), REFUSED, "rank 1: its copy (ticket_mismatch)"),
        (flip(16), REFUSED, "rank 1: its copy (bad_magic)"),
        (flip(-1), REFUSED, "rank 1: its copy (body_checksum_mismatch)"),
        (another_legal_copy, DISAGREED, "rank 1 differs from rank 0"),
    ],
)
def test_rank_agreement_a_corrupt_copy_discards_on_all(how, reason, detail):
    """… and the next round is handed over as if nothing had been; nothing was committed."""

    def body(group):
        rank = Rank(group)
        if group.rank == 1:
            broadcast = group.broadcast
            spoil(rank, how)
        outcome = rank.hand_over()
        if group.rank == 1:
            group.broadcast = broadcast
        if group.rank == 0:
            (event,) = rank.pair.verifier.discard(rank.session, outcome.counter)
            assert isinstance(event, TargetOnly)
            assert rank.pair.verifier.counters.discards["consumer"] == 1
            rank.pair.to_worker()
            assert rank.committed() == []
        assert isinstance(rank.hand_over(), RankProposal)
        return outcome

    outcomes = values_on(3, body)
    assert outcomes == [outcomes[0]] * 3
    assert outcomes[0] == RankDiscard(reason, detail)


def test_rank_agreement_a_rank_that_refuses_discards_on_all():
    def body(group):
        return Rank(group, check=refuses if group.rank == 1 else None).hand_over()

    assert values_on(3, body) == [RankDiscard(REFUSED, "rank 1: its own check")] * 3


def test_rank_agreement_check_sees_the_copy_before_q_is_ready():
    seen = []

    def body(group):
        rank = Rank(group, check=lambda copy: seen.append((group.rank, copy.tokens.tolist())))
        return rank.hand_over().tokens.tolist()

    tokens = values_on(2, body)[0]
    assert sorted(seen) == [(0, tokens), (1, tokens)]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Verdict(2, 3, VerdictKind.CORRECTION), RankDiscard(DISAGREED, "rank 2 differs from rank 0")),
        (Verdict(1, 4, VerdictKind.CORRECTION), RankDiscard(DISAGREED, "rank 2 differs from rank 0")),
        (Verdict(1, 3, VerdictKind.BONUS), RankDiscard(DISAGREED, "rank 2 differs from rank 0")),
        (None, RankDiscard(REFUSED, "rank 2: it has no verdict")),
    ],
)
def test_rank_agreement_another_verdict_on_one_rank_commits_on_none(other, expected):
    def body(group):
        rank = Rank(group)
        copy = rank.hand_over()
        outcome = rank.ranks.settle(copy, other if group.rank == 2 else VERDICT)
        with pytest.raises(LocalProtocolError, match="not settled yet"):
            rank.ranks.settle(copy, VERDICT)
        return outcome

    assert values_on(3, body) == [expected] * 3


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("when", ["before the copy", "before the vote", "before the verdict", "before settling"])
@pytest.mark.parametrize("which", ["leader", "last"])
def test_rank_agreement_a_rank_that_is_lost_discards_on_all(ranks, when, which):
    """Whenever it happens: the others say rank_lost, long before their timeout, and nothing is committed."""

    def body(group):
        lost = group.rank == (0 if which == "leader" else ranks - 1)

        def check(copy):
            if lost and when == "before the vote":
                group.abandon()

        rank = Rank(group, check=check)
        started = time.monotonic()
        if lost and when == "before the copy":
            group.abandon()
        outcome = rank.hand_over()
        if isinstance(outcome, RankProposal):
            if lost and when == "before the verdict":
                group.abandon()
            verdict = VERDICT
            try:
                sharded_target(VocabularyRanks(group, VOCAB), np.zeros((2, VOCAB // ranks), np.float32))
            except RanksLost:
                verdict = None
            if lost and when == "before settling":
                group.abandon()
            outcome = rank.ranks.settle(outcome, verdict)
        assert time.monotonic() - started < 5
        again = (
            rank.hand_over()
            if group.rank
            else rank.ranks.lead(rank.pair.round(rank.pair.verifier.open([], 5))[-1].proposal, 5)
        )
        assert again.reason == LOST
        return outcome.reason

    assert values_on(ranks, body) == [LOST] * ranks


def test_rank_agreement_a_silent_rank_discards_on_all_within_the_stated_time():
    timeout, gone = 1.0, threading.Event()

    def body(group):
        def check(copy):
            if group.rank == 1:
                gone.wait(20)

        rank = Rank(group, check=check)
        started = time.monotonic()
        outcome = rank.hand_over()
        gone.set()
        if group.rank != 1:
            assert time.monotonic() - started < 3 * timeout
        return outcome.reason

    assert values_on(3, body, timeout=timeout) == [LOST] * 3


def test_a_crash_of_a_rank_in_its_check_is_a_loss_on_the_others():
    def body(group):
        def check(copy):
            if group.rank == 1:
                raise MemoryError("on the device")

        try:
            return Rank(group, check=check).hand_over().reason
        except MemoryError:
            return "crashed"

    assert values_on(3, body) == [LOST, "crashed", LOST]


def test_stale_proposals_are_refused():
    """The same round twice, and an earlier one; a later one passes. A discarded one does not count."""

    def body(group):
        rank = Rank(group)
        proposal = rank.propose() if group.rank == 0 else None

        def hand_over():
            return rank.ranks.lead(proposal, SEED) if group.rank == 0 else rank.ranks.follow()

        assert isinstance(hand_over(), RankProposal)
        outcomes = [hand_over()]
        rank.ranks._last[0] = (1, 1, 2)
        outcomes.append(hand_over())
        rank.ranks._last[0] = (1, 1, 0)
        assert isinstance(hand_over(), RankProposal)
        return outcomes

    assert values_on(2, body) == [[RankDiscard(REFUSED, "rank 0: its own check")] * 2] * 2


def test_proposals_that_cannot_be_sent_are_discarded_on_all():
    """Gone from its buffer, or with a seed that is none."""

    def body(group):
        rank = Rank(group)
        if group.rank:
            return [rank.ranks.follow() for _ in range(2)]
        proposal = rank.propose()
        outcomes = [rank.ranks.lead(proposal, 2**64)]
        rank.pair.verifier.cancel(rank.session)
        outcomes.append(rank.ranks.lead(proposal, SEED))
        return outcomes

    assert values_on(2, body) == [[RankDiscard(REFUSED, "rank 0: its own check")] * 2] * 2


def test_rows_of_different_rounds_are_no_proposal():
    def body(group):
        rank = Rank(group)

        broadcast, outcomes = group.broadcast, []
        for name in ("rounds", "positions", "generations"):

            def how(buffer, ranks, name=name):
                good = ranks._read().batch
                columns = {field: getattr(good, field) for field in ReplyBatch.__dataclass_fields__ if field != "_q"}
                columns[name] = columns[name].copy()
                columns[name][-1] += 1
                encode_replies(ReplyBatch(**columns), ranks._agreement, 0, out=ranks._frames(len(good)))

            group.broadcast = broadcast
            spoil(rank, how)
            outcomes.append(rank.hand_over())
            if group.rank == 0:
                rank.pair.verifier.discard(rank.session)
        return outcomes

    assert values_on(2, body) == [[RankDiscard(REFUSED, "rank 0: its own check")] * 3] * 2


def test_leading_and_following_are_not_mixed_up():
    def body(group):
        rank = Rank(group)
        wrong = rank.ranks.follow if group.rank == 0 else lambda: rank.ranks.lead(proposal, SEED)
        proposal = rank.propose()
        with pytest.raises(LocalProtocolError, match="rank 0 leads, and every other rank follows"):
            wrong()

    values_on(2, body)


def test_four_requests_in_flight_are_settled_in_any_order():
    def body(group):
        rank = Rank(group)
        sessions = [rank.session] + [rank.pair.verifier.open([i], SEED) for i in range(3)]
        copies = []
        for session in sessions:
            rank.session = session
            copies.append(rank.hand_over())
        assert [copy.identity[0] for copy in copies] == [0, 1, 2, 3]
        assert [rank.ranks.settle(copies[i], VERDICT) for i in (2, 0, 3, 1)] == [None] * 4

    values_on(2, body)
