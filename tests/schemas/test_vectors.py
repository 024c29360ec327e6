"""The vectors are up to date and complete, and whoever decodes the valid ones gets the fields that they list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pp1wire.wire import decode, encode
from schemas.generator import model, vectors_output
from schemas.generator.docs_output import GENERAL_CODES
from tests.schemas.recorded import FILES, VECTORS, Recorded, vectors

SCHEMA = model.load()
ALL = vectors()
VALID = [r for r in ALL if r.vector["result"] == "valid"]
INVALID = [r for r in ALL if r.vector["result"] == "invalid"]


def test_vectors_are_up_to_date() -> None:
    rendered = vectors_output.render(SCHEMA)
    assert {VECTORS / path.rpartition("/")[2] for path in rendered} == set(VECTORS.glob("*.json"))
    differing = [p for p, text in rendered.items() if (VECTORS.parents[1] / p).read_text(encoding="utf-8") != text]
    assert not differing, "run `make schemas` and commit what it writes"


def test_every_reject_code_has_a_vector_with_its_scope() -> None:
    codes = {code.name: code for code in SCHEMA.enums["reject_code"]}
    assert {r.vector["code"] for r in INVALID} == set(codes)
    for r in INVALID:
        proposal = r.message in ("reply", "completion") and r.vector["from"] == "worker"
        assert r.vector["scope"] == (codes[r.vector["code"]].scope if proposal else "connection"), r.name


@pytest.mark.parametrize("message", SCHEMA.messages, ids=lambda m: m.name)
def test_every_rule_of_a_message_has_a_vector_of_that_message(message: model.Message) -> None:
    shown = {r.vector["code"] for r in INVALID if r.message == message.name}
    fields = {f.reject for f in (*SCHEMA.header, *message.fields)}
    # An eighth discard is told at whatever was wrong in it.
    assert set(message.rules) <= shown
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
    assert {name: plain(getattr(message, name)) for name in message.__dataclass_fields__} == listed(recorded)
    assert encode(message, recorded.agreement, int.from_bytes(recorded.data[8:16], "little")) == recorded.data


def listed(recorded: Recorded) -> dict[str, Any]:
    assert recorded.vector is not None
    return dict(recorded.vector["fields"])


def plain(value: Any) -> Any:
    """A field as the vectors write it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.name.lower() if hasattr(value, "name") else value
