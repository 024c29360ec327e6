"""Valid chains whose every number is a multiple of 2^-24, and what this project makes of them with given coins.

Coins are (2·tick + 1) / 2^25, half-way between two multiples of 2^-24. With q, p and sums of both on multiples of 2^-24 such a
coin is never equal to a threshold, and no closer to one than 2^-49: FP64 cannot round it to the other side.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from unittest import mock

import numpy as np
import numpy.typing as npt

from pp1wire.sampling import (
    MASS,
    Key,
    Verdict,
    VerdictKind,
    dense_row,
    dyadic_counts,
    dyadic_counts_dense,
    oracle,
    sample,
    verify,
    verify_chain,
)

TICKS = 1 << 24
KEY = Key(1, 1, 1, 1)
NOISE = (0.0, 0.3, 1.0, 3.0)
"""Distance of the draft's logits from the target's: from the same law to a poor draft."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """One drafted chain. `target` [depth + 1, V] and `draft` [depth, V] are counts of 2^-24, each row of mass 2^24."""

    target: Int64
    draft: Int64
    rows: list[tuple[npt.NDArray[np.int32] | None, npt.NDArray[np.int32]]]
    tokens: Int64
    ticks: list[int]
    last: int

    @property
    def depth(self) -> int:
        return len(self.tokens)


def coin(tick: int) -> Fraction:
    return Fraction(2 * tick + 1, 2 * TICKS)


def make_chain(seed: int, vocabulary: int, depth: int, top_k: int | None = None, *, edges: bool = True) -> Chain:
    """A chain with rows of q dense or of `top_k` tokens; with `edges`, most coins lie next to a threshold."""
    rng = np.random.default_rng([seed, vocabulary, depth, top_k or 0])
    scale, noise = rng.choice([0.5, 2.0, 6.0]), NOISE[seed % len(NOISE)]
    logits = rng.normal(scale=scale, size=(depth + 1, vocabulary))
    draft_logits = (logits[:-1] + noise * rng.normal(size=(depth, vocabulary))).astype(np.float32)
    temperature = 1.0 if noise == 0 else float(rng.choice([0.5, 1.0, 2.0]))
    target = np.stack([dyadic_counts_dense(row.astype(np.float32), 1.0) for row in logits]).astype(np.int64)
    sparse = [dyadic_counts(row, temperature, top_k) for row in draft_logits]
    draft = np.stack([dense_row(row, vocabulary) for row in sparse]).astype(np.int64)
    rows = sparse if top_k else [(None, row.astype(np.int32)) for row in draft]
    tokens = np.array([sample(*row, int(rng.integers(TICKS))) for row in sparse], np.int64)
    ticks = [int(tick) for tick in rng.integers(TICKS, size=depth)]
    chain = Chain(target, draft, rows, tokens, ticks, int(rng.integers(TICKS)))
    return _at_edges(chain, rng) if edges else chain


def _at_edges(chain: Chain, rng: np.random.Generator) -> Chain:
    """The chain with coins moved next to its thresholds: the acceptance rate of a token, the borders of the final draw."""
    ticks = list(chain.ticks)
    for i, token in enumerate(chain.tokens):
        if rng.random() < 0.6:
            threshold = int(chain.target[i, token]) * TICKS // int(chain.draft[i, token])
            # More often below the threshold than above, or no chain would get far.
            ticks[i] = min(max(threshold - int(rng.choice([0, 1, 1, 1, 2])), 0), TICKS - 1)
        elif rng.random() < 0.1:
            ticks[i] = int(rng.choice([0, TICKS - 1]))
    chain = replace(chain, ticks=ticks)
    weights = final_weights(chain, accepted_run(chain))
    running = weights.cumsum()
    border = int(running[rng.integers(running.size)]) * TICKS // int(running[-1])
    return replace(chain, last=min(max(border - int(rng.integers(2)), 0), TICKS - 1))


def accepted_run(chain: Chain) -> int:
    """How many drafted tokens pass, in plain integers: coin < P(x) / Q(x)."""
    for i, token in enumerate(chain.tokens):
        if not (2 * chain.ticks[i] + 1) * int(chain.draft[i, token]) < 2 * TICKS * int(chain.target[i, token]):
            return i
    return chain.depth


def final_weights(chain: Chain, accepted: int) -> Int64:
    """What the token after the accepted run is drawn from: max(P − Q, 0), or P after a chain accepted whole."""
    if accepted == chain.depth:
        return chain.target[accepted]
    return np.maximum(chain.target[accepted] - chain.draft[accepted], 0)


def integer_verdict(chain: Chain) -> Verdict:
    """The verdict by the integers above: no floating point, nothing of `pp1wire.sampling`."""
    accepted = accepted_run(chain)
    running = final_weights(chain, accepted).cumsum()
    # running > coin · total, both sides times 2^25: below 2^50
    token = int(np.argmax(running * (2 * TICKS) > (2 * chain.last + 1) * int(running[-1])))
    return Verdict(accepted, token, VerdictKind.BONUS if accepted == chain.depth else VerdictKind.CORRECTION)


def settled(chain: Chain) -> bool:
    """Whether no coin is within four ticks of a threshold: then FP32, which has no bits for half a tick, is bound to agree."""
    ends = [tick + shift for tick in (*chain.ticks, chain.last) for shift in (-4, 4)]
    if not 0 <= min(ends) <= max(ends) < TICKS:
        return False
    moved = (replace(chain, ticks=[tick + shift for tick in chain.ticks], last=chain.last + shift) for shift in (-4, 4))
    return {integer_verdict(other) for other in moved} == {integer_verdict(chain)}


def expected_tokens(chain: Chain, verdict: Verdict) -> list[int]:
    """What a verifier emits by a verdict: the accepted run and the token after it."""
    return [*chain.tokens[: verdict.accepted].tolist(), verdict.token]


def fraction_verdict(chain: Chain) -> Verdict:
    """The verdict of the oracle in Fractions."""
    p, q = ([oracle.law(row.tolist()) for row in law] for law in (chain.target, chain.draft))
    return oracle.verify(p, q, chain.tokens.tolist(), [coin(tick) for tick in chain.ticks], coin(chain.last))


def our_verdict(chain: Chain) -> Verdict:
    """`verify_chain` from probabilities in FP64, its two draws replaced by the coins: coin c of a draw below n is ⌊c·n⌋."""

    def below_many(bounds: Int64, *address: object) -> Int64:
        return np.array([int(coin(tick) * int(n)) for tick, n in zip(chain.ticks, bounds, strict=True)], np.int64)

    def below(bound: int, *address: object) -> int:
        return int(coin(chain.last) * bound)

    with mock.patch.object(verify, "below_many", below_many), mock.patch.object(verify, "below", below):
        return verify_chain(chain.target / MASS, chain.rows, chain.tokens, KEY)


class Evidence:
    """What the chains of a test went through, so that no test passes without having seen every kind of verdict."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def add(self, chain: Chain, verdict: Verdict) -> None:
        bonus = verdict.kind is VerdictKind.BONUS
        self.seen["chains"] += 1
        self.seen["sparse" if chain.rows[0][0] is not None else "dense"] += 1
        self.seen["drafts"] += chain.depth
        self.seen["acceptances"] += verdict.accepted
        self.seen["bonuses" if bonus else "rejections"] += 1
        self.seen["outside the support"] += int(not bonus and chain.draft[verdict.accepted, verdict.token] == 0)

    def require(self, **least: int) -> None:
        """At least so many of each, and of whatever else is counted at least one."""
        print(f"evidence: {dict(self.seen)}")
        assert min(self.seen.values()) > 0, self.seen
        short = {name: self.seen[name] for name, count in least.items() if self.seen[name] < count}
        assert not short, f"too few: {short} of {least}"
