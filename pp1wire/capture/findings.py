"""What judging a capture finds, in one shape for files, TCP streams and the protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final, TypeAlias

from pp1wire.wire import RejectCode, RemoteProtocolError

__all__ = ["CaptureCode", "ExitStatus", "Finding", "KeptFindings", "Placed", "Severity", "reject_finding"]


class Severity(StrEnum):
    """What a finding says of the traffic, worst first."""

    INVALID = "invalid"
    """A rule of the protocol was broken."""
    UNREADABLE = "unreadable"
    """The file is none, or not what it claims to be, from here on."""
    INCOMPLETE = "incomplete"
    """The capture does not show everything; nothing is said of what it lacks."""
    NOTE = "note"
    """Nothing is wrong."""


class ExitStatus(IntEnum):
    """Exit statuses of `pp1wire validate`."""

    VALID = 0
    INVALID = 1
    INCOMPLETE = 2
    UNREADABLE = 3


class CaptureCode(StrEnum):
    """Codes of findings that are not rejects; those of packets and TCP streams are `SkipCode` and `FindingCode`."""

    TRUNCATED = "truncated"
    """The file ends inside a block. (The reject of this name has a connection and a scope.)"""
    UNREADABLE = "unreadable"
    """The file cannot be opened or read, or is of no known kind."""
    NO_PP1 = "no_pp1"
    """Nothing in the file is PP1."""
    NOT_PP1 = "not_pp1"
    """A connection speaks another protocol and was skipped."""
    UNFINISHED = "unfinished"
    """The capture ends before this direction does."""
    ONE_WAY = "one_way"
    """Only one direction is there; what needs the other is not judged."""
    RESUMED = "resumed"
    """Judging goes on at the next verified header, frame by frame."""
    UNJUDGED = "unjudged"
    """Frames whose layout is not known, as the HELLOs are not there: only header and checksums were judged."""
    GIVEN_UP = "given_up"
    """Too much of unfinished frames would have to be held."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        severity: what it says of the traffic.
        code: of `RejectCode`, `CaptureCode`, `FindingCode` or `SkipCode`, in lower case.
        message: one line for people.
        file: the file's name as it was given.
        packet: number in the file from 1, as Wireshark counts; None for raw streams, and for what no packet shows.
        time_ns: the packet's time, in nanoseconds since 1970.
        connection: number in the file, from 1; None for what concerns none. Raw streams are connection 1.
        endpoints: "client → server".
        direction: "verifier" or "worker": who sent it.
        offset: in bytes from the start of that direction; for findings about the file, in bytes of the file.
        length: bytes concerned, of a gap or cut.
        path, expected, actual: the field, what the rule requires and what was found.
        scope: connection, proposal or stale: what it costs online.
        message_type: of the frame, in lower case.
        identity: (session, generation, round) of the frame.
        uncertain: it stands behind a gap, a conflict, or a beginning that is not there.
    """

    severity: Severity
    code: str
    message: str
    file: str
    packet: int | None = None
    time_ns: int | None = None
    connection: int | None = None
    endpoints: str | None = None
    direction: str | None = None
    offset: int | None = None
    length: int | None = None
    path: str | None = None
    expected: str | None = None
    actual: str | None = None
    scope: str | None = None
    message_type: str | None = None
    identity: tuple[int, int, int] | None = None
    uncertain: bool = False

    @property
    def id(self) -> str:
        """What to call it: file, connection, direction, offset and code, as "run.pcapng:1:worker:4711:ticket_mismatch".

        The same whenever the same file is judged under the same name. Of a packet that belongs to no connection
        "run.pcapng:packet:17:cut"; parts that a finding does not have are left out.
        """
        if self.connection is None and self.packet is not None:
            parts: tuple[object, ...] = (self.file, "packet", self.packet, self.code)
        else:
            parts = (self.file, self.connection, self.direction, self.offset, self.code)
        return ":".join(str(part) for part in parts if part is not None)

    def to_json(self) -> dict[str, Any]:
        """`id` and every attribute, ready for `json.dumps`; absent ones are None."""
        result: dict[str, Any] = {"id": self.id} | {name: getattr(self, name) for name in self.__slots__}
        result["severity"] = str(self.severity)
        result["identity"] = (
            None if self.identity is None else dict(zip(("session", "generation", "round"), self.identity, strict=True))
        )
        return result


def reject_finding(
    error: RemoteProtocolError,
    *,
    file: str,
    packet: int | None,
    time_ns: int | None,
    connection: int,
    endpoints: str | None,
    direction: str | None,
    uncertain: bool,
    advice: str = "",
) -> Finding:
    """A reject as a finding, with `advice` behind its message.

    Late answers are dropped and offers may be refused, both within the rules: notes.
    """
    within = error.scope == "stale" or error.code is RejectCode.HELLO_REFUSED
    return Finding(
        Severity.NOTE if within else Severity.INVALID,
        error.code.name.lower(),
        f"{error.path}: expected {error.expected}, got {error.actual}" + (f"; {advice}" if advice else ""),
        file,
        packet=packet,
        time_ns=time_ns,
        connection=connection,
        endpoints=endpoints,
        direction=direction,
        offset=error.offset,
        path=error.path,
        expected=error.expected,
        actual=error.actual,
        scope=error.scope,
        message_type=None if error.message_type is None else error.message_type.name.lower(),
        identity=error.identity,
        uncertain=uncertain,
    )


class KeptFindings:
    """The first findings of each severity in the order of the capture, whatever the order in which connections were judged.

    The findings of a connection stay in their order, each where the capture has shown it and all before it: at the latest
    packet of them. What no packet shows comes behind, by connection, and last what concerns the file.

    Args:
        most: kept of each severity.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Severity, list[Placed]] = {}
        self._count = 0
        self._shown: dict[int, float] = {}  # by connection, the least recent first

    def add(self, finding: Finding) -> None:
        """Keep it, unless there are enough before it."""
        kept = self._kept.setdefault(finding.severity, [])
        self._count += 1
        kept.append((self._shown_at(finding), _or_last(finding.connection), self._count, finding))
        if len(kept) > 2 * self._most:
            self._shorten(kept)

    def ordered(self) -> list[Finding]:
        """All of every severity."""
        return [placed[3] for placed in self.placed()]

    def placed(self) -> list[Placed]:
        """The same, each with its place."""
        for kept in self._kept.values():
            self._shorten(kept)
        return sorted((p for kept in self._kept.values() for p in kept), key=_place)

    def _shown_at(self, finding: Finding) -> float:
        packet = _or_last(finding.packet)
        if finding.connection is None:
            return packet
        packet = max(packet, self._shown.pop(finding.connection, 0))
        self._shown[finding.connection] = packet
        if len(self._shown) > _MAX_SHOWN:
            del self._shown[next(iter(self._shown))]
        return packet

    def _shorten(self, kept: list[Placed]) -> None:
        kept.sort(key=_place)
        del kept[self._most :]


Placed: TypeAlias = tuple[float, float, int, Finding]
"""A finding behind what puts it in order: the packet that shows it, its connection, and how many were told before."""

_MAX_SHOWN: Final = 1 << 14
"""Connections whose latest packet with a finding is known: more than are ever followed at a time."""


def _place(placed: Placed) -> tuple[float, float, int]:
    return placed[:3]


def _or_last(number: int | None) -> float:
    return math.inf if number is None else number
