"""What one seed stands for: the shape of the connection, who takes part, and how often each fault comes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from pp1wire.wire import Representation

__all__ = ["FAMILIES", "Scenario", "draw"]

FAMILIES: dict[str, dict[str, float]] = {
    # Of the byte stream: chances for each piece of it.
    "network": {"delay": 0.02, "flip": 0.004, "bytes_lost": 0.003, "bytes_twice": 0.003, "truncate": 0.003},
    # Of messages, before they are numbered: chances for each message.
    "messages": {
        "lost": 0.008, "twice": 0.008, "swapped": 0.008, "replayed": 0.008, "moved": 0.05, "changed": 0.006,
        "other_agreement": 0.002, "hello_changed": 0.03,
    },
    # Of a worker: chances for each round.
    "worker": {"late": 0.04, "never": 0.03, "answered_twice": 0.05, "gave_up": 0.05, "draining": 0.05},
    "lies": {
        "other_q": 0.03, "other_token": 0.03, "other_round": 0.015, "other_position": 0.015, "early_completion": 0.02,
        "wrong_completion": 0.015, "row_too_many": 0.01, "older_row": 0.02,
    },
    # Of machines: events a second of virtual time.
    "machines": {"cut": 0.3, "half_close": 0.15, "crash": 0.15, "stall": 0.3},
    # Of callers: chances for each turn of a request.
    "callers": {
        "cancel": 0.03, "new_seed": 0.02, "edit": 0.02, "preempt": 0.03, "refuse": 0.02, "abandon": 0.005, "misuse": 0.08,
        "hold": 0.15, "hang_up": 0.004,
    },
    # Of ranks: chances for each proposal that is handed over.
    "ranks": {
        "copy_flipped": 0.04, "copy_other": 0.03, "check_refuses": 0.03, "verdict_other": 0.04, "verdict_none": 0.03,
        "rank_lost": 0.04, "handed_twice": 0.04,
    },
}  # fmt: skip
"""Rates of every fault by family, in a mild scenario."""

_STORM = 3.0
_CALM_AT = (1.5, 3.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run.

    Attributes:
        vocab, padded: ids, and entries of a dense row.
        model: which of the toy models.
        representation: which one the worker prefers; both: whether the offer names the other, too.
        slots, depth, support, max_prefix: of the offer; a worker may have less.
        clients: callers' processes, one connection each at a time.
        requests: of each client.
        tokens: most tokens of a request.
        ranks: of the target model.
        stop: whether id 0 ends a request.
        step_timeout: virtual seconds.
        rates: by fault; those that are missing never come.
        calm_at: when faults end, in virtual seconds.
        spoil_below: the negative control: rounds that drafted a token below this one are spoiled on the way.
    """

    vocab: int
    padded: int
    model: int
    representation: Representation
    both: bool
    slots: int
    depth: int
    support: int
    max_prefix: int
    clients: int
    requests: int
    tokens: int
    ranks: int
    stop: bool
    step_timeout: float
    rates: dict[str, float] = field(default_factory=dict)
    calm_at: float = 0.0
    spoil_below: int = 0


def draw(rng: random.Random) -> Scenario:
    """A scenario; the same for the same state of `rng`."""
    vocab = rng.choice((8, 8, 12, 16, 33, 64))
    storm = _STORM if rng.random() < 0.3 else 1.0
    rates: dict[str, float] = {}
    for family in FAMILIES.values():
        # A family alone shows more than all at once: a connection that is cut all the time reaches no rule behind.
        if rng.random() < 0.5:
            rates |= {name: rate * storm for name, rate in family.items()}
    return Scenario(
        vocab=vocab,
        padded=vocab + rng.choice((0, 0, 3)),
        model=rng.randrange(3),
        representation=rng.choice((Representation.SPARSE, Representation.SPARSE, Representation.DENSE)),
        both=rng.random() < 0.5,
        slots=rng.randint(1, 4),
        depth=rng.randint(1, 5),
        support=rng.choice((1, 2, 4, 8)),
        max_prefix=rng.choice((12, 64, 64)),
        clients=rng.choice((1, 1, 2)),
        requests=rng.randint(1, 5),
        tokens=rng.choice((4, 12, 20)),
        ranks=rng.choice((1, 1, 2)),
        stop=rng.random() < 0.3,
        step_timeout=rng.choice((0.05, 0.2, 0.5)),
        rates=rates,
        calm_at=rng.uniform(*_CALM_AT),
    )
