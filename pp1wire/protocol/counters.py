"""Counters of one end of a connection: every reason for a discard, every state entered, acceptances by position."""

from __future__ import annotations

from typing import Final

from pp1wire.protocol.tables import ConnectionState, SessionState
from pp1wire.wire import CompletionStatus, RejectCode
from pp1wire.wire._schema_v2 import MAX_DEPTH

__all__ = ["CANCELLED", "CONNECTION_LOST", "CONSUMER", "DEADLINE", "Counters"]

DEADLINE: Final = "deadline"
"""The STEP's deadline passed on the verifier's clock."""
CONNECTION_LOST: Final = "connection_lost"
"""The connection ended or failed while the round was open."""
CANCELLED: Final = "cancelled"
"""The caller gave the round up, or closed the session."""
CONSUMER: Final = "consumer"
"""A consumer of the proposal refused it after it was published (a rank's error, say)."""


def _reasons() -> list[str]:
    local = [DEADLINE, CONNECTION_LOST, CANCELLED, CONSUMER]
    statuses = [f"completion_{status.name.lower()}" for status in CompletionStatus if status is not CompletionStatus.OK]
    return local + statuses + [code.name.lower() for code in RejectCode if code.scope == "proposal"]


class Counters:
    """Counts since the connection began. Every key exists from the start, at zero.

    Attributes:
        discards: rounds discarded, by reason.
        dropped: messages dropped as stale, by reject code; and on a worker, answers for a generation that was gone.
        failures: rejects of connection scope, by code; at most one.
        states: states entered, as "connection.open" or "session.idle".
        steps, proposals, commits, target_only: rounds asked for, proposed whole, committed, and committed without draft.
        committed: drafted tokens committed, by place in the proposal.
        accepted: drafted tokens that verification accepted, by place, also those behind a stop token; known to the
            verifier alone.
        tokens: all ids committed.
        rows, row_bytes: REPLYs that passed every check, and the bytes of their frames.
        bytes_sent, bytes_received: of the connection.
    """

    __slots__ = (
        "accepted", "bytes_received", "bytes_sent", "commits", "committed", "discards", "dropped", "failures",
        "proposals", "row_bytes", "rows", "states", "steps", "target_only", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.discards = dict.fromkeys(_reasons(), 0)
        self.dropped = dict.fromkeys(["late_answer", *_names("stale")], 0)
        self.failures = dict.fromkeys([code.name.lower() for code in RejectCode], 0)
        self.states = dict.fromkeys(
            [f"connection.{s}" for s in ConnectionState] + [f"session.{s}" for s in SessionState], 0
        )
        self.committed = [0] * MAX_DEPTH
        self.accepted = [0] * MAX_DEPTH
        self.steps = self.proposals = self.commits = self.target_only = self.tokens = 0
        self.rows = self.row_bytes = self.bytes_sent = self.bytes_received = 0

    def as_dict(self) -> dict[str, int | dict[str, int] | list[int]]:
        """A copy as plain numbers, for reports and JSON."""
        result: dict[str, int | dict[str, int] | list[int]] = {}
        for name in sorted(self.__slots__):
            value = getattr(self, name)
            result[name] = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
        return result

    def count_committed(self, tokens: int) -> None:
        """Count the leading drafted tokens of one round that were committed."""
        _count(self.committed, tokens)

    def count_accepted(self, tokens: int) -> None:
        """Count the leading drafted tokens of one round that verification accepted."""
        _count(self.accepted, tokens)


def _names(scope: str) -> list[str]:
    return [code.name.lower() for code in RejectCode if code.scope == scope]


def _count(places: list[int], leading: int) -> None:
    for place in range(leading):
        places[place] += 1
