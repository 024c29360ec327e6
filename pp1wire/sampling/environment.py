"""Does this thread's floating point keep subnormal numbers?

Flush-to-zero and denormals-are-zero are thread-wide processor flags that other libraries set (a "fast math" shared
object, or `torch.set_flush_denormal(True)`). They change FP64 divisions and FP32 widening, and with them the counts, so
that two machines would no longer agree on q. The probe costs microseconds, so it runs before every row, not once: the
flag can change at any time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.errors import FlushToZeroError

__all__ = ["require_subnormals"]

# The smallest positive FP32 and FP64 numbers, and a pair whose FP64 quotient is subnormal.
_TINY32 = np.array([2.0**-149], np.float32)
_TINY64 = np.array([5e-324], np.float64)
_SMALL64 = np.array([2.0**-1022], np.float64)
_TWO = np.array([2.0], np.float64)


def _probe() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """FP32 2^-149 widened; FP64 2^-1074 doubled (an input is flushed to zero); 2^-1022 halved (an output is)."""
    return _TINY32.astype(np.float64), _TINY64 * _TWO, _SMALL64 / _TWO


def require_subnormals(backend: str = "numpy") -> None:
    """Raise FlushToZeroError if this thread flushes subnormal numbers to zero."""
    # Compared as bits: a comparison of floats would itself treat a subnormal as zero under the flag it looks for.
    for value in _probe():
        if not int(value.view(np.uint64)[0]):
            raise FlushToZeroError(
                f"{backend}: this thread flushes subnormal numbers to zero, so counts would differ between machines; "
                "expected flush-to-zero off (torch.set_flush_denormal(False), no -ffast-math libraries)"
            )
