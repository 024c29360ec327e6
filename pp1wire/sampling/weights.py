"""Integer weights of a row of logits: u = rint(exp((logit − max) / T) · 2^38), the same bits on every machine.

Every step is a single correctly rounded IEEE operation; no library exponential is used, because those differ between
machines. The constants are part of the semantic `dyadic24-standard-v1`; docs/exactness.md writes them out.
"""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.environment import require_subnormals
from pp1wire.sampling.errors import SamplingError

__all__ = ["GRID", "GRID_BITS", "MAX_VOCABULARY", "check_temperature", "integer_weights", "logit_row"]

GRID_BITS = 38
GRID = 1 << GRID_BITS
"""Weights and target probabilities are integers on this grid."""
MAX_VOCABULARY = 1 << 24
"""Sums of weights stay below 2^62 up to here."""

LOWEST = -30.0
LOG2_E = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SHIFTER = 1.5 * 2.0**52
# 1/13!, 1/12!, … 1/2!, 1, 1: each the double nearest to 1/n! (n! is exact in FP64 up to 13).
COEFFICIENTS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))

_BLOCK = 8192  # elements in flight: four FP64 scratch arrays of this size stay in a core's second-level cache
# d below this gives exp(d)·2^38 < 0.2, hence weight zero: such tokens need no arithmetic.
_WEIGHTLESS = -28.0

Logits = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]


def check_temperature(temperature: SupportsFloat) -> float:
    """T as a double. Raises SamplingError unless it is finite and positive."""
    try:
        value = float(temperature)
    except (TypeError, ValueError, OverflowError):
        raise SamplingError(f"temperature: expected a finite number > 0, got {temperature!r}") from None
    if not 0.0 < value < math.inf:
        raise SamplingError(f"temperature: expected a finite number > 0, got {value!r}")
    return value


def logit_row(logits: Logits, name: str = "logits") -> tuple[Float32, float]:
    """One row of logits as float32 [V] (float16 and bfloat16 widen exactly), and its largest value.

    Raises SamplingError for another shape or dtype, NaN, +inf, or no finite logit; −inf is a masked token.
    """
    row = np.asarray(logits)
    if row.ndim != 1 or not 0 < row.size <= MAX_VOCABULARY:
        raise SamplingError(f"{name}: expected shape [V] with 1 <= V <= 2^24, got {row.shape}")
    if row.dtype != np.float32:
        if row.dtype.name not in ("float16", "bfloat16"):
            raise SamplingError(f"{name}: expected float32 (or float16, bfloat16), got {row.dtype}")
        row = row.astype(np.float32)
    # NaN is looked for by name, never left to a maximum: on some backends a maximum drops it.
    largest = float(row.max())
    if math.isnan(largest) or bool(np.isnan(row).any()):
        raise SamplingError(f"{name}: NaN at id {int(np.isnan(row).argmax())}")
    if largest == math.inf:
        raise SamplingError(f"{name}: +inf at id {int((row == np.inf).argmax())}")
    if largest == -math.inf:
        raise SamplingError(f"{name}: no finite logit among {row.size}")
    return row, largest


def integer_weights(row: Float32, largest: float, temperature: float) -> tuple[npt.NDArray[np.intp] | None, Int64]:
    """Weights of a checked row: (places, u). `places` lists the entries u belongs to, or is None for all of them.

    Entries that are left out have weight zero; u (int64) lies in [0, 2^38], and the largest logit has 2^38. The row,
    its maximum and T must have passed `logit_row` and `check_temperature`. Raises FlushToZeroError.
    """
    require_subnormals()
    # Underflow and overflow to −inf are meant here, whatever the caller's np.seterr says.
    with np.errstate(all="ignore"):
        # Rounding is monotone, so the comparison in FP32 keeps every FP32 logit that the FP64 cut would keep.
        keep = row >= np.float32(largest + _WEIGHTLESS * temperature)
        places = None
        if int(np.count_nonzero(keep)) < row.size - row.size // 8:
            places = np.flatnonzero(keep)
            row = row[places]
        return places, _grid_exp(row, largest, temperature)


def _grid_exp(row: Float32, largest: float, temperature: float) -> Int64:
    size = row.size
    width = max(1, min(size, _BLOCK))  # a shard may hold no token that has weight
    out = np.empty(size, np.int64)
    d_, t_, s_ = (np.empty(width, np.float64) for _ in range(3))
    k_ = np.empty(width, np.int64)
    for start in range(0, size, width):
        stop = min(start + width, size)
        n = stop - start
        d, t, s, k = d_[:n], t_[:n], s_[:n], k_[:n]
        np.subtract(row[start:stop], largest, out=d, dtype=np.float64)
        if temperature != 1.0:  # division by one is exact
            np.divide(d, temperature, out=d)
        np.maximum(d, LOWEST, out=d)
        # Cody–Waite: d = k·ln 2 + r, k rounded by adding 1.5·2^52. Products and sums stay separate: never fused.
        np.multiply(d, LOG2_E, out=t)
        np.add(t, SHIFTER, out=t)
        np.copyto(k, t.view(np.int64))
        np.subtract(t, SHIFTER, out=t)
        np.multiply(t, LN2_HIGH, out=s)
        np.subtract(d, s, out=d)
        np.multiply(t, LN2_LOW, out=s)
        np.subtract(d, s, out=d)
        np.multiply(d, COEFFICIENTS[0], out=t)
        np.add(t, COEFFICIENTS[1], out=t)
        for coefficient in COEFFICIENTS[2:]:
            np.multiply(t, d, out=t)
            np.add(t, coefficient, out=t)
        # 2^(k+38) from exponent bits; shifting left by 52 drops everything of the shifter but k.
        np.add(k, GRID_BITS + 1023, out=k)
        np.left_shift(k, 52, out=k)
        np.multiply(t, k.view(np.float64), out=t)
        # Adding 2^52 rounds to an integer, half to even; the low 52 bits are that integer.
        np.add(t, 2.0**52, out=t)
        np.bitwise_and(t.view(np.int64), (1 << 52) - 1, out=out[start:stop])
    return out
