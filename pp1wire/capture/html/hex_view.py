"""The hex view of a finding: lines of 16 bytes with the wrong field marked, and the frame's fields decoded beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pp1wire.capture.findings import Finding
from pp1wire.capture.html.excerpts import Excerpt, Range
from pp1wire.capture.html.markup import Html, element, join
from pp1wire.capture.html.parts import Part, parts_between, value_text
from pp1wire.capture.html.places import body_end

__all__ = ["hex_view"]

_LINE: Final = 16
_HALF: Final = 8
_UNKNOWN: Final = "··"
_NEWLINE: Final = Html("\n")


def hex_view(finding: Finding, excerpt: Excerpt) -> Html:
    """The bytes around the wrong field, and the fields of its frame."""
    name = finding.path or finding.code
    return element(
        "div",
        element(
            "figure",
            element("figcaption", _caption(finding, excerpt)),
            element(
                "div",
                element("pre", *_View(finding, excerpt).lines()),
                class_="scroll", tabindex=0, role="group", aria_label=f"Bytes around {name}",
            ),
        ),
        _decoded(finding, excerpt) if excerpt.head else None,
        class_="bytes",
    )  # fmt: skip


def _caption(finding: Finding, excerpt: Excerpt) -> str:
    place = excerpt.place
    stop = place.start + 1 if place.stop is None else place.stop
    which = f"byte {place.start}" if stop - place.start == 1 else f"bytes {place.start} to {stop - 1}"
    behind = "" if place.frame is None else f", {place.start - place.frame} behind the frame's beginning"
    name = finding.path or finding.code
    return f"Marked: {name}, {which} of what the {finding.direction} sent{behind}."


class _View:
    def __init__(self, finding: Finding, excerpt: Excerpt) -> None:
        self._name = finding.path or finding.code
        self._excerpt = excerpt
        place = excerpt.place
        self._start = place.start
        self._stop = place.start + 1 if place.stop is None else place.stop
        self._told = False
        last = max((part.offset + len(part.data) for part in excerpt.ranges), default=0)
        self._width = max(len(str(last)), len("stream"))
        self._parts: list[Part] = []
        if place.frame is not None:
            for part in excerpt.ranges:
                first = part.offset - place.frame
                self._parts += parts_between(place.message_type, excerpt.head, first, first + len(part.data))

    def lines(self) -> Iterator[Html]:
        heading = f"{'stream':>{self._width}}  {'frame':>7}  {'bytes':<{3 * _LINE}}  text"
        yield join(element("span", heading, class_="dim"), _NEWLINE)
        end = None
        for part in self._excerpt.ranges:
            if end is not None and part.offset > end:
                left_out = f"{'⋯':>{self._width}}  {part.offset - end} bytes not shown"
                yield join(element("span", left_out, class_="dim"), _NEWLINE)
            yield from self._range(part)
            end = part.offset + len(part.data)

    def _range(self, part: Range) -> Iterator[Html]:
        base = self._excerpt.place.frame if self._excerpt.place.frame is not None else part.offset
        at = part.offset
        while at < part.offset + len(part.data):
            room = _LINE - (at - base) % _LINE
            values = part.data[at - part.offset : at - part.offset + room]
            yield from self._line(at, _LINE - room, values)
            at += len(values)

    def _line(self, offset: int, indent: int, values: tuple[int | None, ...]) -> Iterator[Html]:
        frame = self._excerpt.place.frame
        place = "" if frame is None else f"+{offset - frame:04x}"
        head = element("span", f"{offset:>{self._width}}  {place:>7}  ", class_="dim")
        cells = list(self._cells(offset, indent, values))
        used = indent + len(values)
        fill = " " * (3 * (_LINE - used) + (used <= _HALF) + 1)
        marks = [self._start <= offset + i < self._stop for i in range(len(values))]
        yield join(head, " " * (3 * indent + (indent >= _HALF)), *cells, fill, *_ascii(indent, values, marks), _NEWLINE)
        if any(marks) and not self._told:
            self._told = True
            first, last = marks.index(True), len(marks) - 1 - marks[::-1].index(True)
            begin, end = (3 * (indent + i) + (indent + i >= _HALF) for i in (first, last))
            more = " …" if offset + last + 1 < self._stop else ""
            lead = " " * (self._width + 11 + begin)
            carets = f"{lead}{'^' * (end - begin + 2)} {self._name}{more}"
            yield join(element("span", carets, class_="caret", aria_hidden="true"), _NEWLINE)

    def _cells(self, offset: int, indent: int, values: tuple[int | None, ...]) -> Iterator[Html]:
        """The bytes, those of one field in one element."""
        index = 0
        while index < len(values):
            key = self._key(offset + index)
            until = index + 1
            while until < len(values) and self._key(offset + until) == key:
                until += 1
            shown = ""
            for i in range(index, until):
                value = values[i]
                shown += (_UNKNOWN if value is None else f"{value:02x}") + ("  " if indent + i == _HALF - 1 else " ")
            gap = shown[len(shown.rstrip(" ")) :]
            yield join(self._cell(key, offset + index, shown.rstrip(" ")), gap)
            index = until

    def _key(self, offset: int) -> tuple[bool, int]:
        return self._start <= offset < self._stop, self._part_at(offset)

    def _part_at(self, offset: int) -> int:
        frame = self._excerpt.place.frame
        if frame is None:
            return -1
        at = offset - frame
        return next((i for i, part in enumerate(self._parts) if part.start <= at < part.stop), -1)

    def _cell(self, key: tuple[bool, int], offset: int, shown: str) -> Html:
        marked, number = key
        title = self._parts[number].name if number >= 0 else None
        if marked:
            # A screen reader hears what the colour says.
            said = element("span", f"wrong: {title or self._name} ", class_="heard")
            return element("mark", said, shown, title=title)
        if title is None:
            return element("span", shown)
        return element("span", shown, class_="odd" if number % 2 else "even", title=title)


def _ascii(indent: int, values: tuple[int | None, ...], marks: list[bool]) -> Iterator[Html]:
    yield Html(" " * indent)
    for value, marked in zip(values, marks, strict=True):
        shown = "·" if value is None or not 0x20 <= value < 0x7F else chr(value)
        yield element("b", shown) if marked else join(shown)


def _decoded(finding: Finding, excerpt: Excerpt) -> Html:
    """The frame's fields with their values."""
    place, head = excerpt.place, excerpt.head
    frame = place.frame or 0
    rows = []
    parts = list(parts_between(place.message_type, head, 0, min(len(head), body_end(place.message_type))))
    parts += [part for part in _marked_entries(excerpt) if part not in parts]
    for part in parts:
        data = _bytes_of(part, excerpt, frame)
        if data is None:
            continue
        wrong = place.start <= frame + part.start and frame + part.stop <= (place.stop or place.start + 1)
        value = value_text(part, data)
        cell = join(element("strong", value), f" ← expected {finding.expected}") if wrong else join(value)
        rows.append(
            element(
                "tr",
                element("td", f"+{part.start:04x}", class_="number"),
                element("th", part.name, scope="row"),
                element("td", cell),
                class_="wrong" if wrong else None,
            )
        )
    titles = element("tr", *(element("th", name, scope="col") for name in ("at", "field", "value")))
    believed = place.message_type is not None
    title = "The frame's fields" if believed else "What stands where a header should be"
    return element(
        "div",
        element("table", element("caption", title), element("thead", titles), element("tbody", *rows)),
        class_="scroll", tabindex=0, role="group", aria_label=title,
    )  # fmt: skip


def _marked_entries(excerpt: Excerpt) -> list[Part]:
    place = excerpt.place
    if place.frame is None or place.stop is None or place.stop - place.start > 4:
        return []
    first = place.start - place.frame
    return list(parts_between(place.message_type, excerpt.head, first, first + 1))


def _bytes_of(part: Part, excerpt: Excerpt, frame: int) -> bytes | None:
    if part.stop <= len(excerpt.head):
        return excerpt.head[part.start : part.stop]
    for one in excerpt.ranges:
        first = frame + part.start - one.offset
        values = one.data[first : first + part.stop - part.start] if first >= 0 else ()
        if len(values) == part.stop - part.start and None not in values:
            return bytes(value for value in values if value is not None)
    return None
