"""A caller's connection: the real Verifier, and what it holds, counted beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fuzz.simulator.ends import greeting
from fuzz.simulator.network import Link
from fuzz.simulator.outbox import Outbox
from fuzz.simulator.ranks import Team
from fuzz.simulator.truth import LineTruth, RequestTruth, SessionTruth
from fuzz.simulator.violation import violate
from pp1wire.protocol import ConnectionState, Proposal, ProposalReady, Verifier, VerifierEvent
from pp1wire.sampling import Key, Verdict, verify_grid
from pp1wire.wire import Agreement, HelloRole, RemoteProtocolError

if TYPE_CHECKING:
    from fuzz.simulator.world import World

__all__ = ["Handle", "Line"]

_HELLO_TIMEOUT = 0.5
_GONE = 6
_BUFFER = 1 << 14


@dataclass(slots=True)
class Handle:
    """A proposal that was published, and what its rows were then."""

    proposal: Proposal
    session: SessionTruth
    rows: bytes
    retained: int = 0

    def owned(self) -> bool:
        """Whether its round is still open."""
        step = self.session.step
        key = (self.proposal.generation, self.proposal.round)
        return step is not None and (step.generation, step.round) == key

    def release(self) -> None:
        """One consumer is done."""
        self.retained -= 1
        self.proposal.release()


class Line:
    """One connection of a caller.

    Attributes:
        end: the real Verifier.
        handles: proposals that can be read, and a few that no longer can.
        received, taken: bytes given to the end, and taken from it.
        touched: whether anything was done with the end since it was checked.
        over: whether the connection is of no more use to the caller.

    Args:
        hear: told of every event of the end.
        lost: told once that the connection is over.
    """

    def __init__(
        self, world: World, link: Link, hear: Callable[[Line, VerifierEvent], None], lost: Callable[[Line], None]
    ) -> None:
        self._world, self.link = world, link
        self._hear_event, self._lost = hear, lost
        self.owners: dict[int, RequestTruth] = {}
        self.truth = LineTruth(world.toys, self.owners)
        # Room of the caller's own, shared or pinned memory say, or the end's.
        buffer = bytearray(_BUFFER) if world.rng.random() < 0.3 else None
        self.end = Verifier(
            greeting(world.scenario, HelloRole.OFFER, world.nonce()),
            buffer=buffer,
            hello_timeout=_HELLO_TIMEOUT,
            step_timeout=world.scenario.step_timeout,
        )
        self.end.watch = self.truth.tally.hear
        self.outbox = Outbox(world, link, link.down, self.truth.verifier_made)
        self.handles: list[Handle] = []
        self.received = self.taken = 0
        self.touched = True
        self.over = False
        self._timer = float("inf")
        self._team: Team | None = None
        link.up.connect(self.hear, self.hear_end)
        self.end.start(world.clock.now)

    @property
    def is_open(self) -> bool:
        return self.end.state is ConnectionState.OPEN

    @property
    def agreement(self) -> Agreement:
        """What both ends agreed on; there is one as soon as there is a session."""
        agreement = self.end.agreement
        if agreement is None:
            raise RuntimeError(f"link {self.link.number} has no agreement yet")
        return agreement

    def hear(self, data: bytes) -> None:
        """Bytes from the worker."""
        if self.over:
            return
        # A HELLO that comes after its deadline is not read at all.
        before = self.end.counters.bytes_received
        try:
            events = self.end.receive(data, self._world.clock.now)
        except RemoteProtocolError as error:
            self.received += len(data)
            self._failed(error)
            return
        self.received += len(data) if self.end.counters.bytes_received != before else 0
        self._happened(events)
        if self.end.error is not None:
            self._failed(self.end.error)
        self.pump()

    def hear_end(self) -> None:
        """The worker sends no more."""
        if self.over:
            return
        try:
            self.end.eof()
        except RemoteProtocolError as error:
            self._failed(error)
        self.pump()

    def hang_up(self) -> None:
        """Close the connection from this side."""
        if not self.over:
            self.end.end()
            self.pump()

    def pump(self) -> None:
        """Send what the end has queued, wait for its next deadline, close what is over."""
        self.touched = True
        if self.truth.agreement is None:
            self.truth.agreement = self.end.agreement
        data = self.end.data_to_send()
        if data:
            self.taken += len(data)
            self.outbox.put(data, self.end.agreement)
        deadline = self.end.next_deadline()
        if deadline is not None and deadline != self._timer:
            self._timer = deadline
            self._world.clock.at(deadline, self._tick, deadline)
        if self.end.state in (ConnectionState.ENDED, ConnectionState.FAILED) and not self.over:
            self.over = True
            self.truth.ends()
            self.link.down.finish()
            self._lost(self)

    def ready(self, event: ProposalReady) -> Handle:
        """Take in a proposal, as its first consumer would."""
        proposal = event.proposal
        session = self.truth.sessions[event.session]
        handle = Handle(proposal, session, proposal.ids.tobytes() + proposal.q.tobytes())
        self.handles.append(handle)
        session.ready = True
        self.truth.tally.ready += 1
        return handle

    def verdict(self, proposal: Proposal, seed: int, grids: npt.NDArray[np.int64], key: Key) -> Verdict | None:
        """What comes of a proposal over the target's laws; None if it must be discarded."""
        if self._world.scenario.ranks == 1:
            return verify_grid(grids, proposal.rows(), proposal.tokens, key).verdict
        if self._team is None or self._team.over:
            self._team = Team(self._world, self.agreement)
        return self._team.verdict(proposal, seed, grids, key)

    def forget(self) -> None:
        """Keep only a few handles of proposals that are gone."""
        gone = [h for h in self.handles if not h.retained and not h.owned()]
        for handle in gone[:-_GONE]:
            self.handles.remove(handle)

    def _tick(self, deadline: float) -> None:
        if self._timer == deadline:
            self._timer = float("inf")
        if self.over:
            return
        self._happened(self.end.check_deadlines(self._world.clock.now))
        self.pump()

    def _happened(self, events: list[VerifierEvent]) -> None:
        for event in events:
            self._hear_event(self, event)

    def _failed(self, error: RemoteProtocolError) -> None:
        self._world.say(f"link {self.link.number} verifier refuses: {error.code.name}")
        self._world.rejects[error.code.name.lower()] += 1
        if self.link.clean:
            violate("blame", f"the verifier refuses an untouched connection: {error}")
        self.pump()
