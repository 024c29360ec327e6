"""A frame's bytes by field: what the hex view names and the table beside it decodes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from pp1wire.capture.html.places import body_end
from pp1wire.wire._schema_v2 import BODY_COLUMNS, BODY_FIELDS, HEADER_FIELDS, Q_TOTAL, MessageType, Representation
from pp1wire.wire.fields import FieldSpec
from pp1wire.wire.header import HEADER_BYTES

__all__ = ["Part", "frame_length", "parts_between", "value_text"]

_ENTRY: Final = 4
_LENGTH_AT: Final = next(spec.offset for spec in HEADER_FIELDS if spec.name == "body_length")
_REPRESENTATION_AT: Final = next(
    HEADER_BYTES + spec.offset for spec in BODY_FIELDS[MessageType.REPLY] if spec.name == "representation"
)
_ENTRY_CODES: Final = {"<i4": "<i", "<f4": "<f"}


class Part(NamedTuple):
    """A field, or one entry of a column."""

    name: str
    """As in a finding's path."""
    start: int
    """Bytes from the start of the frame."""
    stop: int
    spec: FieldSpec | None
    """None for an entry of a column."""
    code: str = ""
    """Of an entry: its numpy code."""


def frame_length(head: bytes) -> int:
    """Bytes of the frame whose header `head` begins with."""
    return HEADER_BYTES + int.from_bytes(head[_LENGTH_AT : _LENGTH_AT + 4], "little")


def parts_between(message_type: MessageType | None, head: bytes, start: int, stop: int) -> Iterator[Part]:
    """The parts that bytes `start` … `stop` of a frame belong to, in order.

    Args:
        message_type: of the frame; None where its header is not believed: then there is only the header.
        head: its header and fixed fields, as far as they are there.
        start, stop: in bytes from the start of the frame.
    """
    for spec in HEADER_FIELDS:
        if spec.offset + spec.size > start and spec.offset < stop:
            yield Part(f"header.{spec.name}", spec.offset, spec.offset + spec.size, spec)
    if message_type is None:
        return
    room = message_type.name.lower()
    for spec in BODY_FIELDS[message_type]:
        at = HEADER_BYTES + spec.offset
        if at + spec.size > start and at < stop:
            yield Part(f"{room}.{spec.name}", at, at + spec.size, spec)
    if not BODY_COLUMNS[message_type]:
        return
    end = body_end(message_type)
    for at in range(end + max(0, start - end) // _ENTRY * _ENTRY, stop, _ENTRY):
        name, code, first = _column_at(message_type, head, at)
        yield Part(f"{room}.{name}[{(at - first) // _ENTRY}]", at, at + _ENTRY, None, code)


def _column_at(message_type: MessageType, head: bytes, at: int) -> tuple[str, str, int]:
    """Name, code and start of the column that byte `at` of the frame lies in."""
    columns, first = BODY_COLUMNS[message_type], body_end(message_type)
    name, code, _ = columns[0]
    if len(columns) == 1:
        return name, code, first
    # A sparse row's ids and q are of one length, and a dense one has no ids.
    sparse = len(head) > _REPRESENTATION_AT and head[_REPRESENTATION_AT] == Representation.SPARSE
    middle = first + (max(0, frame_length(head) - first) // (2 * _ENTRY) * _ENTRY if sparse else 0)
    return (name, code, first) if at < middle else (*columns[1][:2], middle)


def value_text(part: Part, data: bytes) -> str:
    """The value of a part's bytes, for people; enumerations by number and name, q with its count."""
    if part.spec is None:
        value = struct.unpack(_ENTRY_CODES[part.code], data)[0]
        return _q_text(value) if part.code == "<f4" else str(value)
    if part.spec.kind == "float":
        return repr(struct.unpack("<d", data)[0])
    if part.spec.enum is not None:
        return _enum_text(part.spec.enum, int.from_bytes(data, "little"))
    if part.spec.kind == "int":
        return str(int.from_bytes(data, "little", signed=part.spec.minimum < 0))
    text = data.rstrip(b"\0")
    if part.spec.kind in ("text", "magic") and text.isascii() and text.decode("ascii").isprintable():
        return text.decode("ascii") or "(empty)"
    return data.hex()


def _enum_text(enum: type[IntEnum], number: int) -> str:
    return f"{number} ({next((member.name for member in enum if member == number), 'unknown')})"


def _q_text(value: float) -> str:
    count = value * Q_TOTAL
    return f"{value!r} = {int(count)}/2^24" if 0 <= count <= Q_TOTAL and count == int(count) else repr(value)
