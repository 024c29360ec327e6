"""The checks after every step: what the ends hold and say, against what the truth says that they may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fuzz.simulator.accounts import verifier_adds_up, worker_adds_up
from fuzz.simulator.line import Handle, Line
from fuzz.simulator.truth import SessionTruth
from fuzz.simulator.violation import violate
from fuzz.simulator.workers import Seat
from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import ConnectionState, ProposalReady, SessionState, TargetOnly
from pp1wire.wire._schema_v2 import Q_TOTAL

if TYPE_CHECKING:
    from fuzz.simulator.world import World

__all__ = ["Invariants"]


class Invariants:
    """Checks of one world. Every method raises Violation, or returns.

    What is held in memory is read after every step; an end's own state, which nothing but a call of it can change, after every
    step in which it was called.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def after_step(self) -> None:
        """All that must hold whenever nothing is being done."""
        for client in self._world.clients:
            for line in client.lines:
                self._line(line)
            for request in client.requests:
                if request.text != request.truth.text:
                    violate(
                        "committed", f"request {request.number} has {request.text}, committed are {request.truth.text}"
                    )
        for seat in self._world.machine.seats:
            self._seat(seat)

    # When something happens.

    def published(self, line: Line, event: ProposalReady) -> None:
        """A proposal is exactly what its STEP allows, and its whole answer has come."""
        proposal = event.proposal
        session = line.truth.sessions.get(event.session)
        if session is None or session.step is None or session.expected is None:
            violate("validated", f"{proposal!r} is published, but no round is open")
        step, expected = session.step, session.expected
        name = (proposal.session, proposal.slot, proposal.generation, proposal.round, proposal.position)
        if name != (step.session, step.slot, step.generation, step.round, step.position):
            violate("paired", f"{proposal!r} at {proposal.position} answers {step!r}")
        if name[:1] + name[2:4] not in line.truth.completed:
            violate("validated", f"{proposal!r} is published, but no honest COMPLETION of it was sent")
        if proposal.depth != step.depth:
            violate("validated", f"{proposal!r} is published with {proposal.depth} of {step.depth} rows")
        if proposal.tokens.tolist() != list(expected.tokens):
            violate(
                "paired", f"{proposal!r}: tokens {proposal.tokens.tolist()}, the tickets draw {list(expected.tokens)}"
            )
        for i, ((ids, counts), row) in enumerate(zip(proposal.rows(), expected.rows, strict=True)):
            if ids is None:
                dense = np.zeros(len(counts), np.int32)
                dense[row.ids] = row.counts
                same = np.array_equal(counts, dense)
            else:
                same = np.array_equal(ids, row.ids) and np.array_equal(counts, row.counts)
            if not same or int(counts.sum()) != Q_TOTAL:
                violate("paired", f"{proposal!r}: row {i} is not the q that its token was drawn from")

    def discarded(self, line: Line, event: TargetOnly) -> None:
        """Only what was touched is found wrong."""
        if event.reason not in _BLAMELESS and not event.reason.startswith("completion_") and line.link.clean:
            violate("blame", f"a round on an untouched connection is discarded for {event.reason}")

    def held_slots(self, line: Line, session: int | None = None) -> None:
        """A STEP or a new session may be refused only because consumers hold what it needs."""
        slots = {h.proposal.slot for h in line.handles if h.retained}
        if not slots or (session is not None and line.truth.sessions[session].slot not in slots):
            violate("slots", f"link {line.link.number} has no room, but consumers hold slots {sorted(slots)}")

    # Verifiers.

    def _line(self, line: Line) -> None:
        for handle in line.handles:
            _memory(handle)
            if line.touched:
                _readable(handle)
        if not line.touched:
            return
        line.touched = False
        verifier_adds_up(line)
        if not line.is_open:
            return
        live = line.end._live
        if live is None or line.end._pool is None:
            violate("refused", "an open connection without sessions")
        if list(live.sessions.open) != list(line.truth.sessions):
            violate("committed", f"open are {list(live.sessions.open)}, opened were {list(line.truth.sessions)}")
        for number, session in line.truth.sessions.items():
            own = live.sessions.open[number]
            if own.generation != session.generation:
                violate("rising", f"session {number} is in generation {own.generation}, sent was {session.generation}")
            if own.position != len(session.text):
                violate("committed", f"session {number} is at {own.position}, committed are {len(session.text)}")
            if own.state is SessionState.DRAFTING:
                _rows_are_honest(line, session, own.latest.tokens, own.latest.checksums)
        rounds = sum(s.step is not None for s in line.truth.sessions.values())
        consumers = sum(h.retained > 0 and not h.owned() for h in line.handles)
        if line.end._pool.held() != rounds + consumers:
            violate("slots", f"{line.end._pool.held()} buffers are held, by {rounds} rounds and {consumers} consumers")

    # Workers.

    def _seat(self, seat: Seat) -> None:
        if seat.closed or seat.end.state is not ConnectionState.OPEN:
            return
        if seat.touched:
            seat.touched = False
            self._worker(seat)
        if seat.link.quiet and seat.hears and seat.link.clean and seat.line.is_open:
            self._in_step(seat, seat.line)

    def _worker(self, seat: Seat) -> None:
        line = seat.line
        live = seat.end._live
        if live is None:
            violate("refused", "an open connection without sessions")
        for number, session in live.sessions.open.items():
            prefix = session.prefix.ids().tolist()
            truth = line.truth.all.get(number)
            if truth is None or not truth.prefix_fits(session.generation, prefix):
                text = None if truth is None else truth.texts.get(session.generation)
                violate("committed", f"the worker's session {number} holds {prefix}, committed were {text}")
            if seat.prefix.get(number) != prefix:
                violate(
                    "committed",
                    f"the worker's session {number} holds {prefix}, its events say {seat.prefix.get(number)}",
                )
        worker_adds_up(seat)

    def _in_step(self, seat: Seat, line: Line) -> None:
        """Nothing is on its way, so both hold the same."""
        if line.end.has_data_to_send or seat.end.has_data_to_send:
            return
        one, other = (
            [
                (s.number, s.slot, s.generation, s.round, s.state, s.prefix.digest())
                for s in end._live.sessions.open.values()
            ]
            for end in (line.end, seat.end)
            if end._live is not None
        )
        if sorted(one) != sorted(other):
            violate("in step", f"the verifier holds {sorted(one)}, the worker {sorted(other)}")


_BLAMELESS = ("deadline", "cancelled", "connection_lost", "consumer")


def _memory(handle: Handle) -> None:
    """What somebody holds is as it was."""
    if (handle.retained > 0 or handle.owned()) and handle.now() != handle.rows:
        violate("slots", f"{handle.proposal!r} is held, but its rows changed")


def _readable(handle: Handle) -> None:
    """What somebody holds can be read; what nobody holds cannot."""
    held = handle.retained > 0 or handle.owned()
    proposal = handle.proposal
    if proposal.live is not held:
        violate("slots", f"{proposal!r} is {'' if held else 'not '}held, but live is {proposal.live}")
    for read in (lambda: proposal.ids, lambda: proposal.q, proposal.rows):
        try:
            read()
        except LocalProtocolError:
            if held:
                violate("slots", f"{proposal!r} is held, but cannot be read")
        else:
            if not held:
                violate("validated", f"{proposal!r} can be read after its round")


def _rows_are_honest(line: Line, session: SessionTruth, tokens: list[int], checksums: list[int]) -> None:
    """Rows that count so far are those that an honest worker makes for this round, in their order."""
    if session.step is None or session.expected is None:
        violate("validated", f"session {session.number} drafts, but no round is open")
    if tuple(tokens) != session.expected.tokens[: len(tokens)]:
        violate("validated", f"rows with {tokens} passed, the tickets draw {session.expected.tokens}")
    honest = line.truth.honest.get((session.number, session.generation, session.step.round), [])
    if checksums != honest[: len(checksums)]:
        violate(
            "validated", f"a row passed that is not row of round {session.step.round}: {checksums}, honest {honest}"
        )
