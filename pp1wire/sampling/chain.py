"""Drafting a chain: each row is drawn before the next is made, because the next depends on the token.

The array drawn from is the array returned, marked read-only: there is no second, differently rounded q.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.draw import sample
from pp1wire.sampling.dyadic import Row, dyadic_counts
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.philox import proposal_tickets
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.weights import Float32

__all__ = ["Bias", "Draft", "LogitRows", "LowRankBias", "draft_chain", "fixed_depth"]

Bias = Callable[[int], Float32]
"""Markov bias: previous token -> float32 [V], added to the draft logits."""
LogitRows = npt.NDArray[np.float32] | Callable[[int, tuple[int, ...]], Float32]
"""Draft logits: float32 [depth, V], or (i, tokens drawn so far) -> float32 [V]."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted chain: `rows[i]` = (ids, counts) is the law that `tokens[i]` (int32 [depth]) was drawn from."""

    rows: tuple[Row, ...]
    tokens: npt.NDArray[np.int32]


class LowRankBias:
    """A Markov bias of low rank: W1[x] · W2, in FP32.

    `w1` is float32 [V, r], `w2` float32 [r, V]. The sum over r is the machine's own (its bits may differ between
    machines); that changes the proposal, never the output law, since q is sent and not recomputed.
    """

    def __init__(self, w1: Float32, w2: Float32) -> None:
        if w1.ndim != 2 or w2.ndim != 2 or w1.shape[1] != w2.shape[0] or w1.shape[0] != w2.shape[1]:
            raise SamplingError(f"bias: expected w1 [V, r] and w2 [r, V], got {w1.shape} and {w2.shape}")
        if w1.dtype != np.float32 or w2.dtype != np.float32:
            raise SamplingError(f"bias: expected float32, got {w1.dtype} and {w2.dtype}")
        self._w1, self._w2 = w1, w2

    def __call__(self, token: int) -> Float32:
        """The bias after `token`: float32 [V]. Raises SamplingError for a token outside the vocabulary."""
        if not 0 <= token < self._w1.shape[0]:
            raise SamplingError(f"bias: expected 0 <= token < {self._w1.shape[0]}, got {token}")
        return np.asarray(self._w1[token] @ self._w2, np.float32)


def draft_chain(
    logits: LogitRows,
    temperature: SupportsFloat,
    key: Key,
    *,
    depth: int | None = None,
    bias: Bias | None = None,
    previous: SupportsIndex | None = None,
    top_k: SupportsIndex | None = None,
    backend: str = "numpy",
) -> Draft:
    """Draw a chain of fixed depth, in order, with the tickets of `key` (the proposal seed's).

    Row i has the logits of position `key.position + i` plus `bias(x)`, x the token just before it (`previous`, the last
    committed token, for row 0), summed in FP32 once. The depth is that of the logits, or `depth` if they are callable;
    it is fixed before anything is drawn. Raises SamplingError for shapes, a missing `previous` or depth, and whatever
    `dyadic_counts` refuses in a row: then there is no draft at all. With another backend, logits and bias are tensors, and
    so are the rows and tokens of the draft.
    """
    if backend != "numpy":
        rows_, tokens_ = device_sampler(backend).draft_chain(
            logits, temperature, key, depth=depth, bias=bias, previous=previous, top_k=top_k
        )
        return Draft(tuple(rows_), tokens_)
    fixed = fixed_depth(logits, depth)
    if bias is not None and previous is None:
        raise SamplingError("previous: expected the last committed token, since there is a bias, got None")
    last = 0 if previous is None else operator.index(previous)
    key.span(fixed)
    positions = key.position + np.arange(fixed, dtype=np.int64)
    tickets = proposal_tickets(key.seed, key.generation, key.round, positions)
    rows: list[Row] = []
    tokens: list[int] = []
    for i in range(fixed):
        row = logits(i, tuple(tokens)) if callable(logits) else logits[i]
        if bias is not None:
            row = _biased(row, bias(last), i)
        ids, counts = dyadic_counts(row, temperature, top_k)
        ids.flags.writeable = counts.flags.writeable = False
        rows.append((ids, counts))
        last = sample(ids, counts, int(tickets[i]))
        tokens.append(last)
    return Draft(tuple(rows), np.array(tokens, np.int32))


def fixed_depth(logits: Any, depth: int | None) -> int:
    """The depth of logits [depth, V] (an array or a tensor), or the given one for callables. Raises SamplingError."""
    if callable(logits):
        if depth is None or depth < 1:
            raise SamplingError(f"depth: expected an integer >= 1 for callable logits, got {depth}")
        return depth
    if logits.ndim != 2 or not logits.shape[0] or depth not in (None, logits.shape[0]):
        raise SamplingError(f"logits: expected shape [{depth or 'depth'}, V], got {logits.shape}")
    return int(logits.shape[0])


def _biased(row: npt.NDArray[Any], bias: Float32, i: int) -> Float32:
    if row.dtype != np.float32 or bias.dtype != np.float32 or row.shape != bias.shape:
        raise SamplingError(
            f"logits[{i}]: expected float32 logits and bias of one shape, "
            f"got {row.dtype} {row.shape} and {bias.dtype} {bias.shape}"
        )
    # An overflow to +inf, or +inf − inf, is refused with the row's own message; numpy need not warn first.
    with np.errstate(all="ignore"):
        biased: Float32 = np.add(row, bias, dtype=np.float32)
    return biased
