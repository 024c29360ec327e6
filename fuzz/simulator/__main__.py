"""Run seeds: `python -m fuzz.simulator --seeds 0:5000`. One that breaks an invariant is printed as the command to replay it.

Exit status 0: no invariant was broken; 1: one was; 2: wrong usage; 130: interrupted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from fuzz.simulator.report import Report
from fuzz.simulator.world import Outcome, run

_CHUNK = 8
_TELL = 5.0


@dataclass(slots=True)
class _Limits:
    start: int
    stop: int | None
    seconds: float | None
    began: float = field(default_factory=time.monotonic)

    def chunks(self) -> Iterator[range]:
        """Seeds in order, until there are no more or time is up."""
        for first in itertools.count(self.start, _CHUNK):
            if self.stop is not None and first >= self.stop:
                return
            if self.seconds is not None and time.monotonic() - self.began > self.seconds:
                return
            yield range(first, first + _CHUNK if self.stop is None else min(first + _CHUNK, self.stop))


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.simulator", description=__doc__.split("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--seeds", type=_seeds, metavar="N or A:B", help="N seeds from 0, or from A up to B - 1")
    parser.add_argument("--seed", type=int, help="one seed, with everything that is known of it")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every line of its event log")
    parser.add_argument("--minutes", type=float, help="stop after so long; without --seeds, seeds go on without end")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON; progress goes to standard error")
    given = parser.parse_args(arguments)
    if given.jobs < 1:
        parser.error("--jobs: expected at least 1")
    if given.seed is not None:
        return _one(given.seed, given.trace, given.json)
    if given.seeds is None and given.minutes is None:
        parser.error("expected --seeds, --seed or --minutes")
    start, stop = given.seeds or (0, None)
    limits = _Limits(start, stop, None if given.minutes is None else given.minutes * 60)
    report = Report()
    progress = sys.stderr if given.json else sys.stdout
    status = 0
    told = time.monotonic()
    try:
        for outcome in _outcomes(limits, given.jobs):
            report.add(outcome)
            if outcome.invariant is not None:
                status = 1
                break
            if (now := time.monotonic()) - told > _TELL:
                told = now
                print(report.line(), file=progress, flush=True)
    except KeyboardInterrupt:
        status = 130
    print(json.dumps(report.as_data()) if given.json else report.text())
    if report.failure is not None:
        print(f"seed {report.failure.seed} breaks an invariant. To replay it:", file=sys.stderr)
        print(f"python -m fuzz.simulator --seed {report.failure.seed} --trace", file=sys.stderr)
    return status


def _one(seed: int, trace: bool, as_json: bool) -> int:
    """One seed, here."""
    report = Report()
    outcome = run(seed, (lambda line: print(line, file=sys.stderr if as_json else sys.stdout)) if trace else None)
    report.add(outcome)
    print(json.dumps(report.as_data()) if as_json else report.text())
    return 0 if outcome.invariant is None else 1


def _outcomes(limits: _Limits, jobs: int) -> Iterator[Outcome]:
    """What each seed came to, in the order of seeds within a chunk; no more is queued than the processes need."""
    if jobs == 1:
        for seeds in limits.chunks():
            yield from map(run, seeds)
        return
    chunks = limits.chunks()
    pool = ProcessPoolExecutor(jobs)
    try:
        waiting: set[Future[list[Outcome]]] = {pool.submit(_run_all, c) for c in itertools.islice(chunks, jobs * 2)}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield from future.result()
                waiting |= {pool.submit(_run_all, chunk) for chunk in itertools.islice(chunks, 1)}
    finally:
        pool.shutdown(cancel_futures=True)


def _run_all(seeds: range) -> list[Outcome]:
    return [run(seed) for seed in seeds]


def _seeds(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    start, stop = (int(first), int(last)) if colon else (0, int(first))
    if not 0 <= start < stop:
        raise ValueError
    return start, stop


if __name__ == "__main__":
    sys.exit(main())
