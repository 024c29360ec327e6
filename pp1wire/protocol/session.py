"""The state of the sessions of one connection, as verifier, worker and observer alike see it.

Nothing here judges: `VerifierMessages` and `WorkerMessages` check a message against this state and only then move it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pp1wire.protocol.counters import Counters
from pp1wire.protocol.notices import MessageDropped, RoundDiscarded, SessionReset, Watch
from pp1wire.protocol.prefix import CommittedPrefix
from pp1wire.protocol.tables import SESSION, SessionEvent, SessionState
from pp1wire.sampling import proposal_tickets
from pp1wire.sampling.philox import round_tickets
from pp1wire.wire import Agreement, RemoteProtocolError, Reset, Step

__all__ = ["OpenRound", "Session", "Sessions", "draw_tickets", "step_tickets"]

_COMMITTED = (SessionEvent.COMMIT, SessionEvent.COMMIT_NONE)
# Up to about here tickets are drawn faster one by one than by a pass over arrays.
_FEW_TICKETS = 24
_ENTERED = {state: f"session.{state}" for state in SessionState}


def step_tickets(steps: Sequence[Step]) -> list[npt.NDArray[np.int64]]:
    """The proposal tickets of every position of each STEP, int64 [depth], in [0, 2^24)."""
    depths = [step.depth for step in steps]
    if sum(depths) <= _FEW_TICKETS:
        return [round_tickets(s.proposal_seed, s.generation, s.round, s.position, s.depth) for s in steps]
    columns = np.repeat(
        np.array([[s.proposal_seed, s.generation, s.round, s.position] for s in steps], np.uint64), depths, axis=0
    )
    offsets = np.concatenate([np.arange(depth, dtype=np.uint64) for depth in depths])
    tickets = proposal_tickets(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3] + offsets)
    return np.split(tickets, np.cumsum(depths)[:-1])


@dataclass(slots=True)
class OpenRound:
    """The latest STEP of a session and what has come of it."""

    step: Step
    tokens: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)
    reply_bytes: int = 0
    tickets: npt.NDArray[np.int64] | None = None
    """The proposal tickets of every position, int64 [depth]; `draw_tickets` fills them in."""

    @property
    def rows(self) -> int:
        """Rows accepted so far."""
        return len(self.tokens)

    def copy(self) -> OpenRound:
        """The same round, that goes its own way from here on."""
        return replace(self, tokens=self.tokens.copy(), checksums=self.checksums.copy())


def draw_tickets(rounds: Iterable[OpenRound]) -> None:
    """Fill in the tickets of all rounds that lack them, in one pass: a pass costs the same for one round as for all."""
    lacking = [r for r in rounds if r.tickets is None]
    if not lacking:
        return
    drawn = step_tickets([r.step for r in lacking])
    for one, tickets in zip(lacking, drawn, strict=True):
        one.tickets = tickets


@dataclass(slots=True)
class Session:
    """One session. `round` is the last round used, by a STEP or by a target-only COMMIT; 0 at a generation's start."""

    number: int
    slot: int
    generation: int
    prefix: CommittedPrefix
    state: SessionState = SessionState.ABSENT
    round: int = 0
    current: OpenRound | None = None
    """The generation's latest STEP; its round is over unless the state is DRAFTING or READY."""
    proposal_seed: int | None = None
    """Constant in a generation; set by its first STEP."""
    context_version: int | None = None

    @property
    def position(self) -> int:
        """Length of the committed prefix: the position of the next token."""
        return len(self.prefix)

    @property
    def step_round(self) -> int:
        """Round of the generation's latest STEP, 0 before one."""
        return 0 if self.current is None else self.current.step.round

    @property
    def next_round(self) -> int:
        """The round that the generation comes to next."""
        return self.round + 1

    @property
    def latest(self) -> OpenRound:
        """`current`, in a state that has one."""
        if self.current is None:
            raise RuntimeError(f"session {self.number} is {self.state} without a STEP")
        return self.current

    def copy(self) -> Session:
        """The same session, that goes its own way from here on."""
        current = None if self.current is None else self.current.copy()
        return replace(self, prefix=self.prefix.copy(), current=current)

    def open_round(self) -> OpenRound | None:
        """The round that is being drafted or waits for its COMMIT."""
        return self.current if self.state in (SessionState.DRAFTING, SessionState.READY) else None


class Sessions:
    """All sessions of a connection. Closed ones are forgotten, so memory is bounded by the agreement.

    Args:
        agreement: the connection's.
        counters: where states entered are counted.
        keep_ids: whether sessions hold their committed ids, or only the digest.
        watch: hears what is thrown away, and of RESETs.
    """

    def __init__(self, agreement: Agreement, counters: Counters, *, keep_ids: bool, watch: Watch | None = None) -> None:
        self.agreement = agreement
        self._watch = watch
        self.counters = counters
        self.keep_ids = keep_ids
        self.open: dict[int, Session] = {}
        self.slots: list[Session | None] = [None] * agreement.max_slots
        self.last = 0
        """The highest session number that was ever opened."""

    def copy(self) -> Sessions:
        """The same sessions and counts, watched by nobody: what happens to either changes nothing of the other."""
        other = Sessions(self.agreement, self.counters.copy(), keep_ids=self.keep_ids)
        other.open = {number: session.copy() for number, session in self.open.items()}
        other.slots = [None if s is None else other.open[s.number] for s in self.slots]
        other.last = self.last
        return other

    def become(self, other: Sessions) -> None:
        """Take over the sessions and counts of `other`, which is done with."""
        self.open, self.slots, self.last = other.open, other.slots, other.last
        self.counters.become(other.counters)

    def next_state(self, session: Session | None, event: SessionEvent) -> SessionState | None:
        """What the table says; None if it does not list `event` in the session's state."""
        state = SessionState.ABSENT if session is None else session.state
        return SESSION[state].get(event)

    def move(self, session: Session, event: SessionEvent) -> None:
        """Follow the table. The caller has checked that it lists `event` (else KeyError, and nothing changes)."""
        before, session.state = session.state, SESSION[session.state][event]
        if before is SessionState.READY and event not in _COMMITTED:
            self.counters.unused += 1
        self.counters.states[_ENTERED[session.state]] += 1
        if session.state is SessionState.CLOSED:
            del self.open[session.number]
            self.slots[session.slot] = None

    def add(self, session: Session) -> None:
        """Open a new session."""
        self.move(session, SessionEvent.RESET_OPEN)
        self.open[session.number] = session
        self.slots[session.slot] = session
        self.last = session.number

    def count_discard(self, current: OpenRound, reason: str, error: RemoteProtocolError | None = None) -> None:
        """Count a round that is void, and tell of it."""
        self.counters.discards[reason] += 1
        if self._watch is not None:
            step = current.step
            self._watch(
                RoundDiscarded(
                    step.session, step.slot, step.generation, step.round, step.position, step.depth, current.rows,
                    reason, error,
                )
            )  # fmt: skip

    def count_drop(
        self, session: int, generation: int, round_: int, reason: str, error: RemoteProtocolError | None = None
    ) -> None:
        """Count a message that changes nothing, and tell of it."""
        self.counters.dropped[reason] += 1
        if self._watch is not None:
            self._watch(MessageDropped(session, generation, round_, reason, error))

    def tell_reset(self, reset: Reset) -> None:
        """Tell of a RESET that was applied."""
        if self._watch is not None:
            self._watch(SessionReset(reset.session, reset.slot, reset.generation, reset.position, reset.reason))

    def prefix(self, ids: npt.NDArray[np.int32]) -> CommittedPrefix:
        """A committed prefix of these ids."""
        return CommittedPrefix(ids, self.keep_ids)
