"""The target's probabilities on a grid of 2^-38, once; after that everything is integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.environment import require_subnormals
from pp1wire.sampling.errors import SamplingError, TargetRefused
from pp1wire.sampling.weights import GRID, MAX_VOCABULARY, Int64, integer_weights, logit_row

__all__ = ["TOLERANCE", "logit_grid", "probability_grid"]

TOLERANCE = 1 << 28
"""|U − 2^38| may not exceed this: beyond, the row was not normalised."""


def probability_grid(
    probabilities: npt.NDArray[Any], name: str = "p", refuse: type[SamplingError] = TargetRefused
) -> Int64:
    """P = rint(p · 2^38), half to even, of given probabilities: int64 of the same shape, the last axis the vocabulary.

    float32 is widened exactly. Raises `refuse` (TargetRefused) for another dtype, NaN, a negative value, a value ≥ 2,
    or a row with |ΣP − 2^38| > 2^28; FlushToZeroError.
    """
    p = np.asarray(probabilities)
    if p.dtype not in (np.float32, np.float64):
        raise refuse(f"{name}: expected float64 or float32, got {p.dtype}")
    if p.ndim == 0 or not 0 < p.shape[-1] <= MAX_VOCABULARY:
        raise refuse(f"{name}: expected a last axis of 1 to 2^24 tokens, got shape {p.shape}")
    require_subnormals()
    # Before any cast, and so that NaN fails too: both comparisons are false for it.
    if p.size and not (float(p.min()) >= 0.0 and float(p.max()) < 2.0):
        bad = tuple(int(i) for i in np.argwhere(~((p >= 0) & (p < 2)))[0])
        raise refuse(f"{name}{list(bad)}: expected 0 <= value < 2, got {p[bad]}")
    scaled = np.multiply(p, float(GRID), dtype=np.float64)
    np.rint(scaled, out=scaled)
    grid: Int64 = scaled.astype(np.int64)
    _check_totals(grid, name, refuse)
    return grid


def logit_grid(logits: npt.NDArray[Any], name: str = "logits") -> Int64:
    """P of target logits after the unchanged processors, at T = 1: int64 of the same shape.

    P_v = rint(fp64(u_v) / fp64(Σu) · 2^38), u the integer weights of the row. Raises TargetRefused for what
    `dyadic_counts` refuses in logits; FlushToZeroError.
    """
    array = np.asarray(logits)
    if array.ndim == 0:
        raise TargetRefused(f"{name}: expected a last axis of 1 to 2^24 tokens, got shape ()")
    grid = np.zeros(array.shape, np.int64)
    for index in np.ndindex(array.shape[:-1]):
        _fill_row(grid[index], array[index], f"{name}{list(index)}" if index else name)
    _check_totals(grid, name, TargetRefused)
    return grid


def _fill_row(grid: Int64, logits: npt.NDArray[Any], name: str) -> None:
    try:
        row, largest = logit_row(logits, name)
    except SamplingError as error:
        raise TargetRefused(str(error)) from None
    places, weights = integer_weights(row, largest, 1.0)
    # Two exact conversions, one rounded division, an exact scaling, one rounding to an integer.
    shares = np.divide(weights, float(int(weights.sum())))
    np.multiply(shares, float(GRID), out=shares)
    np.rint(shares, out=shares)
    grid[slice(None) if places is None else places] = shares


def _check_totals(grid: Int64, name: str, refuse: type[SamplingError]) -> None:
    totals = np.atleast_1d(grid.sum(axis=-1))
    wrong = np.argwhere(np.abs(totals - GRID) > TOLERANCE)
    if wrong.size:
        index = tuple(int(i) for i in wrong[0])
        place = f"{name}{list(index)}" if grid.ndim > 1 else name
        raise refuse(f"{place}: expected a sum of one within 2^-10, got {int(totals[index]) / GRID:.9g}")
