"""Counters of one end of a connection: every reason for a discard, every state entered, acceptances by position."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from pp1wire.protocol.tables import ConnectionState, Role, SessionState
from pp1wire.wire import CompletionStatus, RejectCode
from pp1wire.wire._schema_v2 import MAX_DEPTH

__all__ = [
    "CANCELLED",
    "CONNECTION_LOST",
    "CONSUMER",
    "DEADLINE",
    "DISCARD_REASONS",
    "EQUATIONS",
    "LATE_ANSWER",
    "VERIFIER_DISCARDED",
    "Counters",
]

DEADLINE: Final = "deadline"
"""The STEP's deadline passed on the verifier's clock."""
CONNECTION_LOST: Final = "connection_lost"
"""The connection ended or failed while the round was open."""
CANCELLED: Final = "cancelled"
"""The verifier's caller gave the round up, or closed the session."""
CONSUMER: Final = "consumer"
"""A consumer of the proposal refused it after it was published (a rank's error, say)."""
VERIFIER_DISCARDED: Final = "verifier_discarded"
"""On a worker: a RESET said that the verifier discarded the round; why, the verifier counts."""
LATE_ANSWER: Final = "late_answer"
"""On a worker: its owner answered a round that was gone; nothing was sent."""

EQUATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rounds": "steps = commits + all discards + drafting + ready",
        "proposals": "proposals = commits + unused + ready",
        "tokens": "tokens = target_only + all committed + commits - session.stopped",
        "committed": "commits >= committed at place 1 >= place 2 >= ...",
        "accepted": "on a verifier, commits >= accepted >= committed at every place; on a worker, accepted = 0",
        "rows": "rows >= proposals; on a verifier, row_bytes <= bytes_received",
        "states": "session.drafting = steps, session.ready = proposals",
        "failures": "all failures = connection.failed",
    }
)
"""What always adds up, on each end, and over any number of connections. `drafting` and `ready` are the rounds open now: without a
whole proposal yet, and with one that waits for its COMMIT; a connection that is over has none."""


# Once, as every connection and every judge has counters.
_CODES: Final = {
    scope: tuple(c.name.lower() for c in RejectCode if c.scope == scope) for scope in ("proposal", "stale")
}
_DISCARDS: Final = (
    DEADLINE, CONNECTION_LOST, CANCELLED, CONSUMER, VERIFIER_DISCARDED,
    *(f"completion_{status.name.lower()}" for status in CompletionStatus if status is not CompletionStatus.OK),
    *_CODES["proposal"],
)  # fmt: skip
DISCARD_REASONS: Final = frozenset(_DISCARDS)
"""Every reason for which a round may be void."""
_DROPPED: Final = (LATE_ANSWER, *_CODES["stale"])
_FAILURES: Final = tuple(code.name.lower() for code in RejectCode)
_STATES: Final = (*(f"connection.{s}" for s in ConnectionState), *(f"session.{s}" for s in SessionState))


class Counters:
    """Counts since the connection began. Every key exists from the start, at zero.

    Attributes:
        discards: rounds discarded, by reason.
        dropped: messages dropped as stale, by reject code; and on a worker, answers for a generation that was gone.
        failures: rejects of connection scope, by code; at most one.
        states: states entered, as "connection.open" or "session.idle".
        steps, proposals, commits, target_only: rounds asked for, proposed whole, committed, and committed without draft.
        unused: whole proposals that were never committed; the discard that ended each has its reason.
        committed: drafted tokens committed, by place in the proposal.
        accepted: drafted tokens that verification accepted, by place, also those behind a stop token; known to the
            verifier alone.
        tokens: all ids committed.
        rows, row_bytes: REPLYs that passed every check, and the bytes of their frames.
        bytes_sent, bytes_received: of the connection.
    """

    __slots__ = (
        "accepted", "bytes_received", "bytes_sent", "commits", "committed", "discards", "dropped", "failures",
        "proposals", "row_bytes", "rows", "states", "steps", "target_only", "tokens", "unused",
    )  # fmt: skip

    def __init__(self) -> None:
        self.discards = dict.fromkeys(_DISCARDS, 0)
        self.dropped = dict.fromkeys(_DROPPED, 0)
        self.failures = dict.fromkeys(_FAILURES, 0)
        self.states = dict.fromkeys(_STATES, 0)
        self.committed = [0] * MAX_DEPTH
        self.accepted = [0] * MAX_DEPTH
        self.steps = self.proposals = self.commits = self.target_only = self.tokens = self.unused = 0
        self.rows = self.row_bytes = self.bytes_sent = self.bytes_received = 0

    def copy(self) -> Counters:
        """Independent counters with the same counts."""
        other = Counters()
        other.become(self)
        return other

    def become(self, other: Counters) -> None:
        """Take over the counts of `other`."""
        for name, value in other.as_dict().items():
            setattr(self, name, value)

    def as_dict(self) -> dict[str, int | dict[str, int] | list[int]]:
        """A copy as plain numbers, for reports and JSON."""
        result: dict[str, int | dict[str, int] | list[int]] = {}
        for name in sorted(self.__slots__):
            value = getattr(self, name)
            result[name] = dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
        return result

    def imbalance(self, role: Role, *, drafting: int = 0, ready: int = 0) -> list[str]:
        """The `EQUATIONS` that these counters break, each with its numbers; none as long as every round is accounted for.

        Args:
            role: whose counters they are. A passive judge counts other things, and has no such equations.
            drafting, ready: rounds open now, as `Endpoint.open_rounds` has them.
        """
        verifier = role is Role.VERIFIER
        discards, stopped = sum(self.discards.values()), self.states[f"session.{SessionState.STOPPED}"]
        accepted, committed = self.accepted, self.committed
        holds = {
            "rounds": self.steps == self.commits + discards + drafting + ready,
            "proposals": self.proposals == self.commits + self.unused + ready,
            "tokens": self.tokens == self.target_only + sum(committed) + self.commits - stopped,
            "committed": _falling([self.commits, *committed]),
            "accepted": _falling([self.commits, *accepted]) and all(map(int.__ge__, accepted, committed))
            if verifier
            else not any(accepted),
            "rows": self.rows >= self.proposals and (not verifier or self.row_bytes <= self.bytes_received),
            "states": self.states[f"session.{SessionState.DRAFTING}"] == self.steps
            and self.states[f"session.{SessionState.READY}"] == self.proposals,
            "failures": sum(self.failures.values()) == self.states[f"connection.{ConnectionState.FAILED}"],
        }
        numbers = (
            f"steps {self.steps}, proposals {self.proposals}, commits {self.commits}, discards {discards}, unused {self.unused}, "
            f"drafting {drafting}, ready {ready}, target_only {self.target_only}, tokens {self.tokens}, "
            f"committed {committed}, accepted {accepted}, rows {self.rows}"
        )
        return [f"{EQUATIONS[name]}: broken by {numbers}" for name, good in holds.items() if not good]

    def count_committed(self, tokens: int) -> None:
        """Count the leading drafted tokens of one round that were committed."""
        _count(self.committed, tokens)

    def count_accepted(self, tokens: int) -> None:
        """Count the leading drafted tokens of one round that verification accepted."""
        _count(self.accepted, tokens)


def _falling(numbers: list[int]) -> bool:
    return all(a >= b for a, b in pairwise(numbers))


def _count(places: list[int], leading: int) -> None:
    for place in range(leading):
        places[place] += 1
