"""The real ends, slots and ranks under every fault of the simulator: nothing breaks, and each fault and answer was seen."""

from __future__ import annotations

from functools import lru_cache

import pytest

from fuzz.simulator.report import Report
from fuzz.simulator.scenario import FAMILIES
from fuzz.simulator.world import Outcome, run

PARTS, SEEDS = 6, 40


@lru_cache(PARTS)
def part(number: int) -> tuple[Outcome, ...]:
    """The runs of one part of the seeds."""
    return tuple(run(seed) for seed in range(number * SEEDS, (number + 1) * SEEDS))


@pytest.fixture(scope="module")
def report():
    """All parts together."""
    report = Report()
    for number in range(PARTS):
        for outcome in part(number):
            report.add(outcome)
    print(f"{report.seeds} seeds, {report.rounds} rounds", *report.text().splitlines()[1:], sep="\n")
    return report


@pytest.mark.parametrize("number", range(PARTS))
def test_no_seed_breaks_an_invariant(number):
    broken = [outcome for outcome in part(number) if outcome.invariant is not None]
    for outcome in broken:
        print(f"python -m fuzz.simulator --seed {outcome.seed} --trace: [{outcome.invariant}] {outcome.detail}")
    assert not broken
    assert sum(outcome.rounds for outcome in part(number)) > 400


def test_evidence_every_fault_happened(report):
    kinds = {kind for family in FAMILIES.values() for kind in family}
    assert kinds - {kind for kind, count in report.faults.items() if count} == set()


def test_evidence_proposals_were_accepted_rejected_and_discarded_for_every_reason_that_a_fault_has(report):
    assert min(report.stats[name] for name in ("proposals verified", "tokens accepted", "tokens rejected")) > 1000
    assert report.stats["target-only tokens"] > 1000
    discards = {
        "deadline", "consumer", "ticket_mismatch", "body_checksum_mismatch", "completion_rows_mismatch", "too_many_rows",
        "reply_position_mismatch", "reply_position_duplicate", "completion_checksum_mismatch", "completion_bytes_mismatch",
        "completion_context_mismatch", "completion_position_mismatch", "completion_model_error", "completion_draining",
    }  # fmt: skip
    assert discards - set(report.discards) == set()


def test_evidence_connections_were_refused_by_the_rules_that_a_fault_breaks(report):
    rejects = {
        "header_checksum_mismatch", "bad_magic", "truncated", "body_checksum_mismatch", "agreement_mismatch", "hello_refused",
        "round_not_next", "generation_not_next", "session_not_open", "round_still_open", "commit_digest_mismatch",
        "prefix_digest_mismatch", "slot_mismatch", "generation_never_issued", "session_never_issued", "round_never_issued",
    }  # fmt: skip
    assert rejects - set(report.rejects) == set()


def test_rank_agreement_evidence_rounds_ended_in_every_way(report):
    for reason in ("rank_refused", "rank_disagreed", "rank_lost"):
        assert report.stats[f"rank discards: {reason}"] > 0


def test_evidence_requests_ended_in_every_way(report):
    for why in ("length", "stop", "abandoned"):
        assert report.stats[f"requests ended: {why}"] > 0
