"""What is told of each connection by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pp1wire.capture.findings import Finding, Severity
from pp1wire.protocol import Counters, Direction
from pp1wire.wire import Agreement, Hello, HelloRole

__all__ = ["MAX_CONNECTIONS_TOLD", "ConnectionFacts", "KeptConnections"]

MAX_CONNECTIONS_TOLD: Final = 1000
"""Connections that a report tells of, the first ones; all are counted."""

_CAPACITIES: Final = ("vocab_size", "padded_vocab_size", "max_slots", "max_depth", "max_support", "max_prefix")


@dataclass(slots=True)
class ConnectionFacts:
    """One connection that speaks PP1.

    Attributes:
        file, connection: where it is; of raw streams 1.
        endpoints: "client → server"; None for raw streams.
        began_ns, ended_ns: times of its first and last packet with bytes, in nanoseconds since 1970; None without packets.
        hellos: those that passed, by role.
        agreement: what the two ends agreed on, where both HELLOs are there.
        whole: both directions were judged together to the end.
        bytes: of its streams, by who sent them.
        rounds, proposals, commits, tokens: as in the totals.
        missing_bytes: that the capture lacks, as far as it is known how many.
        uncertain: what is said of it is so in part.
        counts: findings by severity.
    """

    file: str
    connection: int
    endpoints: str | None
    began_ns: int | None = None
    ended_ns: int | None = None
    hellos: Mapping[HelloRole, Hello] = field(default_factory=dict)
    agreement: Agreement | None = None
    whole: bool = False
    bytes: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    proposals: int = 0
    commits: int = 0
    tokens: int = 0
    missing_bytes: int = 0
    uncertain: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def saw(self, time_ns: int | None) -> None:
        """A packet with bytes of it."""
        if time_ns is None:
            return
        if self.began_ns is None or time_ns < self.began_ns:
            self.began_ns = time_ns
        if self.ended_ns is None or time_ns > self.ended_ns:
            self.ended_ns = time_ns

    def add_finding(self, finding: Finding) -> None:
        """Count a finding about it."""
        self.counts[str(finding.severity)] += 1
        self.uncertain = self.uncertain or finding.uncertain

    def add_rounds(self, counters: Counters) -> None:
        """Add what was counted of its sessions."""
        self.rounds += counters.steps
        self.proposals += counters.proposals
        self.commits += counters.commits
        self.tokens += counters.tokens

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {
            "file": self.file,
            "connection": self.connection,
            "endpoints": self.endpoints,
            "began_ns": self.began_ns,
            "ended_ns": self.ended_ns,
            "hellos": [role.name.lower() for role in HelloRole if role in self.hellos],
            "agreement": _terms(self.agreement, next(iter(self.hellos.values()), None)),
            "whole": self.whole,
            "bytes": {str(direction): self.bytes[str(direction)] for direction in Direction},
            "rounds": self.rounds,
            "proposals": self.proposals,
            "commits": self.commits,
            "tokens": self.tokens,
            "missing_bytes": self.missing_bytes,
            "uncertain": self.uncertain,
            "findings": {str(severity): self.counts[str(severity)] for severity in Severity},
        }


def _terms(agreement: Agreement | None, hello: Hello | None) -> dict[str, Any] | None:
    """Capacities are the agreement's; identities are equal in both HELLOs."""
    if agreement is None or hello is None:
        return None
    return {
        "id": f"{agreement.id:016x}",
        "representation": agreement.representation.name.lower(),
        **{name: getattr(agreement, name) for name in _CAPACITIES},
        "q_semantic": hello.q_semantic,
        "verifier_semantic": hello.verifier_semantic,
        "rng_abi": hello.rng_abi,
        "id_map_sha256": hello.id_map_sha256.hex(),
        "draft_checkpoint_sha256": hello.draft_checkpoint_sha256.hex(),
        "draft_revision": hello.draft_revision,
        "draft_origin": hello.draft_origin.name.lower(),
        "target_sha256": hello.target_sha256.hex(),
    }


class KeptConnections:
    """The connections of one file with the lowest numbers, whatever the order in which they end."""

    def __init__(self, most: int = MAX_CONNECTIONS_TOLD) -> None:
        self._most = most
        self._kept: list[ConnectionFacts] = []

    def add(self, facts: ConnectionFacts) -> None:
        """Keep it, unless there are enough before it."""
        self._kept.append(facts)
        if len(self._kept) > 2 * self._most:
            self._kept = self.ordered()

    def ordered(self) -> list[ConnectionFacts]:
        """By number."""
        return sorted(self._kept, key=lambda facts: facts.connection)[: self._most]
