"""Frames as bytes, packed by the schema's own offsets: no line of `pp1wire.wire` takes part, so a fault there shows."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import xxhash

from schemas.generator.model import Field, Message, Schema

HEADER_BYTES = 64
Value = int | float | bytes | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Draft:
    """A frame in the making: values by field name; what is absent is zero, checksums and length are computed.

    A value may be one that no encoder would write, such as non-zero reserved bytes; a given checksum or length stays.
    """

    message: str
    header: Mapping[str, Value]
    body: Mapping[str, Value] = field(default_factory=dict)

    def but(self, **body: Value) -> Draft:
        """The same with other values in the body."""
        return replace(self, body={**self.body, **body})

    def under(self, **header: Value) -> Draft:
        """The same with other values in the header."""
        return replace(self, header={**self.header, **header})

    def entry(self, column: str, index: int, value: float) -> Draft:
        """The same with one other element in a column."""
        values = self.body[column]
        if not isinstance(values, tuple):
            raise TypeError(f"{self.message}.{column} is no column")
        return self.but(**{column: (*values[:index], value, *values[index + 1 :])})


class Builder:
    """Packs drafts of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.messages = {m.name: m for m in schema.messages}
        self.magic = str(schema.constants["magic"][0]).encode("ascii")

    def frame(self, draft: Draft) -> bytes:
        """The bytes of `draft`, checksums repaired unless it gives its own."""
        body = self._body(self.messages[draft.message], draft)
        values = {
            "magic": self.magic,
            "wire_version": int(self.schema.constants["wire_version"][0]),
            "message_type": self.messages[draft.message].number,
            "body_length": len(body),
            **draft.header,
        }
        header = bytearray(b"".join(_pack(f, values.get(f.name)) for f in self.schema.header))
        seed = xxhash.xxh3_64_intdigest(bytes(header[16:48]))
        if "body_checksum" not in draft.header:
            header[48:56] = xxhash.xxh3_64_intdigest(body, seed=seed).to_bytes(8, "little")
        if "header_checksum" not in draft.header:
            header[56:64] = xxhash.xxh3_64_intdigest(bytes(header[:56])).to_bytes(8, "little")
        return bytes(header) + body

    def body(self, draft: Draft) -> bytes:
        """The body of `draft` alone."""
        return self._body(self.messages[draft.message], draft)

    def offset(self, draft: Draft, path: str) -> int:
        """Bytes from the start of the frame to `path`, such as `header.slot` or `reply.q[3]`."""
        owner, _, rest = path.partition(".")
        name, _, index = rest.rstrip("]").partition("[")
        if owner == "header":
            return next(f.offset for f in self.schema.header if f.name == name)
        message = self.messages[owner]
        for f in message.fixed:
            if f.name == name:
                return HEADER_BYTES + f.offset
        at = HEADER_BYTES + message.fixed_size
        for column in message.columns:
            if column.name == name:
                return at + column.size * int(index or 0)
            at += column.size * len(_column(column, draft))
        raise KeyError(path)

    def _body(self, message: Message, draft: Draft) -> bytes:
        unknown = set(draft.body) - {f.name for f in message.fields}
        if unknown:
            raise KeyError(f"{message.name} has no field {unknown.pop()!r}")
        packed = [_pack(f, draft.body.get(f.name)) for f in message.fixed]
        for column in message.columns:
            values = _column(column, draft)
            code = {"s4": "i", "f4": "f"}[str(column.kaitai_type)]
            packed.append(struct.pack(f"<{len(values)}{code}", *values))
        return b"".join(packed)


def _column(column: Field, draft: Draft) -> tuple[float, ...]:
    values = draft.body.get(column.name, ())
    if not isinstance(values, tuple):
        raise TypeError(f"{draft.message}.{column.name} needs a tuple")
    return values


def _pack(spec: Field, value: Value | None) -> bytes:
    if spec.kind in ("magic", "zeros", "bytes", "text"):
        data = b"" if value is None else value
        if not isinstance(data, bytes) or len(data) > spec.size:
            raise TypeError(f"{spec.name} needs at most {spec.size} bytes")
        return data.ljust(spec.size, b"\0")
    return struct.pack(f"<{spec.struct_code}", 0 if value is None else value)
