"""Whether the emitted tokens have the target's law while faults come that do not depend on what was drawn.

The text is a Markov chain here: the law of a token depends on its position and the token before. So the counts of every
context are compared with that context's law, and the sum over contexts is a chi-square statistic (Billingsley, "Statistical
methods in Markov chains", 1961), whatever the rounds, generations and connections were that the tokens came from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fuzz.simulator.scenario import FAMILIES, Scenario
from fuzz.simulator.toys import PERIOD, toys
from fuzz.simulator.world import Outcome, run
from pp1wire.wire import Representation

__all__ = ["LAW", "Law", "measure", "with_control"]

_INDEPENDENT = {
    kind: rate * 0.15
    for family in ("network", "messages", "worker", "machines", "callers")
    for kind, rate in FAMILIES[family].items()
    # A changed seed lets a proposal pass just when two tickets draw the same tokens; an edited text is another text.
    if kind not in ("changed", "edit", "misuse")
}
_LEAST = 5.0
Floats = npt.NDArray[Any]

LAW = Scenario(
    vocab=8, padded=8, model=2, representation=Representation.SPARSE, both=False, slots=4, depth=2, support=6, max_prefix=64,
    clients=3, requests=4, tokens=40, ranks=1, stop=False, step_timeout=0.2, rates=_INDEPENDENT, calm_at=20.0,
)  # fmt: skip
"""Many requests, every fault that cannot see a token, and none that can."""


def with_control(scenario: Scenario, below: int) -> Scenario:
    """The same, but rounds that drafted a token below this one are spoiled: a fault that does depend on what was drawn."""
    return replace(scenario, spoil_below=below)


@dataclass(slots=True)
class Law:
    """What a set of runs emitted.

    Attributes:
        tokens: emitted.
        contexts: statistic and degrees of freedom over all contexts: sees any deviation, each a little.
        pooled: the same over tokens, whatever the context: sees a token that comes too often or too seldom.
        seen: proposals, accepted and rejected tokens, discards and faults, for evidence.
        rounds: STEPs.
        failures: runs that broke an invariant.
    """

    tokens: int = 0
    contexts: tuple[float, int] = (0.0, 0)
    pooled: tuple[float, int] = (0.0, 0)
    rounds: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)

    @property
    def z(self) -> float:
        """The larger statistic as a normal deviate: below 3 in 997 of 1,000 sets of runs if the law is p."""
        return max(_deviate(*self.contexts), _deviate(*self.pooled))


def measure(scenario: Scenario, seeds: Iterable[int]) -> Law:
    """Run `scenario` once for each seed, and compare what was emitted with the target's law."""
    models = toys(scenario.vocab, scenario.model)
    law = Law()
    counts = np.zeros((PERIOD, scenario.vocab, scenario.vocab), np.int64)
    for seed in seeds:
        outcome = run(seed, scenario=scenario)
        law.rounds += outcome.rounds
        law.seen.update(
            proposals=outcome.stats["proposals verified"],
            accepted=outcome.stats["tokens accepted"],
            rejected=outcome.stats["tokens rejected"],
            discards=outcome.discards.total(),
            faults=outcome.faults.total(),
        )
        if outcome.invariant is not None:
            law.failures.append(outcome)
        for prompt, text in outcome.texts:
            for position in range(prompt, len(text)):
                counts[position % PERIOD, text[position - 1], text[position]] += 1
    law.tokens = int(counts.sum())
    laws = np.array([[models.grid(i, j) for j in range(scenario.vocab)] for i in range(PERIOD)], np.float64)
    laws = (laws / laws.sum(axis=2, keepdims=True)).reshape(-1, scenario.vocab)
    flat = counts.reshape(-1, scenario.vocab)
    shares = [_context(seen, p) for seen, p in zip(flat, laws, strict=True)]
    law.contexts = (sum(s for s, _ in shares), sum(d for _, d in shares))
    law.pooled = _pooled(flat, laws)
    return law


def _context(counts: Floats, p: Floats) -> tuple[float, int]:
    """One context's share of the statistic; rare tokens are taken together, so that each cell expects enough."""
    expected = p * counts.sum()
    rare = expected < _LEAST
    cells = [*zip(counts[~rare], expected[~rare], strict=True), (counts[rare].sum(), expected[rare].sum())]
    cells = [(seen, mean) for seen, mean in cells if mean >= _LEAST]
    if len(cells) < 2:
        return 0.0, 0
    return float(sum((seen - mean) ** 2 / mean for seen, mean in cells)), len(cells) - 1


def _pooled(counts: Floats, laws: Floats) -> tuple[float, int]:
    """Deviations of each token's total, by their covariance: the sum of diag(p) - p pT over all draws."""
    visits = counts.sum(axis=1, keepdims=True)
    deviations = (counts - visits * laws).sum(axis=0)
    covariance = np.diag((visits * laws).sum(axis=0)) - (visits * laws).T @ laws
    return float(deviations @ np.linalg.pinv(covariance) @ deviations), len(deviations) - 1


def _deviate(statistic: float, degrees: int) -> float:
    # Wilson and Hilferty, 1931.
    spread = 2 / (9 * degrees)
    return float(((statistic / degrees) ** (1 / 3) - (1 - spread)) / spread**0.5)
