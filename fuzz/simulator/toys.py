"""Toy models over a few ids, and what a proposal of theirs must be, made by other code than the product's.

Both laws depend on the position (mod 3) and on the token before, so a row of another place is another row.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from pp1wire.sampling import dyadic_counts, logit_grid
from pp1wire.sampling.philox import Domain, words

__all__ = ["Expected", "Row", "Toys", "ticket", "toys"]

PERIOD = 3
NOISE = (0.9, 0.9, 0.4)
"""How unlike its target the draft of each model is."""


@dataclass(frozen=True, slots=True)
class Row:
    """One q of the draft: ids int32 [n] and counts int32 [n], and the running counts to draw with."""

    ids: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]
    running: tuple[int, ...]

    def owner(self, ticket: int) -> int:
        """The token that owns a ticket."""
        return int(self.ids[bisect_right(self.running, ticket)])


@dataclass(frozen=True, slots=True)
class Expected:
    """What an honest proposal must be."""

    tokens: tuple[int, ...]
    rows: tuple[Row, ...]


def ticket(seed: int, generation: int, round: int, position: int) -> int:
    """The ticket at an address, by scalar arithmetic; the ends compute theirs in arrays."""
    return int(words(seed, generation, round, position, Domain.PROPOSAL)[0]) >> 8


class Toys:
    """A draft and a target, alike enough for acceptances and unlike enough for rejections."""

    def __init__(self, vocab: int, model: int) -> None:
        rng = random.Random(vocab * 1000 + model)
        self.vocab = vocab
        self._target = self._table(rng, 1.6)
        self._draft = self._target + self._table(rng, NOISE[model])
        self._rows: dict[tuple[int, int, float, int], Row] = {}
        self._grids: dict[tuple[int, int], npt.NDArray[np.int64]] = {}

    def _table(self, rng: random.Random, scale: float) -> npt.NDArray[np.float32]:
        shape = (PERIOD, self.vocab, self.vocab)
        values = [rng.gauss(0, scale) for _ in range(PERIOD * self.vocab * self.vocab)]
        return np.array(values, np.float32).reshape(shape)

    def row(self, position: int, last: int, temperature: float, support: int) -> Row:
        """The draft's q of the token at `position` behind `last`; dense if `support` is 0."""
        key = (position % PERIOD, last, temperature, support)
        row = self._rows.get(key)
        if row is None:
            ids, counts = dyadic_counts(self._draft[key[0], last], temperature, support or None)
            row = self._rows[key] = Row(ids, counts, tuple(accumulate(counts.tolist())))
        return row

    def grid(self, position: int, last: int) -> npt.NDArray[np.int64]:
        """The target's law of the token at `position` behind `last`, int64 [V] on the grid of 2^-38."""
        key = (position % PERIOD, last)
        grid = self._grids.get(key)
        if grid is None:
            grid = self._grids[key] = logit_grid(self._target[key][None])[0]
        return grid

    def grids(self, position: int, last: int, drafted: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """The target's laws over a proposal, int64 [depth + 1, V]."""
        return np.stack([self.grid(position + i, token) for i, token in enumerate((last, *drafted))])

    def expected(
        self,
        last: int,
        position: int,
        depth: int,
        temperature: float,
        support: int,
        seed: int,
        generation: int,
        round: int,
    ) -> Expected:
        """The only proposal that a STEP with these values allows, behind a prefix that ends in `last`."""
        tokens, rows = [], []
        for i in range(depth):
            row = self.row(position + i, last, temperature, support)
            last = row.owner(ticket(seed, generation, round, position + i))
            tokens.append(last)
            rows.append(row)
        return Expected(tuple(tokens), tuple(rows))


@lru_cache(maxsize=64)
def toys(vocab: int, model: int) -> Toys:
    """The models of a scenario; runs share them, since nothing about them changes."""
    return Toys(vocab, model)
