"""Files judged by several processes at a time, with the report that one process gives.

A file is judged whole by one process, so its findings and totals do not depend on the others; they are put together in the
order in which the files were named. What crosses the pipes is pickled, between processes of this program alone.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from pp1wire.capture.connections import MAX_CONNECTIONS_TOLD
from pp1wire.capture.findings import CaptureCode, Finding, Severity
from pp1wire.capture.remote import shown_name
from pp1wire.capture.sources import Progress
from pp1wire.capture.validate import FileResult, Result, Validator
from pp1wire.errors import PP1Error
from pp1wire.wire import Hello

__all__ = ["JobsError", "Merged", "add_result", "cores", "lost", "validate_files"]


class JobsError(PP1Error):
    """The processes cannot be started."""


@dataclass(frozen=True, slots=True)
class _Options:
    ports: Collection[int]
    peer: Hello | None
    max_findings: int
    tells: bool


@dataclass(slots=True)
class _Job:
    process: SpawnProcess
    pipe: Connection
    ready: bool = False
    place: int | None = None
    """Of the file in hand."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def validate_files(
    names: Sequence[str],
    jobs: int,
    *,
    ports: Collection[int] = (),
    peer: Hello | None = None,
    max_findings: int = 1000,
    progress: Progress | None = None,
) -> Result:
    """Judge files, `jobs` (at least 1) at a time; arguments otherwise as of `validate`.

    A process that dies makes the file that it had in hand unreadable; another takes its place. All have ended on return,
    also where this raises. Each holds as much memory as a run with one job.

    Raises:
        JobsError: a process ended before it could take a file, as where a program calls this on import, without
            `if __name__ == "__main__":`.
    """
    options = _Options(tuple(ports), peer, max_findings, progress is not None)
    merged = Merged(max_findings)
    waiting = list(reversed(range(len(names))))
    crew: list[_Job] = []
    try:
        while merged.count < len(names):
            while len(crew) < min(jobs, len(names) - merged.count):
                crew.append(_start(options))
            ready = wait([job.pipe for job in crew])
            for job in [job for job in crew if job.pipe in ready]:
                try:
                    said = job.pipe.recv()
                except (EOFError, OSError):
                    crew.remove(job)
                    _died(job, names, merged)
                    continue
                if isinstance(said, tuple):
                    if progress is not None:
                        progress(*said)
                    continue
                if job.place is not None:
                    merged.add(job.place, said)
                job.ready, job.place = True, None
                if waiting:
                    job.place = waiting.pop()
                    _hand(job, names[job.place])
    finally:
        for job in crew:
            job.process.kill()
            job.process.join()
            job.pipe.close()
    return merged.total


class Merged:
    """The results of files that are judged in any order, added up in theirs.

    Args:
        max_findings: kept of each severity.
    """

    def __init__(self, max_findings: int) -> None:
        self._max_findings = max_findings
        self._early: dict[int, Result] = {}
        self.total = Result()
        """Of the files whose results are there, and of all before them."""
        self.count = 0
        """Files whose results are there."""

    def add(self, place: int, result: Result) -> None:
        """The result of a file, by its place from 0."""
        self._early[place] = result
        self.count += 1
        while (following := self._early.pop(len(self.total.files), None)) is not None:
            add_result(self.total, following, self._max_findings)


def add_result(total: Result, one: Result, max_findings: int) -> None:
    """Add the result of the files that come next."""
    kept = Counter(finding.severity for finding in total.findings)
    for finding in one.findings:
        if kept[finding.severity] < max_findings:
            kept[finding.severity] += 1
            total.findings.append(finding)
    total.connections.extend(one.connections[: MAX_CONNECTIONS_TOLD - len(total.connections)])
    total.files.extend(one.files)
    total.counts.update(one.counts)
    total.summary.add(one.summary)


def _start(options: _Options) -> _Job:
    context = get_context("spawn")  # a fork of a program with threads may hang
    ours, theirs = context.Pipe()
    process = context.Process(target=_judge_all, args=(theirs, options), daemon=True)
    process.start()
    theirs.close()  # else the end of the process would not end the pipe
    return _Job(process, ours)


def _hand(job: _Job, name: str) -> None:
    try:
        job.pipe.send(name)
    except OSError:
        return  # it has died: the next look at the pipe says so


def _died(job: _Job, names: Sequence[str], merged: Merged) -> None:
    job.process.join()
    job.pipe.close()
    code = job.process.exitcode
    how = "ended"  # where the program itself has reaped it
    if code is not None:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit status {code}"
    if not job.ready:
        raise JobsError(
            f'jobs: a process {how} before it could take a file; a program needs `if __name__ == "__main__":` around its calls'
        )
    if job.place is not None:
        merged.add(job.place, lost(names[job.place], f"the process that judged it {how}"))


def lost(name: str, reason: str) -> Result:
    """The result of a file whose own was lost: it is unreadable."""
    unreadable = Counter({str(Severity.UNREADABLE): 1})
    name = shown_name(name)
    result = Result([FileResult(name, counts=unreadable)], counts=Counter(unreadable))
    result.findings.append(Finding(Severity.UNREADABLE, CaptureCode.UNREADABLE, reason, name))
    result.summary.files = 1
    return result


def _judge_all(pipe: Connection, options: _Options) -> None:
    """A process: judges each file that the pipe names, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches all of them; the first ends the others
    tell: Progress | None = (lambda name, count: pipe.send((name, count))) if options.tells else None
    said: Any = None  # ready
    try:
        while True:
            pipe.send(said)
            name = pipe.recv()
            validator = Validator(
                ports=options.ports, peer=options.peer, max_findings=options.max_findings, progress=tell
            )
            validator.add_path(name)
            said = validator.result
    except (EOFError, OSError):
        return  # who asked has gone
