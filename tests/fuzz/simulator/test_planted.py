"""Each planted bug is found within the seeds that CI runs, and by an invariant that it breaks."""

from __future__ import annotations

import pytest

from fuzz.simulator.violation import INVARIANTS
from fuzz.simulator.world import run
from tests.fuzz.simulator.planted import PLANTED

SEEDS = 240


@pytest.mark.parametrize("bug", PLANTED, ids=[bug.name for bug in PLANTED])
def test_planted_bug_is_found(bug, monkeypatch):
    bug.plant(monkeypatch)
    rounds = 0
    for seed in range(SEEDS):
        outcome = run(seed)
        rounds += outcome.rounds
        if outcome.invariant is not None:
            break
    else:
        pytest.fail(f"{bug.name}: not found in {SEEDS} seeds, {rounds} rounds")
    print(f"{bug.name}: found by [{outcome.invariant}] with seed {seed}, after {rounds} rounds: {outcome.detail}")
    assert outcome.invariant in bug.found_by, outcome.detail
    # The command that is printed for it shows the same again.
    again = run(seed)
    assert (again.invariant, again.detail, again.digest) == (outcome.invariant, outcome.detail, outcome.digest)


def test_there_are_ten_and_each_invariant_finds_one():
    assert len(PLANTED) >= 10
    assert {name for bug in PLANTED for name in bug.found_by} == set(INVARIANTS)
