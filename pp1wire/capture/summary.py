"""Totals over everything that was judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pp1wire.protocol import Counters, Direction, Judged
from pp1wire.wire import Commit, Completion, Hello, MessageType, Reset, ResetReason, Step
from pp1wire.wire._schema_v2 import MAX_DEPTH
from pp1wire.wire.reader import message_type_of

__all__ = ["Latencies", "Span", "Summary"]


@dataclass(slots=True)
class Span:
    """Times between two messages, in nanoseconds, by the capture's clock."""

    count: int = 0
    total_ns: int = 0
    least_ns: int | None = None
    most_ns: int | None = None

    def add(self, begin_ns: int | None, end_ns: int | None) -> None:
        """Count one; nothing where a packet has no time."""
        if begin_ns is None or end_ns is None:
            return
        took = end_ns - begin_ns
        self.count += 1
        self.total_ns += took
        self.least_ns = took if self.least_ns is None else min(self.least_ns, took)
        self.most_ns = took if self.most_ns is None else max(self.most_ns, took)

    def to_json(self) -> dict[str, int | None]:
        """Count, and least, mean and most nanoseconds (None without any)."""
        mean = self.total_ns // self.count if self.count else None
        return {"count": self.count, "least_ns": self.least_ns, "mean_ns": mean, "most_ns": self.most_ns}


@dataclass(slots=True)
class Summary:
    """What was seen and judged, over all files.

    Attributes:
        files, packets, connections: read; connections that speak PP1.
        skipped_connections: that speak something else, or nothing.
        skipped_packets: by the code that says why.
        frames: by message, also those that were rejected.
        unjudged_frames: of which only header and checksums, or only the header, could be judged.
        unjudged_bytes: from a fault on that ended a direction, or that no verified header accounts for.
        rounds: STEPs. proposals: those completed whole. discards: those void, by reason.
        unanswered: rounds that a RESET or the end came before, where both directions were seen.
        stale: messages dropped as late, by code. faults: rejects of connection scope, by code.
        commits, target_only, tokens: COMMITs of proposals, COMMITs without one, and ids committed by both.
        committed: drafted tokens committed, by place in the proposal.
        rows: REPLYs that passed.
        bytes: of streams, by who sent them.
        latencies: STEP to first row, STEP to COMPLETION, COMPLETION to COMMIT.
    """

    files: int = 0
    packets: int = 0
    connections: int = 0
    skipped_connections: int = 0
    skipped_packets: Counter[str] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=lambda: Counter({t.name.lower(): 0 for t in MessageType}))
    unjudged_frames: int = 0
    unjudged_bytes: int = 0
    rounds: int = 0
    proposals: int = 0
    discards: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    stale: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    target_only: int = 0
    tokens: int = 0
    committed: list[int] = field(default_factory=lambda: [0] * MAX_DEPTH)
    rows: int = 0
    bytes: Counter[str] = field(default_factory=lambda: Counter({str(d): 0 for d in Direction}))
    latencies: dict[str, Span] = field(
        default_factory=lambda: {
            "step_to_first_row": Span(),
            "step_to_completion": Span(),
            "completion_to_commit": Span(),
        }
    )

    def count_frame(self, verdict: Judged) -> None:
        """Count the frame, or rows, of a verdict."""
        if verdict.batch is not None:
            self.frames["reply"] += verdict.stop - verdict.start
            self.rows += verdict.stop - verdict.start
        elif verdict.message is not None:
            self.frames[message_type_of(verdict.message).name.lower()] += 1
        elif verdict.error is not None and verdict.error.message_type is not None:
            self.frames[verdict.error.message_type.name.lower()] += 1

    def add_rounds(self, counters: Counters, *, both_seen: bool) -> None:
        """Add what was counted on one connection that is over."""
        self.rounds += counters.steps
        self.proposals += counters.proposals
        self.commits += counters.commits
        self.target_only += counters.target_only
        self.tokens += counters.tokens
        self.committed = [a + b for a, b in zip(self.committed, counters.committed, strict=True)]
        for own, other in (
            (self.discards, counters.discards),
            (self.stale, counters.dropped),
            (self.faults, counters.failures),
        ):
            own.update({name: count for name, count in other.items() if count})
        if both_seen:
            self.unanswered += counters.steps - counters.proposals - sum(counters.discards.values())

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`; keys in a fixed order, names of counts sorted."""
        result: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, Counter):
                fixed = name in ("frames", "bytes")
                value = dict(value.items() if fixed else sorted(value.items()))
            elif name == "latencies":
                value = {key: span.to_json() for key, span in value.items()}
            result[name] = value
        return result


class Latencies:
    """Times of the rounds in progress on one connection; one entry a slot."""

    def __init__(self, summary: Summary) -> None:
        self._spans = summary.latencies
        self._rounds: dict[int, _Times] = {}

    def see(self, verdict: Judged, time_ns: int | None) -> None:
        """A verdict on a frame whose last byte came at `time_ns`."""
        message, step = verdict.message, verdict.step
        if isinstance(message, Step):
            self._rounds[message.slot] = _Times((message.session, message.generation, message.round), time_ns)
        elif verdict.batch is not None and step is not None:
            times = self._of(step)
            if times is not None and not times.rows:
                times.rows = True
                self._spans["step_to_first_row"].add(times.step_ns, time_ns)
        elif isinstance(message, Completion) and step is not None:
            times = self._of(step)
            if times is not None:
                times.completion_ns = time_ns
                self._spans["step_to_completion"].add(times.step_ns, time_ns)
        elif isinstance(message, Commit):
            times = self._of(message)
            if times is not None:
                self._spans["completion_to_commit"].add(times.completion_ns, time_ns)
                del self._rounds[message.slot]
        elif isinstance(message, Reset) and message.reason is not ResetReason.OPEN:
            self._rounds.pop(message.slot, None)
        elif isinstance(message, Hello):
            self._rounds.clear()

    def _of(self, message: Step | Commit) -> _Times | None:
        times = self._rounds.get(message.slot)
        found = times is not None and times.identity == (message.session, message.generation, message.round)
        return times if found else None


@dataclass(slots=True)
class _Times:
    identity: tuple[int, int, int]
    step_ns: int | None
    completion_ns: int | None = None
    rows: bool = False
