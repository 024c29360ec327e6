"""`pp1wire/wire/_schema_v2.py`: enumerations, constants, message classes, field tables, dtypes and Construct declarations."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from schemas.generator.model import SCALARS, Field, Message, Schema

TARGET = "pp1wire/wire/_schema_v2.py"

_HEADER = '''\
"""PP1 wire version 2. Generated from `schemas/*.ksy` by `make schemas`; do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pp1wire.wire.columns import frozen_ids, frozen_q
from pp1wire.wire.fields import FieldSpec

if TYPE_CHECKING:
    import construct

'''

_CONSTRUCT_SCALARS = {
    "u1": "Int8ul", "u2": "Int16ul", "u4": "Int32ul", "u8": "Int64ul", "s4": "Int32sl", "f4": "Float32l", "f8": "Float64l",
}  # fmt: skip


def render(schema: Schema) -> dict[str, str]:
    """The generated module as {path: text}."""
    parts = [_HEADER, _constants(schema)]
    parts += [_enum(name, schema) for name in schema.enums]
    parts.append(_table("HEADER", schema.header, "header"))
    parts.append(f"HEADER_DTYPE: Final = np.dtype({_dtype(schema.header)!r})\n")
    for message in schema.messages:
        parts.append(_message_class(message))
        parts.append(_table(f"{message.name.upper()}_BODY", message.fixed, f"{message.name} body"))
    classes = [_class_name(m.name) for m in schema.messages]
    parts.append(f"Message: TypeAlias = {' | '.join(classes)}\n")
    parts.append(_message_tables(schema))
    parts.append(_reply_dtype(schema))
    parts.append(_constructs(schema))
    return {TARGET: "\n".join(parts)}


def _class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _doc(text: str, indent: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), 116 - len(indent))
    if len(lines) == 1:
        return f'{indent}"""{lines[0]}"""'
    return "\n".join([f'{indent}"""{lines[0]}', *(indent + line for line in lines[1:]), f'{indent}"""'])


def _constants(schema: Schema) -> str:
    lines = []
    for name, (value, doc) in schema.constants.items():
        literal = repr(value.encode()) if name == "magic" and isinstance(value, str) else repr(value)
        lines += [f"{name.upper()}: Final = {literal}", _doc(doc, "")]
    return "\n".join(lines) + "\n"


def _enum(name: str, schema: Schema) -> str:
    values = schema.enums[name]
    page = "docs/reject-codes.md" if name == "reject_code" else "docs/wire.md"
    lines = [
        "",
        f"class {_class_name(name)}(IntEnum):",
        _doc(f"Values of `{name}`; `{page}` lists them.", "    "),
        "",
    ]
    for value in values:
        lines += [f"    {value.name.upper()} = {value.number}", _doc(value.doc, "    ")]
    if name == "reject_code":
        lines += [
            "",
            "    @property",
            "    def scope(self) -> str:",
            '        """What a reject of a worker\'s message costs: connection, proposal or stale (`docs/reject-codes.md`)."""',
            "        return _REJECT_FACTS[self][0]",
            "",
            "    @property",
            "    def stage(self) -> str:",
            '        """The stage of the checks that finds it (`docs/wire.md`)."""',
            "        return _REJECT_FACTS[self][1]",
            "",
            "    @property",
            "    def meaning(self) -> str:",
            '        """One sentence for people."""',
            "        return _REJECT_FACTS[self][2]",
            "",
            "",
            "_REJECT_FACTS: Final[dict[int, tuple[str, str, str]]] = {",
        ]
        lines += [f"    {v.number}: ({v.scope!r}, {v.stage!r}, {v.doc!r})," for v in values]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _table(name: str, fields: tuple[Field, ...], what: str) -> str:
    code = "<" + "".join(f.struct_code for f in fields)
    lines = [f"{name}_STRUCT: Final = Struct({code!r})", _doc(f"The fixed fields of the {what}.", "")]
    lines.append(f"{name}_FIELDS: Final[tuple[FieldSpec, ...]] = (")
    for f in fields:
        enum = _class_name(f.enum) if f.enum else None
        low, high = f.minimum or 0, f.maximum if f.maximum is not None else 0
        lines.append(
            f"    FieldSpec({f.name!r}, {f.kind!r}, {f.offset}, {f.size}, {low}, {high}, {enum}, {f.reject!r}),"
        )
    lines.append(")")
    return "\n".join(lines) + "\n"


def _annotation(f: Field) -> str:
    if f.kind == "column":
        return "npt.NDArray[np.int32]" if f.kaitai_type == "s4" else "npt.NDArray[np.float32]"
    if f.kind == "enum" and f.enum:
        return _class_name(f.enum)
    return {"int": "int", "float": "float", "bytes": "bytes", "text": "str"}[f.kind]


def _message_class(message: Message) -> str:
    columns = [f for f in message.columns if f.in_message]
    decorator = "@dataclass(frozen=True, slots=True, kw_only=True" + (", eq=False)" if columns else ")")
    lines = ["", decorator, f"class {_class_name(message.name)}:", _doc(message.doc, "    "), ""]
    for name in message.identity:
        lines += [f"    {name}: int", _doc(f"Header field `{name}`.", "    ")]
    for f in message.fields:
        if f.in_message:
            lines += [f"    {f.name}: {_annotation(f)}", _doc(f"{f.doc} Unit: {f.unit}.", "    ")]
    if columns:
        names = [*message.identity, *(f.name for f in message.fields if f.in_message)]
        key = ", ".join(f"self.{n}.tobytes()" if n in {c.name for c in columns} else f"self.{n}" for n in names)
        lines += ["", "    def __post_init__(self) -> None:"]
        for c in columns:
            freeze = "frozen_ids" if c.kaitai_type == "s4" else "frozen_q"
            lines.append(f'        object.__setattr__(self, "{c.name}", {freeze}(self.{c.name}))')
        lines += [
            "",
            "    def _key(self) -> tuple[object, ...]:",
            f"        return ({key})",
            "",
            "    def __eq__(self, other: object) -> bool:",
            f"        return self._key() == other._key() if isinstance(other, {_class_name(message.name)}) else NotImplemented",
            "",
            "    def __hash__(self) -> int:",
            "        return hash(self._key())",
        ]
    return "\n".join(lines) + "\n\n"


def _message_tables(schema: Schema) -> str:
    lines = ["MESSAGE_CLASSES: Final[dict[int, type[Message]]] = {"]
    lines += [f"    {m.number}: {_class_name(m.name)}," for m in schema.messages]
    lines += ["}", "BODY_STRUCTS: Final[dict[int, Struct]] = {"]
    lines += [f"    {m.number}: {m.name.upper()}_BODY_STRUCT," for m in schema.messages]
    lines += ["}", "BODY_FIELDS: Final[dict[int, tuple[FieldSpec, ...]]] = {"]
    lines += [f"    {m.number}: {m.name.upper()}_BODY_FIELDS," for m in schema.messages]
    lines += ["}", "BODY_COLUMNS: Final[dict[int, tuple[tuple[str, str, str], ...]]] = {"]
    for m in schema.messages:
        columns = tuple((c.name, SCALARS[c.kaitai_type or ""][2], c.repeat or "") for c in m.columns)
        lines.append(f"    {m.number}: {columns!r},")
    lines += ["}", '"""Columns behind the fixed fields: name, numpy code, and what says their length."""']
    lines += ["IDENTITY_FIELDS: Final[dict[int, tuple[str, ...]]] = {"]
    lines += [f"    {m.number}: {m.identity!r}," for m in schema.messages]
    lines += ["}", "DERIVED_FIELDS: Final[dict[int, dict[str, str]]] = {"]
    for m in schema.messages:
        derived = {f.name: f.derived.removeprefix("len(").removesuffix(")") for f in m.fields if f.derived}
        lines.append(f"    {m.number}: {derived!r},")
    lines += ["}", '"""Fixed fields that are the length of a column, and so not part of the message class."""']
    lines += ["AGREED_FIELDS: Final[dict[int, dict[str, str]]] = {"]
    lines += [f"    {m.number}: { {f.name: f.agreed for f in m.fields if f.agreed}!r}," for m in schema.messages]
    lines += ["}", '"""Fixed fields whose value the agreement fixes, and so not part of the message class."""']
    lines += ["DIRECTIONS: Final[dict[int, str]] = {"]
    lines += [f"    {m.number}: {m.direction!r}," for m in schema.messages]
    lines.append("}")
    return "\n".join(lines) + "\n"


def _dtype(fields: tuple[Field, ...]) -> list[tuple[str, str]]:
    return [(f.name, SCALARS[f.kaitai_type][2] if f.kaitai_type in SCALARS else f"V{f.size}") for f in fields]


def _reply_dtype(schema: Schema) -> str:
    reply = next(m for m in schema.messages if m.name == "reply")
    lines = [
        "",
        "def reply_frame_dtype(id_entries: int, q_entries: int) -> np.dtype[np.void]:",
        '    """One REPLY frame, header and row, with the column lengths of an agreement."""',
        "    return np.dtype(",
        f"        {_dtype(_prefixed(schema.header))!r}",
        f"        + {_dtype(reply.fixed)!r}",
    ]
    for c in reply.columns:
        lines.append(f"        + [({c.name!r}, {SCALARS[c.kaitai_type or ''][2]!r}, ({c.repeat},))]")
    lines += ["    )", ""]
    return "\n".join(lines)


def _prefixed(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    # Header and body both have reserved fields; a structured dtype needs every name once.
    return tuple(replace(f, name=f"header_{f.name}") for f in fields)


def _constructs(schema: Schema) -> str:
    lines = [
        "",
        "def constructs() -> dict[str, construct.Construct[Any, Any]]:",
        '    """Construct declarations of whole frames by message name, for dissection and as a second decoder.',
        "",
        "    REPLY takes `id_entries` and `q_entries` as parse keywords. Nothing here judges a frame: use `pp1wire.decode`.",
        '    """',
        "    import construct as c",
        "",
        f"    header = c.Struct({_construct_fields(schema.header)})",
        "    return {",
    ]
    for m in schema.messages:
        lines.append(f'        "{m.name}": c.Struct("header" / header, {_construct_fields(m.fields)}),')
    lines += ["    }", ""]
    return "\n".join(lines)


def _construct_fields(fields: tuple[Field, ...]) -> str:
    return ", ".join(f'"{f.name}" / {_construct_type(f)}' for f in fields)


def _construct_type(f: Field) -> str:
    if f.kind == "column":
        length = f.repeat if (f.repeat or "").isdigit() else f"c.this.{f.repeat}"
        if f.repeat in ("id_entries", "q_entries"):
            length = f"c.this._params.{f.repeat}"
        return f"c.Array({length}, c.{_CONSTRUCT_SCALARS[f.kaitai_type or '']})"
    if f.kaitai_type in SCALARS:
        scalar = f"c.{_CONSTRUCT_SCALARS[f.kaitai_type]}"
        return f"c.Enum({scalar}, {_class_name(f.enum)})" if f.enum else scalar
    return f"c.Bytes({f.size})"
