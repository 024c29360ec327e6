"""Which bytes a finding speaks of: its field's place in the stream, from the schema's layout."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pp1wire.capture.findings import Finding
from pp1wire.wire._schema_v2 import BODY_FIELDS, BODY_STRUCTS, HEADER_FIELDS, MessageType
from pp1wire.wire.header import HEADER_BYTES

__all__ = ["FieldPlace", "body_end", "place_of"]

_ENTRY: Final = 4
_PATH: Final = re.compile(r"([a-z]+)\.([a-z0-9_]+)(?:\[(\d+)\])?")
_HEADER: Final = {spec.name: spec for spec in HEADER_FIELDS}
_TYPES: Final = {member.name.lower(): member for member in MessageType}


class FieldPlace(NamedTuple):
    """Where a wrong field stands in its stream."""

    start: int
    """Offset of its first byte."""
    stop: int | None
    """Offset behind its last byte; None for a whole column, which ends with its frame."""
    frame: int | None
    """Offset of its frame; None where that needs the frame's header (a row's q), or there is no frame."""
    message_type: MessageType | None
    """Of the frame; None where its header is not believed."""

    @property
    def needs_header(self) -> bool:
        """Whether the frame is to be looked for: where q begins in a row depends on the row's length."""
        return self.frame is None and self.message_type is MessageType.REPLY


def place_of(finding: Finding) -> FieldPlace | None:
    """The bytes that `finding` speaks of; None if it speaks of none.

    A reject's offset is that of its field (`docs/wire.md`), so the layout gives the field's end and the frame's start.
    """
    if finding.offset is None or finding.direction is None:
        return None
    offset = finding.offset
    named = None if finding.path is None else _PATH.fullmatch(finding.path)
    if named is None:
        # A gap, a conflict, or a frame that ends too early: the bytes themselves are all that is known.
        length = finding.length if finding.path is None else 1
        return None if not length else FieldPlace(offset, offset + length, None, None)
    room, name, index = named.groups()
    if room == "header":
        spec = _HEADER[name]
        kind = None if finding.message_type is None else _TYPES[finding.message_type]
        return FieldPlace(offset, offset + spec.size, offset - spec.offset, kind)
    body = _TYPES[room]
    for spec in BODY_FIELDS[body]:
        if spec.name == name:
            return FieldPlace(offset, offset + spec.size, offset - HEADER_BYTES - spec.offset, body)
    stop = None if index is None else offset + _ENTRY
    frame = None if name == "q" else offset - body_end(body) - _ENTRY * int(index or 0)
    return FieldPlace(offset, stop, frame, body)


def body_end(message_type: MessageType | None) -> int:
    """Bytes from the start of a frame to behind its fixed fields; of no message, its header."""
    return HEADER_BYTES + (0 if message_type is None else BODY_STRUCTS[message_type].size)
