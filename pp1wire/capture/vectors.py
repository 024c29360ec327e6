"""Runs the vectors of `schemas/vectors/` against this installation: what `pp1wire vectors` reports.

Each vector is a conversation and what one end sends next. The judge that `pp1wire validate` uses must say exactly what the
vector says: the same code, scope, offset and path, or the listed fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from pp1wire.capture.vector_fields import differing_field
from pp1wire.errors import PP1Error
from pp1wire.protocol import Conversation, Direction, Judged
from pp1wire.wire import Agreement, Message, RejectCode, RemoteProtocolError, decode, encode

__all__ = ["Sent", "Vector", "VectorError", "VectorReport", "VectorResult", "load_vectors", "run_vector", "run_vectors"]

FORMAT = "pp1-vectors-1"
SCHEMA = "vectors.schema.json"
_SEQUENCE = slice(8, 16)


class VectorError(PP1Error):
    """The vectors are missing, or a file of them cannot be read."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A frame of a conversation; `code` is the reject it gets, if it is one that does not end the conversation."""

    sender: Direction
    data: bytes
    code: str | None


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector; `schemas/vectors/README.md` describes the keys."""

    file: str
    id: str
    comment: str
    message: str
    representation: str | None
    conversation: tuple[Sent, ...]
    sender: Direction
    data: bytes
    whole: bool
    fields: Mapping[str, Any] | None
    """Of a valid vector; None for an invalid one."""
    reject: tuple[str, str, int, str] | None
    """(code, scope, offset, path) of an invalid vector; None for a valid one."""

    @property
    def name(self) -> str:
        """File and id: unique."""
        return f"{self.file}/{self.id}"


@dataclass(frozen=True, slots=True)
class VectorResult:
    """What came of one vector; `problem` is None if it is as it should be, else one line."""

    vector: Vector
    problem: str | None


@dataclass(frozen=True, slots=True)
class VectorReport:
    """What came of all vectors."""

    results: tuple[VectorResult, ...]

    @property
    def failed(self) -> tuple[VectorResult, ...]:
        """Those that are not as they should be."""
        return tuple(r for r in self.results if r.problem is not None)

    @property
    def missing_codes(self) -> tuple[str, ...]:
        """Reject codes of this installation that no vector shows."""
        shown = {r.vector.reject[0] for r in self.results if r.vector.reject is not None}
        return tuple(c.name.lower() for c in RejectCode if c.name.lower() not in shown)

    @property
    def ok(self) -> bool:
        """Whether every vector is as it should be and every reject code has one."""
        return not self.failed and not self.missing_codes

    def lines(self) -> list[str]:
        """The report for people: one line a failure, then the totals."""
        lines = [f"{r.vector.name}: {r.problem} ({r.vector.comment})" for r in self.failed]
        lines += [f"no vector shows {code}" for code in self.missing_codes]
        valid = sum(r.vector.reject is None for r in self.results)
        total = len(self.results)
        lines.append(f"{total - len(self.failed)} of {total} vectors agree: {valid} valid, {total - valid} invalid")
        return lines

    def to_json(self) -> dict[str, Any]:
        """The report for programs, ready for `json.dumps`."""
        return {
            "ok": self.ok,
            "vectors": len(self.results),
            "failed": [{"vector": r.vector.name, "problem": r.problem} for r in self.failed],
            "missing_codes": list(self.missing_codes),
        }


def load_vectors(directory: Path | None = None) -> list[Vector]:
    """Every vector, by file and in its order.

    Args:
        directory: where the JSON files are; None takes those of the installation, or of the checkout it runs from.

    Raises:
        VectorError: there are none, or a file is not of the format of this version.
    """
    place: Traversable = directory if directory is not None else _installed()
    if not place.is_dir():
        raise VectorError(f"vectors: expected a directory at {place}, found none; reinstall pp1wire or name one")
    names = sorted(entry.name for entry in place.iterdir() if entry.name.endswith(".json") and entry.name != SCHEMA)
    if not names:
        raise VectorError(f"vectors: expected .json files in {place}, found none")
    return [vector for name in names for vector in _read(place / name, name.removesuffix(".json"))]


def run_vectors(vectors: Sequence[Vector] | None = None) -> VectorReport:
    """Run `vectors`, by default all of them. Raises VectorError as `load_vectors`."""
    chosen = load_vectors() if vectors is None else vectors
    return VectorReport(tuple(run_vector(vector) for vector in chosen))


def run_vector(vector: Vector) -> VectorResult:
    """Run one vector; whatever goes wrong in it is its result."""
    judge = Conversation()
    for index, sent in enumerate(vector.conversation):
        codes = _codes(judge.feed(sent.sender, sent.data))
        if codes != ([] if sent.code is None else [sent.code]):
            return VectorResult(vector, f"frame {index} before it: expected {sent.code or 'no reject'}, got {codes}")
    if vector.fields is not None:
        return VectorResult(vector, _valid_problem(vector, vector.fields, judge))
    return VectorResult(vector, _reject_problem(vector, judge))


def _installed() -> Traversable:
    packaged = files("pp1wire") / "_vectors"
    # A checkout has them beside the package; the wheel carries them inside.
    return packaged if packaged.is_dir() else Path(str(files("pp1wire"))).parent / "schemas" / "vectors"


def _read(file: Traversable, name: str) -> list[Vector]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise VectorError(f"{file}: expected JSON, got {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise VectorError(f"{file}: expected format {FORMAT}, got {found}")
    try:
        talks = {key: tuple(map(_sent, frames)) for key, frames in content["conversations"].items()}
        return [_vector(name, entry, talks) for entry in content["vectors"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise VectorError(f"{file}: expected vectors of format {FORMAT}, got {error!r}") from error


def _sent(entry: Mapping[str, str]) -> Sent:
    return Sent(Direction(entry["from"]), bytes.fromhex(entry["hex"]), entry.get("code"))


def _vector(file: str, entry: Mapping[str, Any], talks: Mapping[str, tuple[Sent, ...]]) -> Vector:
    valid = {"valid": True, "invalid": False}[entry["result"]]
    return Vector(
        file, entry["id"], entry["comment"], entry["message"], entry["representation"], talks[entry["after"]],
        Direction(entry["from"]), bytes.fromhex(entry["hex"]), entry.get("whole", False),
        entry["fields"] if valid else None,
        None if valid else (entry["code"], entry["scope"], entry["offset"], entry["path"]),
    )  # fmt: skip


def _codes(verdicts: Sequence[Judged]) -> list[str]:
    return [v.error.code.name.lower() for v in verdicts if v.error is not None]


def _valid_problem(vector: Vector, fields: Mapping[str, Any], judge: Conversation) -> str | None:
    # A HELLO goes without an agreement, also the answer that makes one.
    agreement = judge.agreement
    codes = _codes(judge.feed(vector.sender, vector.data) + judge.close(vector.sender))
    if codes:
        return f"expected no reject, got {', '.join(codes)}"
    message = decode(vector.data, agreement)
    found = {name: _plain(getattr(message, name)) for name in message.__dataclass_fields__}
    problem = differing_field(vector.message, fields, found)
    if problem is None and (more := found.keys() - fields.keys()):
        problem = f"{vector.message}.{min(more)}: expected nothing, got {found[min(more)]}"
    return problem or _encoding_problem(vector, message, agreement)


def _encoding_problem(vector: Vector, message: Message, agreement: Agreement | None) -> str | None:
    encoded = encode(message, agreement, int.from_bytes(vector.data[_SEQUENCE], "little"))
    return None if encoded == vector.data else "encoding the decoded message gives other bytes"


def _reject_problem(vector: Vector, judge: Conversation) -> str | None:
    if vector.whole:
        error = _whole_error(vector.data, judge.agreement)
    else:
        verdicts = judge.feed(vector.sender, vector.data) + judge.close(vector.sender)
        error = next((v.error for v in verdicts if v.error is not None), None)
    found = None if error is None else (error.code.name.lower(), error.scope, error.offset, error.path)
    return None if found == vector.reject else f"expected {vector.reject}, got {found or 'no reject'}"


def _whole_error(data: bytes, agreement: Agreement | None) -> RemoteProtocolError | None:
    try:
        decode(data, agreement)
    except RemoteProtocolError as error:
        return error
    return None


def _plain(value: Any) -> Any:
    """A field as the vectors write it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.name.lower() if hasattr(value, "name") else value
