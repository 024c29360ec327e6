"""What a harness is: a function of bytes that says what they led to, or raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pp1wire.wire import MessageType, RejectCode

__all__ = ["CODES", "MESSAGES", "Harness", "Violation", "outcome"]

MESSAGES: Final = tuple(t.name for t in MessageType)
CODES: Final = tuple(c.name for c in RejectCode)


class Violation(AssertionError):
    """An invariant is broken."""


@dataclass(frozen=True, slots=True)
class Harness:
    """One harness.

    Attributes:
        name: of its module.
        invariant: one sentence that holds for any input; the first of its module.
        run: takes any bytes and returns the outcome: names of the messages and reject codes that they reached, and
            other words in lower case, between spaces. Whatever it raises is a finding.
    """

    name: str
    invariant: str
    run: Callable[[bytes], str]


def outcome(words: list[str]) -> str:
    """`words` as an outcome; bytes that led to nothing are `nothing`."""
    return " ".join(words) or "nothing"
