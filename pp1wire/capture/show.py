"""Dissects captures: every frame by field name, and what no frame accounts for.

Nothing is judged here but checksums: `pp1wire.wire` verifies each header before Construct reads a byte of the frame, and a
frame whose body is not what its sender hashed is marked.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pp1wire.capture._input import CutError
from pp1wire.capture.dissect import Dissector, body_lines
from pp1wire.capture.events import Chunk, Direction, Ended, Opened, PacketFinding, StreamFinding
from pp1wire.capture.packets import SkipCode
from pp1wire.capture.pcapng import CapturedPacket, CaptureError, Readable, Truncated
from pp1wire.capture.places import Marks
from pp1wire.capture.reassembly import Reassembler, stream_events
from pp1wire.capture.remote import shown_name
from pp1wire.capture.scanner import FrameScanner, Scanned, Undecoded
from pp1wire.capture.sources import CountingFile, Kind, Progress, open_path, open_source, standard_input
from pp1wire.capture.text import printable, time_text
from pp1wire.wire import Frame, RemoteProtocolError
from pp1wire.wire._schema_v2 import MAGIC
from pp1wire.wire.frames import check_body_checksum

__all__ = ["Shown", "show", "show_file"]

_STEP: Final = 1 << 18
_MAX_CONNECTIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing that a capture holds.

    Attributes:
        kind: "frame", "undecoded" (bytes that no verified header accounts for), or the code of a finding about the file,
            a packet or a stream.
        packet, time_ns: that carried its first byte; None for raw streams.
        connection: number in the file, from 1; None for what concerns none.
        endpoints: "sender → receiver"; None for raw streams.
        offset, length: in bytes of the direction.
        body_checksum_ok: of a frame: whether its body is what its sender hashed.
        fields: of a frame: "message", "header" and "body", with enumerations by name.
        message: of everything else, one line.
    """

    kind: str
    packet: int | None = None
    time_ns: int | None = None
    connection: int | None = None
    endpoints: str | None = None
    offset: int | None = None
    length: int | None = None
    body_checksum_ok: bool | None = None
    fields: Mapping[str, Any] | None = None
    message: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`; one object a line is the format of `--json`."""
        return {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}

    def lines(self) -> Iterator[str]:
        """For people: a line that says what and where, and for a frame its fields below."""
        where = [] if self.packet is None else [f"packet {self.packet}"]
        where += [] if self.time_ns is None else [time_text(self.time_ns)]
        where += [] if self.endpoints is None else [f"connection {self.connection}", self.endpoints]
        where += [] if self.offset is None else [f"byte {self.offset}"]
        where += [] if self.length is None else [f"{self.length} bytes"]
        what = self.kind if self.fields is None else self.fields["message"].upper()
        what += "  ✗ BODY CHECKSUM" if self.body_checksum_ok is False else ""
        behind = "" if self.message is None else f": {self.message}"
        yield printable(f"{what}  {', '.join(where)}{behind}" if where else f"{what}{behind}")
        if self.fields is not None:
            yield from body_lines(self.fields)


def show(path: str | os.PathLike[str], *, rows: bool = False, progress: Progress | None = None) -> Iterator[Shown]:
    """Everything in a file, in order; "-" is the standard input.

    Args:
        path: a pcapng or pcap file or a raw one-way stream, also compressed by gzip or zstd.
        rows: whole columns instead of their first entries.
        progress: see `pp1wire.capture.sources.Progress`.

    Raises:
        CaptureError: the file cannot be opened, is of no known kind, or is damaged: after all that comes before.
    """
    name = os.fspath(path)
    if name == "-":
        yield from show_file(standard_input(), name, rows=rows, progress=progress)
        return
    shown = shown_name(name)
    try:
        file = open_path(name)
    except OSError as error:
        raise CaptureError(0, f"cannot open {shown}: {error.strerror or error}") from error
    with file:
        yield from show_file(file, shown, rows=rows, progress=progress)


def show_file(file: Readable, name: str, *, rows: bool = False, progress: Progress | None = None) -> Iterator[Shown]:
    """As `show`, of an open binary file or pipe."""
    source = open_source(CountingFile(file, name, progress), name)
    dissector = Dissector(rows=rows)
    if source.kind is Kind.STREAM:
        yield from _show_stream(source.file, source.start, dissector)
    else:
        yield from _show_packets(source.packets(), dissector)


def _show_stream(file: CountingFile, start: bytes, dissector: Dissector) -> Iterator[Shown]:
    way = _Way(None, None, dissector)
    yield from way.feed(start)
    cut = None
    try:
        while data := file.read(_STEP):
            yield from way.feed(data)
    except CutError as error:
        cut = error
    yield from way.close()
    if cut is not None:
        yield Shown("truncated", offset=file.count, message=cut.reason)


def _show_packets(reader: Iterable[CapturedPacket | Truncated], dissector: Dissector) -> Iterator[Shown]:
    ways: dict[tuple[int, Direction], _Way] = {}
    reassembler = Reassembler(max_held=16 << 20, max_recent=8 << 20, max_connections=_MAX_CONNECTIONS)
    for event in stream_events(reader, reassembler):
        if isinstance(event, Truncated):
            yield Shown(event.code, offset=event.offset, message=event.message)
        elif isinstance(event, PacketFinding):
            if event.code is not SkipCode.NOT_SEND:  # nothing that could be shown
                yield Shown(str(event.code), event.packet, event.time_ns, message=event.message)
        elif isinstance(event, Opened):
            for direction in Direction:
                ends = (event.connection.client, event.connection.server)
                sender, receiver = ends if direction is Direction.TO_SERVER else ends[::-1]
                endpoints = f"{sender} → {receiver}"
                ways[event.connection.number, direction] = _Way(event.connection.number, endpoints, dissector)
        else:
            key = (event.connection.number, event.direction)
            way = ways.get(key)
            if way is None:
                continue  # behind its end
            if isinstance(event, Chunk):
                yield from way.feed(event.data, event.packet, event.time_ns)
            elif isinstance(event, StreamFinding):
                yield from way.finding(event)
            elif isinstance(event, Ended):
                yield from way.close()
                del ways[key]


class _Way:
    """One direction."""

    def __init__(self, connection: int | None, endpoints: str | None, dissector: Dissector) -> None:
        self._connection = connection
        self._endpoints = endpoints
        self._dissector = dissector
        self._scanner = FrameScanner()
        self._marks = Marks()
        self._end = 0

    def feed(self, data: bytes | memoryview, packet: int | None = None, time_ns: int | None = None) -> Iterator[Shown]:
        self._marks.add(self._end, packet, time_ns)
        self._end += len(data)
        yield from self._show(self._scanner.feed(data))

    def finding(self, finding: StreamFinding) -> Iterator[Shown]:
        if finding.offset == self._end and finding.length and finding.code in ("gap", "cut"):
            yield from self._show(self._scanner.skip(finding.length))
            self._end += finding.length
        yield Shown(
            str(finding.code),
            finding.packet,
            finding.time_ns,
            self._connection,
            self._endpoints,
            finding.offset,
            finding.length,
            message=finding.message,
        )

    def close(self) -> Iterator[Shown]:
        yield from self._show(self._scanner.close())

    def _show(self, found: list[Scanned]) -> Iterator[Shown]:
        for item in found:
            place = (*self._marks.at(item.offset), self._connection, self._endpoints, item.offset)
            if isinstance(item, Undecoded):
                yield Shown("undecoded", *place, item.length, message=_undecoded(item))
            else:
                right, fields = _is_intact(item), self._dissector.fields(item)
                yield Shown("frame", *place, len(item.data), right, fields)
        # Undecoded bytes are shown when a header is found behind them, with the packet where they begin if it is still known.
        self._marks.forget(self._end - self._scanner.untold)


def _is_intact(frame: Frame) -> bool:
    try:
        check_body_checksum(frame)
    except RemoteProtocolError:
        return False
    return True


def _undecoded(item: Undecoded) -> str:
    shown = item.start.hex(" ") + (" …" if item.length > len(item.start) else "")
    if item.error is not None and item.start[: len(MAGIC)] == MAGIC[: len(item.start)]:
        return f"{shown} ({item.error.code.name.lower()}: expected {item.error.expected}, got {item.error.actual})"
    return shown
