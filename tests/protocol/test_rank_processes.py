"""One, two and four real processes: the bits of one process; a rank that corrupts, disagrees, stalls or is killed.

Limits: no scenario runs longer than 20 s, whatever happens in it; then its processes are killed and the test fails.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIOS = "tests.protocol.rank_scenarios"
LIMIT = 20.0
TIMEOUT = 0.5
"""Of an exchange, in the tests that wait for it."""
SLACK = 1.0
"""For a machine that is busy with other things."""


class Server:
    """The process that forks ranks."""

    def __init__(self, log):
        command = [sys.executable, "-W", "error::DeprecationWarning", str(ROOT / "tests" / "rank_server.py"), SCENARIOS]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT
        )
        self.log = log
        assert self.line(40) == "ready"

    def line(self, seconds):
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise AssertionError(f"no answer in {seconds} s")
        return self.process.stdout.readline().strip()

    def run(self, ranks, function, *, timeout=10.0, resume=0.0, store="outside", **arguments):
        """What each rank returned; None for one that was killed."""
        ask = {
            "ranks": ranks, "function": function, "timeout": timeout, "resume": resume, "store": store, "limit": LIMIT,
            "module": SCENARIOS, "arguments": arguments,
        }  # fmt: skip
        self.process.stdin.write(json.dumps(ask) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.line(LIMIT + 5))
        assert said["late"] == [], f"ranks {said['late']} did not end in {LIMIT} s"
        for answer in said["answers"]:
            assert answer is None or "error" not in answer, answer["error"]
        return [None if answer is None else answer["result"] for answer in said["answers"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with (tmp_path_factory.mktemp("ranks") / "log").open("w+") as log:
        running = Server(log)
        yield running
        running.process.stdin.close()
        assert running.process.wait(10) == 0
        running.process.stdout.close()
    children = [p for p in Path("/proc").glob("[0-9]*/stat") if parent_of(p) == running.process.pid]
    assert children == []


def parent_of(stat):
    try:
        return int(stat.read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


@pytest.mark.parametrize("vocabulary", [41, 1000])
def test_ranks_make_the_counts_tokens_and_verdicts_of_one_process(server, vocabulary):
    one = server.run(1, "laws", vocabulary=vocabulary, seed=3)
    for ranks in (2, 4):
        assert server.run(ranks, "laws", vocabulary=vocabulary, seed=3) == one * ranks


def test_requests_on_ranks_have_the_verdicts_of_one_process(server):
    one = server.run(1, "requests")
    for ranks in (2, 4):
        assert server.run(ranks, "requests") == one * ranks


@pytest.mark.parametrize("representation", ["sparse", "dense"])
def test_rank_agreement_rounds_are_those_of_one_process(server, representation):
    one = server.run(1, "rounds", representation=representation, count=3)
    for ranks in (2, 4):
        assert server.run(ranks, "rounds", representation=representation, count=3) == one * ranks


def discarded_alike(results, reason, failed=()):
    """Every rank that lives says the same reason, and rank 0 has committed nothing."""
    living = [result for result in results if result is not None]
    assert len(living) == len(results) - len(failed)
    assert {result["reason"] for result in living} == {reason}, results
    assert results[0] is None or results[0]["committed"] == []
    return living


@pytest.mark.parametrize(("ranks", "which"), [(2, 1), (4, 2), (2, 0)])
@pytest.mark.parametrize(("what", "when", "reason"), [
    ("corrupts", "a bit", "rank_refused"),
    ("corrupts", "another q", "rank_disagreed"),
    ("disagrees", "on the verdict", "rank_disagreed"),
])  # fmt: skip
def test_rank_agreement_corrupt_copies_and_other_verdicts_commit_nothing(server, ranks, which, what, when, reason):
    results = server.run(ranks, "fault", which=which, what=what, when=when)
    details = {result["detail"] for result in discarded_alike(results, reason)}
    assert len(details) == 1
    assert f"rank {which}" in details.pop() or which == 0


@pytest.mark.parametrize(("ranks", "which"), [(2, 1), (4, 0)])
@pytest.mark.parametrize(
    "when", ["before the copy", "before the vote", "after the vote", "after the decision", "while verifying"]
)
def test_rank_agreement_a_killed_rank_discards_on_all_at_once(server, ranks, which, when):
    """Found by its closed connections: nobody waits for the timeout of 10 s."""
    results = server.run(ranks, "fault", which=which, what="killed", when=when)
    assert results[which] is None
    for result in discarded_alike(results, "rank_lost", [which]):
        assert max(result["seconds"]) < 5


@pytest.mark.parametrize(
    ("ranks", "which", "when"),
    [(2, 0, "before the copy"), (4, 2, "before the vote"), (2, 0, "before the vote"), (4, 2, "while verifying")],
)
def test_rank_agreement_a_stalled_rank_discards_on_all_within_the_stated_time(server, ranks, which, when):
    """It is stopped (SIGSTOP) and woken long after: it says what the others said."""
    results = server.run(ranks, "fault", which=which, what="stalled", when=when, timeout=TIMEOUT, resume=4 * TIMEOUT)
    for rank, result in enumerate(discarded_alike(results, "rank_lost")):
        if rank != which:
            handing_over, *settling = result["seconds"]
            assert handing_over < 3 * TIMEOUT + SLACK
            assert all(seconds < 2 * TIMEOUT + SLACK for seconds in settling)


@pytest.mark.parametrize(
    ("which", "when", "outcome"),
    [
        (0, "on hearing the votes", "rank_lost"),
        (3, "after the decision", "rank_lost"),
        (0, "on hearing the votes on the verdict", "committed"),
        (0, "after the vote on the verdict", "committed"),
        (3, "after the vote on the verdict", "committed"),
    ],
)
def test_rank_agreement_whoever_is_stalled_around_a_decision_hears_it_on_waking(server, which, when, outcome):
    """What all have voted for is decided, whether or not a rank hears of it in time; it is then lost at the next step."""
    results = server.run(4, "fault", which=which, what="stalled", when=when, timeout=2 * TIMEOUT, resume=3 * TIMEOUT)
    assert [result["reason"] for result in results] == [outcome] * 4
    assert len(results[0]["committed"]) == (2 if outcome == "committed" else 0)


def test_rank_agreement_with_the_store_in_a_killed_leader_is_lost_on_all(server):
    results = server.run(4, "fault", which=0, what="killed", when="after the vote", store="in rank 0")
    discarded_alike(results, "rank_lost", [0])
