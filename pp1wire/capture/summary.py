"""Totals over everything that was judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from pp1wire.capture.histogram import Histogram
from pp1wire.protocol import Counters, Direction, Judged
from pp1wire.wire import Commit, Completion, Hello, MessageType, Reset, ResetReason, Step
from pp1wire.wire._schema_v2 import MAX_DEPTH
from pp1wire.wire.reader import message_type_of

__all__ = ["STAGES", "Latencies", "Summary"]

STAGES: Final = ("step_to_first_row", "step_to_completion", "completion_to_commit")
"""Stages of a round whose lengths are counted."""


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
        offered: drafted tokens of the proposals that COMMITs decided on, by place.
        reached: those of them before which all were committed, by place.
        rows: REPLYs that passed.
        bytes: of streams, by who sent them.
        latencies: STEP to first row, STEP to COMPLETION, COMPLETION to COMMIT.
        holes: what the capture lacks or contradicts, by the code of the finding.
        missing_bytes: of gaps and cuts, as far as their lengths are known.
        uncertain_frames: frames that stand behind a gap, a conflict, or a beginning that is not there.
        uncertain_rounds: STEPs among these frames; behind a gap their rounds are not followed, nor counted in `rounds`.
        uncertain_findings: the same of findings.
        span_ns: from the first packet of each file to its last, together.
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
    offered: list[int] = field(default_factory=lambda: [0] * MAX_DEPTH)
    reached: list[int] = field(default_factory=lambda: [0] * MAX_DEPTH)
    rows: int = 0
    holes: Counter[str] = field(default_factory=Counter)
    missing_bytes: int = 0
    uncertain_frames: int = 0
    uncertain_rounds: int = 0
    uncertain_findings: int = 0
    span_ns: int = 0
    bytes: Counter[str] = field(default_factory=lambda: Counter({str(d): 0 for d in Direction}))
    latencies: dict[str, Histogram] = field(default_factory=lambda: {stage: Histogram() for stage in STAGES})

    def count_frame(self, verdict: Judged, *, uncertain: bool = False) -> None:
        """Count the frame, or rows, of a verdict."""
        if uncertain:
            self.uncertain_frames += 1 if verdict.batch is None else verdict.stop - verdict.start
            self.uncertain_rounds += isinstance(verdict.message, Step)
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

    @property
    def tokens_a_proposal(self) -> float:
        """Ids committed by a COMMIT of a proposal, in the mean; 0 without any."""
        return (self.tokens - self.target_only) / self.commits if self.commits else 0.0

    def add(self, other: Summary) -> None:
        """Add the totals of other files."""
        for name in self.__slots__:
            own, more = getattr(self, name), getattr(other, name)
            if isinstance(own, Counter):
                own.update(more)
            elif isinstance(own, list):
                setattr(self, name, [a + b for a, b in zip(own, more, strict=True)])
            elif isinstance(own, dict):
                for key, histogram in own.items():
                    histogram.add_all(more[key])
            else:
                setattr(self, name, own + more)

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`; keys in a fixed order, names of counts sorted."""
        result: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, Counter):
                fixed = name in ("frames", "bytes")
                value = dict(value.items() if fixed else sorted(value.items()))
            elif name == "latencies":
                value = {key: histogram.to_json() for key, histogram in value.items()}
            result[name] = value
        return result


class Latencies:
    """The rounds in progress on one connection, one a slot: how long their stages take, and how deep they were."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._rounds: dict[int, _Round] = {}

    def see(self, verdict: Judged, time_ns: int | None) -> None:
        """A verdict on a frame whose last byte came at `time_ns`."""
        message, step = verdict.message, verdict.step
        if isinstance(message, Step):
            self._rounds[message.slot] = _Round(
                (message.session, message.generation, message.round), message.depth, time_ns
            )
        elif verdict.batch is not None and step is not None:
            one = self._of(step)
            if one is not None and not one.rows:
                one.rows = True
                self._measure("step_to_first_row", one.step_ns, time_ns)
        elif isinstance(message, Completion) and step is not None:
            one = self._of(step)
            if one is not None:
                one.completion_ns = time_ns
                self._measure("step_to_completion", one.step_ns, time_ns)
        elif isinstance(message, Commit):
            one = self._of(message)
            if one is not None:
                self._measure("completion_to_commit", one.completion_ns, time_ns)
                for place in range(one.depth):
                    self._summary.offered[place] += 1
                    self._summary.reached[place] += message.accepted >= place
                del self._rounds[message.slot]
        elif isinstance(message, Reset) and message.reason is not ResetReason.OPEN:
            self._rounds.pop(message.slot, None)
        elif isinstance(message, Hello):
            self._rounds.clear()

    def _of(self, message: Step | Commit) -> _Round | None:
        one = self._rounds.get(message.slot)
        found = one is not None and one.identity == (message.session, message.generation, message.round)
        return one if found else None

    def _measure(self, stage: str, begin_ns: int | None, end_ns: int | None) -> None:
        # A simple packet block has no time.
        if begin_ns is not None and end_ns is not None:
            self._summary.latencies[stage].add(end_ns - begin_ns)


@dataclass(slots=True)
class _Round:
    identity: tuple[int, int, int]
    depth: int
    step_ns: int | None
    completion_ns: int | None = None
    rows: bool = False
