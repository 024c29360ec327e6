"""`pp1wire/capture/pp1.lua`: Wireshark's dissector, as tables of the layout and hand-written modules that walk them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from schemas.generator.extent import body_length
from schemas.generator.model import SCALARS, EnumValue, Field, Message, Schema, SchemaError

TARGET = "pp1wire/capture/pp1.lua"
TEMPLATES = Path(__file__).resolve().parent / "templates" / "lua"
# Each is wrapped in a function of its own, under this name, and may use those before it.
MODULES = (
    ("words", "words"), ("xxh3", "xxh3"), ("blake2b", "blake2b"), ("frames", "frames"), ("rows", "rows"),
    ("messages", "messages"), ("negotiation", "negotiation"), ("sessions", "sessions"), ("answers", "answers"),
    ("rounds", "rounds"), ("declarations", "fields"), ("tree_view", "tree"),
)  # fmt: skip
LAST = "dissector"
HEADER_BYTES = 64

Value: TypeAlias = "str | int | Mapping[str, Value] | Mapping[int, Value] | Sequence[Value]"

# What the dissector says beyond the reject codes: (severity, text).
_NOTES = {
    "undecoded": ("WARN", "No verified header accounts for these bytes"),
    "cut": ("WARN", "The capture does not hold the whole frame"),
    "mid_stream": ("NOTE", "The capture begins behind this direction's first frame"),
    "round_failed": ("NOTE", "The worker gave the round up"),
}
# Codes that cost less in a capture than at an end: a missing frame may be the capture's, a refusal is no fault.
_MILDER = {"sequence_mismatch": "WARN", "hello_refused": "NOTE"}

_TOP = """\
-- Wireshark dissector of PP1 wire version 2. Generated from the .ksy files of schemas/ by `make schemas`; do not edit.
-- Put it into Wireshark's folder of personal Lua plugins; see docs/dissector.md. Needs Lua 5.2 or newer.
-- SPDX-License-Identifier: Apache-2.0
"""


def render(schema: Schema) -> dict[str, str]:
    """The dissector as {path: text}."""
    texts = {file: (TEMPLATES / f"{file}.lua").read_text(encoding="utf-8") for _, file in MODULES}
    last = (TEMPLATES / f"{LAST}.lua").read_text(encoding="utf-8")
    parts = [
        _TOP,
        f"local schema = {_lua(tables(schema, codes_of(schema, [*texts.values(), last])))}\n",
        "local settings = { check_bodies = true, check_rows = true, max_entries = 1024 }\n",
    ]
    parts += [wrapped(name, texts[file]) for name, file in MODULES]
    return {TARGET: "\n".join([*parts, last])}


def wrapped(name: str, text: str) -> str:
    """A module as a local table; Lua allows only so many locals in one function."""
    return f"local {name} = (function()\n{text.rstrip()}\nend)()\n"


def codes_of(schema: Schema, templates: list[str]) -> list[EnumValue]:
    """The reject codes that the templates, or the fields' own bounds, can give."""
    named = {name for text in templates for name in re.findall(r'"([a-z_]+)"', text)}
    named |= {f.reject for message in schema.messages for f in message.fields if f.reject is not None}
    return [value for value in schema.enums["reject_code"] if value.name in named]


def tables(schema: Schema, codes: list[EnumValue]) -> dict[str, Value]:
    """What the templates call `schema`."""
    notes = dict(_NOTES)
    if clash := sorted(notes.keys() & {code.name for code in schema.enums["reject_code"]}):
        raise SchemaError(f"{clash[0]}: a note of the dissector has the name of a reject code")
    severity: dict[str, Value] = {code.name: _severity(code) for code in codes}
    said: dict[str, Value] = {code.name: code.doc for code in codes}
    enums = {name: values for name, values in schema.enums.items() if name != "reject_code"}
    representations = enums["representation"]
    names: dict[str, Value] = {name: {v.name: v.number for v in values} for name, values in enums.items()}
    names["representation_bits"] = {1 << (v.number - 1): v.number for v in representations}
    return {
        "magic": schema.constants["magic"][0],
        "wire_version": schema.constants["wire_version"][0],
        "q_total": schema.constants["q_total"][0],
        "max_discards_in_a_row": schema.constants["max_discards_in_a_row"][0],
        "max_slots": schema.constants["max_slots"][0],
        "header_bytes": HEADER_BYTES,
        "longest_body": max(_longest(message, schema) for message in schema.messages),
        "reply": next(m.number for m in schema.messages if m.name == "reply"),
        "header": [_field(f) for f in schema.header],
        "messages": {m.number: _message(m) for m in schema.messages},
        "enums": {name: {v.number: v.name for v in values} for name, values in enums.items()},
        "values": names,
        "severity": severity | {name: note[0] for name, note in notes.items()},
        "said": said | {name: note[1] for name, note in notes.items()},
        "stage": {code.name: str(code.stage) for code in codes},
    }


def _severity(code: EnumValue) -> str:
    return _MILDER.get(code.name, "NOTE" if code.scope == "stale" else "ERROR")


def _longest(message: Message, schema: Schema) -> int:
    """Bytes of the longest body that any agreement allows; a sparse row of the whole vocabulary is the longest."""
    bounds = {field.name: field.maximum for field in message.fields if field.maximum is not None}
    extent = body_length(message)
    return extent.fixed + sum(
        size * bounds.get(name, int(schema.constants["max_vocab"][0])) for size, name in extent.parts
    )


def _message(message: Message) -> dict[str, Value]:
    extent = body_length(message)
    return {
        "name": message.name,
        "title": message.name.upper(),
        "doc": " ".join(message.doc.split()),
        "size": message.fixed_size,
        "fixed_columns": extent.fixed - message.fixed_size,
        "step": min((size for size, _ in extent.parts), default=0),
        "fields": [_field(f) for f in message.fixed],
        "columns": [_field(f) for f in message.columns],
    }


def _field(field: Field) -> dict[str, Value]:
    described: dict[str, Value] = {
        "name": field.name, "kind": field.kind, "offset": field.offset, "size": field.size, "unit": field.unit,
        "doc": field.doc,
    }  # fmt: skip
    if field.kaitai_type is not None:
        described["type"] = field.kaitai_type
    if field.enum is not None:
        described["enum"] = field.enum
    if field.reject is not None:
        described["reject"] = field.reject
    if field.repeat is not None:
        described["repeats"] = field.repeat
    if field.kind == "int" and field.minimum is not None and field.maximum is not None:
        _, _, _, lowest, highest = SCALARS[str(field.kaitai_type)]
        # 64-bit fields have no bounds but their type's, which Lua's numbers could not hold.
        if (field.minimum, field.maximum) != (lowest, highest):
            described |= {"minimum": field.minimum, "maximum": field.maximum}
    return described


def _lua(value: Value, indent: str = "") -> str:
    """A Lua table or literal; tables of literals on one line, where it is short enough."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    deeper = indent + "    "
    if isinstance(value, Mapping):
        items = [
            f"{key if isinstance(key, str) else f'[{key}]'} = {_lua(entry, deeper)}" for key, entry in value.items()
        ]
    else:
        items = [_lua(entry, deeper) for entry in value]
    line = "{ " + ", ".join(items) + " }" if items else "{}"
    if len(line) + len(indent) <= 100 and "\n" not in line:
        return line
    return "{\n" + "".join(f"{deeper}{item},\n" for item in items) + indent + "}"
