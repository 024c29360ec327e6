"""What is reported of results, and how connections are paced."""

from __future__ import annotations

import asyncio

import pytest

from pp1wire.attack import Case, Outcome, Report, Target, Verdict
from pp1wire.attack.outcomes import Observation
from pp1wire.attack.report import judged, not_run, skipped, table
from pp1wire.attack.settings import Clock
from pp1wire.wire import RejectCode
from tests.attack.ends import run, settings, verifier_report, worker_report

CASE = Case(name="step/digest", comment="Another prefix.", code=RejectCode.PREFIX_DIGEST_MISMATCH)


@pytest.mark.parametrize(
    ("seen", "verdict", "detail"),
    [
        (Observation(Outcome.CLOSED), Verdict.RIGHT, "code not visible"),
        (Observation(Outcome.CLOSED, "late"), Verdict.RIGHT, "late"),
        (Observation(Outcome.CLOSED, "for another reason", fits=False), Verdict.WRONG, "for another reason"),
        *((Observation(o), Verdict.WRONG, "") for o in Outcome if o is not Outcome.CLOSED),
    ],
)
def test_the_verdict_on_what_was_seen(seen, verdict, detail):
    result = judged(CASE, seen)
    assert (result.verdict, result.observed, result.detail) == (verdict, str(seen.outcome), detail)


def test_what_was_not_seen_is_neither_right_nor_wrong():
    report = Report(Target.WORKER, "127.0.0.1:1", 3)
    assert report.complete
    report.results += [judged(CASE, Observation(Outcome.CLOSED)), skipped(CASE, "one slot is agreed")]
    assert report.complete
    assert report.wrong == []
    report.results.append(not_run(CASE, "the time was up"))
    assert not report.complete
    assert report.counts() == {"right": 1, "wrong": 0, "skipped": 1, "not run": 1}
    assert "Not run, from step/digest on: the time was up" in report.lines()
    assert report.lines()[-1] == "3 cases: 1 right, 0 wrong, 1 skipped, 1 not run; not complete"
    assert set(report.to_json()) == {"target", "address", "seed", "ok", "complete", "counts", "terms", "cases"}


def test_an_interrupted_report_is_not_complete():
    report = Report(Target.VERIFIER, "127.0.0.1:1", 0, [judged(CASE, Observation(Outcome.CLOSED))])
    report.interrupted = True
    assert not report.complete


def test_columns_are_as_wide_as_their_longest_entry():
    assert table(("a", "b"), [("xxx", "y"), ("", "")]) == ["a    b", "xxx  y", ""]


def test_no_more_connections_are_made_than_the_rate_allows(monkeypatch):
    """On a clock of the test's own: ten a second, the first at once."""
    now, made = [100.0], []

    async def main():
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: now[0])

        async def sleep(seconds):
            now[0] += seconds

        monkeypatch.setattr(asyncio, "sleep", sleep)
        clock = Clock(settings("127.0.0.1:1", rate=10.0, max_seconds=0.85))
        for _ in range(6):
            await clock.pace()
            made.append(round(now[0] - 100, 6))
        now[0] += 0.3  # a slow case earns no burst
        for _ in range(2):
            await clock.pace()
            made.append(round(now[0] - 100, 6))
        monkeypatch.undo()
        return clock

    asyncio.run(main())
    assert made == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 0.9]


@pytest.mark.parametrize("report", [worker_report, verifier_report])
def test_the_time_for_everything_ends_a_case_that_would_take_longer(report):
    """A stall that is an hour long, and a limit that is not."""
    case = Case(
        name="fault/an-hour", comment="Nothing.", code=None, state="asked", script=lambda _: asyncio.sleep(3600)
    )
    with pytest.MonkeyPatch.context() as patch:
        for target in ("worker", "verifier"):
            patch.setattr(f"pp1wire.attack.{target}_attack.{target}_cases", lambda: iter([case, CASE]))
        done = run(report(max_seconds=2.0), limit=30)
    assert [(r.verdict, r.detail) for r in done.results] == [(Verdict.NOT_RUN, "the time was up")] * 2
