"""Runs the vectors against another decoder: what `pp1wire vectors --against` reports.

The decoder is a program that reads lines and answers each with a line; `schemas/vectors/README.md` describes both. It need not
see everything: what it is known to miss stands in a list, and the run fails as well if one of those passes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pp1wire.capture.decoder import Decoder, DecoderError
from pp1wire.capture.vector_fields import differing_field
from pp1wire.capture.vectors import Vector, VectorResult, load_vectors
from pp1wire.errors import PP1Error
from pp1wire.protocol import agree
from pp1wire.wire import Agreement, Hello, MessageType, decode
from pp1wire.wire.reject import short

__all__ = ["AgainstReport", "ExpectedFailuresError", "question", "read_expected_failures", "run_against"]

_TYPE_BYTE = 6


class ExpectedFailuresError(PP1Error):
    """A list of expected failures is not a list of names."""


@dataclass(frozen=True, slots=True)
class AgainstReport:
    """What came of all vectors, beside what was expected to fail."""

    results: tuple[VectorResult, ...]
    expected: frozenset[str]
    """Names of the vectors that this decoder is known to fail."""

    @property
    def failed(self) -> tuple[VectorResult, ...]:
        """Those that failed, expected or not."""
        return tuple(r for r in self.results if r.problem is not None)

    @property
    def unexpected(self) -> tuple[VectorResult, ...]:
        """Those that failed and should not have."""
        return tuple(r for r in self.failed if r.vector.name not in self.expected)

    @property
    def passed_unexpectedly(self) -> tuple[str, ...]:
        """Names in the list of expected failures whose vector passed."""
        return tuple(r.vector.name for r in self.results if r.problem is None and r.vector.name in self.expected)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names in the list of expected failures that no vector has."""
        return tuple(sorted(self.expected - {r.vector.name for r in self.results}))

    @property
    def ok(self) -> bool:
        """Whether exactly the expected vectors failed."""
        return not (self.unexpected or self.passed_unexpectedly or self.unknown)

    @property
    def codes(self) -> dict[str, tuple[int, int]]:
        """Of each reject code, how many of its vectors passed, and how many there are."""
        counted: dict[str, tuple[int, int]] = {}
        for result in self.results:
            if result.vector.reject is not None:
                passed, total = counted.get(result.vector.reject[0], (0, 0))
                counted[result.vector.reject[0]] = (passed + (result.problem is None), total + 1)
        return counted

    def lines(self) -> list[str]:
        """The report for people: one line for whatever was not expected, then the totals."""
        lines = [f"{r.vector.name}: {r.problem} ({r.vector.comment})" for r in self.unexpected]
        lines += [f"{name}: passed, but it is listed as an expected failure" for name in self.passed_unexpectedly]
        lines += [f"{name}: listed as an expected failure, but there is no such vector" for name in self.unknown]
        total, failed = len(self.results), len(self.failed)
        whole = sum(passed == all_ for passed, all_ in self.codes.values())
        lines.append(f"reject codes: {whole} of {len(self.codes)} told in each of their vectors")
        lines.append(
            f"{total - failed} of {total} vectors agree; {failed} fail, {failed - len(self.unexpected)} of them as expected"
        )
        return lines

    def to_json(self) -> dict[str, Any]:
        """The report for programs, ready for `json.dumps`."""
        return {
            "ok": self.ok,
            "vectors": len(self.results),
            "failed": [
                {"vector": r.vector.name, "problem": r.problem, "expected": r.vector.name in self.expected}
                for r in self.failed
            ],
            "passed_unexpectedly": list(self.passed_unexpectedly),
            "unknown_expected": list(self.unknown),
            "codes": {c: {"passed": passed, "vectors": total} for c, (passed, total) in sorted(self.codes.items())},
        }


def read_expected_failures(paths: Iterable[Path]) -> frozenset[str]:
    """Names of vectors, one a line; what follows a `#` is a comment, and empty lines are nothing.

    Raises:
        ExpectedFailuresError: a line is not one name, or a name stands twice.
        OSError: a file cannot be read.
    """
    names: set[str] = set()
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ExpectedFailuresError(f"{path}: expected text in UTF-8, got other bytes") from None
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if len(words) > 1:
                raise ExpectedFailuresError(f"{path}, line {number}: expected one name of a vector, got {line!r}")
            if words and words[0] in names:
                raise ExpectedFailuresError(f"{path}, line {number}: {words[0]} stands twice")
            names.update(words)
    return frozenset(names)


def run_against(
    command: Sequence[str],
    *,
    expected: Iterable[str] = (),
    vectors: Sequence[Vector] | None = None,
    seconds: float = 10.0,
    progress: Callable[[int, int], None] | None = None,
) -> AgainstReport:
    """Ask another decoder about every vector.

    Args:
        command: the program and its arguments.
        expected: names of the vectors that it is known to fail.
        vectors: what to ask; None takes all of the installation.
        seconds: what one answer may take.
        progress: called with the number of vectors that were answered, and of all.

    Raises:
        DecoderError: the program cannot be started, dies, hangs, or says what is no answer.
        VectorError: as `load_vectors`.
    """
    chosen = load_vectors() if vectors is None else vectors
    results = []
    with Decoder(command, seconds) as decoder:
        for vector in chosen:
            try:
                answer = _answer(vector, decoder.ask(question(vector)))
            except DecoderError as error:
                raise DecoderError(f"{vector.name}: {error}") from None
            results.append(VectorResult(vector, _problem(vector, answer)))
            if progress is not None:
                progress(len(results), len(chosen))
        decoder.finish()
    return AgainstReport(tuple(results), frozenset(expected))


def question(vector: Vector) -> str:
    """The line that asks a decoder about `vector`, without the line's end."""
    agreement = _agreement(vector)
    columns = (0, 0) if agreement is None else (agreement.id_entries, agreement.q_entries)
    frames = [f"{sent.sender.value}:{sent.data.hex()}" for sent in vector.conversation]
    words = (
        vector.name, "frame" if vector.whole else "stream", *map(str, columns), *frames,
        f"{vector.sender.value}:{vector.data.hex()}",
    )  # fmt: skip
    return " ".join(words)


def _agreement(vector: Vector) -> Agreement | None:
    messages = (decode(s.data, None) for s in vector.conversation if s.data[_TYPE_BYTE] == MessageType.HELLO)
    hellos = [message for message in messages if isinstance(message, Hello)]
    return agree(*hellos) if len(hellos) == 2 else None


def _answer(vector: Vector, line: str) -> dict[str, Any]:
    try:
        answer = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise DecoderError(f"expected one line of JSON, got {line[:80]!r}") from None
    if not isinstance(answer, dict):
        raise DecoderError(f"expected a JSON object, got {line[:80]!r}")
    if answer.get("name") != vector.name:
        raise DecoderError(f"expected an answer with this name, got {line[:80]!r}")
    if ("reject" in answer) == ("fields" in answer):
        raise DecoderError(f"expected either a reject or fields, got {line[:80]!r}")
    if "fields" in answer and not (isinstance(answer["fields"], dict) and "message" in answer):
        raise DecoderError(f"expected fields as an object, beside their message, got {line[:80]!r}")
    return answer


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _problem(vector: Vector, answer: dict[str, Any]) -> str | None:
    """What is wrong with an answer; None if it is right."""
    if vector.fields is not None:
        if "reject" in answer:
            return f"expected no reject, got {short(answer['reject'])}"
        if answer["message"] != vector.message:
            return f"expected a message {vector.message}, got {short(answer['message'])}"
        return differing_field(vector.message, vector.fields, answer["fields"])
    reject = dict(zip(("reject", "scope", "offset", "path"), vector.reject or (), strict=True))
    if "reject" not in answer:
        return f"expected reject {reject['reject']}, got a valid {short(answer['message'])}"
    for key, value in reject.items():
        # A decoder need not say where; if it does, it must be right.
        if key in answer and answer[key] != value:
            return f"expected {key} {value}, got {short(answer[key])}"
    return None
