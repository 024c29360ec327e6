"""Follows single rounds while a capture is judged: when their stages came, what became of them, and on which terms.

Totals are those of `Summary`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from pp1wire.capture.observing import Seen
from pp1wire.capture.terms import Terms
from pp1wire.wire import Commit, CommitKind, Completion, CompletionStatus, Hello, RemoteProtocolError, Reset, Step

__all__ = ["ENDS", "MAX_KEPT", "STAGES", "Round", "Rounds"]

MAX_KEPT: Final = 600
"""Rounds that are kept, the first ones; all are counted."""

STAGES: Final = ("step", "first_row", "completion", "end")
"""Of a round; the last is its COMMIT, or what ended it otherwise."""

ENDS: Final = ("committed", "discarded", "void")
"""What becomes of rounds that do not stay open."""

_MAX_OPEN: Final = 16_384  # 4 slots of each connection that is followed at a time


@dataclass(slots=True)
class Round:
    """One round.

    Attributes:
        file, connection, slot: where it was asked for.
        identity: (session, generation, round).
        depth: positions asked for.
        kind: "committed", "discarded", "void", or "open" while nothing came of it.
        outcome: the same in words.
        reason: why it was discarded, as in the totals, or of the RESET that came before its COMMIT; None for others.
        accepted, commit: drafted tokens committed and kind of the COMMIT; None without one.
        times, packets, offsets: of "step", "first_row", "completion" and "end", as far as they came; times in nanoseconds since
            1970, offsets in bytes from the start of the direction.
        listed: it is among the first.
    """

    file: str
    connection: int
    slot: int
    identity: tuple[int, int, int]
    depth: int
    kind: str = "open"
    outcome: str = "open where the capture ends"
    reason: str | None = None
    accepted: int | None = None
    commit: str | None = None
    times: dict[str, int] = field(default_factory=dict)
    packets: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    listed: bool = False

    def note(self, stage: str, seen: Seen) -> None:
        """A stage of it came."""
        self.offsets[stage] = seen.verdict.offset
        if seen.time_ns is not None:
            self.times[stage] = seen.time_ns
        if seen.packet is not None:
            self.packets[stage] = seen.packet

    def end(self, kind: str, outcome: str, seen: Seen, reason: str | None = None) -> None:
        """It is over."""
        self.kind, self.outcome, self.reason = kind, outcome, reason
        self.note("end", seen)

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`; stages that did not come are None."""
        session, generation, number = self.identity
        return {
            "file": self.file,
            "connection": self.connection,
            "slot": self.slot,
            "session": session,
            "generation": generation,
            "round": number,
            "depth": self.depth,
            "kind": self.kind,
            "reason": self.reason,
            "accepted": self.accepted,
            "commit": self.commit,
            "stages": {stage: self._stage(stage) for stage in STAGES},
        }

    def _stage(self, stage: str) -> dict[str, int | None] | None:
        if stage not in self.offsets:
            return None
        return {
            "packet": self.packets.get(stage),
            "time_ns": self.times.get(stage),
            "offset": self.offsets[stage],
        }


class Rounds:
    """The argument `observe` of `validate`: sees verdicts, in bounded memory.

    Args:
        most: kept in `kept`.
        most_failed: kept in `failed`.

    Attributes:
        kept: the first rounds, by their STEPs.
        failed: the first of the others that were discarded or void, as they ended.
        count: all rounds.
        ends: rounds that are over, by kind.
        commits: COMMITs by kind.
        terms: what the HELLOs said.
    """

    def __init__(self, most: int = MAX_KEPT, most_failed: int = 0) -> None:
        self._most = most
        self._most_failed = most_failed
        self.failed: list[Round] = []
        self.ends: Counter[str] = Counter()
        self.kept: list[Round] = []
        self.count = 0
        self.commits: Counter[str] = Counter()
        self.terms = Terms()
        self._file: str | None = None
        self._open: dict[tuple[int, int], Round] = {}

    def __call__(self, seen: Seen) -> None:
        """The next verdict."""
        if seen.file != self._file:
            self._file = seen.file
            self._open.clear()
        verdict, message = seen.verdict, seen.verdict.message
        if verdict.error is not None:
            self._fail(verdict.error, seen)
        elif verdict.batch is not None:
            if verdict.step is not None:
                self._rows(verdict.step, seen)
        elif isinstance(message, Step):
            self._step(message, seen)
        elif isinstance(message, Completion):
            self._completion(message, seen)
        elif isinstance(message, Commit):
            self._commit(message, seen)
        elif isinstance(message, Reset):
            self._reset(message, seen)
        elif isinstance(message, Hello):
            self.terms.add(message, seen)

    def _step(self, message: Step, seen: Seen) -> None:
        self.count += 1
        identity = (message.session, message.generation, message.round)
        one = Round(seen.file, seen.connection, message.slot, identity, message.depth)
        one.note("step", seen)
        if len(self.kept) < self._most:
            one.listed = True
            self.kept.append(one)
        self._open[seen.connection, message.slot] = one
        if len(self._open) > _MAX_OPEN:
            del self._open[next(iter(self._open))]

    def _rows(self, step: Step, seen: Seen) -> None:
        one = self._of(seen, step.slot, (step.session, step.generation, step.round))
        if one is not None and "first_row" not in one.packets and "first_row" not in one.times:
            one.note("first_row", seen)

    def _completion(self, message: Completion, seen: Seen) -> None:
        one = self._of(seen, message.slot, (message.session, message.generation, message.round))
        if one is None:
            return
        one.note("completion", seen)
        if message.status is not CompletionStatus.OK:
            status = message.status.name.lower()
            one.end("discarded", f"discarded: the worker could not, {status}", seen, f"completion_{status}")
            self._over(one)

    def _commit(self, message: Commit, seen: Seen) -> None:
        self.commits[message.kind.name.lower()] += 1
        one = self._of(seen, message.slot, (message.session, message.generation, message.round))
        if one is None or message.kind is CommitKind.TARGET_ONLY:
            return
        one.end("committed", f"{message.accepted} of {one.depth} drafted committed, {_FURTHER[message.kind]}", seen)
        one.accepted, one.commit = message.accepted, message.kind.name.lower()
        self._over(one)
        del self._open[seen.connection, message.slot]

    def _reset(self, message: Reset, seen: Seen) -> None:
        one = self._open.pop((seen.connection, message.slot), None)
        if one is not None and one.kind == "open":
            reason = message.reason.name.lower()
            one.end("void", f"void: RESET for {reason}", seen, reason)
            self._over(one)

    def _fail(self, error: RemoteProtocolError, seen: Seen) -> None:
        if error.identity is None or error.scope != "proposal":
            return
        for (connection, _), one in self._open.items():
            if connection == seen.connection and one.identity == error.identity and one.kind == "open":
                code = error.code.name.lower()
                one.end("discarded", f"discarded: {code}", seen, code)
                self._over(one)
                return

    def _over(self, one: Round) -> None:
        self.ends[one.kind] += 1
        if one.kind != "committed" and not one.listed and len(self.failed) < self._most_failed:
            self.failed.append(one)

    def to_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`."""
        return {
            "count": self.count,
            **{kind: self.ends[kind] for kind in ENDS},
            "open": self.count - self.ends.total(),
            "first": [one.to_json() for one in self.kept],
            "failed": [one.to_json() for one in self.failed],
        }

    def _of(self, seen: Seen, slot: int, identity: tuple[int, int, int]) -> Round | None:
        one = self._open.get((seen.connection, slot))
        return one if one is not None and one.identity == identity else None


_FURTHER: Final = {
    CommitKind.NONE: "and no further token",
    CommitKind.CORRECTION: "and a correction",
    CommitKind.BONUS: "and a bonus",
}
