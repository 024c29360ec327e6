"""One file judged by several processes, each its own connections, with the report that one process gives."""

from __future__ import annotations

import stat
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pp1wire.capture._shares import Share
from pp1wire.capture.connections import ConnectionFacts, KeptConnections
from pp1wire.capture.findings import Finding, Placed, Severity
from pp1wire.capture.pcapng import CapturedPacket, Truncated
from pp1wire.capture.remote import is_url
from pp1wire.capture.sources import Kind, Progress, Source
from pp1wire.capture.summary import Summary
from pp1wire.capture.validate import REASSEMBLED, FileResult, Result, Validator, counted, no_pp1, unreadable
from pp1wire.wire import Hello

__all__ = ["Part", "is_shared", "judge_part", "merge_parts"]

_WORTH: Final = 8 << 20
"""Bytes of a file from which on sharing it is worth the processes."""


@dataclass(slots=True)
class Part:
    """What one process made of its share of a file.

    Attributes:
        file, summary: of the share.
        connections: of those of the share that speak PP1, as many as are told of.
        placed: its findings, as many of each severity as are kept, with their places.
        known_at: see `Share.known_at`.
        ended: the file's packets were read to the end.
        trouble: what the file is unreadable for, and from which byte on.
    """

    file: FileResult
    summary: Summary
    connections: list[ConnectionFacts] = field(default_factory=list)
    placed: list[Placed] = field(default_factory=list)
    known_at: array[int] = field(default_factory=lambda: array("Q"))
    ended: bool = False
    trouble: tuple[str, int | None] | None = None


def is_shared(name: str) -> bool:
    """Whether a file is worth sharing, and can be read by several: one of 8 MiB and more, here."""
    if is_url(name):
        return False  # to fetch it several times would cost more
    try:
        found = Path(name).stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size >= _WORTH


def judge_part(
    name: str,
    index: int,
    count: int,
    *,
    ports: Collection[int] = (),
    peer: Hello | None = None,
    max_findings: int = 1000,
    progress: Progress | None = None,
) -> Part:
    """Read a file, and judge the share of process `index` of `count`; arguments otherwise as of `validate`."""
    judge = _PartValidator(index, count, ports=ports, peer=peer, max_findings=max_findings, progress=progress)
    judge.add_path(name)
    return judge.part


def merge_parts(parts: Sequence[Part], max_findings: int) -> Result:
    """What one process would have made of the file.

    What all have read (the file, its packets) counts once, as the first part has it. If they have not read the same, as of a file
    that changes, that is a finding.
    """
    first = parts[0]
    if first.file.kind == Kind.STREAM:
        parts = parts[:1]  # the others leave it alone
    name = first.file.name
    counts, summary, placed, connections = Counter[str](), Summary(), [], KeptConnections()
    for index, part in enumerate(parts):
        counts.update(part.file.counts)
        summary.add(part.summary)
        for facts in part.connections:
            connections.add(replace(facts, connection=_number(parts, index, facts.connection)))
        for shown, connection, order, finding in part.placed:
            if finding.connection is not None:
                connection = number = _number(parts, index, finding.connection)
                finding = replace(finding, connection=number)
            placed.append((shown, connection, index, order, finding))
    summary.files, summary.packets, summary.span_ns = 1, first.summary.packets, first.summary.span_ns
    last: list[Finding] = []
    if all(part.ended for part in parts) and not summary.connections:
        last.append(no_pp1(name))
    if (differing := _difference(parts)) is not None:
        last.append(unreadable(differing, name, None))
    for finding in last:
        counts[str(finding.severity)] += 1
    findings = [entry[-1] for entry in sorted(placed, key=lambda entry: entry[:-1])] + last
    return Result(
        [replace(first.file, counts=counts)],
        _first_of_each_severity(findings, max_findings),
        Counter(counts),
        connections.ordered(),
        summary,
    )


def _number(parts: Sequence[Part], index: int, number: int) -> int:
    """Among the connections of all parts, of the one that has this number in its own."""
    if len(parts) == 1:
        return number
    known_at = parts[index].known_at[number - 1]
    return number + sum(bisect_left(p.known_at, known_at) for i, p in enumerate(parts) if i != index)


def _difference(parts: Sequence[Part]) -> str | None:
    seen = list(dict.fromkeys(_read(part) for part in parts))
    return None if len(seen) == 1 else f"read differently by the processes that share it: {'; '.join(seen)}"


def _read(part: Part) -> str:
    what = f"{part.file.size} bytes, {part.summary.packets} packets"
    return what if part.trouble is None else f"{what}, then {part.trouble[0]}"


def _first_of_each_severity(findings: Iterable[Finding], most: int) -> list[Finding]:
    kept, seen = [], Counter[Severity]()
    for finding in findings:
        seen[finding.severity] += 1
        if seen[finding.severity] <= most:
            kept.append(finding)
    return kept


class _PartValidator(Validator):
    def __init__(
        self,
        index: int,
        count: int,
        *,
        ports: Collection[int],
        peer: Hello | None,
        max_findings: int,
        progress: Progress | None,
    ) -> None:
        super().__init__(ports=ports, peer=peer, max_findings=max_findings, progress=progress)
        self._share = Share(index, count)
        self.part = Part(FileResult(""), self.result.summary, known_at=self._share.known_at)

    def _stream(self, source: Source, name: str) -> None:
        if self._share.index == 0:
            super()._stream(source, name)

    def _packets(self, reader: Iterable[CapturedPacket | Truncated], name: str) -> None:
        self._judge(self._share.events(counted(reader, self.result.summary, self._file), **REASSEMBLED), name)
        self.part.ended = True

    def _unreadable(self, reason: str, offset: int | None) -> None:
        self.part.trouble = (reason, offset)
        if self._share.index == 0:
            super()._unreadable(reason, offset)

    def _close(self) -> FileResult:
        self.part.file, self.part.placed = self._file, self._found.placed()
        self.part.connections = self._connections.ordered()
        return self._file
