"""The vectors are up to date and complete, and whoever decodes the valid ones gets the fields that they list."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from pp1wire.capture.vector_fields import differing_field
from pp1wire.wire import decode, encode
from schemas.generator import model, vectors_output
from schemas.generator.docs_output import GENERAL_CODES
from tests.schemas.recorded import FILES, VECTORS, Recorded, vectors

SCHEMA = model.load()
ALL = vectors()
VALIDATOR = jsonschema.Draft202012Validator(json.loads((VECTORS / "vectors.schema.json").read_text(encoding="utf-8")))
VALID = [r for r in ALL if r.vector["result"] == "valid"]
INVALID = [r for r in ALL if r.vector["result"] == "invalid"]


def test_vectors_are_up_to_date() -> None:
    rendered = vectors_output.render(SCHEMA)
    assert {VECTORS / path.rpartition("/")[2] for path in rendered} == set(VECTORS.glob("*.json"))
    differing = [p for p, text in rendered.items() if (VECTORS.parents[1] / p).read_text(encoding="utf-8") != text]
    assert not differing, "run `make schemas` and commit what it writes"


@pytest.mark.parametrize("file", FILES)
def test_every_file_is_of_the_published_json_schema(file: str) -> None:
    VALIDATOR.validate(FILES[file])


@pytest.mark.parametrize(
    "change",
    [
        {"code": "no_such_code"}, {"code": None}, {"result": "valid"}, {"scope": "stale_"}, {"offset": -1}, {"from": "peer"},
        {"hex": "5"}, {"hex": "5G"}, {"hex": "AA"}, {"id": "A b"}, {"message": "ping"}, {"extra": 1}, {"fields": {}},
    ],
    ids=str,
)  # fmt: skip
def test_the_json_schema_refuses_an_invalid_vector_that_says_otherwise(change: dict[str, Any]) -> None:
    content = copy.deepcopy(FILES["reply"])
    at = next(i for i, v in enumerate(content["vectors"]) if v["result"] == "invalid")
    content["vectors"][at] |= change
    if change.get("code", "") is None:
        del content["vectors"][at]["code"]
    assert not VALIDATOR.is_valid(content)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("step", {"proposal_seed": 2**53}), ("step", {"proposal_seed": "0x1"}), ("step", {"depth": "2"}),
        ("step", {"prefix_digest": "00"}), ("step", {"support_policy": "some"}), ("reply", {"ids": [2**31]}),
        ("reply", {"q": ["0.5"]}), ("commit", {"tokens": 5}), ("hello", {"draft_revision": "é"}), ("hello", {"more": 1}),
        ("hello", {"role": None}),
    ],
)  # fmt: skip
def test_the_json_schema_refuses_fields_of_another_type(file: str, change: dict[str, Any]) -> None:
    content = copy.deepcopy(FILES[file])
    vector = next(v for v in content["vectors"] if v["result"] == "valid")
    vector["fields"] |= change
    assert not VALIDATOR.is_valid(content)
    for name in change:
        del vector["fields"][name]
    assert VALIDATOR.is_valid(content) == (name == "more"), "every field is required"


def test_every_reject_code_has_the_scope_of_its_schema() -> None:
    codes = {code.name: code for code in SCHEMA.enums["reject_code"]}
    for r in INVALID:
        proposal = r.message in ("reply", "completion") and r.vector["from"] == "worker"
        assert r.vector["scope"] == (codes[r.vector["code"]].scope if proposal else "connection"), r.name


@pytest.mark.parametrize("message", SCHEMA.messages, ids=lambda m: m.name)
def test_a_message_gets_no_code_that_its_schema_does_not_name(message: model.Message) -> None:
    shown = {r.vector["code"] for r in INVALID if r.message == message.name}
    fields = {f.reject for f in (*SCHEMA.header, *message.fields)}
    # An eighth discard is told at whatever was wrong in it.
    assert shown <= {*message.rules, *fields, *GENERAL_CODES, "too_many_discards"}


def test_every_message_and_representation_has_a_valid_vector() -> None:
    found = {(r.message, r.vector["representation"]) for r in VALID}
    for message in ("step", "reply", "completion", "commit", "reset"):
        assert {(message, "sparse"), (message, "dense")} <= found
    assert {r.vector["fields"]["role"] for r in VALID if r.message == "hello"} == {"offer", "answer"}


def test_missing_vectors_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_output.framing, "add", lambda collection: None)
    with pytest.raises(model.SchemaError, match="has none"):
        vectors_output.render(SCHEMA)
    monkeypatch.setattr(vectors_output, "PARTS", (vectors_output.framing,))
    with pytest.raises(model.SchemaError, match="has none"):
        vectors_output.render(SCHEMA)


def test_names_are_unique_and_every_vector_says_why() -> None:
    for file, content in FILES.items():
        assert content["format"] == vectors_output.FORMAT
        names = [vector["id"] for vector in content["vectors"]]
        assert len(set(names)) == len(names), file
        assert all(vector["comment"].endswith((".", "?")) for vector in content["vectors"])
        assert {vector["after"] for vector in content["vectors"]} == set(content["conversations"])


@pytest.mark.parametrize("recorded", VALID, ids=lambda r: r.name)
def test_bijection_of_valid_vectors(recorded: Recorded) -> None:
    """The bytes that another program packed decode to the listed fields, and encoding those gives the same bytes."""
    message = decode(recorded.data, recorded.agreement)
    found = {name: plain(getattr(message, name)) for name in message.__dataclass_fields__}
    assert found.keys() == recorded.vector["fields"].keys()
    assert differing_field(recorded.message, recorded.vector["fields"], found) is None
    assert encode(message, recorded.agreement, int.from_bytes(recorded.data[8:16], "little")) == recorded.data


def plain(value: Any) -> Any:
    """A field as the vectors write it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.name.lower() if hasattr(value, "name") else value
