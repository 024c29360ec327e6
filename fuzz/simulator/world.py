"""One run: everything that one seed stands for, put together and stepped until every request has ended."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.simulator.callers import Client
from fuzz.simulator.clock import Clock, Log
from fuzz.simulator.invariants import Invariants
from fuzz.simulator.meddler import Meddler
from fuzz.simulator.network import Link
from fuzz.simulator.request import Request
from fuzz.simulator.scenario import FAMILIES, Scenario, draw
from fuzz.simulator.toys import toys
from fuzz.simulator.violation import Violation, violate
from fuzz.simulator.workers import Machine

__all__ = ["Outcome", "World", "run"]

_PATIENCE = 60.0
"""Virtual seconds from the end of all faults within which every request must end."""
_MOST_STEPS = 200_000


@dataclass(slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        seed: what it ran from.
        digest: of its event log.
        steps: things done; lines: of the log.
        seconds: of virtual time.
        rounds: STEPs.
        faults, rejects, discards, stats: counts by kind.
        invariant, detail: what is broken; None and empty if nothing is.
        texts: (length of its prompt, prompt and text) of every request.
    """

    seed: int
    digest: str = ""
    steps: int = 0
    lines: int = 0
    seconds: float = 0.0
    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    discards: Counter[str] = field(default_factory=Counter)
    stats: Counter[str] = field(default_factory=Counter)
    invariant: str | None = None
    detail: str = ""
    texts: list[tuple[int, list[int]]] = field(default_factory=list)


class World:
    """Everything in one process, on virtual time.

    Args:
        scenario: the shape and the faults.
        rng: the only source of chance.
        trace: called with every line of the log.
    """

    def __init__(self, scenario: Scenario, rng: random.Random, trace: Callable[[str], None] | None = None) -> None:
        self.scenario, self.rng = scenario, rng
        self.clock = Clock()
        self.log = Log(trace)
        self.toys = toys(scenario.vocab, scenario.model)
        self.faults: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self.discards: Counter[str] = Counter()
        self.stats: Counter[str] = Counter()
        self.rounds = self.steps = 0
        self._links: list[Link] = []
        self._numbers = 0
        self.meddler = Meddler(self)
        self.machine = Machine(self)
        self.check = Invariants(self)
        self.clients: list[Client] = []
        self.say(repr(scenario))
        for number in range(scenario.clients):
            requests = [self._request(number * scenario.requests + i) for i in range(scenario.requests)]
            self.clients.append(Client(self, number, requests))
        for kind in FAMILIES["machines"]:
            self._await(kind)

    def run(self) -> None:
        """Step until every request has ended and nothing is left to do. Raises Violation."""
        limit = self.scenario.calm_at + _PATIENCE
        while self.clock.step():
            self.check.after_step()
            self.steps += 1
            if self.steps > _MOST_STEPS or (self.clock.now > limit and not self.done):
                waiting = [r.number for c in self.clients for r in c.requests if not r.ended]
                violate(
                    "ends", f"after {self.steps} steps and {self.clock.now:.1f} s requests {waiting} have not ended"
                )
        if not self.done:
            violate("ends", "nothing is left to do, but requests have not ended")

    @property
    def done(self) -> bool:
        return all(client.done for client in self.clients)

    def say(self, text: str) -> None:
        """One line of the log."""
        self.log.write(self.clock.now, text)

    def chance(self, kind: str) -> bool:
        """Whether the fault `kind` happens here; counted. Never once the faults are over."""
        rate = self.scenario.rates.get(kind)
        if rate is None or self.clock.now >= self.scenario.calm_at or self.rng.random() >= rate:
            return False
        self.faults[kind] += 1
        self.say(f"fault: {kind}")
        return True

    def nonce(self) -> bytes:
        """16 bytes for a HELLO."""
        return self.rng.randbytes(16)

    def link(self) -> Link:
        """A new connection."""
        self._numbers += 1
        link = Link(self, self._numbers)
        self._links = [old for old in self._links if not (old.down.over and old.up.over)] + [link]
        return link

    def _request(self, number: int) -> Request:
        prompt = [self.rng.randrange(self.scenario.vocab) for _ in range(self.rng.randint(1, 3))]
        return Request(number, prompt, self.scenario.tokens, self.rng.getrandbits(64))

    # What happens to machines and connections, at any time.

    def _await(self, kind: str) -> None:
        rate = self.scenario.rates.get(kind)
        if rate is not None:
            self.clock.after(self.rng.expovariate(rate), self._strike, kind)

    def _strike(self, kind: str) -> None:
        if self.clock.now >= self.scenario.calm_at or self.done:
            return
        self.faults[kind] += 1
        self.say(f"fault: {kind}")
        if kind == "crash":
            self.machine.crash()
        elif kind == "stall":
            self.machine.stall()
        elif self._links:
            link = self.rng.choice(self._links)
            link.fault(kind)
            if kind == "cut":
                link.cut()
            else:
                self.rng.choice((link.down, link.up)).finish()
        self._await(kind)


def run(seed: int, trace: Callable[[str], None] | None = None, scenario: Scenario | None = None) -> Outcome:
    """Run one seed.

    Args:
        seed: everything follows from it.
        trace: called with every line of the event log.
        scenario: instead of the one that the seed draws.
    """
    rng = random.Random(seed)
    outcome = Outcome(seed)
    drawn = draw(rng)
    world = None
    try:
        world = World(drawn if scenario is None else scenario, rng, trace)
        world.run()
    except Violation as violation:
        outcome.invariant, outcome.detail = violation.name, violation.detail
    except Exception as error:
        # Nothing but what is caught where it belongs may come out of an end.
        where = traceback.extract_tb(error.__traceback__)[-1]
        outcome.invariant = "refused"
        outcome.detail = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
    if world is not None:
        outcome.digest, outcome.lines, outcome.seconds = world.log.digest(), world.log.lines, world.clock.now
        outcome.rounds, outcome.steps = world.rounds, world.steps
        outcome.faults, outcome.rejects = world.faults, world.rejects
        outcome.discards, outcome.stats = world.discards, world.stats
        outcome.texts = [(r.prompt, r.text) for c in world.clients for r in c.requests]
    return outcome
