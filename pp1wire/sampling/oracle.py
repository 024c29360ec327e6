"""The same mathematics in exact fractions and plain Python, to test everything else against.

Slow and obvious on purpose: no numpy arithmetic, no 64-bit limits, arbitrary rational p and q. Rows are sequences of
Fractions over the whole vocabulary. Only the addresses of draws are shared with the real sampler (`below`, `words`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

from pp1wire.sampling.errors import ProposalRefused, SamplingError, TargetRefused
from pp1wire.sampling.philox import Domain, below
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.verify import Verdict, VerdictKind

__all__ = [
    "acceptance",
    "allocate",
    "chain_law",
    "dyadic_counts",
    "fp32_law",
    "grid_exp",
    "law",
    "law_of_counts",
    "logit_law",
    "probability_law",
    "residual",
    "sample",
    "verify",
    "verify_chain",
]

MASS = 2**24
GRID = 2**38

Law = tuple[Fraction, ...]
"""A probability law over ids 0 … V − 1."""
Weights = Sequence[Fraction | int] | Mapping[int, Fraction | int]


def law(weights: Weights, vocabulary: int | None = None) -> Law:
    """The exact normalisation of rational weights, given in full or as a mapping from id to weight with `vocabulary`.

    Raises SamplingError for a negative weight, no mass, or an id outside the vocabulary.
    """
    if isinstance(weights, Mapping):
        if vocabulary is None or any(not 0 <= token < vocabulary for token in weights):
            raise SamplingError(f"weights: expected ids in [0, V), got {sorted(weights)} with V = {vocabulary}")
        full = [Fraction(weights.get(token, 0)) for token in range(vocabulary)]
    else:
        full = [Fraction(weight) for weight in weights]
    total = sum(full, Fraction(0))
    if any(weight < 0 for weight in full) or total <= 0:
        raise SamplingError("weights: expected no negative weight and a positive sum")
    return tuple(weight / total for weight in full)


def fp32_law(weights: Sequence[float] | Mapping[int, float], vocabulary: int | None = None) -> Law:
    """Weights rounded to FP32 first, then the exact rational normalisation of those. Raises SamplingError."""

    def rounded(weight: float) -> Fraction:
        try:
            narrow = struct.unpack("<f", struct.pack("<f", weight))[0]
        except OverflowError:
            narrow = math.inf
        if not math.isfinite(narrow):
            raise SamplingError(f"weights: expected finite FP32 numbers, got {weight}")
        return Fraction(narrow)

    if isinstance(weights, Mapping):
        return law({token: rounded(weight) for token, weight in weights.items()}, vocabulary)
    return law([rounded(weight) for weight in weights])


def allocate(weights: Sequence[Fraction | int], mass: int = MASS) -> tuple[int, ...]:
    """Largest remainders: floors of mass·w/Σw, then one more to the largest remainders, ties to the lowest id."""
    shares = [share * mass for share in law(weights)]
    counts = [math.floor(share) for share in shares]
    order = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], i))
    for i in order[: mass - sum(counts)]:
        counts[i] += 1
    return tuple(counts)


def grid_exp(d: float) -> int:
    """rint(exp(d) · 2^38) by the rules of `dyadic24-standard-v1`, in Python floats (each operation rounds once)."""
    d = max(d, -30.0)
    shifted = d * float.fromhex("0x1.71547652b82fep+0") + 1.5 * 2.0**52
    k = int(shifted - 1.5 * 2.0**52)
    r = d - k * float.fromhex("0x1.62e42fee00000p-1")
    r = r - k * float.fromhex("0x1.a39ef35793c76p-33")
    value = 1.0 / math.factorial(13)
    for n in range(12, -1, -1):
        value = value * r + 1.0 / math.factorial(n)
    # round() of an exact Fraction is half to even, as adding 2^52 is.
    return round(Fraction(value) * Fraction(2) ** (k + 38))


def _weights(logits: Sequence[float], temperature: float) -> list[int]:
    finite = [value for value in logits if value != -math.inf]
    if any(math.isnan(value) or value == math.inf for value in logits) or not finite:
        raise SamplingError("logits: expected numbers or -inf, at least one finite")
    if not 0 < temperature < math.inf:
        raise SamplingError(f"temperature: expected a finite number > 0, got {temperature}")
    largest = max(finite)
    return [grid_exp((value - largest) / temperature) for value in logits]


def dyadic_counts(logits: Sequence[float], temperature: float, top_k: int | None = None) -> tuple[int, ...]:
    """Counts of a row of FP32 logits over the whole vocabulary, zeros included. Raises SamplingError."""
    weights = _weights(logits, temperature)
    if top_k is not None:
        order = sorted((i for i, value in enumerate(logits) if value != -math.inf), key=lambda i: (-logits[i], i))
        kept = set(order[:top_k])
        weights = [weight if i in kept else 0 for i, weight in enumerate(weights)]
    return allocate(weights)


def sample(counts: Sequence[int], ticket: int) -> int:
    """The first id whose running count exceeds the ticket. Raises SamplingError if there is none."""
    for token, running in enumerate(accumulate(counts)):
        if running > ticket:
            return token
    raise SamplingError(f"ticket: expected below {sum(counts)}, got {ticket}")


def law_of_counts(ids: Sequence[int], counts: Sequence[int], vocabulary: int) -> Law:
    """q of one row: count / 2^24. Raises SamplingError unless the counts sum to 2^24."""
    if sum(int(count) for count in counts) != MASS:
        raise SamplingError(f"counts: expected a sum of 2^24, got {sum(int(count) for count in counts)}")
    return law({int(i): int(count) for i, count in zip(ids, counts, strict=True)}, vocabulary)


def probability_law(p: Sequence[float]) -> Law:
    """p as verification uses it: P/U, P = rint(p·2^38) half to even. Raises TargetRefused."""
    if any(not 0 <= value < 2 for value in p):
        raise TargetRefused("p: expected 0 <= value < 2")
    return _grid_law([round(Fraction(float(value)) * GRID) for value in p])


def logit_law(logits: Sequence[float]) -> Law:
    """p of target logits as verification uses it: weights at T = 1, one division, the grid. Raises SamplingError."""
    weights = _weights(logits, 1.0)
    total = float(sum(weights))
    return _grid_law([round(Fraction(float(weight) / total) * GRID) for weight in weights])


def _grid_law(grid: Sequence[int]) -> Law:
    if abs(sum(grid) - GRID) > 2**28:
        raise TargetRefused(f"p: expected a sum of one within 2^-10, got {sum(grid) / GRID}")
    return law(grid)


def acceptance(p: Law, q: Law, token: int) -> Fraction:
    """min(1, p(x)/q(x)). Raises ProposalRefused for q(x) = 0."""
    if not q[token]:
        raise ProposalRefused(f"q: zero probability at the drafted token {token}")
    return min(Fraction(1), p[token] / q[token])


def residual(p: Law, q: Law) -> Law:
    """(p − q)⁺ normalised over the whole vocabulary. Raises SamplingError if p = q: then nothing is ever rejected."""
    return law([max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)])


def _first_above(weights: Law, coin: Fraction) -> int:
    for token, running in enumerate(accumulate(weights)):
        if running > coin:
            return token
    raise SamplingError(f"coin: expected 0 <= coin < 1, got {coin}")


def verify(
    p: Sequence[Law], q: Sequence[Law], tokens: Sequence[int], coins: Sequence[Fraction], last: Fraction
) -> Verdict:
    """One chain with given coins in [0, 1): accept token i iff coins[i] < p/q; `last` draws the token that follows.

    `p` has depth + 1 laws, `q`, `tokens` and `coins` depth. Raises ProposalRefused for q(x) = 0 at any token.
    """
    rates = [acceptance(p[i], q[i], token) for i, token in enumerate(tokens)]
    for i, rate in enumerate(rates):
        if not coins[i] < rate:
            return Verdict(i, _first_above(residual(p[i], q[i]), last), VerdictKind.CORRECTION)
    return Verdict(len(rates), _first_above(p[len(rates)], last), VerdictKind.BONUS)


def verify_chain(
    p: Sequence[Sequence[float]],
    q_rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    tokens: Sequence[int],
    key: Key,
) -> Verdict:
    """`pp1wire.sampling.verify_chain` in fractions: same key, same coins, same verdict, computed the long way."""
    target = [probability_law([float(value) for value in row]) for row in p]
    units = [sum(round(Fraction(float(value)) * GRID) for value in row) for row in p]
    draft = [law_of_counts(ids, counts, len(target[0])) for ids, counts in q_rows]
    address = (key.seed, key.generation, key.round)
    coins = []
    for i, token in enumerate(tokens):
        bound = int(draft[i][token] * MASS) * units[i]
        if not bound:
            raise ProposalRefused(f"q[{i}]: zero probability at the drafted token {token}")
        coins.append(Fraction(below(bound, *address, key.position + i, Domain.ACCEPTANCE), bound))
    accepted = verify(target, draft, tokens, coins, Fraction(0)).accepted
    if accepted == len(tokens):
        bound, domain = units[accepted], Domain.BONUS
    else:
        rest = (max(a - b, Fraction(0)) for a, b in zip(target[accepted], draft[accepted], strict=True))
        bound, domain = int(sum(rest, Fraction(0)) * units[accepted] * MASS), Domain.CORRECTION
    last = Fraction(below(bound, *address, key.position + accepted, domain), bound)
    return verify(target, draft, tokens, coins, last)


def chain_law(
    p: Mapping[tuple[int, ...], Law], q: Mapping[tuple[int, ...], Law], depth: int
) -> dict[tuple[int, ...], Fraction]:
    """The joint law of the first depth + 1 emitted tokens of one round, by enumeration of every outcome.

    `p` and `q` map each prefix (tokens after the committed ones) to the law of the next token: p for prefixes up to
    length depth, q up to depth − 1. After an early rejection the rest is drawn from the target, as the following rounds
    would. For a correct rule this is the target's own joint law.
    """
    result: dict[tuple[int, ...], Fraction] = {}

    def settle(prefix: tuple[int, ...], probability: Fraction) -> None:
        if len(prefix) == depth + 1:
            result[prefix] = result.get(prefix, Fraction(0)) + probability
            return
        for token, share in enumerate(p[prefix]):
            if share:
                settle((*prefix, token), probability * share)

    def draft(prefix: tuple[int, ...], probability: Fraction) -> None:
        if len(prefix) == depth:
            settle(prefix, probability)
            return
        for token, share in enumerate(q[prefix]):
            if not share:
                continue
            rate = acceptance(p[prefix], q[prefix], token)
            if rate:
                draft((*prefix, token), probability * share * rate)
            if rate < 1:
                for other, rest in enumerate(residual(p[prefix], q[prefix])):
                    if rest:
                        settle((*prefix, other), probability * share * (1 - rate) * rest)

    draft((), Fraction(1))
    return result
