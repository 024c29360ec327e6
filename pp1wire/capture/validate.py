"""Judges captures: every frame of every connection, by the functions that judge online.

Streaming: memory does not grow with the file. The result is a function of the files' bytes and names alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from pp1wire.capture._connections import Connections
from pp1wire.capture.connections import MAX_CONNECTIONS_TOLD, KeptConnections
from pp1wire.capture.events import Event, PacketFinding
from pp1wire.capture.findings import CaptureCode, ExitStatus, Finding, KeptFindings, Severity
from pp1wire.capture.observing import Observe
from pp1wire.capture.pcapng import CapturedPacket, CaptureError, Readable, Truncated
from pp1wire.capture.reassembly import Reassembler, stream_events
from pp1wire.capture.remote import shown_name
from pp1wire.capture.result import FileResult, Result
from pp1wire.capture.sources import CountingFile, Kind, Progress, Source, open_path, open_source, standard_input
from pp1wire.capture.stream_judge import first_hello, judge_stream
from pp1wire.capture.summary import Summary
from pp1wire.wire import Hello

__all__ = ["FileResult", "Result", "Validator", "status_of", "validate"]

MAX_HELD: Final = 24 << 20
"""Bytes of unfinished frames held, over all connections."""

MAX_CONNECTIONS: Final = 4096
"""Connections followed at a time; beyond that the one silent for longest is ended."""

REASSEMBLED: Final = {"max_held": 16 << 20, "max_recent": 8 << 20, "max_connections": MAX_CONNECTIONS}
"""Bounds of the `Reassembler`: whoever reads a file again, to find the same connections, has to use them."""


def status_of(result: Result) -> ExitStatus:
    """The exit status of `pp1wire validate`: 0 valid, 1 invalid, 2 incomplete, 3 unreadable."""
    return result.status


def validate(
    paths: Iterable[str | os.PathLike[str]],
    *,
    ports: Collection[int] = (),
    peer: str | os.PathLike[str] | None = None,
    max_findings: int = 1000,
    progress: Progress | None = None,
    observe: Observe | None = None,
    jobs: int = 1,
    dask: str | None = None,
) -> Result:
    """Judge files; "-" is the standard input. Whatever is wrong with a file is a finding, never an exception.

    Args:
        paths: pcapng and pcap files and raw one-way streams, also compressed by gzip or zstd.
        ports: server ports that speak PP1: what says otherwise there is invalid instead of skipped.
        peer: the other direction of a raw stream, whose HELLO settles the agreement.
        max_findings: kept of each severity; all are counted.
        progress: see `Progress`.
        observe: receives each verdict, of each connection in order.
        jobs: processes that judge files, each one at a time; 0 for as many as there are cores. The result is the same. With
            fewer files than processes, several share the connections of a large one. One process judges all where "-" is
            among the files, and where `observe` is given.
        dask: the address of a Dask scheduler, whose workers judge the files: see
            `pp1wire.capture.cluster.validate_on_cluster`. The result is the same.

    Raises:
        CaptureError: `peer` cannot be read, or does not begin with a HELLO.
        JobsError: see `pp1wire.capture.parallel.validate_files`.
        ClusterError: the Dask cluster cannot be used.
        ValueError: `jobs` is negative; `dask` together with other `jobs` than 1, with `observe`, or with "-".
    """
    if jobs < 0:
        raise ValueError(f"jobs: expected at least 0, got {jobs}")
    names = [os.fspath(path) for path in paths]
    if dask is not None and (jobs != 1 or observe is not None or "-" in names):
        raise ValueError("dask: expected no jobs, no observer and no standard input beside it")
    hello = None if peer is None else read_hello(peer)
    if dask is not None:
        from pp1wire.capture.cluster import validate_on_cluster

        return validate_on_cluster(names, dask, ports=ports, peer=hello, max_findings=max_findings, progress=progress)
    if jobs != 1 and observe is None and "-" not in names:
        from pp1wire.capture.parallel import cores, validate_files
        from pp1wire.capture.sharing import is_shared

        jobs = jobs or cores()
        if jobs > 1 and (len(names) > 1 or any(map(is_shared, names))):
            return validate_files(names, jobs, ports=ports, peer=hello, max_findings=max_findings, progress=progress)
    validator = Validator(
        ports=ports,
        peer=hello,
        max_findings=max_findings,
        progress=progress,
        observe=observe,
    )
    for name in names:
        validator.add_path(name)
    return validator.result


def read_hello(path: str | os.PathLike[str]) -> Hello:
    """The HELLO that a raw stream begins with. Raises `CaptureError` where there is none."""
    name = os.fspath(path)
    shown = shown_name(name)
    try:
        with open_path(name) as file:
            return first_hello(file, shown)
    except OSError as error:
        raise CaptureError(0, f"cannot read {shown}: {error.strerror or error}") from error


class Validator:
    """Judges one file after another; `result` is up to date after each. Arguments as of `validate`."""

    def __init__(
        self,
        *,
        ports: Collection[int] = (),
        peer: Hello | None = None,
        max_findings: int = 1000,
        max_held: int = MAX_HELD,
        progress: Progress | None = None,
        observe: Observe | None = None,
    ) -> None:
        self.result = Result()
        self._ports = frozenset(ports)
        self._peer = peer
        self._max_findings = max_findings
        self._max_held = max_held
        self._progress = progress
        self._observe = observe
        self._file, self._found = FileResult(""), KeptFindings(max_findings)
        self._connections = KeptConnections()
        self._kept: Counter[Severity] = Counter()

    def add_path(self, path: str | os.PathLike[str]) -> FileResult:
        """Judge a file, or what a URL names; "-" is the standard input."""
        name = os.fspath(path)
        shown = shown_name(name)
        try:
            if name == "-":
                return self.add(standard_input(), name)
            with open_path(name) as file:
                found = self.add(file, shown)
                found.source = name
                return found
        except OSError as error:
            reason = f"cannot open: {error.strerror or error}"
        except CaptureError as error:
            reason = error.reason
        self._open(shown)
        self._unreadable(reason, None)
        return self._close()

    def add(self, file: Readable, name: str) -> FileResult:
        """Judge a binary file or pipe, to its end."""
        self._open(name)
        counting = CountingFile(file, name, self._progress)
        try:
            source = open_source(counting, name)
            self._file.kind = str(source.kind)
            if source.kind is Kind.STREAM:
                self._stream(source, name)
            else:
                self._packets(source.packets(), name)
        except CaptureError as error:
            self._unreadable(error.reason, error.offset)
        self._file.size = counting.count
        return self._close()

    def _open(self, name: str) -> None:
        self._file, self._found = FileResult(name), KeptFindings(self._max_findings)
        self._connections = KeptConnections()
        self.result.files.append(self._file)
        self.result.summary.files += 1

    def _close(self) -> FileResult:
        for finding in self._found.ordered():
            if self._kept[finding.severity] < self._max_findings:
                self._kept[finding.severity] += 1
                self.result.findings.append(finding)
        told = self.result.connections
        told.extend(self._connections.ordered()[: MAX_CONNECTIONS_TOLD - len(told)])
        return self._file

    def _stream(self, source: Source, name: str) -> None:
        facts = judge_stream(
            source.file, source.start, name, self._report, self.result.summary, self._peer, self._observe
        )
        self._connections.add(facts)

    def _packets(self, reader: Iterable[CapturedPacket | Truncated], name: str) -> None:
        before = self.result.summary.connections
        self._judge(stream_events(counted(reader, self.result.summary, self._file), Reassembler(**REASSEMBLED)), name)
        if self.result.summary.connections == before:
            self._report(no_pp1(name))

    def _judge(self, events: Iterable[Event], name: str) -> None:
        connections = Connections(
            name, self._report, self._connections.add, self.result.summary, self._ports, self._max_held, self._observe
        )
        try:
            for event in events:
                if isinstance(event, Truncated):
                    self._report(
                        Finding(Severity.INCOMPLETE, CaptureCode.TRUNCATED, event.message, name, offset=event.offset)
                    )
                elif isinstance(event, PacketFinding):
                    connections.packet(event)
                else:
                    connections.take(event)
        finally:
            connections.finish()
            if self._file.began_ns is not None and self._file.ended_ns is not None:
                self.result.summary.span_ns += self._file.ended_ns - self._file.began_ns

    def _unreadable(self, reason: str, offset: int | None) -> None:
        self._report(unreadable(reason, self._file.name, offset))

    def _report(self, finding: Finding) -> None:
        severity = str(finding.severity)
        self._file.counts[severity] += 1
        self.result.counts[severity] += 1
        self.result.summary.uncertain_findings += finding.uncertain
        self._found.add(finding)


def no_pp1(name: str) -> Finding:
    """No connection of a file speaks PP1."""
    return Finding(Severity.INCOMPLETE, CaptureCode.NO_PP1, "nothing in the file is PP1", name)


def unreadable(reason: str, name: str, offset: int | None) -> Finding:
    """A file cannot be read, from `offset` on."""
    return Finding(Severity.UNREADABLE, CaptureCode.UNREADABLE, reason, name, offset=offset)


def counted(
    reader: Iterable[CapturedPacket | Truncated], summary: Summary, file: FileResult
) -> Iterator[CapturedPacket | Truncated]:
    """The same, while packets are counted, and the file learns the times of its earliest and its latest."""
    for item in reader:
        if isinstance(item, CapturedPacket):
            summary.packets += 1
            time_ns = item.time_ns
            if time_ns is not None:
                if file.ended_ns is None or time_ns > file.ended_ns:
                    file.ended_ns = time_ns
                if file.began_ns is None or time_ns < file.began_ns:
                    file.began_ns = time_ns
        yield item
