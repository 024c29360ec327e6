"""`schemas/generated/pp1_v2.h`: constants, enumerations, offsets and structs for C11 and C++11, without one packing attribute."""

from __future__ import annotations

import textwrap

from schemas.generator.extent import Placed, body_length, place
from schemas.generator.model import SCALARS, SCOPES, STAGES, Field, Message, Schema

TARGET = "schemas/generated/pp1_v2.h"
HEADER_BYTES = 64
_TYPES = {
    "u1": "uint8_t", "u2": "uint16_t", "u4": "uint32_t", "u8": "uint64_t", "s4": "int32_t", "f4": "float", "f8": "double",
}  # fmt: skip

_TOP = """\
/* PP1 wire version 2. Generated from the .ksy files of schemas/ by `make schemas`; do not edit. See docs/wire.md.
 *
 * Every field lies at a multiple of its own size, so the structs need no packing; the asserts at the end hold any compiler to
 * that. Copy a frame into its struct with memcpy: received bytes need not be aligned. The wire is little-endian, so the structs
 * exist on little-endian hosts only; the offsets serve everywhere. This header describes bytes, and judges none: an enumeration
 * or a count that was received may have any value, and reserved bytes may be dirty, until they were checked.
 *
 * Names: PP1_<MESSAGE>_<FIELD>_OFFSET counts bytes from the start of the frame, _BYTES is the field's size, _MIN and _MAX are
 * its bounds, where it has any. Texts fill their field and are not terminated when they are as long as it.
 */
#ifndef PP1_V2_H
#define PP1_V2_H

#include <stddef.h>
#include <stdint.h>
"""

_ASSERT = """\
#ifdef __cplusplus
#define PP1_ASSERT(condition) static_assert(condition, #condition)
#else
#define PP1_ASSERT(condition) _Static_assert(condition, #condition)
#endif
"""


def render(schema: Schema) -> dict[str, str]:
    """The generated header as {path: text}."""
    header = place(schema.header)
    parts = [_TOP, _constants(schema)]
    parts += [_enum(name, schema) for name in schema.enums]
    parts.append(_reject_codes(schema))
    parts.append("\n".join([_comment("The frame header."), *_offsets("header", header, 0)]) + "\n")
    parts += [_message_macros(message) for message in schema.messages]
    parts.append("#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__\n")
    parts.append(_struct("header", schema.header_doc, header))
    parts += [_struct(m.name, m.doc, _inside(m), whole=True) for m in schema.messages]
    parts.append(_ASSERT)
    parts.append(_asserts("header", header, HEADER_BYTES, 0))
    for message in schema.messages:
        size = HEADER_BYTES + sum(p.length.fixed for p in _inside(message))
        parts.append(_asserts(message.name, _inside(message), size, HEADER_BYTES))
    parts.append("#undef PP1_ASSERT\n\n#endif /* little-endian */\n\n#endif /* PP1_V2_H */\n")
    return {TARGET: "\n".join(parts)}


def _inside(message: Message) -> tuple[Placed, ...]:
    """The fields whose place and length never vary."""
    return tuple(p for p in place(message.fields) if not p.offset.parts and not p.length.parts)


def _comment(text: str, indent: str = "") -> str:
    lines = textwrap.wrap(" ".join(text.split()).replace("*/", "* /").replace("/*", "/ *"), 120 - len(indent) - 6)
    return f"\n{indent} * ".join([f"{indent}/* {lines[0]}", *lines[1:]]) + " */"


def _constants(schema: Schema) -> str:
    lines = []
    for name, (value, doc) in schema.constants.items():
        lines += [
            _comment(doc),
            f"#define PP1_{name.upper()} " + (f'"{value}"' if isinstance(value, str) else str(value)),
        ]
    return "\n".join(lines) + "\n"


def _enum(name: str, schema: Schema) -> str:
    lines = [f"enum pp1_{name} {{"]
    for value in schema.enums[name]:
        lines += [_comment(value.doc, "    "), f"    PP1_{name.upper()}_{value.name.upper()} = {value.number},"]
    # C89 and pedantic C++98 refuse a comma behind the last value; nobody needs it.
    lines[-1] = lines[-1].rstrip(",")
    return "\n".join([*lines, "};", ""])


def _reject_codes(schema: Schema) -> str:
    lines = [_comment("What a rejection costs (docs/reject-codes.md)."), "enum pp1_scope {"]
    lines.append(",\n".join(f"    PP1_SCOPE_{scope.upper()} = {i}" for i, scope in enumerate(SCOPES)))
    lines += [
        "};",
        "",
        _comment("The stage of the checks that finds it (docs/wire.md), in their order."),
        "enum pp1_stage {",
    ]
    lines.append(",\n".join(f"    PP1_STAGE_{stage.upper()} = {i}" for i, stage in enumerate(STAGES)))
    lines += [
        "};", "",
        _comment(
            "Every reject code as X(NAME, name, scope, stage), for tables and switches. The scope is that of a REPLY or "
            "COMPLETION; in any other message a reject costs the connection."
        ),
        "#define PP1_REJECT_CODES(X) \\",
    ]  # fmt: skip
    rows = [
        f"    X(PP1_REJECT_CODE_{v.name.upper()}, {v.name}, PP1_SCOPE_{str(v.scope).upper()}, PP1_STAGE_{str(v.stage).upper()})"
        for v in schema.enums["reject_code"]
    ]
    return "\n".join(lines) + "\n" + " \\\n".join(rows) + "\n"


def _offsets(owner: str, placed: tuple[Placed, ...], base: int) -> list[str]:
    lines = []
    for p in placed:
        name = f"PP1_{owner.upper()}_{p.field.name.upper()}"
        lines += [f"#define {name}_OFFSET {base + p.offset.fixed}", f"#define {name}_BYTES {p.length.fixed}"]
        if p.field.kind == "int" and p.field.minimum is not None and p.field.maximum is not None:
            _, _, _, lowest, highest = SCALARS[str(p.field.kaitai_type)]
            lines += [f"#define {name}_MIN {p.field.minimum}"] if p.field.minimum > lowest else []
            lines += [f"#define {name}_MAX {p.field.maximum}"] if p.field.maximum < highest else []
    if owner == "header":
        lines.append(f"#define PP1_HEADER_BYTES {HEADER_BYTES}")
    return lines


def _message_macros(message: Message) -> str:
    """Offsets, and for columns that an agreement or a count sizes, macros of their lengths."""
    lines = [
        _comment(f"{message.name.upper()}: {message.doc}"),
        *_offsets(message.name, _inside(message), HEADER_BYTES),
    ]
    for p in place(message.fields):
        if p.offset.parts or p.length.parts:
            name = f"PP1_{message.name.upper()}_{p.field.name.upper()}"
            lines.append(_macro(f"{name}_OFFSET", HEADER_BYTES + p.offset.fixed, p.offset.parts))
            lines.append(_macro(f"{name}_BYTES", p.length.fixed, p.length.parts))
    whole = body_length(message)
    lines.append(_macro(f"PP1_{message.name.upper()}_FRAME_BYTES", HEADER_BYTES + whole.fixed, whole.parts))
    return "\n".join(lines) + "\n"


def _macro(name: str, fixed: int, parts: tuple[tuple[int, str], ...]) -> str:
    if not parts:
        return f"#define {name} {fixed}"
    terms = [str(fixed)] if fixed else []
    terms += [f"{size} * (size_t)({count})" for size, count in parts]
    return f"#define {name}({', '.join(count for _, count in parts)}) ({' + '.join(terms)})"


def _struct(name: str, doc: str, placed: tuple[Placed, ...], whole: bool = False) -> str:
    lines = [_comment(doc), f"struct pp1_{name} {{"]
    if whole:
        lines.append("    struct pp1_header header;")
    for p in placed:
        lines += [_comment(f"{p.field.doc} Unit: {p.field.unit}.", "    "), f"    {_declaration(p.field)};"]
    return "\n".join([*lines, "};", ""])


def _declaration(field: Field) -> str:
    if field.kind in ("magic", "text"):
        return f"char {field.name}[{field.size}]"
    if field.kaitai_type is None:
        return f"uint8_t {field.name}[{field.size}]"
    count = f"[{field.repeat}]" if field.kind == "column" else ""
    return f"{_TYPES[field.kaitai_type]} {field.name}{count}"


def _asserts(name: str, placed: tuple[Placed, ...], size: int, base: int) -> str:
    lines = [f"PP1_ASSERT(sizeof(struct pp1_{name}) == {size});"]
    for p in placed:
        macro = f"PP1_{name.upper()}_{p.field.name.upper()}"
        member = f"struct pp1_{name}, {p.field.name}"
        lines.append(f"PP1_ASSERT(offsetof({member}) == {macro}_OFFSET && {macro}_OFFSET == {base + p.offset.fixed});")
        lines.append(f"PP1_ASSERT(sizeof(((struct pp1_{name} *)0)->{p.field.name}) == {macro}_BYTES);")
    return "\n".join(lines) + "\n"
