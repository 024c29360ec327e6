"""Which fault comes when: everything follows from a seed, the number of the connection and the direction."""

from __future__ import annotations

import random
from dataclasses import dataclass

CUTS = ("rst", "fin", "half_close")
KINDS = (*CUTS, "stall", "corrupt", "throttle")


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong in one direction.

    Attributes:
        kind: rst (both directions are reset), fin (both are ended), half_close (this direction is ended, the other goes on),
            stall (nothing passes for `seconds`), corrupt (a bit is flipped), throttle (the next `length` bytes pass one a write).
        at: byte of this direction, from the connection's first.
        length: bytes; of a throttle.
        seconds: of a stall.
        bit: of the byte that is corrupted.
    """

    kind: str
    at: int
    length: int = 0
    seconds: float = 0.0
    bit: int = 0


class Plan:
    """Faults for one proxy.

    Args:
        seed: of everything.
        every: bytes between two faults of a direction, on average.
        kinds: that come.
        longest_stall: seconds.
    """

    def __init__(self, seed, *, every=20_000, kinds=KINDS, longest_stall=1.0):
        self.seed, self.every, self.kinds, self.longest_stall = seed, every, tuple(kinds), longest_stall

    def faults(self, connection, direction):
        """Endless faults of one direction ("up": of the verifier, "down": of the worker) of a connection, in order."""
        rng = random.Random(f"{self.seed}/{connection}/{direction}")
        # One connection in eight is already hit in its HELLO, whose frames have some 300 bytes.
        at = rng.randrange(300) if rng.random() < 0.125 else 1 + int(rng.expovariate(1 / self.every))
        while True:
            kind = rng.choice(self.kinds)
            fault = Fault(
                kind, at, length=rng.randrange(1, 600), bit=rng.randrange(8),
                seconds=rng.uniform(0.05, self.longest_stall) if kind == "stall" else 0.0,
            )  # fmt: skip
            yield fault
            at += (fault.length if kind == "throttle" else 1) + int(rng.expovariate(1 / self.every))


class Calm:
    """No faults."""

    def faults(self, connection, direction):
        return iter(())


class Once:
    """These faults, on the first connection alone: {"up": [...], "down": [...]}."""

    def __init__(self, **faults):
        self._faults = faults

    def faults(self, connection, direction):
        return iter(self._faults.get(direction, ()) if connection == 0 else ())
