"""`pp1wire vectors`: every vector gets exactly its verdict, and a wrong expectation or a wrong file is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pp1wire.capture import vectors
from pp1wire.capture.vectors import (
    Sent,
    Vector,
    VectorError,
    VectorReport,
    load_vectors,
    run_vector,
    run_vectors,
)
from pp1wire.protocol import Direction
from pp1wire.wire import RejectCode

ALL = load_vectors()
BY_NAME = {v.name: v for v in ALL}


@pytest.mark.parametrize("vector", ALL, ids=lambda v: v.name)
def test_exact_code_offset_and_path(vector: Vector) -> None:
    assert run_vector(vector).problem is None


def test_report_of_all_vectors() -> None:
    report = run_vectors()
    assert report.ok
    assert len(report.results) == len(BY_NAME) == len(ALL)
    valid = sum(v.fields is not None for v in ALL)
    expected = f"{len(ALL)} of {len(ALL)} vectors agree: {valid} valid, {len(ALL) - valid} invalid"
    assert report.lines() == [expected]
    assert json.loads(json.dumps(report.to_json())) == {
        "ok": True,
        "vectors": len(ALL),
        "failed": [],
        "missing_codes": [],
    }


def test_codes_without_a_vector_are_missed() -> None:
    report = run_vectors([BY_NAME["frames/magic"]])
    assert not report.ok
    assert not report.failed
    assert len(report.missing_codes) == len(RejectCode) - 1
    assert "no vector shows ticket_mismatch" in report.lines()


@pytest.mark.parametrize("part", range(4))
def test_a_wrong_expectation_of_a_reject_is_noticed(part: int) -> None:
    vector = BY_NAME["reply/sparse-ticket"]
    assert vector.reject is not None
    wrong: list[Any] = list(vector.reject)
    wrong[part] = wrong[part] + 1 if part == 2 else wrong[part] + "x"
    report = run_vectors([replace(vector, reject=tuple(wrong))])
    assert len(report.failed) == 1
    assert report.lines()[0].startswith(f"reply/sparse-ticket: expected {tuple(wrong)}, got {vector.reject} (")
    assert report.to_json()["failed"][0]["vector"] == "reply/sparse-ticket"


def test_a_valid_frame_where_a_reject_is_expected_is_noticed() -> None:
    valid = BY_NAME["reply/sparse-first"]
    found = run_vector(replace(valid, fields=None, reject=("ticket_mismatch", "proposal", 0, "reply.token")))
    assert found.problem is not None
    assert found.problem.endswith("got no reject")
    whole = replace(valid, whole=True, fields=None, reject=("extra_data", "connection", 0, "frame"))
    assert "got no reject" in (run_vector(whole).problem or "")


def test_a_reject_where_a_valid_frame_is_expected_is_noticed() -> None:
    found = run_vector(replace(BY_NAME["reply/sparse-ticket"], fields={}, reject=None))
    assert found.problem == "expected no reject, got ticket_mismatch"


@pytest.mark.parametrize("change", [{"token": 99}, {"extra": 1}])
def test_another_field_is_noticed(change: dict[str, int]) -> None:
    vector = BY_NAME["reply/sparse-first"]
    assert vector.fields is not None
    found = run_vector(replace(vector, fields={**vector.fields, **change}))
    assert found.problem is not None
    assert found.problem.startswith(f"reply.{next(iter(change))}: expected {next(iter(change.values()))}, got ")
    less = {k: v for k, v in vector.fields.items() if k != "token"}
    assert run_vector(replace(vector, fields=less)).problem == "reply.token: expected nothing, got 4"


def test_another_encoding_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "encode", lambda *_: b"")
    problem = run_vector(BY_NAME["step/sparse"]).problem
    assert problem == "encoding the decoded message gives other bytes"


def test_a_conversation_that_goes_wrong_is_noticed() -> None:
    vector = BY_NAME["step/sparse"]
    first = vector.conversation[0]
    broken = replace(vector, conversation=(Sent(first.sender, b"PP1X", None), *vector.conversation[1:]))
    assert run_vector(broken).problem == "frame 0 before it: expected no reject, got ['bad_magic']"
    peaceful = replace(vector, conversation=(replace(first, code="bad_magic"),))
    assert run_vector(peaceful).problem == "frame 0 before it: expected bad_magic, got []"


def test_vectors_travel_with_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Inside an installed package they lie in `_vectors`; in a checkout, beside the package."""
    package = tmp_path / "pp1wire"
    (package / "_vectors").mkdir(parents=True)
    content = {"format": vectors.FORMAT, "conversations": {}, "vectors": []}
    (package / "_vectors" / "none.json").write_text(json.dumps(content))
    monkeypatch.setattr(vectors, "files", lambda name: tmp_path / name)
    assert load_vectors() == []


def test_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(VectorError, match=r"expected a directory at .*missing, found none"):
        load_vectors(tmp_path / "missing")
    with pytest.raises(VectorError, match=r"expected \.json files in"):
        load_vectors(tmp_path)


def written(directory: Path, content: Any) -> Path:
    (directory / "x.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return directory


FRAME = {"from": "worker", "hex": "50"}
VECTOR = {
    "id": "a", "comment": "b", "message": "hello", "representation": None, "after": "c", "result": "invalid",
    "code": "truncated", "scope": "connection", "offset": 1, "path": "frame", **FRAME,
}  # fmt: skip


def test_a_file_made_by_hand(tmp_path: Path) -> None:
    content = {"format": vectors.FORMAT, "conversations": {"c": []}, "vectors": [VECTOR]}
    (vector,) = load_vectors(written(tmp_path, content))
    assert (vector.name, vector.sender, vector.data) == ("x/a", Direction.WORKER, b"P")
    assert run_vector(vector).problem is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected JSON"),
        ([], "expected format pp1-vectors-1, got None"),
        ({"format": "pp1-vectors-2"}, "expected format pp1-vectors-1, got pp1-vectors-2"),
        ({"format": "pp1-vectors-1"}, "KeyError"),
        ({"format": "pp1-vectors-1", "conversations": [], "vectors": []}, "AttributeError"),
        *(
            ({"format": "pp1-vectors-1", "conversations": {"c": []}, "vectors": [{**VECTOR, **change}]}, message)
            for change, message in (
                ({"result": "maybe"}, "KeyError"),
                ({"after": "d"}, "KeyError"),
                ({"from": "nobody"}, "ValueError"),
                ({"hex": "5"}, "ValueError"),
                ({"hex": 5}, "TypeError"),
            )
        ),
    ],
)
def test_refuses_another_format(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(VectorError, match=message):
        load_vectors(written(tmp_path, content))


def test_a_report_is_made_of_its_results() -> None:
    assert not VectorReport(()).ok
    assert VectorReport(()).lines()[-1] == "0 of 0 vectors agree: 0 valid, 0 invalid"
