"""Shared by the sampling tests: a chi-square tail without scipy, rows of q, and laws read off the production rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from pp1wire.sampling import GRID, MASS
from pp1wire.sampling.verify import accepts, residual

Prefix = tuple[int, ...]


def chi_square_tail(statistic: float, dof: int) -> float:
    """P(X ≥ statistic) for chi-square with `dof` degrees: the regularised upper incomplete gamma function."""
    a, x = dof / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:  # series for the lower tail
        term = total = 1 / a
        n = a
        while term > total * 1e-16:
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1 - total * scale)
    b, c = x + 1 - a, 1e300  # continued fraction for the upper tail (Lentz)
    d = 1 / b
    fraction = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b)
        c = b + step / c
        fraction *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return scale * fraction


def chi_square_p(observed: np.ndarray, expected: np.ndarray, groups: int = 1) -> float:
    """p-value of counts against expected counts; cells with less than 5 expected are pooled. `groups` totals are fixed."""
    observed, expected = np.ravel(observed).astype(float), np.ravel(expected).astype(float)
    if observed[expected == 0].any():
        return 0.0
    small = expected < 5
    o = np.append(observed[~small], observed[small].sum())
    e = np.append(expected[~small], expected[small].sum())
    o, e = o[e > 0], e[e > 0]
    assert o.size > groups, "no power: too few cells"
    return chi_square_tail(float(((o - e) ** 2 / e).sum()), o.size - groups)


def dense(counts: list[int]) -> np.ndarray:
    row = np.array(counts, np.int64)
    assert int(row.sum()) == MASS
    return row


def grid_row(weights: list[int]) -> np.ndarray:
    """Integers on the target's grid in proportion to small weights, summing to exactly 2^38."""
    total = sum(weights)
    row = [weight * GRID // total for weight in weights]
    row[max(range(len(row)), key=weights.__getitem__)] += GRID - sum(row)
    return np.array(row, np.int64)


def acceptance_share(target: np.ndarray, draft: np.ndarray, token: int) -> Fraction:
    """The share of the draws in [0, Q(x)·U) that the production rule accepts, found by bisection on `accepts`."""
    bound = int(draft[token]) * int(target.sum())
    low, high = 0, bound  # accepts() is a threshold: everything below `low` passes, nothing from `high` on
    mass = target[token : token + 1]
    while low < high:
        middle = (low + high) // 2
        if accepts(np.array([middle]), mass)[0]:
            low = middle + 1
        else:
            high = middle
    return Fraction(low, bound)


def production_law(
    target: Callable[[Prefix], np.ndarray], draft: Callable[[Prefix], np.ndarray], depth: int
) -> tuple[dict[Prefix, Fraction], dict[str, int]]:
    """The law of the first depth + 1 tokens by enumeration of every draft and every verdict, and what was seen.

    All probabilities come from the production functions: Q from the counts, acceptance from `accepts`, corrections from
    `residual`. After a rejection the rest is drawn from the target, as the following rounds would do.
    """
    law: dict[Prefix, Fraction] = {}
    seen = {"drafts": 0, "acceptances": 0, "rejections": 0, "bonuses": 0}
    rules: dict[Prefix, tuple] = {}

    def settle(prefix: Prefix, share: Fraction) -> None:
        if len(prefix) == depth + 1:
            law[prefix] = law.get(prefix, Fraction(0)) + share
            return
        row = target(prefix)
        total = int(row.sum())
        for token in np.flatnonzero(row):
            settle((*prefix, int(token)), share * Fraction(int(row[token]), total))

    def step(prefix: Prefix, share: Fraction) -> None:
        if len(prefix) == depth:
            seen["bonuses"] += 1
            settle(prefix, share)
            return
        if prefix not in rules:
            rest = residual(target(prefix), draft(prefix), int(target(prefix).sum()))
            rules[prefix] = (rest, int(rest.sum()))
        rest, mass = rules[prefix]
        for token in (int(t) for t in np.flatnonzero(draft(prefix))):
            seen["drafts"] += 1
            drawn = share * Fraction(int(draft(prefix)[token]), MASS)
            accepted = acceptance_share(target(prefix), draft(prefix), token)
            if accepted:
                seen["acceptances"] += 1
                step((*prefix, token), drawn * accepted)
            if accepted < 1:
                seen["rejections"] += 1
                for other in (int(t) for t in np.flatnonzero(rest)):
                    settle((*prefix, other), drawn * (1 - accepted) * Fraction(int(rest[other]), mass))

    step((), Fraction(1))
    return law, seen


def target_law(target: Callable[[Prefix], np.ndarray], length: int) -> dict[Prefix, Fraction]:
    """The target's own joint law of `length` tokens."""
    law = {(): Fraction(1)}
    for _ in range(length):
        law = {
            (*prefix, int(token)): share * Fraction(int(target(prefix)[token]), int(target(prefix).sum()))
            for prefix, share in law.items()
            for token in np.flatnonzero(target(prefix))
        }
    return law
