"""Files judged by several processes at a time, with the report that one process gives.

A file is judged by one process, or a large one, where there are more processes than files, by several: each judges its own
connections. The results are put together in the order in which the files were named. What crosses the pipes is pickled,
between processes of this program alone.
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

from pp1wire.capture.connections import MAX_CONNECTIONS_TOLD
from pp1wire.capture.findings import CaptureCode, Finding, Severity
from pp1wire.capture.remote import shown_name
from pp1wire.capture.sharing import Part, is_shared, judge_part, merge_parts
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


@dataclass(frozen=True, slots=True)
class _Work:
    """A file, or the share of process `index` of `count` of it."""

    place: int
    name: str
    index: int
    count: int


@dataclass(slots=True)
class _Job:
    process: SpawnProcess
    pipe: Connection
    ready: bool = False
    work: _Work | None = None
    """What it has in hand."""


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
    shares = _Shares(merged, max_findings)
    waiting = [work for place, name in enumerate(names) for work in _works(place, name, jobs // len(names))][::-1]
    crew: list[_Job] = []
    try:
        while merged.count < len(names):
            busy = sum(job.work is not None for job in crew)
            while len(crew) < min(jobs, busy + len(waiting)):
                crew.append(_start(options))
            ready = wait([job.pipe for job in crew])
            for job in [job for job in crew if job.pipe in ready]:
                try:
                    said = job.pipe.recv()
                except (EOFError, OSError):
                    crew.remove(job)
                    _died(job, shares)
                    continue
                if isinstance(said, tuple):
                    if progress is not None:
                        progress(*said)
                    continue
                if job.work is not None:
                    shares.add(job.work, said)
                job.ready, job.work = True, None
                if waiting:
                    job.work = waiting.pop()
                    _hand(job, job.work)
    finally:
        for job in crew:
            job.process.kill()
            job.process.join()
            job.pipe.close()
    return merged.total


def _works(place: int, name: str, processes: int) -> list[_Work]:
    count = processes if processes > 1 and is_shared(name) else 1
    return [_Work(place, name, index, count) for index in range(count)]


class _Shares:
    """Waits for all shares of a file."""

    def __init__(self, merged: Merged, max_findings: int) -> None:
        self._merged = merged
        self._max_findings = max_findings
        self._parts: dict[int, dict[int, Part]] = {}
        self._lost: set[int] = set()

    def add(self, work: _Work, said: Result | Part) -> None:
        """What a process made of its work."""
        if isinstance(said, Result):
            self._merged.add(work.place, said)
        elif work.place not in self._lost:
            parts = self._parts.setdefault(work.place, {})
            parts[work.index] = said
            if len(parts) == work.count:
                del self._parts[work.place]
                self._merged.add(work.place, merge_parts([parts[i] for i in range(work.count)], self._max_findings))

    def lose(self, work: _Work, how: str) -> None:
        """A process did not finish it: the file is lost, with the shares of the others."""
        if work.place not in self._lost:
            self._lost.add(work.place)
            self._parts.pop(work.place, None)
            who = "the process" if work.count == 1 else "a process"
            self._merged.add(work.place, lost(work.name, f"{who} that judged it {how}"))


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


def _hand(job: _Job, work: _Work) -> None:
    try:
        job.pipe.send(work)
    except OSError:
        return  # it has died: the next look at the pipe says so


def _died(job: _Job, shares: _Shares) -> None:
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
    if job.work is not None:
        shares.lose(job.work, how)


def lost(name: str, reason: str) -> Result:
    """The result of a file whose own was lost: it is unreadable."""
    unreadable = Counter({str(Severity.UNREADABLE): 1})
    name = shown_name(name)
    result = Result([FileResult(name, counts=unreadable)], counts=Counter(unreadable))
    result.findings.append(Finding(Severity.UNREADABLE, CaptureCode.UNREADABLE, reason, name))
    result.summary.files = 1
    return result


def _judge_all(pipe: Connection, options: _Options) -> None:
    """A process: does all the work that the pipe hands it, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C reaches all of them; the first ends the others
    said: Result | Part | None = None  # ready
    try:
        while True:
            pipe.send(said)
            said = _judge(pipe.recv(), pipe, options)
    except (EOFError, OSError):
        return  # who asked has gone


def _judge(work: _Work, pipe: Connection, options: _Options) -> Result | Part:
    tell: Progress | None = None
    if options.tells and work.index == 0:  # all who share a file read it

        def tell(name: str, count: int) -> None:
            pipe.send((name, count))

    ports, peer, most = options.ports, options.peer, options.max_findings
    if work.count > 1:
        return judge_part(work.name, work.index, work.count, ports=ports, peer=peer, max_findings=most, progress=tell)
    validator = Validator(ports=ports, peer=peer, max_findings=most, progress=tell)
    validator.add_path(work.name)
    return validator.result
