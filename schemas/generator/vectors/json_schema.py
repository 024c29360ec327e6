"""The JSON schema (draft 2020-12) of a file of vectors, with the messages, fields and codes that the schemas name."""

from __future__ import annotations

from typing import Any

from schemas.generator.model import SCALARS, SCOPES, Field, Message, Schema
from schemas.generator.vectors.cases import LARGEST_JSON_INTEGER

_HEX = {"type": "string", "pattern": "^([0-9a-f]{2})+$"}
_NAME = {"type": "string", "pattern": "^[a-z0-9-]+$"}
_END = {"enum": ["verifier", "worker"]}


def describe(schema: Schema, format_name: str) -> dict[str, Any]:
    """The schema of a file of this format."""
    codes = {"enum": [code.name for code in schema.enums["reject_code"]]}
    frame = _object({"from": _END, "hex": _HEX, "code": codes}, optional=("code",))
    vectors = [_valid(schema, message) for message in schema.messages] + [_invalid(schema)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Test vectors of PP1 wire version 2",
        "$defs": {"frame": frame, "code": codes},
        **_object(
            {
                "format": {"const": format_name},
                "wire_version": {"const": schema.constants["wire_version"][0]},
                "conversations": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": {"$ref": "#/$defs/frame"}},
                },
                "vectors": {"type": "array", "items": {"oneOf": vectors}},
            }
        ),
    }


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _common(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": _NAME,
        "comment": {"type": "string", "minLength": 1},
        "message": message,
        "representation": {"enum": ["dense", "sparse", None]},
        "after": {"type": "string"},
        "from": _END,
        "hex": _HEX,
    }


def _valid(schema: Schema, message: Message) -> dict[str, Any]:
    header = {f.name: f for f in schema.header}
    fields = {name: _type(schema, header[name]) for name in message.identity}
    fields |= {f.name: _type(schema, f) for f in message.fields if f.in_message}
    return _object({**_common({"const": message.name}), "result": {"const": "valid"}, "fields": _object(fields)})


def _invalid(schema: Schema) -> dict[str, Any]:
    messages = {"enum": [message.name for message in schema.messages]}
    reject = {
        "result": {"const": "invalid"},
        "code": {"$ref": "#/$defs/code"},
        "scope": {"enum": list(SCOPES)},
        "offset": {"type": "integer", "minimum": 0},
        "path": {"type": "string", "pattern": r"^(frame|[a-z]+\.[a-z0-9_]+(\[\d+\])?)$"},
        "whole": {"const": True},
    }
    return _object({**_common(messages), **reject}, optional=("whole",))


def _type(schema: Schema, field: Field) -> dict[str, Any]:
    if field.kind == "column":
        element = {"type": "number"} if field.kaitai_type == "f4" else _integer(*SCALARS["s4"][3:])
        return {"type": "array", "items": element}
    if field.kind == "enum":
        return {"enum": [value.name for value in schema.enums[str(field.enum)]]}
    if field.kind == "float":
        return {"type": "number"}
    if field.kind == "text":
        return {"type": "string", "pattern": "^[ -~]*$", "maxLength": field.size}
    if field.kind == "bytes":
        return {"type": "string", "pattern": f"^[0-9a-f]{{{2 * field.size}}}$"}
    return _integer(field.minimum or 0, field.maximum or 0)


def _integer(smallest: int, largest: int) -> dict[str, Any]:
    if largest <= LARGEST_JSON_INTEGER:
        return {"type": "integer", "minimum": smallest, "maximum": largest}
    return {
        "oneOf": [
            {"type": "integer", "minimum": smallest, "maximum": LARGEST_JSON_INTEGER},
            {"type": "string", "pattern": "^[1-9][0-9]{15,19}$"},
        ]
    }
