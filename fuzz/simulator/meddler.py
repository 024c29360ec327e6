"""What callers do in the middle of a round: cancel, preempt, edit, change seeds, give up, and call what is not allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.simulator.ends import expect_refused
from fuzz.simulator.line import Line
from fuzz.simulator.scenario import FAMILIES
from pp1wire.protocol import SessionState
from pp1wire.wire import CommitKind

if TYPE_CHECKING:
    from fuzz.simulator.callers import Client
    from fuzz.simulator.request import Request
    from fuzz.simulator.world import World

__all__ = ["Meddler"]

KINDS = tuple(kind for kind in FAMILIES["callers"] if kind != "hold")


class Meddler:
    """Chooses when, and does it through the same calls that a program has."""

    def __init__(self, world: World) -> None:
        self._world = world

    def during(self, client: Client, request: Request) -> None:
        """A round begins: perhaps something happens in it, or soon after it."""
        world = self._world
        for kind in KINDS:
            if world.chance(kind):
                world.clock.after(world.rng.uniform(0, 0.02), self._do, kind, client, request)

    def _do(self, kind: str, client: Client, request: Request) -> None:
        if request.ended:
            return
        self._world.say(f"request {request.number}: {kind}")
        line = request.line
        if line is not None and line.over:
            line = None
        getattr(self, f"_{kind}")(client, request, line)
        if line is not None:
            line.pump()

    def _cancel(self, client: Client, request: Request, line: Line | None) -> None:
        generation = request.generation + 1 if line is None else line.end.cancel(request.session)
        client.given_up(request, generation)

    def _new_seed(self, client: Client, request: Request, line: Line | None) -> None:
        request.seed(self._world.rng.getrandbits(64))
        request.context += 1
        generation = request.generation + 1
        if line is not None:
            generation = line.end.cancel(
                request.session, proposal_seed=request.proposal_seed, context_version=request.context
            )
        client.given_up(request, generation)

    def _edit(self, client: Client, request: Request, line: Line | None) -> None:
        rng = self._world.rng
        text = [*request.text[: rng.randint(1, len(request.text))], rng.randrange(self._world.scenario.vocab)]
        if line is not None and len(text) > line.agreement.max_prefix:
            return
        request.text, request.truth.text = text, list(text)
        generation = request.generation + 1 if line is None else line.end.cancel(request.session, prefix_ids=text)
        client.given_up(request, generation)

    def _preempt(self, client: Client, request: Request, line: Line | None) -> None:
        client.leave(request)
        client.given_up(request, request.generation)
        client.wake(request, self._world.rng.uniform(0.02, 0.2))

    def _refuse(self, client: Client, request: Request, line: Line | None) -> None:
        if line is not None and (request.waiting or request.handle is not None):
            client.refuse(request, line)

    def _abandon(self, client: Client, request: Request, line: Line | None) -> None:
        client.finish(request, "abandoned")

    def _hang_up(self, client: Client, request: Request, line: Line | None) -> None:
        if line is not None:
            line.hang_up()

    def _misuse(self, client: Client, request: Request, line: Line | None) -> None:
        if line is None:
            return
        end, session, now, vocab = line.end, request.session, self._world.clock.now, self._world.scenario.vocab
        state = end.session_state(session)
        text = request.text
        calls = {
            "a session that was never opened": lambda: end.step(session + 1000, now),
            "a seed of 65 bits": lambda: end.cancel(session, proposal_seed=1 << 64),
            "an id outside the vocabulary": lambda: end.cancel(session, prefix_ids=[*text[:1], vocab]),
            "a prefix that is too long": lambda: end.cancel(session, prefix_ids=[1] * (line.agreement.max_prefix + 1)),
            "an unknown reason": lambda: end.discard(session, "mood"),
        }
        if state is not SessionState.IDLE:
            calls["a second STEP"] = lambda: end.step(session, now, depth=1)
            calls["a target-only token in an open round"] = lambda: end.target_only(session, 1)
        if state is not SessionState.READY:
            calls["a COMMIT without a proposal"] = lambda: end.commit(session, 0, CommitKind.CORRECTION, [1])
        elif request.handle is not None:
            drafted = request.handle.proposal.tokens.tolist()
            wrong = [(drafted[0] + 1) % vocab, *drafted[1:]]
            calls["another token than was drafted"] = lambda: end.commit(
                session, len(drafted), CommitKind.BONUS, [*wrong, 1]
            )
            calls["a bonus behind a rejection"] = lambda: end.commit(session, 0, CommitKind.BONUS, [1])
        what = self._world.rng.choice(list(calls))
        expect_refused(end, what, calls[what])
