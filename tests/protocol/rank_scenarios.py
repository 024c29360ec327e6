"""What each rank does in the tests with real processes; every function returns what JSON can carry."""

from __future__ import annotations

import hashlib
import os
import signal
import time

import numpy as np

from pp1wire.protocol.ranks import RankDiscard, RankProposal
from pp1wire.sampling import Key
from pp1wire.sampling.distributed import (
    RanksLost,
    RequestRanks,
    VocabularyRanks,
    sharded_counts,
    sharded_draft,
    sharded_sample,
    sharded_target,
    sharded_target_only,
    sharded_verify,
    verify_requests,
)
from tests.protocol.test_ranks import DENSE, SEED, SPARSE, VERDICT, Rank, another_legal_copy, flip, spoil, target_of
from tests.protocol.util import VOCAB
from tests.sampling.test_distributed import chain_of

SIGNALS = {"stalled": signal.SIGSTOP, "killed": signal.SIGKILL}


def digest(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def laws(group, vocabulary, seed):
    """Everything the sampler makes of one request on shards: whole rows, tokens, verdict, target-only token."""
    layout = VocabularyRanks(group, vocabulary)
    shard = layout.shard
    rng = np.random.default_rng(seed)
    draft_logits = rng.normal(scale=2, size=(3, vocabulary)).astype(np.float32)
    target_logits = draft_logits[[0, 1, 2, 0]] + rng.normal(size=(4, vocabulary)).astype(np.float32)
    draft_logits[:, ::7] = target_logits[:, ::7] = -np.inf
    own = slice(shard.first, shard.first + shard.size)
    result = []
    for top_k in (None, 32):
        key = Key(seed, 1, 1, 5) if group.rank == 0 else None
        draft = sharded_draft(layout, draft_logits[:, own], 0.8, key, top_k=top_k)
        grid = sharded_target(layout, target_logits[:, own])
        verdict = sharded_verify(layout, grid, draft.rows, draft.tokens, Key(seed, 2, 1, 5))
        part = sharded_counts(layout, draft_logits[0, own], 0.8, top_k)
        result.append({
            "rows": digest(*(array for row in draft.rows for array in row)),
            "tokens": draft.tokens.tolist(),
            "verdict": [verdict.accepted, verdict.token, verdict.kind.value],
            "alone": sharded_target_only(layout, grid[0], Key(seed, 3, 1, 5)),
            "sampled": sharded_sample(layout, part, 12345),
        })  # fmt: skip
    return result


def requests(group):
    """Data parallel: each rank verifies whole requests of its own."""
    layout = RequestRanks(group, 5)
    verdicts = verify_requests(layout, {slot: chain_of(slot) for slot in layout.own()})
    return {str(slot): [v.accepted, v.token, v.kind.value] for slot, v in verdicts.items()}


def rounds(group, representation, count):
    """Whole rounds with a real connection at rank 0."""
    rank = Rank(group, SPARSE if representation == "sparse" else DENSE)
    layout = VocabularyRanks(group, VOCAB)
    shard, seen = layout.shard, []
    for _ in range(count):
        copy = rank.hand_over(depth=3)
        logits = target_of(copy)
        grid = sharded_target(layout, logits[:, shard.first : shard.first + shard.size])
        verdict = sharded_verify(layout, grid, copy.rows(), copy.tokens, Key(SEED + 1, *copy.identity[2:]))
        assert rank.ranks.settle(copy, verdict) is None
        if group.rank == 0:
            rank.commit(copy, verdict)
        seen.append([list(copy.identity), copy.tokens.tolist(), verdict.accepted, verdict.token, verdict.kind.value])
    return seen


def fault(group, which, what, when):
    """One round in which rank `which` fails; what came of it here, in how many seconds, and what was committed."""
    fails = group.rank == which

    def at(moment):
        if fails and when == moment and what in SIGNALS:
            os.kill(os.getpid(), SIGNALS[what])

    rank = Rank(group, check=lambda copy: at("before the vote"))
    if fails and what == "corrupts":
        spoil(rank, flip(-1) if when == "a bit" else another_legal_copy)
    propose = group._register.propose

    def at_decision(key, value):
        at("after the vote" if key == "1" else "after the vote on the verdict")
        decided = propose(key, value)
        at("after the decision" if key == "1" else "after the verdict")
        return decided

    group._register.propose = at_decision
    words = group.words

    def at_vote(*given):
        votes = words(*given)
        if given[0] > 0:  # a vote, and not a call
            at("on hearing the votes" if given[0] == 1 else "on hearing the votes on the verdict")
        return votes

    group.words = at_vote
    started = time.monotonic()
    at("before the copy")
    handed = rank.hand_over()
    seconds = [time.monotonic() - started]
    outcome, committed = handed, None
    if isinstance(handed, RankProposal):
        verdict = VERDICT
        at("while verifying")
        try:
            sharded_target(VocabularyRanks(group, VOCAB), np.zeros((2, VOCAB // group.ranks), np.float32))
        except RanksLost:
            verdict = None
        if fails and what == "disagrees":
            verdict = type(VERDICT)(0, 3, VERDICT.kind)
        started = time.monotonic()
        outcome = rank.ranks.settle(handed, verdict)
        seconds.append(time.monotonic() - started)
    if group.rank == 0:
        if isinstance(outcome, RankDiscard):
            rank.pair.verifier.discard(rank.session, outcome.counter)
        else:
            rank.commit(handed, VERDICT)
        rank.pair.to_worker()
        committed = rank.committed()
    return {
        "reason": outcome.reason if outcome else "committed",
        "detail": outcome.detail if outcome else "",
        "seconds": seconds,
        "committed": committed,
    }
