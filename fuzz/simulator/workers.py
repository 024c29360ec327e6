"""The worker's machine: it drafts, late or twice or not at all; it stalls, dies and comes back; sometimes it lies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from fuzz.simulator.ends import expect_refused, greeting
from fuzz.simulator.lies import forged
from fuzz.simulator.line import Line
from fuzz.simulator.outbox import Outbox
from fuzz.simulator.scenario import FAMILIES
from fuzz.simulator.toys import Expected
from fuzz.simulator.truth import Tally, identity_of
from fuzz.simulator.violation import violate
from pp1wire.protocol import Agreed, Closed, Committed, ConnectionState, Draft, Ended, Opened, Refused, ResetTo, Worker
from pp1wire.wire import CommitKind, CompletionStatus, HelloRole, MessageType, RemoteProtocolError, Step

if TYPE_CHECKING:
    from fuzz.simulator.world import World

__all__ = ["Machine", "Seat"]

LIES = tuple(FAMILIES["lies"])
_FAILURES = tuple(s for s in CompletionStatus if s is not CompletionStatus.OK)
_DRAFTING = (0.0005, 0.01)
_DOWN = (0.05, 0.4)
_STALL = (0.02, 0.8)


class Seat:
    """One connection at the machine.

    Attributes:
        end: the real Worker.
        prefix: what a draft model would hold for each session, from the events.
        received, taken: bytes given to the end, and taken from it.
        touched: whether anything was done with the end since it was checked.
        tally: what its events amount to.
    """

    def __init__(self, world: World, machine: Machine, line: Line) -> None:
        self._world, self._machine, self.line, self.link = world, machine, line, line.link
        link = line.link
        draining = world.chance("draining")
        if draining:
            link.fault("draining")
        own = greeting(world.scenario, HelloRole.ANSWER, world.nonce(), **_capacities(world))
        self.end = Worker(own, prefer=world.scenario.representation, draining=draining)
        self.outbox = Outbox(world, link, link.up, line.truth.worker_made, line.truth.worker_sent)
        self.prefix: dict[int, list[int]] = {}
        self.generations: dict[int, int] = {}
        self.received = self.taken = 0
        self.touched = True
        self.tally = Tally()
        self.end.watch = self.tally.hear
        self.closed = False
        self._waiting: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._waking = False
        link.down.connect(self.hear, self.hear_end)

    @property
    def hears(self) -> bool:
        """Whether everything that came was taken in; while the machine stalls, it was not."""
        return not self._waiting

    def hear(self, data: bytes) -> None:
        """Bytes from the verifier."""
        if self._away(self.hear, data):
            return
        self.received += len(data)
        try:
            events = self.end.receive(data)
        except RemoteProtocolError as error:
            self._failed(error)
            self.pump()
            return
        for event in events:
            self._happened(event)
        if self.end.error is not None:
            self._failed(self.end.error)
        self.pump()

    def hear_end(self) -> None:
        """The verifier sends no more."""
        if self._away(self.hear_end):
            return
        try:
            self.end.eof()
        except RemoteProtocolError as error:
            self._failed(error)
        self.pump()

    def pump(self) -> None:
        """Send what the end has queued; close what is over."""
        self.touched = True
        data = self.end.data_to_send()
        if data:
            self.taken += len(data)
            self.outbox.put(data, self.end.agreement)
        if self.end.state in (ConnectionState.ENDED, ConnectionState.FAILED):
            self.closed = True
            self.link.up.finish()

    def die(self) -> None:
        """The machine is gone, and everything in its memory."""
        self.closed = True
        self.link.fault("crash")
        self.link.cut()

    def _away(self, call: Callable[..., None], *arguments: object) -> bool:
        """Whether nobody is there to hear; what comes while the machine stalls waits, in its order."""
        if self.closed:
            return True
        if not self._waking and (self._waiting or self._machine.stalled):
            self._waiting.append((call, arguments))
            if len(self._waiting) == 1:
                self._wake()
            return True
        return False

    def _wake(self) -> None:
        if self._machine.stalled:
            self._world.clock.at(self._machine.stalled_until, self._wake)
            return
        self._waking = True
        while self._waiting and not self.closed:
            call, arguments = self._waiting.popleft()
            call(*arguments)
        self._waking = False
        self._waiting.clear()

    def _failed(self, error: RemoteProtocolError) -> None:
        self._world.say(f"link {self.link.number} worker refuses: {error.code.name}")
        self._world.rejects[error.code.name.lower()] += 1
        if self.link.clean:
            violate("blame", f"the worker refuses an untouched connection: {error}")

    # Events.

    def _happened(self, event: object) -> None:
        tally = self.tally
        if isinstance(event, Agreed):
            return
        if isinstance(event, Opened):
            self.prefix[event.session] = event.prefix_ids.tolist()
            self.generations[event.session] = event.generation
            tally.opens += 1
        elif isinstance(event, ResetTo):
            self.prefix[event.session] = event.prefix_ids.tolist()
            self.generations[event.session] = event.generation
            tally.resets += 1
        elif isinstance(event, Committed):
            commit = event.commit
            self.prefix[event.session] = self.prefix[event.session] + commit.tokens.tolist()
            tally.tokens += len(commit.tokens)
            alone = commit.kind is CommitKind.TARGET_ONLY
            tally.target_only += alone
            tally.commits += not alone
            tally.stops += commit.kind is CommitKind.NONE
        elif isinstance(event, Closed):
            del self.prefix[event.session]
            tally.closes += 1
        elif isinstance(event, Draft):
            tally.steps += 1
            self._draft(event.step)
        elif not isinstance(event, Refused | Ended):
            violate("refused", f"an event of another end: {event!r}")

    # Answers.

    def _draft(self, step: Step) -> None:
        world, rng = self._world, self._world.rng
        prefix = self.prefix[step.session]
        honest = world.toys.expected(
            prefix[-1],
            step.position,
            step.depth,
            step.temperature,
            step.support,
            step.proposal_seed,
            step.generation,
            step.round,
        )
        delay = rng.uniform(*_DRAFTING)
        if world.chance("never"):
            return
        if world.chance("late"):
            delay = world.scenario.step_timeout * rng.uniform(0.8, 2.5)
        for kind in LIES:
            if world.chance(kind):
                world.clock.after(delay, self._lie, kind, step, honest)
                return
        if world.chance("gave_up"):
            world.clock.after(delay, self._rows, step, honest, 0, rng.randint(0, step.depth), rng.choice(_FAILURES))
        elif rng.random() < 0.25:
            world.clock.after(delay, self._rows, step, honest, 0, step.depth, CompletionStatus.OK)
        else:
            world.clock.after(delay, self._answer, step, honest)

    def _answer(self, step: Step, honest: Expected) -> None:
        if self._away(self._answer, step, honest) or self._over():
            return
        rows = [(row.ids, row.counts) for row in honest.rows]
        awaited, late = self.end.awaits(step), self.end.counters.dropped["late_answer"]
        sent = self.end.reply(step, honest.tokens, rows)
        if sent is not awaited or self.end.has_data_to_send is not awaited:
            violate("refused", f"an answer that is {'' if awaited else 'not '}awaited was {'' if sent else 'not '}sent")
        if not awaited and self.end.counters.dropped["late_answer"] != late + 1:
            violate("counters", "a late answer is not counted")
        self.pump()
        if sent and self._world.chance("answered_twice"):
            if self.end.reply(step, honest.tokens, rows) or self.end.has_data_to_send:
                violate("refused", "a second answer was sent")
            # A worker without that check would send this.
            name = (step.session, step.generation, step.round)
            again = [f for f in self.outbox.history(MessageType.REPLY) if identity_of(f) == name]
            again += [f for f in self.outbox.history(MessageType.COMPLETION) if identity_of(f) == name]
            self.outbox.forge(again, "answered_twice")

    def _rows(self, step: Step, honest: Expected, at: int, until: int, status: CompletionStatus) -> None:
        """One row after another, then the end of the round."""
        if self._away(self._rows, step, honest, at, until, status) or self._over():
            return
        if at < until:
            row = honest.rows[at]
            self.end.reply_row(step, honest.tokens[at], row.ids, row.counts)
        elif status is CompletionStatus.OK:
            self.end.complete(step)
        else:
            self.end.fail(step, status)
        if at < until and self.end.awaits(step):
            if at + 1 < step.depth:
                expect_refused(self.end, "a COMPLETION before its rows", lambda: self.end.complete(step))
            delay = self._world.rng.uniform(*_DRAFTING) / 2
            self._world.clock.after(delay, self._rows, step, honest, at + 1, until, status)
        self.pump()

    def _lie(self, kind: str, step: Step, honest: Expected) -> None:
        agreement = self.end.agreement
        if self._away(self._lie, kind, step, honest) or self._over() or agreement is None:
            return
        lie = forged(kind, self._world.rng, self._world.toys, self.outbox, agreement, step, honest)
        if lie is None:
            self._world.faults[kind] -= 1
            self._answer(step, honest)
            return
        frames, truthful = lie
        # Up to where it lies, a liar's rows are an honest worker's.
        self.line.truth.worker_would_make(truthful)
        self.outbox.forge(frames, kind)

    def _over(self) -> bool:
        return self.end.state is not ConnectionState.OPEN


class Machine:
    """Where workers run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.seats: list[Seat] = []
        self.up = True
        self.stalled_until = 0.0

    @property
    def stalled(self) -> bool:
        """Whether it does nothing now."""
        return self.stalled_until > self._world.clock.now

    def accept(self, line: Line) -> None:
        """Take a connection; nobody listens while the machine is down."""
        self.seats = [seat for seat in self.seats if not seat.closed]
        self.seats.append(Seat(self._world, self, line))

    def crash(self) -> None:
        """Die, and come back a little later with no memory."""
        if not self.up:
            return
        self.up = False
        for seat in self.seats:
            if not seat.closed:
                seat.die()
        self.seats.clear()
        self._world.clock.after(self._world.rng.uniform(*_DOWN), self._restart)

    def stall(self) -> None:
        """Hear and do nothing for a while."""
        self.stalled_until = max(self.stalled_until, self._world.clock.now + self._world.rng.uniform(*_STALL))

    def _restart(self) -> None:
        self.up = True
        self._world.say("worker restarts")


def _capacities(world: World) -> dict[str, int]:
    """Now and then a worker has less room than it is asked for."""
    rng, scenario = world.rng, world.scenario
    if rng.random() < 0.75:
        return {}
    return {"max_slots": rng.randint(1, scenario.slots), "max_depth": rng.randint(1, scenario.depth)}
