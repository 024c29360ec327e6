"""Frames as bytes, changed field by field by the schema's own tables, with their checksums made right again.

A hostile frame is a valid one of the live conversation in which one thing is wrong, so that an endpoint reaches the rule that
the case is about. Paths name fields as rejects do: `header.slot`, `depth`, `q[1]`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pp1wire.errors import PP1Error
from pp1wire.wire import Agreement, Hello, MessageType
from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire.checksums import body_checksum, header_checksum
from pp1wire.wire.fields import FieldSpec
from pp1wire.wire.header import HEADER_BYTES

__all__ = [
    "AttackError",
    "Facts",
    "Fields",
    "HashedFor",
    "Value",
    "changed",
    "header_of",
    "identity_of",
    "ids_of",
    "numbered",
    "plus",
]

Scalar: TypeAlias = int | float | bytes
_INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}
_ENTRY_BYTES = 4


class AttackError(PP1Error):
    """An attack cannot go on, or a case cannot be set up on this connection."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a value may depend on: the HELLO that is sent, and the agreement once there is one."""

    hello: Hello
    agreement: Agreement | None

    @property
    def agreed(self) -> Agreement:
        """The agreement, where there is one. Raises AttackError."""
        if self.agreement is None:
            raise AttackError("there is no agreement yet")
        return self.agreement


@dataclass(frozen=True, slots=True)
class HashedFor:
    """The body checksum that this frame would have under another identity: what a moved body carries."""

    fields: Mapping[str, int]


Value: TypeAlias = Scalar | HashedFor | Callable[[Scalar, Facts], Scalar]
"""What a field is changed to: a constant, or a function of what stands there and of the connection's facts."""
Fields: TypeAlias = Mapping[str, Value]


def plus(number: float) -> Callable[[Scalar, Facts], Scalar]:
    """The value that stands there, and `number` more; an integer wraps as its field does."""

    def add(old: Scalar, _: Facts) -> Scalar:
        if isinstance(old, bytes):
            raise AttackError("bytes have no sum")
        return old + number

    return add


def changed(frame: bytes, fields: Fields, facts: Facts, *, grow: bytes = b"", shrink: int = 0) -> bytes:
    """`frame` with fields changed, and then its length and checksums, unless `fields` names them, made right.

    Args:
        frame: one whole frame.
        fields: path → value.
        facts: for values that depend on the connection, and for where columns lie.
        grow: bytes that are appended to the body.
        shrink: bytes that are cut off its end.

    Raises:
        AttackError: no such field.
    """
    out = bytearray(frame[: len(frame) - shrink] + grow)
    message_type = frame[6]
    if "header.body_length" not in fields:
        out[16:20] = (len(out) - HEADER_BYTES).to_bytes(4, "little")
    late = [path for path in fields if path in ("header.body_checksum", "header.header_checksum")]
    for path in [*(path for path in fields if path not in late), "", *sorted(late)]:
        if not path:
            _seal(out)
            continue
        at, code = _place(path, message_type, facts)
        old: Scalar = struct.unpack_from(code, out, at)[0]
        value = fields[path]
        if isinstance(value, HashedFor):
            value = struct.unpack_from("<Q", changed(frame, value.fields, facts), at)[0]
        _write(out, at, code, value(old, facts) if callable(value) else value)
        if path == "header.body_checksum":
            _seal(out, body=False)
    return bytes(out)


def numbered(frame: bytes, sequence: int) -> bytes:
    """`frame` with another sequence number; the body's checksum does not cover it."""
    out = bytearray(frame)
    out[8:16] = sequence.to_bytes(8, "little")
    _seal(out, body=False)
    return bytes(out)


def header_of(frame: bytes) -> dict[str, int]:
    """The numbers in a frame's header, whether legal or not, by field name."""
    values = schema.HEADER_STRUCT.unpack_from(frame)
    pairs = zip(schema.HEADER_FIELDS, values, strict=True)
    return {spec.name: value for spec, value in pairs if isinstance(value, int)}


def identity_of(frame: bytes) -> tuple[int, int, int]:
    """(session, generation, round) in a frame's header, whether legal or not."""
    header = header_of(frame)
    return header["session"], header["generation"], header["round"]


def ids_of(frame: bytes) -> npt.NDArray[np.int32]:
    """The ids in the column of a RESET or COMMIT, whether legal or not, int32 [n]; a COMMIT's are as many as it counts."""
    at = HEADER_BYTES + schema.BODY_STRUCTS[frame[6]].size
    ids = np.frombuffer(frame, "<i4", (len(frame) - at) // _ENTRY_BYTES, at)
    if frame[6] == MessageType.COMMIT:
        count_at, _ = _fixed(schema.BODY_FIELDS[frame[6]], "token_count", HEADER_BYTES)
        ids = ids[: frame[count_at]]
    return ids.astype(np.int32)


def _seal(frame: bytearray, *, body: bool = True) -> None:
    if body:
        frame[48:56] = body_checksum(frame).to_bytes(8, "little")
    frame[56:64] = header_checksum(frame).to_bytes(8, "little")


def _write(frame: bytearray, at: int, code: str, value: Scalar) -> None:
    if isinstance(value, float) and code[-1] in "BHIQi":
        value = int(value)
    if isinstance(value, int) and code[-1] in "BHIQ":
        value &= (1 << 8 * struct.calcsize(code)) - 1
    struct.pack_into(code, frame, at, value)


def _place(path: str, message_type: int, facts: Facts) -> tuple[int, str]:
    """Where a field is in the frame, in bytes, and its struct code."""
    name, _, index = path.rstrip("]").partition("[")
    if name.startswith("header."):
        return _fixed(schema.HEADER_FIELDS, name.removeprefix("header."), 0)
    columns = schema.BODY_COLUMNS[message_type]
    at = HEADER_BYTES + schema.BODY_STRUCTS[message_type].size
    for column, code, length in columns:
        entries = getattr(facts.agreed, length) if length in ("id_entries", "q_entries") else 0
        if column == name:
            # Counted from the end where the index is negative.
            return at + _ENTRY_BYTES * (int(index) % (entries or int(index) + 1)), "<f" if code == "<f4" else "<i"
        at += _ENTRY_BYTES * entries
    return _fixed(schema.BODY_FIELDS[message_type], name, HEADER_BYTES)


def _fixed(specs: tuple[FieldSpec, ...], name: str, base: int) -> tuple[int, str]:
    spec = next((s for s in specs if s.name == name), None)
    if spec is None:
        raise AttackError(f"no field {name!r}; there are {', '.join(s.name for s in specs)}")
    if spec.kind in ("magic", "zeros", "bytes", "text"):
        return base + spec.offset, f"{spec.size}s"
    if spec.kind == "float":
        return base + spec.offset, "<d"
    return base + spec.offset, "<i" if spec.minimum < 0 else f"<{_INTEGERS[spec.size]}"
