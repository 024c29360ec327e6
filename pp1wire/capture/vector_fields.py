"""The fields of a message as JSON writes them, and whether two spellings of one are the same value.

Both the vectors and the answers of other decoders are JSON, in which a number of 64 bits, minus zero or bytes have no spelling
that every reader keeps; `schemas/vectors/README.md` says which spellings there are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from pp1wire.wire._schema_v2 import BODY_COLUMNS, BODY_FIELDS, IDENTITY_FIELDS, MessageType
from pp1wire.wire.reject import short

__all__ = ["differing_field"]

_BITS = {"float32": ("<f", "<I", 10), "float64": ("<d", "<Q", 18)}


def differing_field(message: str, expected: Mapping[str, Any], found: Mapping[str, Any]) -> str | None:
    """The first of `expected` that `found` lacks or says otherwise, as one line; None if there is none.

    Args:
        message: name of the message, in lower case.
        expected: fields as a vector lists them.
        found: fields as JSON; more than `expected` has are no difference.
    """
    kinds = _KINDS[message]
    for name, value in expected.items():
        if name not in found:
            return f"{message}.{name}: expected {short(value)}, got nothing"
        # A field that no schema knows has no second spelling.
        kind = kinds.get(name, "text")
        if _plain(kind, found[name]) != _plain(kind, value):
            return f"{message}.{name}: expected {short(value)}, got {short(found[name])}"
    return None


def _plain(kind: str | type[IntEnum], value: Any) -> Any:
    """One spelling of a value; whatever is none of its kind stays as it is, and so equals no value of it."""
    if isinstance(kind, type):
        return next((v.name.lower() for v in kind if type(value) is int and v == value), value)
    if kind.startswith("list of "):
        element = kind.removeprefix("list of ")
        return [_plain(element, v) for v in value] if isinstance(value, list) else value
    if kind == "int":
        return int(value) if isinstance(value, str) and value.isdecimal() and value.isascii() else _not_bool(value)
    if kind in _BITS:
        return _bits(kind, value)
    return value.lower() if kind == "bytes" and isinstance(value, str) else value


def _bits(kind: str, value: Any) -> Any:
    """The bits of a number, so that minus zero is not zero and a NaN equals itself."""
    code, unsigned, length = _BITS[kind]
    if isinstance(value, str) and value.startswith("0x") and len(value) == length:
        try:
            return int(value, 16)
        except ValueError:
            return value
    if type(value) not in (int, float):
        return value
    try:
        packed = struct.pack(code, value)
    except (OverflowError, struct.error):  # beyond the largest number of the kind
        return value
    # Packing rounds, and what was rounded is another number.
    same = struct.unpack(code, packed)[0] == value
    return struct.unpack(unsigned, packed)[0] if same else value


def _not_bool(value: Any) -> Any:
    return str(value) if isinstance(value, bool) else value


def _kinds(message: MessageType) -> dict[str, str | type[IntEnum]]:
    kinds: dict[str, str | type[IntEnum]] = dict.fromkeys(IDENTITY_FIELDS[message], "int")
    for spec in BODY_FIELDS[message]:
        kinds[spec.name] = spec.enum if spec.enum is not None else "float64" if spec.kind == "float" else spec.kind
    return kinds | {name: f"list of {'int' if code == '<i4' else 'float32'}" for name, code, _ in BODY_COLUMNS[message]}


_KINDS = {message.name.lower(): _kinds(message) for message in MessageType}
