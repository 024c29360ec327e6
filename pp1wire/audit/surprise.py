"""The sum of −ln q(x) − H(q) over rows: mean zero under honest drawing, so a worker that steers q by its tickets may show.

Two verdicts come of it. z, the sum over its standard deviation, is what people know; but rows of a draft that is nearly
certain make z wild, as almost all of the variance is in tokens that almost never come. So the decision is by evidence: for
each λ, exp(λ·S − Σ K(λ)), with K(λ) = ln Σ q·exp(λ(−ln q − H)) the cumulant of a row, is a martingale of mean one under honest
drawing, whatever the rows, and so is the mean over several λ. By Ville's inequality (1939) it ever exceeds 10^6 with
probability at most 10^-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pp1wire.sampling import MASS

__all__ = ["EVIDENCE", "RowSurprise", "Surprise", "row_surprise"]

EVIDENCE: Final = 1e6
"""Evidence that is told as a finding; the chance of it under honest drawing is at most its inverse."""
_LAMBDAS: Final = (-1.0, -0.3, -0.1, -0.03, -0.01, 0.01, 0.03, 0.1, 0.3)


@dataclass(frozen=True, slots=True)
class RowSurprise:
    """One row, in nats: −ln q(x) − H(q), the variance of that under q, and its cumulants at the chosen λ."""

    excess: float
    variance: float
    cumulants: tuple[float, ...]


def row_surprise(counts: npt.NDArray[Any], count: int) -> RowSurprise:
    """Of a row's positive counts [n], which sum to 2^24, and the drawn token's own."""
    weights = counts / MASS
    logs = np.log(weights)
    entropy = -float(np.sum(weights * logs))
    excess = -logs - entropy
    variance = float(np.sum(weights * excess * excess))
    # Σ q·exp(λ·excess) = exp(−λH)·Σ q^(1 − λ); summed around zero, so that small λ keep their digits.
    cumulants = tuple(float(np.log1p(np.sum(weights * np.expm1(one * excess)))) for one in _LAMBDAS)
    return RowSurprise(-math.log(count / MASS) - entropy, variance, cumulants)


class _Sum:
    """An exact running sum of doubles (Shewchuk's partials, as `math.fsum`)."""

    def __init__(self) -> None:
        self._partials: list[float] = []

    def add(self, value: float) -> None:
        kept = []
        for part in self._partials:
            if abs(value) < abs(part):
                value, part = part, value
            high = value + part
            low = part - (high - value)
            if low:
                kept.append(low)
            value = high
        self._partials = [*kept, value]

    @property
    def value(self) -> float:
        return math.fsum(self._partials)


@dataclass(slots=True)
class Surprise:
    """The sum over rows; the same for the same rows in any order."""

    rows: int = 0
    _excess: _Sum = field(default_factory=_Sum)
    _variance: _Sum = field(default_factory=_Sum)
    _cumulants: tuple[_Sum, ...] = field(default_factory=lambda: tuple(_Sum() for _ in _LAMBDAS))

    def add(self, row: RowSurprise) -> None:
        """Add a row."""
        self.rows += 1
        self._excess.add(row.excess)
        self._variance.add(row.variance)
        for total, one in zip(self._cumulants, row.cumulants, strict=True):
            total.add(one)

    @property
    def sum(self) -> float:
        """Σ(−ln q(x) − H(q)), in nats."""
        return self._excess.value

    @property
    def variance(self) -> float:
        """Of the sum, in nats²."""
        return self._variance.value

    @property
    def z(self) -> float | None:
        """The sum over its standard deviation; None where nothing was left to chance."""
        return self.sum / math.sqrt(self.variance) if self.variance > 0 else None

    @property
    def evidence(self) -> float:
        """Against honest drawing: its mean is 1 under it. At most the largest double."""
        exponents = [one * self.sum - total.value for one, total in zip(_LAMBDAS, self._cumulants, strict=True)]
        return math.fsum(math.exp(min(exponent, 700.0)) for exponent in exponents) / len(exponents)

    @property
    def steered(self) -> bool:
        """Whether the evidence is enough."""
        return self.evidence >= EVIDENCE

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rows": self.rows, "sum": self.sum, "variance": self.variance, "z": self.z, "evidence": self.evidence,
            "steered": self.steered,
        }  # fmt: skip
