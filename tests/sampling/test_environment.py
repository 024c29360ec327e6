"""Flush-to-zero is found, for real where the C library lets us set it, and by planted probes everywhere."""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import pytest

from pp1wire.sampling import (
    FlushToZeroError,
    dyadic_counts,
    dyadic_counts_dense,
    environment,
    logit_grid,
    probability_grid,
)

# fesetenv() of glibc loads the whole floating-point environment, the SSE control word (x86-64) or FPCR (aarch64) included.
# The flag stays inside this child process. Offsets: fenv_t.__mxcsr and fenv_t.__fpcr.
CHILD = """
import ctypes, math, sys
import numpy as np
from pp1wire.sampling import FlushToZeroError, dyadic_counts, weights
offset, flag = (28, 0x8040) if sys.argv[1] == "x86_64" else (0, 1 << 24)
row = np.array([3e-39, -3e-39], np.float32)
before = dyadic_counts(row, 1e-39)[1].tolist()
libm = ctypes.CDLL("libm.so.6")
buffer = ctypes.create_string_buffer(64)
libm.fegetenv(buffer)
word = ctypes.c_uint32.from_buffer(buffer, offset)
word.value |= flag
libm.fesetenv(buffer)
try:
    dyadic_counts(row, 1e-39)
except FlushToZeroError as error:
    print("refused:", error)
weights.require_subnormals = lambda: None
during = dyadic_counts(row, 1e-39)[1].tolist()
word.value &= ~flag
libm.fesetenv(buffer)
print("unchecked counts differ:", before != during)
print("again:", dyadic_counts(row, 1e-39)[1].tolist() == before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64") or platform.libc_ver()[0] != "glibc",
    reason="sets the flag through glibc's fesetenv",
)
def test_flush_to_zero_really_set_is_refused():
    """And it matters: without the check the same call gives other counts. After the flag is cleared, work goes on."""
    child = subprocess.run(
        [sys.executable, "-O", "-c", CHILD, platform.machine()], capture_output=True, text=True, timeout=60, check=False
    )
    assert child.returncode == 0, child.stderr
    lines = child.stdout.splitlines()
    assert lines[0].startswith("refused: numpy: this thread flushes subnormal numbers to zero")
    assert lines[1:] == ["unchecked counts differ: True", "again: True"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_flush_of_any_one_kind_is_refused_by_every_entry(place, monkeypatch):
    """FP32 widening, FP64 inputs and FP64 results are probed apart: each alone is enough."""
    healthy = environment._probe()

    def flushed():
        return tuple(np.zeros(1) if i == place else value for i, value in enumerate(healthy))

    row, p = np.zeros(3, np.float32), np.array([0.5, 0.5])
    calls = (
        lambda: dyadic_counts(row, 1.0),
        lambda: dyadic_counts_dense(row, 1.0),
        lambda: logit_grid(row),
        lambda: probability_grid(p),
    )
    for call in calls:
        call()
    monkeypatch.setattr(environment, "_probe", flushed)
    for call in calls:
        with pytest.raises(FlushToZeroError, match="flushes subnormal numbers to zero"):
            call()


def test_probe_finds_subnormals_here():
    assert [float(value[0]) for value in environment._probe()] == [2.0**-149, 2.0**-1073, 2.0**-1023]
