"""What an endpoint can do with hostile bytes, as far as it shows outside, and what came of a case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Observation", "Outcome", "Result", "Target", "Verdict"]


class Target(StrEnum):
    """The end under test."""

    WORKER = "worker"
    VERIFIER = "verifier"


class Outcome(StrEnum):
    """What was seen."""

    CLOSED = "closed"
    """It ended the connection, and did not act on the bytes."""
    REFUSED = "refused"
    """A worker answered the offer with a refusal, and ended the connection."""
    DISCARDED = "discarded"
    """The round was given up, by RESET (a verifier) or a failing COMPLETION (a worker); the connection lives."""
    ACCEPTED = "accepted"
    """It went on as if the bytes were right."""
    IGNORED = "ignored"
    """It went on as if the bytes had not come."""
    HUNG = "hung"
    """It neither reacted nor went on."""
    BROKE = "broke"
    """It broke a rule of the protocol itself."""
    DIED = "died"
    """Afterwards nobody was served any more."""


class Verdict(StrEnum):
    """What that means."""

    RIGHT = "right"
    WRONG = "wrong"
    SKIPPED = "skipped"
    """The case does not fit what this endpoint agreed on or did; `detail` says why."""
    NOT_RUN = "not run"
    """The time was up, or the endpoint was gone."""


@dataclass(frozen=True, slots=True)
class Observation:
    """An outcome, and one line about it.

    `fits` is False for an outcome that is expected, but not in this way: a refusal for another reason.
    """

    outcome: Outcome
    detail: str = ""
    fits: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one case."""

    case: str
    code: str | None
    """The rule that the bytes break, by its reject code; None for what is legal, or no matter of a code."""
    expected: tuple[str, ...]
    observed: str | None
    verdict: Verdict
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Plain values; the keys are stable."""
        return {
            "case": self.case, "code": self.code, "expected": list(self.expected), "observed": self.observed,
            "verdict": str(self.verdict), "detail": self.detail,
        }  # fmt: skip
