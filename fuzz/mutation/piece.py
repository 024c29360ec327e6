"""A frame whose fields are read and written by name, or bytes that are none."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pp1wire.wire import MessageType
from pp1wire.wire._schema_v2 import BODY_FIELDS, BODY_STRUCTS, HEADER_FIELDS, MAGIC, WIRE_VERSION
from pp1wire.wire.fields import FieldSpec

__all__ = ["HEADER", "Piece", "blank", "fields_of_type", "split"]

HEADER: Final = 64
Value = int | float | bytes


@dataclass
class Piece:
    """Bytes of one sender.

    Attributes:
        who: as in `fuzz.script`.
        data: the bytes.
        kind: the message type if they are a frame, else 0.
        joined: whether they arrive together with the piece before.
        kept: names of fields that were changed on purpose, which repairs leave alone.
    """

    who: int
    data: bytearray
    kind: int = 0
    joined: bool = False
    kept: set[str] = field(default_factory=set)

    def copy(self) -> Piece:
        """An independent copy."""
        return Piece(self.who, bytearray(self.data), self.kind, self.joined, set(self.kept))

    def get(self, name: str) -> Any:
        """A fixed field: a number, or bytes."""
        spec, at = fields_of_type(self.kind)[name]
        raw = bytes(self.data[at : at + spec.size])
        if spec.kind == "float":
            return struct.unpack("<d", raw)[0]
        return int.from_bytes(raw, "little", signed=spec.minimum < 0) if spec.kind in ("int", "enum") else raw

    def set(self, name: str, value: Value) -> None:
        """Write a fixed field; what does not fit is cut off."""
        spec, at = fields_of_type(self.kind)[name]
        if isinstance(value, float):
            raw = struct.pack("<d", value)
        elif isinstance(value, int):
            raw = (value % (1 << 8 * spec.size)).to_bytes(spec.size, "little")
        else:
            raw = value[: spec.size].ljust(spec.size, b"\0")
        self.data[at : at + spec.size] = raw

    def change(self, name: str, value: Value) -> None:
        """Write a fixed field on purpose."""
        self.set(name, value)
        self.kept.add(name)

    def repair(self, name: str, value: Value) -> None:
        """Write a fixed field unless it was changed on purpose."""
        if name not in self.kept:
            self.set(name, value)

    # Columns: 32-bit words.

    @property
    def columns_at(self) -> int:
        """Where the columns begin, if it is a frame."""
        return HEADER + BODY_STRUCTS[self.kind].size if self.kind else 0

    def words(self) -> list[int]:
        """All columns as unsigned words."""
        tail = self.data[self.columns_at :]
        return list(struct.unpack_from(f"<{len(tail) // 4}I", tail))

    def set_words(self, words: Iterable[int]) -> None:
        """Write all columns."""
        packed = [(word % (1 << 32)).to_bytes(4, "little") for word in words]
        self.data[self.columns_at :] = b"".join(packed)

    def row(self) -> tuple[list[int], list[int]]:
        """The ids, signed (none in a dense row), and the bit patterns of q."""
        words = self.words()
        ids = len(words) // 2 if self.get("representation") == 2 else 0
        return [_signed(word) for word in words[:ids]], words[ids:]

    def ids(self) -> list[int]:
        """The ids of a COMMIT or RESET, signed."""
        return [_signed(word) for word in self.words()]


@cache
def fields_of_type(kind: int) -> dict[str, tuple[FieldSpec, int]]:
    """Name → (spec, offset in the frame) of a message type; header fields are `header.NAME`."""
    header = {f"header.{spec.name}": (spec, spec.offset) for spec in HEADER_FIELDS}
    return header | {spec.name: (spec, HEADER + spec.offset) for spec in BODY_FIELDS[kind]}


def split(who: int, data: bytes) -> list[Piece]:
    """`data` as frames, by their lengths, and what is left."""
    pieces: list[Piece] = []
    while len(data) >= HEADER and data[:4] == MAGIC and data[6] in BODY_STRUCTS:
        size = HEADER + int.from_bytes(data[16:20], "little")
        if not HEADER + BODY_STRUCTS[data[6]].size <= size <= len(data):
            break
        pieces.append(Piece(who, bytearray(data[:size]), data[6], bool(pieces)))
        data = data[size:]
    if data or not pieces:
        pieces.append(Piece(who, bytearray(data), 0, bool(pieces)))
    return pieces


def blank(like: Piece, kind: MessageType) -> Piece:
    """A frame of another kind in the session of `like`, zero but for its enumerations; repairs fill in the rest."""
    size = BODY_STRUCTS[kind].size + (24 if kind is MessageType.COMMIT else 0)
    piece = Piece(like.who, like.data[:HEADER] + bytearray(size), kind)
    piece.set("header.magic", MAGIC)
    piece.set("header.wire_version", WIRE_VERSION)
    piece.set("header.message_type", int(kind))
    for name, (spec, _) in fields_of_type(kind).items():
        if spec.kind == "enum" and spec.enum is not None and not name.startswith("header."):
            piece.set(name, int(next(iter(spec.enum))))
    return piece


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
