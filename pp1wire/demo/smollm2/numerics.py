"""Float32 building blocks whose result for a row does not depend on the rows computed with it.

A matrix product of several rows picks another BLAS kernel, and so another order of additions, for each number of rows:
the same token would get other low bits when verified among six than when decoded alone. Here every row is one
matrix-vector product of a fixed shape. The weight is walked in slices small enough to stay in cache while all rows
use it, so that six rows still read the weights from memory once; measured, that is as fast as the matrix product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

__all__ = ["attend", "linear", "rms_norm", "rotate", "rotation_tables", "silu"]

# 288 KiB: within a core's L2 cache, and below the size from which the OpenBLAS of numpy's wheels starts threads.
SLICE_FLOATS = 128 * 576


def linear(rows: Floats, weight: Floats) -> Floats:
    """`rows` [n, inputs] times `weight` [outputs, inputs] transposed: float32 [n, outputs]."""
    outputs, inputs = weight.shape
    result = np.empty((len(rows), outputs), np.float32)
    step = max(1, SLICE_FLOATS // inputs)
    for start in range(0, outputs, step):
        part = weight[start : start + step]
        for row, target in zip(rows, result, strict=True):
            np.matmul(part, row, out=target[start : start + step])
    return result


def rms_norm(rows: Floats, gain: Floats, epsilon: float) -> Floats:
    """Each row over its root mean square, times `gain` (Zhang and Sennrich 2019, arXiv 1910.07467)."""
    scale: Floats = np.add.reduce(rows * rows, axis=-1, keepdims=True)
    scale /= np.float32(rows.shape[-1])
    scale += np.float32(epsilon)
    np.sqrt(scale, out=scale)
    return rows / scale * gain


def silu(gate: Floats) -> Floats:
    """x * sigmoid(x), through tanh because exp(-x) overflows."""
    half = gate * np.float32(0.5)
    tanh: Floats = np.tanh(half)
    return half + half * tanh


def rotation_tables(positions: int, head_dim: int, base: float) -> tuple[Floats, Floats]:
    """Cosines and sines of the rotary embedding (Su et al. 2021, arXiv 2104.09864), float32 [positions, head_dim/2]."""
    frequency = base ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    angle = np.arange(positions, dtype=np.float64)[:, None] * frequency
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def rotate(heads: Floats, cosine: Floats, sine: Floats) -> Floats:
    """Rotate [n, heads, head_dim] by tables [n, head_dim/2]; a pair is (i, i + head_dim/2)."""
    half = heads.shape[-1] // 2
    first, second = heads[..., :half], heads[..., half:]
    c, s = cosine[:, None, :], sine[:, None, :]
    return np.concatenate([first * c - second * s, first * s + second * c], axis=-1)


def attend(query: Floats, keys: Floats, values: Floats) -> Floats:
    """One position's grouped-query attention over `length` positions, its own included.

    `query` [kv_heads, group, head_dim], already scaled; `keys` and `values` [kv_heads, length, head_dim];
    returns [kv_heads, group, head_dim].
    """
    scores: Floats = np.matmul(query, keys.swapaxes(1, 2))
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, axis=-1, keepdims=True)
    mixed: Floats = np.matmul(scores, values)
    return mixed
