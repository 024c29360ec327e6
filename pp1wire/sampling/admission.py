"""How deep to draft, decided so that the output law stays exact.

Whether position i will be verified must be settled before x_i is drawn. Here a policy is asked "go on?" for position i
with a `Past` that holds committed history, a load measured before the draw, and x_1 … x_(i−1); x_i does not exist yet
when it answers, and a stop is final. Looking at x_i first and then withdrawing it changes the output law, whatever
verifier follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from pp1wire.sampling.errors import SamplingError

__all__ = ["AdmissionPolicy", "FixedDepth", "Past", "ThroughputPolicy", "admit_chain", "prefix_throughput"]

Number = TypeVar("Number", float, Fraction)


@dataclass(frozen=True, slots=True)
class Past:
    """All that a policy may know when it decides on the position after `drawn`.

    `committed` are the token ids before the chain, `load` a figure measured before the first draw (its meaning is the
    policy's), `drawn` the tokens of this chain so far: len(drawn) = i − 1 when position i is decided.
    """

    committed: tuple[int, ...]
    load: float
    drawn: tuple[int, ...] = ()


class AdmissionPolicy(Protocol):
    """Decides, position by position, whether the chain goes on."""

    def admit(self, past: Past) -> bool:
        """Whether one more token is to be drawn and verified, given only the past."""


@dataclass(frozen=True, slots=True)
class FixedDepth:
    """The policy of the protocol: `depth` tokens, whatever they are."""

    depth: int

    def admit(self, past: Past) -> bool:
        """True for the first `depth` positions."""
        return len(past.drawn) < self.depth


def prefix_throughput(steps_per_second: Number, acceptance: Sequence[Number]) -> Number:
    """Tokens a second of verifying a prefix: SPS · (1 + a_1 + a_1·a_2 + …), a_i the acceptance rate at position i."""
    reach = total = steps_per_second
    for rate in acceptance:
        reach = reach * rate
        total = total + reach
    return total


@dataclass(frozen=True, slots=True)
class ThroughputPolicy:
    """Goes on while one more position is expected to pay, from figures fixed before the chain.

    `steps_per_second[i]` is the verifier's rate with i drafted tokens; `acceptance[i]` the acceptance rate of position
    i + 1 in earlier rounds. It stops at the first position that does not raise the expected throughput, even if a
    deeper one would: reopening a stopped prefix is what appendix A of DSpark shows to be unsound (arXiv 2607.05147).
    """

    steps_per_second: tuple[float, ...]
    acceptance: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.steps_per_second) != len(self.acceptance) + 1:
            raise SamplingError(
                "policy: expected one more rate of steps than of acceptance, "
                f"got {len(self.steps_per_second)} and {len(self.acceptance)}"
            )

    def admit(self, past: Past) -> bool:
        """Whether the next position raises the expected throughput."""
        i = len(past.drawn)
        if i >= len(self.acceptance):
            return False
        now = prefix_throughput(self.steps_per_second[i], self.acceptance[:i])
        return prefix_throughput(self.steps_per_second[i + 1], self.acceptance[: i + 1]) > now


def admit_chain(
    draw: Callable[[tuple[int, ...]], int], policy: AdmissionPolicy, past: Past, max_depth: int
) -> tuple[int, ...]:
    """Draw a chain under a policy: ask, then draw, then ask again; the first stop ends it, at most `max_depth` tokens.

    `draw` gets the tokens drawn so far and returns the next one. The chain, which may be empty, must be verified whole.
    Raises SamplingError if `past` already holds drawn tokens or the policy's answer is not a bool.
    """
    if past.drawn:
        raise SamplingError(f"past: expected no drawn tokens before the chain, got {len(past.drawn)}")
    drawn: tuple[int, ...] = ()
    while len(drawn) < max_depth:
        answer = policy.admit(Past(past.committed, past.load, drawn))
        if not isinstance(answer, bool):
            raise SamplingError(f"policy: expected admit() to return a bool, got {type(answer).__name__}")
        if not answer:
            break
        drawn = (*drawn, draw(drawn))
    return drawn
