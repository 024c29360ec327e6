"""The schemas as checked Python objects: the only place that reads `.ksy` files.

Kaitai's compiler ignores keys that begin with "-", so this project's own facts stand beside the layout under `-pp1-…`.
Everything here is strict: a key that is not listed below is an error, so that a typing mistake cannot pass as silence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

SCHEMA_DIR = Path(__file__).resolve().parent.parent
MESSAGE_FILES = ("hello", "step", "reply", "completion", "commit", "reset")

# Kaitai type → (struct code, bytes, numpy code, smallest, largest)
SCALARS: dict[str, tuple[str, int, str, int, int]] = {
    "u1": ("B", 1, "u1", 0, 2**8 - 1),
    "u2": ("H", 2, "<u2", 0, 2**16 - 1),
    "u4": ("I", 4, "<u4", 0, 2**32 - 1),
    "u8": ("Q", 8, "<u8", 0, 2**64 - 1),
    "s4": ("i", 4, "<i4", -(2**31), 2**31 - 1),
    "f4": ("f", 4, "<f4", 0, 0),
    "f8": ("d", 8, "<f8", 0, 0),
}
SCOPES = ("connection", "proposal", "stale")
STAGES = (
    "magic", "version", "header_checksum", "size", "identity", "body_checksum",
    "structure", "canonical", "meaning", "ticket",
)  # fmt: skip
DIRECTIONS = ("both", "verifier_to_worker", "worker_to_verifier")

_FILE_KEYS = {
    "meta", "doc", "seq", "enums", "types", "params",
    "-pp1-constants", "-pp1-message", "-pp1-direction", "-pp1-identity", "-pp1-rules",
}  # fmt: skip
_MESSAGE_REQUIRED = ("seq", "-pp1-message", "-pp1-direction", "-pp1-identity", "-pp1-rules")
_META_KEYS = {"id", "title", "license", "ks-version", "endian", "encoding", "imports"}
_FIELD_KEYS = {
    "id", "type", "size", "enum", "valid", "contents", "repeat", "repeat-expr", "doc",
    "-pp1-unit", "-pp1-reject", "-pp1-derived", "-pp1-agreed",
}  # fmt: skip
_FIELD_FACTS = {"id", "doc", "-pp1-unit", "-pp1-reject"}
# What else each kind of field may say; a key that has no meaning there is an error, not a comment.
_KIND_KEYS = {
    "magic": {"contents"}, "zeros": {"contents"}, "bytes": {"size"}, "text": {"type", "size"}, "float": {"type"},
    "int": {"type", "valid", "-pp1-derived", "-pp1-agreed"}, "enum": {"type", "enum", "valid", "-pp1-agreed"},
    "column": {"type", "repeat", "repeat-expr"},
}  # fmt: skip
_IDENTITY = ("session", "slot", "generation", "round")
_AGREED = ("representation", "shard_first_id", "vocab_size")
_ENUM_KEYS = {"id", "doc"}
_REJECT_KEYS = _ENUM_KEYS | {"-pp1-scope", "-pp1-stage"}
_VALID_KEYS = {"min", "max", "in-enum"}
_PARAM_KEYS = {"id", "type", "doc"}
_TYPE_KEYS = {"doc", "seq"}
_CONSTANT_KEYS = {"value", "doc"}


class SchemaError(Exception):
    """A schema file breaks a rule of this project; names the file, the place and the rule."""


@dataclass(frozen=True)
class Field:
    """One field: `kind` is magic, zeros, bytes, text, int, float, enum or column; offsets count from the body's start."""

    name: str
    kind: str
    doc: str
    unit: str
    offset: int
    size: int  # bytes; of one element for a column
    kaitai_type: str | None = None
    enum: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    reject: str | None = None
    derived: str | None = None
    agreed: str | None = None
    repeat: str | None = None  # column: the number of elements, a digit string or the name of a field or parameter

    @property
    def struct_code(self) -> str:
        """Code of Python's struct module."""
        if self.kaitai_type is None or self.kind == "text":
            return f"{self.size}s"
        return SCALARS[self.kaitai_type][0]

    @property
    def in_message(self) -> bool:
        """Whether the message class has this field (reserved, derived and agreed ones it has not)."""
        return self.kind not in ("magic", "zeros") and self.derived is None and self.agreed is None


@dataclass(frozen=True)
class EnumValue:
    """One value of an enumeration; scope and stage belong to reject codes only."""

    name: str
    number: int
    doc: str
    scope: str | None = None
    stage: str | None = None


@dataclass(frozen=True)
class Message:
    """One message: its fixed fields first, then its columns."""

    name: str
    number: int
    direction: str
    identity: tuple[str, ...]
    rules: tuple[str, ...]
    doc: str
    fields: tuple[Field, ...]
    params: dict[str, str] = field(default_factory=dict)

    @property
    def fixed(self) -> tuple[Field, ...]:
        """The fields of fixed offset and size."""
        return tuple(f for f in self.fields if f.kind != "column")

    @property
    def columns(self) -> tuple[Field, ...]:
        """The array fields behind the fixed ones."""
        return tuple(f for f in self.fields if f.kind == "column")

    @property
    def fixed_size(self) -> int:
        """Bytes of the body before the columns."""
        return sum(f.size for f in self.fixed)


@dataclass(frozen=True)
class Schema:
    """Everything the `.ksy` files say."""

    constants: dict[str, tuple[int | str, str]]
    enums: dict[str, tuple[EnumValue, ...]]
    header: tuple[Field, ...]
    header_doc: str
    messages: tuple[Message, ...]


def load(directory: Path = SCHEMA_DIR) -> Schema:
    """Read and check every schema of `directory`.

    Raises:
        SchemaError: an unknown key, an undocumented, unaligned or ill-formed field, an unknown enumeration or rule.
    """
    common = _read(directory / "common.ksy")
    enums = {name: _enum(name, values) for name, values in common["enums"].items()}
    constants = {}
    for name, entry in common["-pp1-constants"].items():
        _known(entry, _CONSTANT_KEYS, f"common.ksy, constant {name}", required=("value", "doc"))
        constants[name] = (entry["value"], str(entry["doc"]))
    header_type = common["types"]["frame_header"]
    _known(header_type, _TYPE_KEYS, "common.ksy, type frame_header")
    header = _fields(header_type["seq"], enums, "common.ksy")
    messages = tuple(_message(directory / f"{name}.ksy", enums) for name in MESSAGE_FILES)
    if sorted(m.number for m in messages) != [v.number for v in enums["message_type"]]:
        raise SchemaError("common.ksy: message_type does not list exactly the messages that have a file")
    return Schema(constants, enums, header, str(header_type["doc"]).strip(), messages)


class _Loader(yaml.SafeLoader):
    """YAML keeps the last of two equal keys; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise SchemaError(f"{self.name}, line {node.start_mark.line + 1}: key {key!r} stands twice")
        return super().construct_mapping(node, deep)


def _read(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        try:
            content = yaml.load(file, _Loader)  # noqa: S506 - a SafeLoader
        except yaml.YAMLError as error:
            raise SchemaError(f"{path.name}: {' '.join(str(error).split())}") from error
    _known(content, _FILE_KEYS, path.name, required=("meta", "doc"))
    _known(content["meta"], _META_KEYS, f"{path.name}, meta", required=("id", "endian"))
    if content["meta"]["endian"] != "le":
        raise SchemaError(f"{path.name}: endian must be le")
    if not content.get("doc"):
        raise SchemaError(f"{path.name}: has no doc")
    return dict(content)


def _known(mapping: Any, keys: set[str], where: str, required: tuple[str, ...] = ()) -> None:
    if not isinstance(mapping, dict):
        raise SchemaError(f"{where}: expected a mapping, got {mapping!r}")
    unknown = sorted(set(mapping) - keys)
    if unknown:
        raise SchemaError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(sorted(keys))}")
    if missing := [key for key in required if key not in mapping]:
        raise SchemaError(f"{where}: has no {missing[0]}")


def _enum(name: str, values: dict[int, dict[str, Any]]) -> tuple[EnumValue, ...]:
    result = []
    for number, entry in values.items():
        where = f"common.ksy, enum {name}, value {number}"
        _known(entry, _REJECT_KEYS if name == "reject_code" else _ENUM_KEYS, where, required=("id",))
        if not entry.get("doc"):
            raise SchemaError(f"{where}: has no doc")
        scope, stage = entry.get("-pp1-scope"), entry.get("-pp1-stage")
        if name == "reject_code" and (scope not in SCOPES or stage not in STAGES):
            raise SchemaError(f"{where}: scope must be one of {SCOPES} and stage one of {STAGES}, not {scope}, {stage}")
        result.append(EnumValue(str(entry["id"]), int(number), str(entry["doc"]), scope, stage))
    if len({v.name for v in result}) != len(result):
        raise SchemaError(f"common.ksy, enum {name}: a name stands twice")
    return tuple(sorted(result, key=lambda v: v.number))


def _message(path: Path, enums: dict[str, tuple[EnumValue, ...]]) -> Message:
    content = _read(path)
    _known(content, _FILE_KEYS, path.name, required=_MESSAGE_REQUIRED)
    name = content["-pp1-message"]
    if name != path.stem:
        raise SchemaError(f"{path.name}: describes message {name!r}, not its own")
    numbers = {v.name: v.number for v in enums["message_type"]}
    codes = {v.name for v in enums["reject_code"]}
    rules = tuple(content["-pp1-rules"])
    if unknown := sorted(set(rules) - codes):
        raise SchemaError(f"{path.name}: rule {unknown[0]!r} is not a reject code")
    if len(set(rules)) != len(rules):
        raise SchemaError(f"{path.name}: a rule stands twice")
    if unknown := [part for part in content["-pp1-identity"] if part not in _IDENTITY]:
        raise SchemaError(f"{path.name}: identity {unknown[0]!r} is not one of {', '.join(_IDENTITY)}")
    if content["-pp1-direction"] not in DIRECTIONS:
        raise SchemaError(f"{path.name}: direction must be one of {DIRECTIONS}")
    first, *rest = content["seq"]
    if first.get("type") != "pp1_common::frame_header":
        raise SchemaError(f"{path.name}: the first field must be the frame header")
    params = {}
    for param in content.get("params", []):
        _known(param, _PARAM_KEYS, f"{path.name}, parameter {param.get('id')}", required=("id", "doc"))
        params[param["id"]] = str(param["doc"])
    fields = _fields(rest, enums, path.name)
    names = {f.name for f in fields} | set(params)
    for column in (f for f in fields if f.kind == "column"):
        if not (column.repeat or "").isdigit() and column.repeat not in names:
            raise SchemaError(f"{path.name}, field {column.name}: repeats {column.repeat!r}, which nothing declares")
    lengths = {f"len({f.name})" for f in fields if f.kind == "column"}
    for derived in (f for f in fields if f.derived is not None and f.derived not in lengths):
        raise SchemaError(f"{path.name}, field {derived.name}: {derived.derived!r} is not the length of a column")
    return Message(
        name, numbers[name], content["-pp1-direction"], tuple(content["-pp1-identity"]), rules,
        str(content["doc"]).strip(), fields, params,
    )  # fmt: skip


def _fields(seq: list[dict[str, Any]], enums: dict[str, tuple[EnumValue, ...]], file: str) -> tuple[Field, ...]:
    codes = {v.name for v in enums["reject_code"]}
    fields: list[Field] = []
    offset = 0
    for entry in seq:
        where = f"{file}, field {entry.get('id')}"
        _known(entry, _FIELD_KEYS, where, required=("id",))
        if not entry.get("doc") or not entry.get("-pp1-unit"):
            raise SchemaError(f"{where}: has no doc or no -pp1-unit")
        made = _field(entry, offset, enums, where)
        _known(entry, _FIELD_FACTS | _KIND_KEYS[made.kind], f"{where}, {made.kind}")
        if made.agreed is not None and made.agreed not in _AGREED:
            raise SchemaError(f"{where}: {made.agreed!r} is not one of {', '.join(_AGREED)}")
        if made.kaitai_type in SCALARS and offset % made.size:
            raise SchemaError(f"{where}: {made.kaitai_type} at offset {offset} is not naturally aligned")
        if made.reject is not None and made.reject not in codes:
            raise SchemaError(f"{where}: {made.reject!r} is not a reject code")
        if fields and fields[-1].kind == "column" and made.kind != "column":
            raise SchemaError(f"{where}: a fixed field may not follow a column")
        if made.name in {f.name for f in fields}:
            raise SchemaError(f"{where}: the name stands twice")
        fields.append(made)
        offset += made.size if made.kind != "column" else 0
    return tuple(fields)


def _field(entry: dict[str, Any], offset: int, enums: dict[str, tuple[EnumValue, ...]], where: str) -> Field:
    base = {
        "name": entry["id"], "doc": " ".join(str(entry["doc"]).split()), "unit": entry["-pp1-unit"], "offset": offset,
        "reject": entry.get("-pp1-reject"), "derived": entry.get("-pp1-derived"), "agreed": entry.get("-pp1-agreed"),
    }  # fmt: skip
    kaitai_type = entry.get("type")
    if "contents" in entry:
        contents = entry["contents"]
        if isinstance(contents, str):
            return Field(**base, kind="magic", size=len(contents))
        if any(contents):
            raise SchemaError(f"{where}: reserved bytes must be zero")
        return Field(**base, kind="zeros", size=len(contents))
    if kaitai_type in (None, "strz") and not isinstance(entry.get("size"), int):
        raise SchemaError(f"{where}: needs a size in bytes")
    if kaitai_type is None:
        return Field(**base, kind="bytes", size=int(entry["size"]))
    if kaitai_type == "strz":
        return Field(**base, kind="text", size=int(entry["size"]), kaitai_type=kaitai_type)
    if kaitai_type not in SCALARS:
        raise SchemaError(f"{where}: type {kaitai_type!r} is not one of {', '.join(SCALARS)}, strz, or bytes")
    _, size, _, lowest, highest = SCALARS[kaitai_type]
    if "repeat" in entry:
        return Field(**base, kind="column", size=size, kaitai_type=kaitai_type, repeat=str(entry["repeat-expr"]))
    if kaitai_type.startswith("f"):
        return Field(**base, kind="float", size=size, kaitai_type=kaitai_type)
    valid = entry.get("valid", {})
    valid = {"min": valid, "max": valid} if isinstance(valid, int) else valid
    _known(valid, _VALID_KEYS, f"{where}, valid")
    if "enum" in entry:
        enum = str(entry["enum"]).removeprefix("pp1_common::")
        if enum not in enums:
            raise SchemaError(f"{where}: no enumeration {enum!r}")
        if valid.get("in-enum") is not True:
            raise SchemaError(f"{where}: an enumeration must be bounded by in-enum")
        return Field(**base, kind="enum", size=size, kaitai_type=kaitai_type, enum=enum)
    minimum, maximum = int(valid.get("min", lowest)), int(valid.get("max", highest))
    if not lowest <= minimum <= maximum <= highest:
        raise SchemaError(f"{where}: bounds {minimum} to {maximum} are not within {kaitai_type}")
    return Field(**base, kind="int", size=size, kaitai_type=kaitai_type, minimum=minimum, maximum=maximum)
