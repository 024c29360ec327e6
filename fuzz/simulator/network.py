"""The network: bytes come late, in other pieces, and some of them wrong, twice or never.

Each direction of a connection keeps its own order, as TCP does; different directions and connections overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from fuzz.simulator.world import World

__all__ = ["Link", "Pipe"]

_LATENCY = (0.0005, 0.004)
_DELAY = (0.02, 0.6)
_TOGETHER = 0.4


class Pipe:
    """One direction of a connection.

    Attributes:
        accepted, delivered: bytes taken from the sender, and given to the receiver.
        in_flight: pieces on their way.
        altered: whether any byte between was lost, added or changed.
    """

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._free_at = 0.0
        self._open = True
        self._hear: Callable[[bytes], None] = _nobody
        self._hear_end: Callable[[], None] = _nothing
        self.accepted = self.delivered = self.in_flight = 0
        self._waiting = b""
        self.altered = False
        self.over = False

    def connect(self, hear: Callable[[bytes], None], hear_end: Callable[[], None]) -> None:
        """Who receives the bytes, and is told when no more will come."""
        self._hear, self._hear_end = hear, hear_end

    def send(self, data: bytes) -> None:
        """Take bytes from the sender. After the end they go nowhere, as with a socket whose peer is gone."""
        self.accepted += len(data)
        for piece in self._pieces(data):
            if not self._open:
                return
            self._carry(piece)

    def finish(self) -> None:
        """The sender is done: the receiver hears of it behind the last byte."""
        if self._open:
            self._open = False
            self._world.clock.at(self._time(), self._end)

    def cut(self) -> None:
        """The connection breaks: what is on its way is lost, and the receiver hears the end."""
        if not self.over:
            self.altered = True
            self._open = False
            self.over = True
            self._world.clock.after(0.001, self._hear_end)

    def _pieces(self, data: bytes) -> list[bytes]:
        rng = self._world.rng
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 0, 1, 2))))
        bounds = [0, *cuts, len(data)]
        return [data[a:b] for a, b in pairwise(bounds) if a < b]

    def _carry(self, piece: bytes) -> None:
        world = self._world
        if world.chance("flip"):
            at = world.rng.randrange(len(piece) * 8)
            changed = bytearray(piece)
            changed[at // 8] ^= 1 << at % 8
            self._alter(bytes(changed))
        elif world.chance("bytes_lost"):
            at = world.rng.randrange(len(piece))
            self._alter(piece[:at] + piece[at + world.rng.randint(1, len(piece)) :])
        elif world.chance("bytes_twice"):
            self._alter(piece + piece[-world.rng.randint(1, len(piece)) :])
        elif world.chance("truncate"):
            self._alter(piece[: world.rng.randrange(len(piece))])
            self.finish()
        else:
            self._deliver_later(piece)

    def _alter(self, piece: bytes) -> None:
        self.altered = True
        self._deliver_later(piece)

    def _deliver_later(self, piece: bytes) -> None:
        self.in_flight += 1
        self._world.clock.at(self._time(), self._arrive, piece)

    def _time(self) -> float:
        world = self._world
        late = world.rng.uniform(*_DELAY) if world.chance("delay") else 0.0
        # Never before the piece in front of it.
        self._free_at = max(self._free_at, world.clock.now + world.rng.uniform(*_LATENCY) + late)
        return self._free_at

    def _arrive(self, piece: bytes) -> None:
        self.in_flight -= 1
        if self.over:
            return
        self._waiting += piece
        # What comes close together is often read together, so that one read holds the rows of several sessions.
        if self.in_flight and self._world.rng.random() < _TOGETHER:
            return
        self._read()

    def _read(self) -> None:
        data, self._waiting = self._waiting, b""
        if data:
            self.delivered += len(data)
            self._world.say(f"{self._name} {len(data)} bytes {xxhash.xxh32_hexdigest(data)}")
            self._hear(data)

    def _end(self) -> None:
        if not self.over:
            self._read()
            self.over = True
            self._world.say(f"{self._name} ends")
            self._hear_end()


class Link:
    """A connection: a pipe each way."""

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.down = Pipe(world, f"link {number} to worker")
        self.up = Pipe(world, f"link {number} to verifier")
        self.faults: dict[str, int] = {}
        """Faults of messages, lies and machines on this connection, by kind."""

    @property
    def clean(self) -> bool:
        """Whether nothing on this connection was touched, so that neither end may find anything wrong."""
        return not (self.down.altered or self.up.altered or self.faults)

    @property
    def quiet(self) -> bool:
        """Whether nothing is on its way."""
        return not (self.down.in_flight or self.up.in_flight or self.down.over or self.up.over)

    def fault(self, kind: str) -> None:
        """Note that `kind` happened here."""
        self.faults[kind] = self.faults.get(kind, 0) + 1

    def cut(self) -> None:
        """Break both directions."""
        self.down.cut()
        self.up.cut()


def _nobody(_: bytes) -> None:
    return None


def _nothing() -> None:
    return None
