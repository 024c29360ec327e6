"""Callers: they keep the text of their requests, ask for proposals, verify and commit them, and go on alone without a worker.

This is what a program that serves a model does (`pp1wire.net.Request` is the product's), without its sockets and tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.simulator.line import Handle, Line
from fuzz.simulator.request import Request
from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Agreed, Ended, ProposalReady, TargetOnly, VerifierEvent
from pp1wire.sampling import Key, Verdict, VerdictKind
from pp1wire.sampling.philox import Domain, below
from pp1wire.wire import CommitKind, Representation

if TYPE_CHECKING:
    from fuzz.simulator.world import World

__all__ = ["Client"]

_THINK = (0.0, 0.002)
_VERIFY = (0.001, 0.01)
_REDIAL = 0.03
STOP = 0


class Client:
    """One caller's process: its requests, and one connection at a time."""

    def __init__(self, world: World, number: int, requests: list[Request]) -> None:
        self._world = world
        self.number = number
        self.requests = requests
        self.line: Line | None = None
        self.lines: list[Line] = []
        """Connections that still matter: the latest, and those whose proposals are held."""
        self._dial()
        for request in requests:
            self.wake(request)

    @property
    def done(self) -> bool:
        return all(request.ended for request in self.requests)

    # The connection.

    def _dial(self) -> None:
        if self.done:
            return
        world = self._world
        link = world.link() if world.machine.up else None
        if link is None:
            world.clock.after(_REDIAL, self._dial)
            return
        self.line = Line(world, link, self._happened, self._lost)
        self.lines = [line for line in self.lines if any(h.retained for h in line.handles)] + [self.line]
        world.machine.accept(self.line)
        world.say(f"client {self.number} connects, link {link.number}")
        self.line.pump()

    def _lost(self, line: Line) -> None:
        for request in self.requests:
            if request.line is line:
                request.line, request.session, request.waiting = None, 0, False
                request.advance(request.generation + 1)
                self.wake(request)
        if self.line is line:
            self.line = None
            self._world.clock.after(_REDIAL, self._dial)

    def _happened(self, line: Line, event: VerifierEvent) -> None:
        world = self._world
        if isinstance(event, Agreed):
            return
        if isinstance(event, Ended):
            world.say(f"link {line.link.number} ended: {event.reason}")
            return
        if not line.is_open:
            # Events before the error that ended the connection: what they tell of is gone with it.
            if isinstance(event, ProposalReady):
                line.truth.tally.ready += 1
                line.truth.tally.ready_lost += 1
            return
        request = next(r for r in self.requests if r.line is line and r.session == event.session)
        if isinstance(event, ProposalReady):
            world.check.published(line, event)
            request.waiting = False
            request.round = event.proposal.round
            request.handle = handle = line.ready(event)
            handle.proposal.retain()
            handle.retained += 1
            world.say(f"request {request.number} has {event.proposal!r} {event.proposal.tokens.tolist()}")
            world.clock.after(world.rng.uniform(*_VERIFY), self._decide, request, handle, line)
        elif isinstance(event, TargetOnly):
            world.check.discarded(line, event)
            world.discards[event.reason] += 1
            world.say(f"request {request.number} lost its round: {event.reason}")
            self.given_up(request, event.generation)

    # Rounds.

    def wake(self, request: Request, delay: float | None = None) -> None:
        """Let a request go on; earlier wakes of it are void."""
        request.turn += 1
        pause = self._world.rng.uniform(*_THINK) if delay is None else delay
        self._world.clock.after(pause, self._turn, request, request.turn)

    def given_up(self, request: Request, generation: int) -> None:
        """The open round of a request is over without a COMMIT; it is in a new generation."""
        request.waiting, request.handle = False, None
        request.advance(generation)
        self.wake(request)

    def _turn(self, request: Request, turn: int) -> None:
        if request.ended or turn != request.turn or request.waiting or request.handle is not None:
            return
        line = self.line
        if line is not None and line.is_open and (request.line is line or self._open_on(request, line)):
            self._round(request, line)
        elif self._world.rng.random() < 0.3:
            self._alone(request)
        else:
            self.wake(request, 0.02)

    def _open_on(self, request: Request, line: Line) -> bool:
        if len(line.end.open_sessions) >= line.agreement.max_slots:
            return False
        if len(request.text) >= line.agreement.max_prefix:
            return False
        if request.round or request.truth.generation >= request.generation:
            request.advance(request.generation + 1)
        try:
            session = line.end.open(request.text, request.proposal_seed, request.context, generation=request.generation)
        except LocalProtocolError:
            # Both halves of the only free slot may still be held by a consumer of the session before.
            self._world.check.held_slots(line)
            return False
        request.line, request.session = line, session
        line.owners[session] = request.truth
        return True

    def _round(self, request: Request, line: Line) -> None:
        world, rng, agreement = self._world, self._world.rng, line.agreement
        depth = rng.randint(1, agreement.max_depth)
        if len(request.text) + depth + 1 > agreement.max_prefix:
            self.leave(request)
            self._alone(request)
            return
        if rng.random() < 0.1:
            self._alone(request)
            line.pump()
            return
        dense = agreement.representation is Representation.DENSE
        try:
            round_ = line.end.step(
                request.session, world.clock.now, depth=depth, temperature=rng.choice((0.7, 1.0)),
                support=None if dense else rng.randint(1, agreement.max_support),
            )  # fmt: skip
        except LocalProtocolError:
            world.check.held_slots(line, request.session)
            self.wake(request, 0.01)
            return
        world.rounds += 1
        request.waiting = True
        request.round = round_
        line.pump()
        world.meddler.during(self, request)

    def _decide(self, request: Request, handle: Handle, line: Line) -> None:
        """Verify and commit; a consumer that was overtaken by a RESET reads its rows all the same, and lets go."""
        if request.handle is handle:
            proposal = handle.proposal
            key = Key(request.verification_seed, proposal.generation, proposal.round, proposal.position)
            last, drafted = request.text[-1], tuple(proposal.tokens.tolist())
            grids = self._world.toys.grids(proposal.position, last, drafted)
            verdict = line.verdict(proposal, request.proposal_seed, grids, key)
            if verdict is not None:
                request.truth.coins(proposal.generation, proposal.round)
                self._commit(request, handle, verdict)
            else:
                self.refuse(request, line)
        handle.release()
        line.forget()
        if request.line is not None:
            request.line.pump()

    def refuse(self, request: Request, line: Line) -> None:
        """A consumer on this side cannot use the open round."""
        if line.over:
            self.given_up(request, request.generation)
            return
        for event in line.end.discard(request.session):
            self._happened(line, event)

    def _commit(self, request: Request, handle: Handle, verdict: Verdict) -> None:
        world, proposal = self._world, handle.proposal
        tokens = [*proposal.tokens[: verdict.accepted].tolist(), verdict.token]
        kept, ended = self._kept(request, tokens)
        kind = CommitKind.BONUS if verdict.kind is VerdictKind.BONUS else CommitKind.CORRECTION
        if kept <= verdict.accepted:
            kind = CommitKind.NONE
        accepted = min(kept, verdict.accepted)
        line = request.line
        if line is not None and not line.over:
            line.end.commit(request.session, accepted, kind, tokens[:kept], raw_accepted=verdict.accepted)
            line.truth.tally.accepted += verdict.accepted
        else:
            request.truth.text = request.truth.text + tokens[:kept]
        world.stats["proposals verified"] += 1
        world.stats["tokens accepted"] += accepted
        world.stats["tokens rejected"] += verdict.kind is VerdictKind.CORRECTION
        request.handle = None
        self._grew(request, tokens[:kept], ended)
        if world.chance("hold"):
            handle.proposal.retain()
            handle.retained += 1
            world.clock.after(world.rng.uniform(*_VERIFY) * 4, self._let_go, handle)

    def _let_go(self, handle: Handle) -> None:
        handle.release()

    def _alone(self, request: Request) -> None:
        """One token of the target alone."""
        world = self._world
        position, round_ = len(request.text), request.round + 1
        grid = world.toys.grid(position, request.text[-1])
        request.truth.coins(request.generation, round_)
        ticket = below(
            int(grid.sum()), request.verification_seed, request.generation, round_, position, Domain.TARGET_ONLY
        )
        token = int((grid.cumsum() <= ticket).sum())
        line = request.line
        if line is not None and not line.over and position >= line.agreement.max_prefix:
            self.leave(request)
            line = None
        if line is not None and not line.over:
            line.end.target_only(request.session, token)
        else:
            request.truth.text = [*request.truth.text, token]
        request.round = round_
        world.stats["target-only tokens"] += 1
        kept, ended = self._kept(request, [token])
        self._grew(request, [token][:kept], ended)

    def _kept(self, request: Request, tokens: list[int]) -> tuple[int, str]:
        """How many of these tokens are kept, and why the request ends with them if it does."""
        stops = self._world.scenario.stop
        for index, token in enumerate(tokens, 1):
            if stops and token == STOP:
                return index, "stop"
            if index == request.left:
                return index, "length"
        return len(tokens), ""

    def _grew(self, request: Request, tokens: list[int], ended: str) -> None:
        request.text += tokens
        request.left -= len(tokens)
        self._world.say(f"request {request.number} commits {tokens} {ended}")
        if ended:
            self.finish(request, ended)
        else:
            # Without a pause the next STEP travels in the same write as this COMMIT.
            self.wake(request, 0.0 if self._world.rng.random() < 0.3 else None)

    def leave(self, request: Request) -> None:
        """Close the request's session, if there is one."""
        line = request.line
        if line is not None and not line.over:
            line.end.close(request.session)
            request.advance(request.generation + 1)
            line.pump()
        request.line, request.session, request.waiting = None, 0, False

    def finish(self, request: Request, why: str) -> None:
        """The request ends."""
        self.leave(request)
        request.ended, request.handle = why, None
        self._world.stats[f"requests ended: {why}"] += 1
        if self.done and self.line is not None:
            self.line.hang_up()
