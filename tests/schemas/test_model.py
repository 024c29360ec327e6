"""The schema reader refuses whatever it does not know: each case changes one thing in the real schemas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.generator.extent import Extent, place
from schemas.generator.model import MESSAGE_FILES, SCALARS, SCHEMA_DIR, SchemaError, load

Content = dict[str, Any]
TEXTS = {name: (SCHEMA_DIR / f"{name}.ksy").read_text() for name in ("common", *MESSAGE_FILES)}


def write(directory: Path, file: str, change: Callable[[Content], object]) -> Path:
    """The real schemas in `directory`, with one file changed in place by `change`."""
    for name, text in TEXTS.items():
        if name == file:
            changed = yaml.safe_load(text)
            change(changed)
            text = yaml.safe_dump(changed, sort_keys=False)
        (directory / f"{name}.ksy").write_text(text)
    return directory


def field(content: Content, name: str) -> Content:
    seq = content["seq"] if "seq" in content else content["types"]["frame_header"]["seq"]
    return next(entry for entry in seq if entry["id"] == name)


def insert(name: str, **entry: object) -> Callable[[Content], object]:
    """Put a field before the field `name`."""
    return lambda c: c["seq"].insert(c["seq"].index(field(c, name)), {"doc": "Test.", "-pp1-unit": "bytes", **entry})


def reject_code(content: Content, number: int) -> Content:
    return content["enums"]["reject_code"][number]


REFUSED: dict[str, tuple[str, Callable[[Content], object], str]] = {
    # keys that nobody reads
    "key of a file": ("step", lambda c: c.update(instances={}), r"step\.ksy: unknown key 'instances'"),
    "key of meta": ("step", lambda c: c["meta"].update(encodign="ASCII"), r"step\.ksy, meta: unknown key 'encodign'"),
    "key of a field": ("step", lambda c: field(c, "depth").update(vaild={"max": 5}), "depth: unknown key 'vaild'"),
    "key of bounds": ("step", lambda c: field(c, "depth").update(valid={"maximum": 5}), "unknown key 'maximum'"),
    "key of an enumeration": ("common", lambda c: reject_code(c, 1).update(note="x"), "value 1: unknown key 'note'"),
    "key of a constant": ("common", lambda c: c["-pp1-constants"]["max_depth"].update(unit="x"), "unknown key 'unit'"),
    "key of a parameter": ("reply", lambda c: c["params"][0].update(size=4), "id_entries: unknown key 'size'"),
    "key of the header type": ("common", lambda c: c["types"]["frame_header"].update(instances={}), "'instances'"),
    # a field at a place of its own choice would overlap another; a sequence has no such key
    "field with a position": ("step", lambda c: field(c, "depth").update(pos=0), "field depth: unknown key 'pos'"),
    "field with a condition": ("step", lambda c: field(c, "depth").update({"if": "false"}), "unknown key 'if'"),
    # layout
    "unaligned number": ("step", insert("support", id="x", type="u1"), "u4 at offset 41 is not naturally aligned"),
    "unaligned column": ("reply", insert("ids", id="x", type="u1"), "s4 at offset 33 is not naturally aligned"),
    "unaligned header": (
        "common", lambda c: c["types"]["frame_header"]["seq"].remove(field(c, "reserved_2")), "u8 at offset 22",
    ),
    "fixed field behind a column": (
        "reset",
        lambda c: c["seq"].append({"id": "x", "type": "u4", "doc": "Test.", "-pp1-unit": "ids"}),
        "a fixed field may not follow a column",
    ),
    "field that stands twice": ("step", insert("support", id="depth", size=8), "field depth: the name stands twice"),
    "unknown type": ("step", lambda c: field(c, "depth").update(type="u3"), "type 'u3' is not one of"),
    "big-endian type": ("step", lambda c: field(c, "support").update(type="u4be"), "type 'u4be' is not one of"),
    "big-endian file": ("step", lambda c: c["meta"].update(endian="be"), "endian must be le"),
    "reserved bytes that are not zero": (
        "step", lambda c: field(c, "reserved_1").update(contents=[0, 1]), "reserved bytes must be zero",
    ),
    "no header": ("step", lambda c: c["seq"].pop(0), "the first field must be the frame header"),
    "column of an undeclared length": (
        "reset", lambda c: field(c, "prefix_ids").update({"repeat-expr": "count"}), "repeats 'count'",
    ),
    "bounds beyond the type": ("step", lambda c: field(c, "depth").update(valid={"max": 256}), "0 to 256 are not within u1"),
    "bounds the wrong way round": ("step", lambda c: field(c, "depth").update(valid={"min": 6, "max": 5}), "6 to 5"),
    "size of a number": ("step", lambda c: field(c, "depth").update(size=4), "field depth, int: unknown key 'size'"),
    "bounds of a text": ("hello", lambda c: field(c, "rng_abi").update(valid={"max": 3}), "rng_abi, text: unknown key"),
    "bytes without a size": ("step", lambda c: field(c, "prefix_digest").pop("size"), "needs a size in bytes"),
    "field without a name": ("step", lambda c: field(c, "depth").pop("id"), "field None: has no id"),
    "not a mapping": ("step", lambda c: field(c, "depth").update(valid=[1, 5]), r"expected a mapping, got \[1, 5\]"),
    # documentation
    "undocumented file": ("step", lambda c: c.update(doc=""), r"step\.ksy: has no doc"),
    "undocumented field": ("step", lambda c: field(c, "depth").pop("doc"), "field depth: has no doc"),
    "field without a unit": ("step", lambda c: field(c, "depth").pop("-pp1-unit"), "field depth: .* no -pp1-unit"),
    "undocumented header field": ("common", lambda c: field(c, "slot").pop("doc"), "field slot: has no doc"),
    "undocumented value": ("common", lambda c: reject_code(c, 1).pop("doc"), "reject_code, value 1: has no doc"),
    "undocumented constant": ("common", lambda c: c["-pp1-constants"]["max_depth"].pop("doc"), "max_depth: has no doc"),
    "scope of another enumeration": (
        "common", lambda c: c["enums"]["hello_role"][1].update({"-pp1-scope": "stale"}), "unknown key '-pp1-scope'",
    ),
    # names
    "message of another file": ("step", lambda c: c.update({"-pp1-message": "reply"}), "describes message 'reply'"),
    "no rules": ("step", lambda c: c.pop("-pp1-rules"), r"step\.ksy: has no -pp1-rules"),
    "rule that stands twice": ("step", lambda c: c["-pp1-rules"].append("slot_mismatch"), "a rule stands twice"),
    "unknown identity": ("step", lambda c: c["-pp1-identity"].append("row"), "identity 'row' is not one of"),
    "derived from nothing": (
        "commit", lambda c: field(c, "token_count").update({"-pp1-derived": "len(ids)"}), "is not the length of a column",
    ),
    "agreed by nobody": ("reply", lambda c: field(c, "shard_id_count").update({"-pp1-agreed": "x"}), "'x' is not one of"),
    "unknown rule": ("step", lambda c: c["-pp1-rules"].append("step_too_steep"), "rule 'step_too_steep' is not a"),
    "unknown reject of a field": (
        "reply", lambda c: field(c, "shard_first_id").update({"-pp1-reject": "nope"}), "'nope' is not a reject code",
    ),
    "unknown enumeration": ("reset", lambda c: field(c, "reason").update(enum="pp1_common::why"), "enumeration 'why'"),
    "unbounded enumeration": ("reset", lambda c: field(c, "reason").pop("valid"), "must be bounded by in-enum"),
    "unknown direction": ("step", lambda c: c.update({"-pp1-direction": "up"}), "direction must be one of"),
    "unknown scope": ("common", lambda c: reject_code(c, 1).update({"-pp1-scope": "world"}), "scope must be one of"),
    "unknown stage": ("common", lambda c: reject_code(c, 1).update({"-pp1-stage": "later"}), "stage one of"),
    "name of a value twice": ("common", lambda c: reject_code(c, 2).update(id="bad_magic"), "a name stands twice"),
    "message without a file": (
        "common", lambda c: c["enums"]["message_type"].update({7: {"id": "ping", "doc": "Test."}}), "does not list",
    ),
}  # fmt: skip


@pytest.mark.parametrize("file", TEXTS)
def test_schemas_written_again_load_the_same(file: str, tmp_path: Path) -> None:
    """The cases below fail for the one thing that they change, not for how they are written."""
    assert load(write(tmp_path, file, lambda c: None)) == load()


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str, tmp_path: Path) -> None:
    file, change, message = REFUSED[case]
    with pytest.raises(SchemaError, match=message):
        load(write(tmp_path, file, change))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: depth, type: u1,", "id: depth, type: u1, type: u4,", r"step\.ksy, line \d+: key 'type' stands twice"),
        ("doc: |", "doc: [", r"step\.ksy: while scanning"),
    ],
)
def test_refuses_text(old: str, new: str, message: str, tmp_path: Path) -> None:
    """What does not survive being loaded: keys that stand twice, and what is no YAML."""
    write(tmp_path, "none", lambda c: None)
    text = (SCHEMA_DIR / "step.ksy").read_text()
    assert text.count(old) == 1
    (tmp_path / "step.ksy").write_text(text.replace(old, new))
    with pytest.raises(SchemaError, match=message):
        load(tmp_path)


def test_fields_tile_every_message() -> None:
    """No byte of a body belongs to two fields or to none, and all numbers lie at a multiple of their size."""
    schema = load()
    for fields in (schema.header, *(m.fields for m in schema.messages)):
        end = Extent(0)
        for placed in place(fields):
            assert placed.offset == end
            end = placed.offset + placed.length
            if placed.field.kaitai_type in SCALARS:
                assert placed.offset.fixed % placed.field.size == 0
                assert all(size % placed.field.size == 0 for size, _ in placed.offset.parts)


def test_header_is_64_bytes_and_its_fixed_part_never_moves() -> None:
    header = {f.name: (f.offset, f.size) for f in load().header}
    assert sum(size for _, size in header.values()) == 64
    assert header["magic"] == (0, 4)
    assert header["wire_version"] == (4, 2)
    assert header["message_type"] == (6, 1)
    assert header["body_length"] == (16, 4)
    assert header["header_checksum"] == (56, 8)
