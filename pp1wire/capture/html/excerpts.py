"""The bytes around wrong fields, from a second reading of the files: judging keeps none, so that it stays fast and small."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pp1wire.capture._input import CutError
from pp1wire.capture.events import Chunk, Connection, Direction, Opened, StreamFinding
from pp1wire.capture.findings import Finding
from pp1wire.capture.html.kept_bytes import KeptBytes, RowFrames, Span, merged
from pp1wire.capture.html.parts import frame_length
from pp1wire.capture.html.places import FieldPlace, body_end, place_of
from pp1wire.capture.pcapng import CaptureError
from pp1wire.capture.reassembly import Reassembler, stream_events
from pp1wire.capture.remote import is_url
from pp1wire.capture.sources import CountingFile, Kind, Source, open_path, open_source
from pp1wire.capture.validate import REASSEMBLED
from pp1wire.wire.header import HEADER_BYTES

__all__ = ["Excerpt", "Range", "excerpts_of"]

_LINE: Final = 16
_AROUND: Final = 2 * _LINE
_LONGEST: Final = 8 * _LINE  # shown of a gap or a column
_STEP: Final = 1 << 18
_SENT_BY: Final = {"verifier": Direction.TO_SERVER, "worker": Direction.TO_CLIENT}


class Range(NamedTuple):
    """Bytes of a stream from `offset` on; None for each that the capture lacks."""

    offset: int
    data: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What a file holds around a wrong field.

    Attributes:
        place: of the field, with its frame if that was found.
        head: the frame's header and fixed fields, as far as they are there; b"" without a frame.
        ranges: in order and apart from each other: the frame's beginning, and what surrounds the field.
    """

    place: FieldPlace
    head: bytes
    ranges: tuple[Range, ...]


def excerpts_of(findings: Iterable[Finding], sources: Mapping[str, str] | None = None) -> dict[int, Excerpt]:
    """The bytes that findings speak of, by their index in `findings`.

    Files are opened by their names, or by what `sources` has for these. Findings in what cannot be read twice (standard
    input, a pipe, a file that is gone) have none, nor has one that speaks of no bytes.
    """
    wanted: dict[str, dict[int, list[_Want]]] = defaultdict(lambda: defaultdict(list))
    for index, finding in enumerate(findings):
        place = place_of(finding)
        if place is not None and finding.connection is not None:
            wanted[finding.file][finding.connection].append(_Want(index, finding, place))
    found: dict[int, Excerpt] = {}
    for name, of_file in wanted.items():
        for stream in _read((sources or {}).get(name, name), of_file):
            found |= stream.excerpts()
    return found


class _Want(NamedTuple):
    number: int
    finding: Finding
    place: FieldPlace

    def spans(self) -> Iterator[Span]:
        """What is shown of it: the frame's beginning, and lines of 16 bytes from there around the field."""
        start, stop, frame, kind = self.place
        length = _LONGEST if stop is None else min(stop - start, _LONGEST)
        base = max(start - _AROUND, 0) if frame is None else frame
        before = max(start - _AROUND - base, 0) // _LINE * _LINE
        behind = -(-(start + length + _AROUND - base) // _LINE) * _LINE
        yield base + before, base + behind
        if frame is not None:
            yield frame, frame + body_end(kind)


class _Stream:
    """One connection in which bytes are wanted; without `connection`, a raw stream."""

    def __init__(self, wants: list[_Want], connection: Connection | None) -> None:
        self._wants = wants
        self._connection = connection
        self._kept: dict[Direction, KeptBytes] = {}
        self._rows: dict[Direction, RowFrames] = {}
        for direction in Direction:
            possible = [want for want in wants if direction in self._directions(want)]
            self._kept[direction] = KeptBytes(span for want in possible for span in want.spans())
            self._rows[direction] = RowFrames(w.place.start for w in possible if w.place.needs_header)

    @property
    def done(self) -> bool:
        """Nothing more is wanted."""
        return all(k.done for k in self._kept.values()) and all(r.done for r in self._rows.values())

    def take(self, direction: Direction, offset: int, data: memoryview, packet: int | None) -> None:
        self._kept[direction].take(offset, data, packet)
        self._rows[direction].take(data)

    def skip(self, direction: Direction, length: int) -> None:
        self._rows[direction].skip(length)

    def excerpts(self) -> dict[int, Excerpt]:
        found = {}
        for want in self._wants:
            directions = self._directions(want)
            if len(directions) > 1:
                at = want.place.start
                directions = [d for d in directions if self._kept[d].packet_at(at) == want.finding.packet]
            if len(directions) == 1 and (excerpt := self._excerpt(want, directions[0])) is not None:
                found[want.number] = excerpt
        return found

    def _directions(self, want: _Want) -> list[Direction]:
        """Which way its bytes may have gone.

        Who of two ends is the verifier is known of a connection that was captured from its start. Of another one the finding's
        packet tells, once it is known which packets carried these bytes.
        """
        if self._connection is None:
            return [Direction.TO_SERVER]
        if self._connection.from_start:
            return [_SENT_BY[want.finding.direction or "verifier"]]
        # The packet of a gap is the one that shows it, which tells nothing of the direction's bytes.
        return [] if want.finding.path is None else list(Direction)

    def _excerpt(self, want: _Want, direction: Direction) -> Excerpt | None:
        kept, place, head = self._kept[direction], want.place, b""
        if place.needs_header and (found := self._rows[direction].frame_of(place.start)) is not None:
            place, head = place._replace(frame=found[0]), found[1]
        elif place.frame is not None:
            known = kept.values(place.frame, place.frame + body_end(place.message_type))
            there = known.index(None) if None in known else len(known)
            head = bytes(value for value in known[:there] if value is not None)
        end = None
        if place.frame is not None and place.message_type is not None and len(head) >= HEADER_BYTES:
            end = place.frame + frame_length(head)
            if place.stop is None:
                place = place._replace(stop=end)
        ranges = []
        for start, span_end in merged(want._replace(place=place).spans()):
            stop = span_end
            if end is not None and stop > end:
                # What follows is no part of the frame; but its length may be what is wrong, so the field is always there.
                stop = max(end, place.start + 1) if start <= place.start else max(end, start)
            values = kept.values(start, stop)
            if start == place.frame:
                values[: len(head)] = head
            ranges.append(_trimmed(start, values, place))
        there = any(value is not None for part in ranges for value in part.data)
        return Excerpt(place, head, tuple(part for part in ranges if part.data)) if there else None


def _trimmed(start: int, values: list[int | None], place: FieldPlace) -> Range:
    """Without what is missing at both ends, but for the field itself."""
    first, last = 0, len(values)
    while last > first and values[last - 1] is None and not _is_marked(start + last - 1, place):
        last -= 1
    while first < last and values[first] is None and not _is_marked(start + first, place):
        first += 1
    return Range(start + first, tuple(values[first:last]))


def _is_marked(offset: int, place: FieldPlace) -> bool:
    return place.start <= offset and (place.stop is None or offset < place.stop)


def _read(name: str, wants: dict[int, list[_Want]]) -> list[_Stream]:
    """What is wanted of a file, as far as it can be read again."""
    streams: dict[int, _Stream] = {}
    if is_url(name) or Path(name).is_file():  # a pipe would be read where it ended before, or wait for ever
        try:
            with open_path(name) as file:
                source = open_source(CountingFile(file, name), name)
                if source.kind is Kind.STREAM:
                    _read_stream(source, wants, streams)
                else:
                    _read_packets(source, wants, streams)
        except (CaptureError, CutError, OSError):
            pass  # judging has told it; there is what came before
    return list(streams.values())


def _read_stream(source: Source, wants: dict[int, list[_Want]], streams: dict[int, _Stream]) -> None:
    streams[1] = stream = _Stream(wants[1], None)
    offset, data = 0, source.start
    while data and not stream.done:
        stream.take(Direction.TO_SERVER, offset, memoryview(data), None)
        offset += len(data)
        data = source.file.read(_STEP)


def _read_packets(source: Source, wants: dict[int, list[_Want]], streams: dict[int, _Stream]) -> None:
    reassembler = Reassembler(**REASSEMBLED)  # or connections and offsets would be others
    waiting = set(wants)
    for event in stream_events(source.packets(), reassembler):
        if isinstance(event, Opened):
            number = event.connection.number
            if number in wants:
                streams[number] = _Stream(wants[number], event.connection)
        elif isinstance(event, Chunk | StreamFinding) and event.connection.number in waiting:
            number = event.connection.number
            if isinstance(event, Chunk):
                streams[number].take(event.direction, event.offset, event.data, event.packet)
            elif event.length and event.code in ("gap", "cut"):
                streams[number].skip(event.direction, event.length)
            if streams[number].done:
                waiting.remove(number)
                if not waiting:
                    return
