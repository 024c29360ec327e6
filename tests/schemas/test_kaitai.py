"""Kaitai Struct's compiler accepts every schema, and what it makes of them agrees with this package, field by field."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import construct
import kaitaistruct
import pytest

from pp1wire.wire import _schema_v2 as generated
from schemas.generator import model
from tests.schemas.recorded import Recorded, conversation_frames, vectors

SCHEMA = model.load()
MESSAGES = {m.name: m for m in SCHEMA.messages}
# What a schema can say by itself, so that Kaitai refuses it as well.
STRUCTURAL = {
    "bad_magic", "unsupported_version", "unknown_message_type", "header_reserved_not_zero", "reserved_not_zero",
    "unknown_value",
}  # fmt: skip

pytestmark = pytest.mark.system


def test_compiles_every_schema(kaitai: dict[str, ModuleType]) -> None:
    assert set(kaitai) == {"common", *model.MESSAGE_FILES}
    for name, module in kaitai.items():
        assert hasattr(module, f"Pp1{name.capitalize()}")


def test_enumerations_agree(kaitai: dict[str, ModuleType]) -> None:
    for name, values in SCHEMA.enums.items():
        theirs = getattr(kaitai["common"].Pp1Common, name.title().replace("_", ""))
        assert {v.name: v.value for v in theirs} == {v.name: v.number for v in values}


def test_agrees_field_by_field_on_every_frame(kaitai: dict[str, ModuleType]) -> None:
    """Every frame that Kaitai accepts has the fields that our Construct declarations find; the rest are refused alike."""
    agreed = refused = 0
    for recorded in vectors() + conversation_frames():
        vector = recorded.vector or {}
        if len(recorded.data) < 64 or vector.get("code") == "truncated":
            continue
        if len(recorded.data) == 64 or len(recorded.data) != 64 + int.from_bytes(recorded.data[16:20], "little"):
            # Only a header, or more than one frame: the header is compared all the same.
            theirs = parse_header(kaitai, recorded.data)
            ours = generated.constructs()["hello"].header.parse(recorded.data)
            names = [f.name for f in SCHEMA.header]
        else:
            theirs = parse(kaitai, recorded)
            # A count out of bounds can send ours beyond the end, too.
            ours = ours_of(recorded) if theirs is not None else {}
            names = [f.name for f in MESSAGES[recorded.message].fields]
        code = vector.get("code")
        if theirs is None:
            assert code in STRUCTURAL or outside_schema_bounds(recorded) or not_ascii(recorded), recorded.name
            refused += 1
            continue
        assert code not in STRUCTURAL, recorded.name
        for name in names:
            assert same(getattr(theirs, name), ours[name]), f"{recorded.name}: {name}"
        agreed += 1
    assert agreed > 250
    assert refused >= len(STRUCTURAL)


def parse(kaitai: dict[str, ModuleType], recorded: Recorded) -> Any:
    """Kaitai's object, or None where it refuses the bytes."""
    kind = getattr(kaitai[recorded.message], f"Pp1{recorded.message.capitalize()}")
    arguments = recorded.columns if recorded.message == "reply" else ()
    stream = kaitaistruct.KaitaiStream(kaitaistruct.BytesIO(recorded.data))
    try:
        found = kind(*arguments, stream)
    except (kaitaistruct.ValidationFailedError, EOFError, UnicodeDecodeError):
        return None
    assert stream.is_eof() or recorded.vector["code"] == "prefix_count_mismatch"
    return found


def parse_header(kaitai: dict[str, ModuleType], data: bytes) -> Any:
    stream = kaitaistruct.KaitaiStream(kaitaistruct.BytesIO(data))
    try:
        return kaitai["common"].Pp1Common.FrameHeader(stream)
    except kaitaistruct.ValidationFailedError:
        return None


def ours_of(recorded: Recorded) -> construct.Container:
    id_entries, q_entries = recorded.columns
    declared = generated.constructs()[recorded.message]
    return declared.parse(recorded.data, id_entries=id_entries, q_entries=q_entries)


def outside_schema_bounds(recorded: Recorded) -> bool:
    """Whether a number lies outside what its schema allows, whatever the agreement says."""
    fields = MESSAGES[recorded.message].fields
    body = {f.name: recorded.data[64 + f.offset : 64 + f.offset + f.size] for f in fields if f.kind == "int"}
    body |= {f.name: recorded.data[f.offset : f.offset + f.size] for f in SCHEMA.header if f.kind == "int"}
    bounds = {f.name: (f.minimum, f.maximum) for f in (*SCHEMA.header, *fields) if f.kind == "int"}
    return any(not bounds[n][0] <= int.from_bytes(raw, "little") <= bounds[n][1] for n, raw in body.items() if raw)


def not_ascii(recorded: Recorded) -> bool:
    """Whether a text holds bytes that are no characters."""
    texts = [f for f in MESSAGES[recorded.message].fields if f.kind == "text"]
    return any(not recorded.data[64 + f.offset : 64 + f.offset + f.size].isascii() for f in texts)


def same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, str):
        return theirs.encode("ascii") == ours.partition(b"\0")[0]
    if isinstance(theirs, list):
        return len(theirs) == len(ours) and all(map(same, theirs, ours))
    if isinstance(theirs, float):
        return (math.isnan(theirs) and math.isnan(ours)) or (theirs, math.copysign(1, theirs)) == (
            ours,
            math.copysign(1, ours),
        )
    return bool(int(theirs) == int(ours) if isinstance(theirs, int) else theirs == ours)
