"""The vectors are complete, as the schemas alone say: every value of an enumeration, both ends of every bound, every rule."""

from __future__ import annotations

import math
import struct
import sys

import pytest

from schemas.generator import model
from tests.schemas.recorded import VECTORS, Recorded, vectors

SCHEMA = model.load()
MESSAGES = {m.name: m for m in SCHEMA.messages}
ALL = vectors()
VALID = [r for r in ALL if r.vector["result"] == "valid"]
INVALID = [r for r in ALL if r.vector["result"] == "invalid"]
REQUESTS = [m for m in SCHEMA.messages if m.name != "hello"]
LIMITS = {
    "max_slots": ["hello.max_slots"], "max_depth": ["hello.max_depth", "step.depth"], "max_prefix": ["hello.max_prefix"],
    "max_vocab": ["hello.vocab_size", "hello.padded_vocab_size", "hello.max_support", "step.support"],
}  # fmt: skip
# What a refused HELLO says is legal, and ends the connection all the same.
REFUSALS = [r for r in INVALID if r.vector["code"] == "hello_refused"]

# Ends of a bound that no vector can show, and why; nothing else may be missing.
UNREACHABLE = {
    "reset.position max": "a prefix of 1,048,576 ids is 8 MB of hex; bounds/wide-reset-longest is its header",
    "reset.prefix_count max": "as reset.position",
}
# Free numbers whose value other rules fix, so that the ends of their type are out of reach.
BOUND_BY_RULES = {
    "header.sequence": "the next one", "header.body_length": "that of the message", "header.agreement_id": "a hash",
    "header.body_checksum": "a hash", "header.header_checksum": "a hash", "header.round": "the next one",
    "step.position": "the length of the prefix", "reply.position": "the next one", "reply.token": "within the vocabulary",
    "reply.entry_count": "within the support", "reply.shard_first_id": "0", "reply.shard_id_count": "the vocabulary",
    "completion.position": "the STEP's", "completion.context_version": "the STEP's", "completion.reply_bytes": "the rows'",
    "commit.position": "the STEP's", "commit.new_position": "position and ids",
}  # fmt: skip


def fields_of(message: model.Message | None) -> list[tuple[str, model.Field]]:
    return [("header", f) for f in SCHEMA.header] if message is None else [(message.name, f) for f in message.fixed]


FIELDS = [pair for message in (None, *SCHEMA.messages) for pair in fields_of(message)]


def number(recorded: Recorded, owner: str, field: model.Field) -> int:
    at = field.offset + (0 if owner == "header" else 64)
    raw = recorded.data[at : at + field.size]
    return int.from_bytes(raw, "little", signed=field.kaitai_type == "s4")


def shown(owner: str, field: model.Field, among: list[Recorded]) -> set[int]:
    return {number(r, owner, field) for r in among if owner in ("header", r.message)}


def rejected(path: str, field: model.Field) -> dict[int, str]:
    """Value of a field → code, of the invalid vectors that are rejected there."""
    owner = path.partition(".")[0]
    return {number(r, owner, field): r.vector["code"] for r in INVALID if r.vector["path"] == path}


@pytest.mark.parametrize(("owner", "field"), [p for p in FIELDS if p[1].kind == "enum"], ids=str)
def test_every_value_of_an_enumeration_is_valid_somewhere_and_its_neighbours_are_rejected(
    owner: str, field: model.Field
) -> None:
    numbers = {v.number for v in SCHEMA.enums[field.enum]}
    among = VALID + REFUSALS if owner == "hello" else VALID
    assert shown(owner, field, among) == numbers
    found = rejected(f"{owner}.{field.name}", field)
    code = field.reject or "unknown_value"
    for neighbour in (min(numbers) - 1, max(numbers) + 1, 255):
        assert neighbour < 0 or found[neighbour] == code, neighbour
    assert set(range(min(numbers), max(numbers) + 1)) == numbers, "a hole needs vectors, too"


@pytest.mark.parametrize(("owner", "field"), [p for p in FIELDS if p[1].kind == "int"], ids=str)
def test_caps_reached_by_the_last_legal_value_and_passed_by_the_first_illegal_one(
    owner: str, field: model.Field
) -> None:
    path = f"{owner}.{field.name}"
    _, _, _, lowest, highest = model.SCALARS[field.kaitai_type]
    legal, illegal = shown(owner, field, VALID), rejected(path, field)
    for end, value, beyond in (("min", field.minimum, field.minimum - 1), ("max", field.maximum, field.maximum + 1)):
        if lowest <= beyond <= highest:
            assert illegal[beyond] == (field.reject or "value_out_of_bounds"), f"{path} {beyond}"
        elif path in BOUND_BY_RULES:
            continue
        assert (value in legal) == (f"{path} {end}" not in UNREACHABLE), f"{path} {end} {value}"


def test_no_exception_is_out_of_date() -> None:
    """What the tables above excuse exists, and is not shown after all."""
    by_path = {f"{owner}.{field.name}": (owner, field) for owner, field in FIELDS}
    for path in BOUND_BY_RULES:
        owner, field = by_path[path]
        assert field.maximum == model.SCALARS[field.kaitai_type][4], path
        assert field.maximum not in shown(owner, field, VALID), path
    assert {entry.split()[0] for entry in UNREACHABLE} <= set(by_path)
    assert next(r for r in ALL if r.name == "bounds/wide-reset-longest").vector["code"] == "truncated"


@pytest.mark.parametrize(("owner", "field"), [p for p in FIELDS if p[1].kind == "zeros"], ids=str)
def test_every_reserved_field_is_rejected_at_both_ends(owner: str, field: model.Field) -> None:
    code = field.reject or "reserved_not_zero"
    at = field.offset + (0 if owner == "header" else 64)
    spoilt = [r for r in INVALID if r.vector["path"] == f"{owner}.{field.name}"]
    assert {r.vector["code"] for r in spoilt} == {code}
    assert any(r.data[at] for r in spoilt)
    assert any(r.data[at + field.size - 1] for r in spoilt)


@pytest.mark.parametrize(("owner", "field"), [p for p in FIELDS if p[1].kind == "text"], ids=str)
def test_every_text_is_shown_empty_and_filling_its_field(owner: str, field: model.Field) -> None:
    texts = {r.vector["fields"][field.name] for r in VALID if r.message == owner}
    assert "" in texts
    assert field.size in {len(text) for text in texts}


@pytest.mark.parametrize(("limit", "path"), [(n, p) for n, paths in LIMITS.items() for p in paths])
def test_caps_reached_one_below_at_and_one_above_each_named_limit(limit: str, path: str) -> None:
    value = SCHEMA.constants[limit][0]
    owner, _, name = path.partition(".")
    field = next(f for f in MESSAGES[owner].fixed if f.name == name)
    assert {value - 1, value} <= shown(owner, field, VALID)
    assert value + 1 in rejected(path, field)


def test_every_constant_is_a_limit_with_vectors_or_no_limit() -> None:
    numbers = {name for name, (value, _) in SCHEMA.constants.items() if isinstance(value, int)}
    # q_total is the mass of every row, one below and above are reply/*-mass-short and -over.
    assert numbers == {*LIMITS, "wire_version", "q_total", "max_discards_in_a_row"}
    ids = {r.name: r.vector.get("code") for r in ALL}
    for kind in ("sparse", "dense"):
        assert ids[f"reply/{kind}-mass-short"] == ids[f"reply/{kind}-mass-over"] == "q_mass_mismatch"
    assert ids["bounds/discards-seven"] is None
    assert ids["reply/eighth-discard"] == ids["completion/eighth-discard"] == "too_many_discards"


def test_every_reject_code_has_a_vector() -> None:
    assert {r.vector["code"] for r in INVALID} == {c.name for c in SCHEMA.enums["reject_code"]}


@pytest.mark.parametrize("message", SCHEMA.messages, ids=lambda m: m.name)
def test_every_rule_that_a_schema_names_has_a_vector_of_its_message(message: model.Message) -> None:
    assert set(message.rules) <= {r.vector["code"] for r in INVALID if r.message == message.name}


@pytest.mark.parametrize("message", REQUESTS, ids=lambda m: m.name)
def test_identity_every_part_of_the_header_is_wrong_in_some_vector_of_each_message(message: model.Message) -> None:
    paths = {r.vector["path"] for r in INVALID if r.message == message.name}
    parts = ("sequence", "agreement_id", "slot", "session", "generation", "round", "body_checksum", "message_type")
    assert {f"header.{part}" for part in parts} <= paths


@pytest.mark.parametrize("message", SCHEMA.messages, ids=lambda m: m.name)
def test_every_message_is_too_short_too_long_cut_and_followed(message: model.Message) -> None:
    codes = {r.vector["code"] for r in INVALID if r.message == message.name}
    assert {"wrong_body_length", "oversized_body", "truncated", "extra_data", "body_checksum_mismatch"} <= codes
    senders = {r.vector["from"] for r in INVALID if r.message == message.name}
    assert senders == {"verifier", "worker"}, "both ends send it, rightly or not"


def test_every_float_that_stands_alone_is_shown_at_both_ends_and_passed() -> None:
    """Above zero and finite is all that a temperature has to be."""
    floats = [(owner, field.name) for owner, field in FIELDS if field.kind == "float"]
    assert floats == [("step", "temperature")]
    legal = {r.vector["fields"]["temperature"] for r in VALID if r.message == "step"}
    assert {math.ulp(0.0), sys.float_info.max} <= legal
    spoilt = [r for r in INVALID if r.vector["path"] == "step.temperature"]
    assert {repr(struct.unpack_from("<d", r.data, 72)[0]) for r in spoilt} == {"0.0", "-0.0", "-1.0", "nan", "inf"}


def test_every_representation_and_shape_of_rows() -> None:
    rows = [r for r in VALID if r.message == "reply"]
    shapes = {(r.vector["representation"], *r.columns) for r in rows}
    # Support or vocabulary of 1, with and without padding, a full support, and the largest id.
    assert {("sparse", 1, 1), ("dense", 0, 1), ("sparse", 4, 4), ("dense", 0, 16), ("sparse", 12, 12)} <= shapes
    for representation in ("sparse", "dense"):
        used = [r.vector["fields"] for r in rows if r.vector["representation"] == representation]
        counts = {q for fields in used for q in fields["q"]}
        assert {1.0, 2**-24} <= counts, "the whole mass, and the least of it"
    assert max(max(r.vector["fields"]["ids"], default=0) for r in rows) == SCHEMA.constants["max_vocab"][0] - 1
    full = {len(r.vector["fields"]["ids"]) == r.columns[0] for r in rows if r.columns[0] > 1}
    assert full == {True, False}


def test_prefixes_and_proposals_of_every_length() -> None:
    resets = [r for r in VALID if r.message == "reset"]
    most = {r.agreement.max_prefix - len(r.vector["fields"]["prefix_ids"]) for r in resets}
    assert {0, 1} <= most, "a prefix as long as agreed, and one below"
    assert 0 in {len(r.vector["fields"]["prefix_ids"]) for r in resets if r.vector["fields"]["reason"] == "open"}
    assert {len(r.vector["fields"]["tokens"]) for r in VALID if r.message == "commit"} == set(range(1, 7))
    assert {r.vector["fields"]["depth"] for r in VALID if r.message == "step"} == set(range(1, 6))
    assert {r.vector["fields"]["rows"] for r in VALID if r.message == "completion"} == set(range(6))


def test_size_of_the_folder_is_small() -> None:
    assert sum(path.stat().st_size for path in VECTORS.iterdir()) < 1_500_000
