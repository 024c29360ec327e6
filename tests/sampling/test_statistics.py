"""Whole rounds by the hundred thousand, through the production functions and real addresses, under chi-square."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pp1wire.sampling import (
    MASS,
    Key,
    batch,
    dense_row,
    draft_chain,
    dyadic_counts,
    logit_grid,
    proposal_seed,
    proposal_tickets,
    sample,
    tickets_agree,
    verification_seed,
    verify_batch,
)
from tests.sampling.helpers import chi_square_p, chi_square_tail

V = 16
DEPTH = 3
TRIALS = 200_000
BATCH = 20_000
LOGITS = np.random.default_rng(20).normal(scale=0.8, size=(V, V)).astype(np.float32)  # row x: the target after token x
TARGET = logit_grid(LOGITS)
# The hardest draft for shared noise: what the target likes, the draft does not.
DRAFT = np.stack([dense_row(dyadic_counts(-row, 1.0), V) for row in LOGITS]).astype(np.int64)
EDGES = np.cumsum(DRAFT, axis=1)
PROPOSAL, VERIFICATION = proposal_seed(77), verification_seed(77)


def draw(contexts, rounds, position, seed):
    """One token a trial with the production tickets; `tickets_agree` and `sample` confirm them."""
    tickets = proposal_tickets(seed, 1, rounds, position)
    tokens = np.count_nonzero(EDGES[contexts] <= tickets[:, None], axis=1)
    assert tickets_agree(DRAFT[contexts], tickets, tokens).all()
    assert tokens[0] == sample(np.arange(V), DRAFT[contexts[0]], int(tickets[0]))
    return tokens


def emissions(proposal, verification, trials, discard=None):
    """For each position the counts [context, token] of what was emitted there, and how many drafts were accepted."""
    counts = np.zeros((DEPTH + 1, V, V), np.int64)
    evidence = {"drafts": 0, "accepted": 0, "corrections": 0, "bonuses": 0}
    for start in range(0, trials, BATCH):
        rounds = np.arange(start, min(start + BATCH, trials)) + 1
        contexts = np.zeros((rounds.size, DEPTH + 1), np.int64)
        for i in range(DEPTH):
            contexts[:, i + 1] = draw(contexts[:, i], rounds, 100 + i, proposal)
        drafts = contexts[:, 1:]
        verdict = verify_batch(TARGET[contexts], DRAFT[contexts[:, :-1]], drafts, verification, 1, rounds, 100)
        accepted, last = verdict.accepted, verdict.tokens
        if discard is not None:
            gone = discard(rounds, drafts)
            fresh = verify_batch(  # target-only: any exact draw of the target; a one-token round of other noise
                TARGET[np.zeros((rounds.size, 2), int)],
                DRAFT[np.zeros((rounds.size, 1), int)],
                draw(np.zeros(rounds.size, int), rounds, 5000, proposal)[:, None],
                verification,
                1,
                rounds,
                5000,
            )
            single = np.where(
                fresh.accepted > 0, draw(np.zeros(rounds.size, int), rounds, 5000, proposal), fresh.tokens
            )
            accepted, last = np.where(gone, 0, accepted), np.where(gone, single, last)
        for i in range(DEPTH + 1):
            reached = accepted >= i
            emitted = np.where(accepted == i, last, drafts[:, min(i, DEPTH - 1)])[reached]
            np.add.at(counts[i], (contexts[reached, i], emitted), 1)
        evidence["drafts"] += drafts.size
        evidence["accepted"] += int(accepted.sum())
        evidence["bonuses"] += int(verdict.bonus.sum())
        evidence["corrections"] += int((~verdict.bonus).sum())
    return counts, evidence


def p_values(counts):
    """Chi-square at every position, over all (context, token) cells with the totals of the contexts given."""
    values = []
    for table in counts:
        seen = np.flatnonzero(table.sum(axis=1) >= 100)
        expected = table[seen].sum(axis=1)[:, None] * (TARGET[seen] / TARGET[seen].sum(axis=1)[:, None])
        values.append(chi_square_p(table[seen], expected, groups=seen.size))
    return values


def test_domains_apart_give_the_target_law_at_every_position():
    counts, evidence = emissions(PROPOSAL, VERIFICATION, TRIALS)
    assert min(p_values(counts)) > 1e-3, p_values(counts)
    assert all(evidence.values()), evidence
    assert counts[0].sum() == TRIALS
    assert counts[DEPTH].sum() == evidence["bonuses"] > 1000


def test_domains_apart_hold_even_under_one_seed():
    """One seed for both owners is not how it is used, but the domains alone already keep the noise apart."""
    counts, _ = emissions(PROPOSAL, PROPOSAL, TRIALS // 4)
    assert min(p_values(counts)) > 1e-3


@pytest.mark.parametrize("merged", ["all", "acceptance", "correction"])
def test_domains_merged_fail_the_same_test(merged, monkeypatch):
    """Negative control: acceptance or correction on the proposal's noise is visibly not the target's law."""
    names = {"ACCEPTANCE": 2, "CORRECTION": 3, "BONUS": 4}
    changed = {name: 1 if merged in ("all", name.lower()) else value for name, value in names.items()}
    monkeypatch.setattr(batch, "Domain", SimpleNamespace(**changed))
    counts, evidence = emissions(PROPOSAL, PROPOSAL, TRIALS if merged == "all" else TRIALS // 4)
    assert all(evidence.values())
    assert min(p_values(counts)) < 1e-30


def test_no_echo_two_generations_are_independent():
    """The same round in two generations: its tokens are as independent as two different rounds."""
    rounds = np.arange(1, 40_001)
    tickets = [proposal_tickets(PROPOSAL, generation, rounds, 100) for generation in (1, 2)]
    tokens = [np.count_nonzero(EDGES[0] <= t[:, None], axis=1) for t in tickets]
    q = DRAFT[0] / MASS
    table = np.zeros((V, V), np.int64)
    np.add.at(table, tuple(tokens), 1)
    assert chi_square_p(table, np.outer(q, q) * rounds.size) > 1e-3
    echo = np.diag(np.bincount(tokens[0], minlength=V))
    assert chi_square_p(echo, np.outer(q, q) * rounds.size) < 1e-30


def test_steering_discard_by_the_drawn_token_fails_and_by_the_round_does_not():
    trials = TRIALS // 4
    fair, _ = emissions(PROPOSAL, VERIFICATION, trials, discard=lambda rounds, drafts: rounds % 3 == 0)
    assert min(p_values(fair)) > 1e-3
    unfair, _ = emissions(PROPOSAL, VERIFICATION, trials, discard=lambda rounds, drafts: drafts[:, 0] >= V // 2)
    assert p_values(unfair)[0] < 1e-30


def test_steering_worker_that_picks_q_by_its_ticket_fails():
    """Of two honest-looking rows the worker sends the one whose ticket gives the lower token; tickets agree all along."""
    trials = TRIALS // 4
    rounds = np.arange(1, trials + 1)
    rows = np.stack([DRAFT[0], DRAFT[0][::-1]])
    tickets = proposal_tickets(PROPOSAL, 1, rounds, 100)
    both = np.count_nonzero(np.cumsum(rows, axis=1)[None] <= tickets[:, None, None], axis=2)
    p = np.zeros((trials, 2, V), np.int64) + TARGET[0]

    def emitted(choice):
        tokens, q = both[np.arange(trials), choice], rows[choice]
        assert tickets_agree(q, tickets, tokens).all()
        verdict = verify_batch(p, q[:, None], tokens[:, None], VERIFICATION, 1, rounds, 100)
        assert 0 < verdict.bonus.sum() < trials
        return np.bincount(np.where(verdict.bonus, tokens, verdict.tokens), minlength=V)

    expected = trials * TARGET[0] / TARGET[0].sum()
    assert chi_square_p(emitted(rounds % 2), expected) > 1e-3
    assert chi_square_p(emitted(np.argmin(both, axis=1)), expected) < 1e-30


def test_one_q_histogram_of_the_drafter_fits_the_counts_it_returns():
    """draft_chain's own tokens against draft_chain's own rows; rows of another temperature are a planted mismatch."""
    trials = 4000
    logits = LOGITS[:2]
    bias = LOGITS * np.float32(0.3)
    drafts = [
        draft_chain(logits, 1.0, Key(PROPOSAL, 1, r, 100), bias=bias.__getitem__, previous=3) for r in range(trials)
    ]
    first = dense_row(drafts[0].rows[0], V)
    assert all(np.array_equal(dense_row(d.rows[0], V), first) for d in drafts[:50])
    assert chi_square_p(np.bincount([d.tokens[0] for d in drafts], minlength=V), first / MASS * trials) > 1e-3
    # Second position: each token against the row it came with, summed over the chains (contexts differ).
    second = np.bincount([d.tokens[1] for d in drafts], minlength=V)
    assert chi_square_p(second, sum(dense_row(d.rows[1], V) / MASS for d in drafts)) > 1e-3
    mismatch = dense_row(dyadic_counts(logits[0] + bias[3], 1.5), V)
    assert chi_square_p(np.bincount([d.tokens[0] for d in drafts], minlength=V), mismatch / MASS * trials) < 1e-6
    assert len({int(d.tokens[0]) for d in drafts}) > V // 2


def test_chi_square_helper_knows_its_tail():
    """Published quantiles of the chi-square law."""
    assert chi_square_tail(3.841458820694124, 1) == pytest.approx(0.05, abs=1e-9)
    assert chi_square_tail(18.307038053275146, 10) == pytest.approx(0.05, abs=1e-9)
    assert chi_square_tail(135.80672317102676, 100) == pytest.approx(0.01, abs=1e-9)
    assert chi_square_tail(1e4, 10) < 1e-300
