"""Rows that are hard on a sampler, from a seed: what tests and the GPU check compare backends on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

KINDS = ("ties", "one-hot", "masked", "near-uniform", "zeros", "subnormal", "huge", "plain", "peaked")


def fuzzed(kind: str, size: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.float32], float]:
    """(row float32 [size], temperature): a row of one kind, which always has a finite logit."""
    temperature = float(rng.choice([0.3, 0.6, 0.8, 1.0, 1.7]))
    row = rng.normal(0, 3, size)
    if kind == "ties":
        row = rng.integers(0, 3, size).astype(float)
    elif kind == "one-hot":
        row = np.full(size, -np.inf)
        row[rng.integers(size)] = rng.normal()
    elif kind == "masked":
        row[rng.random(size) < 0.7] = -np.inf
        row[rng.integers(size)] = 1.0
    elif kind == "near-uniform":
        row = 1.0 + rng.integers(0, 3, size) * 2.0**-23
    elif kind == "zeros":
        row = rng.choice([0.0, -0.0], size)
    elif kind == "subnormal":
        row, temperature = rng.choice([3e-39, -3e-39, 1e-45, -0.0], size), float(rng.choice([1e-39, 5e-324, 1.0]))
    elif kind == "huge":
        row, temperature = rng.choice([3.4e38, -3.4e38, 0.0], size), float(rng.choice([1.0, 1e38, 1.7e308]))
    elif kind == "peaked":
        row = rng.normal(0, 30, size)
    return row.astype(np.float32), temperature
