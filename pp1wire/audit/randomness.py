"""Finds random numbers that a capture uses twice."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from pp1wire.wire import Step

__all__ = ["MOST_ROUNDS", "Randomness", "Use"]

MOST_ROUNDS: Final = 1 << 18
"""Rounds remembered, the latest; about 70 MB."""


class Use(NamedTuple):
    """Who used an address first."""

    connection: int
    session: int
    position: int
    depth: int
    prefix: bytes
    """Digest of the committed ids: equal ones mean the same request again, or two that cannot be told apart."""


class Randomness:
    """The addresses of proposal tickets: (seed, generation, round), and the positions drafted there.

    Within a session they cannot come twice, as rounds and generations rise; the protocol's own judge sees to it.
    Two sessions with one seed can have the same ones. Memory is bounded: what is compared with is the latest `most` rounds.
    """

    def __init__(self, most: int = MOST_ROUNDS) -> None:
        self._most = most
        self._seen: OrderedDict[tuple[int, int, int], Use] = OrderedDict()
        self.forgotten = 0
        """Rounds that later ones were not compared with."""

    def add(self, connection: int, step: Step) -> Use | None:
        """Enter a STEP; who drew with some of its tickets before, if anyone did."""
        address = step.proposal_seed, step.generation, step.round
        before = self._seen.get(address)
        if before is not None:
            apart = step.position >= before.position + before.depth or before.position >= step.position + step.depth
            return None if apart else before
        self._seen[address] = Use(connection, step.session, step.position, step.depth, step.prefix_digest)
        if len(self._seen) > self._most:
            self._seen.popitem(last=False)
            self.forgotten += 1
        return None
