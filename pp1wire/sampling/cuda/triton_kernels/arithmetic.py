"""Device functions that all kernels share: the project's exponential, ordered keys, Philox draws.

Each FP64 step is one correctly rounded operation. Kernels must be compiled with `enable_fp_fusion=False`; the test of the
PTX refuses a fused or flushed FP64 operation. Constants of the exponential reach FP64 unrounded because the other operand is
an FP64 tensor; that too is read off the PTX.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pp1wire.sampling import weights as reference
from pp1wire.sampling.cuda.state import CODE_SHIFT, FINE, Fault, Outcome, State

LOWEST = tl.constexpr(reference.LOWEST)
LOG2_E = tl.constexpr(reference.LOG2_E)
LN2_HIGH = tl.constexpr(reference.LN2_HIGH)
LN2_LOW = tl.constexpr(reference.LN2_LOW)
SHIFTER = tl.constexpr(reference.SHIFTER)
GRID_BITS = tl.constexpr(reference.GRID_BITS)
GRID = tl.constexpr(float(reference.GRID))
ROUNDER = tl.constexpr(2.0**52)
LOW52 = tl.constexpr((1 << 52) - 1)
# 1/13! … 1/2!; the last two coefficients are 1.
C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2 = (tl.constexpr(c) for c in reference.COEFFICIENTS[:12])

FINE_WORD = tl.constexpr(FINE)
FAULT_SHIFT = tl.constexpr(CODE_SHIFT)
NAN = tl.constexpr(int(Fault.NAN) << CODE_SHIFT)
INFINITE = tl.constexpr(int(Fault.INFINITE) << CODE_SHIFT)
MASKED = tl.constexpr(int(Fault.MASKED) << CODE_SHIFT)
FLOORS_FAULT = tl.constexpr(int(Fault.FLOORS) << CODE_SHIFT)
REMAINDERS_FAULT = tl.constexpr(int(Fault.REMAINDERS) << CODE_SHIFT)
COUNTS_FAULT = tl.constexpr(int(Fault.COUNTS) << CODE_SHIFT)
VALUE_FAULT = tl.constexpr(int(Fault.VALUE) << CODE_SHIFT)
TOTAL_FAULT = tl.constexpr(int(Fault.TOTAL) << CODE_SHIFT)
ZERO_FAULT = tl.constexpr(int(Fault.ZERO) << CODE_SHIFT)
TOKEN_FAULT = tl.constexpr(int(Fault.TOKEN) << CODE_SHIFT)
MASS_FAULT = tl.constexpr(int(Fault.MASS) << CODE_SHIFT)

FAULT = tl.constexpr(int(State.FAULT))
HIGHEST = tl.constexpr(int(State.HIGHEST))
TOTAL = tl.constexpr(int(State.TOTAL))
FLOORS = tl.constexpr(int(State.FLOORS))
POSITIVE = tl.constexpr(int(State.POSITIVE))
PREFIX = tl.constexpr(int(State.PREFIX))
QUOTA = tl.constexpr(int(State.QUOTA))
STATE = tl.constexpr(int(State.WIDTH))

ACCEPTED = tl.constexpr(int(Outcome.ACCEPTED))
TOKEN = tl.constexpr(int(Outcome.TOKEN))
BONUS = tl.constexpr(int(Outcome.BONUS))
OUTCOME_FAULT = tl.constexpr(int(Outcome.FAULT))
SCALE = tl.constexpr(int(Outcome.SCALE))
OUTCOME = tl.constexpr(int(Outcome.WIDTH))

MASS_BITS = tl.constexpr(24)
MASS = tl.constexpr(1 << 24)
RADIX_BITS = tl.constexpr(11)
BINS = tl.constexpr(1 << 11)
LOWEST_KEY = tl.constexpr(-0x7F800001)
"""−inf as an ordered integer; NaN has no key, it is refused."""
INVERSE_MASS = tl.constexpr(2.0**-24)
MAX_DRAWS = tl.constexpr(1 << 24)


@triton.jit
def ordered(x):
    """FP32 as int32 of the same order; the caller has turned −0.0 into 0.0."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def unordered(key):
    """The FP32 number of an ordered int64 key, as FP64."""
    bits = tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.int32)
    return bits.to(tl.float32, bitcast=True).to(tl.float64)


@triton.jit
def grid_exp(x, highest, temperature):
    """u = rint(exp((x − highest) / T) · 2^38) as int64; x is FP32 without NaN or +inf, the others FP64 scalars."""
    d = (x.to(tl.float64) - highest) / temperature
    d = tl.where(d < LOWEST, LOWEST, d)
    t = d * LOG2_E
    t = t + SHIFTER
    k = t.to(tl.int64, bitcast=True)
    t = t - SHIFTER
    d = d - t * LN2_HIGH
    d = d - t * LN2_LOW
    t = d * C13
    t = t + C12
    t = t * d + C11
    t = t * d + C10
    t = t * d + C9
    t = t * d + C8
    t = t * d + C7
    t = t * d + C6
    t = t * d + C5
    t = t * d + C4
    t = t * d + C3
    t = t * d + C2
    t = t * d + 1.0
    t = t * d + 1.0
    t = t * ((k + (GRID_BITS + 1023)) << 52).to(tl.float64, bitcast=True)
    return (t + ROUNDER).to(tl.int64, bitcast=True) & LOW52


@triton.jit
def philox(keys, row, offset, domain, index):
    """(w0, w1) as uint32 scalars: keys is int64 [n, 4] of seed, generation, round and position of the first token."""
    seed = tl.load(keys + row * 4)
    generation = tl.load(keys + row * 4 + 1).to(tl.uint32)
    round_ = tl.load(keys + row * 4 + 2).to(tl.uint32)
    position = (tl.load(keys + row * 4 + 3) + offset).to(tl.uint32)
    k0 = (seed & 0xFFFFFFFF).to(tl.uint32)
    k1 = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
    second = (seed * 0 + (domain << 24) + index).to(tl.uint32)  # a tensor, whatever the arguments are
    w0, w1, _, _ = tl.philox_impl(position, second, round_, generation, k0, k1)
    return w0, w1


@triton.jit
def below(n, keys, row, offset, domain):
    """An unbiased draw in [0, n), int64, 1 ≤ n < 2^63: Lemire's method on a 64 × 64 bit product."""
    bound = n.to(tl.uint64)
    zero = bound - bound
    threshold = (zero - bound) % bound
    index = n * 0
    w0, w1 = philox(keys, row, offset, domain, index)
    x = (w0.to(tl.uint64) << 32) | w1.to(tl.uint64)
    while (x * bound < threshold) & (index < MAX_DRAWS - 1):
        index += 1
        w0, w1 = philox(keys, row, offset, domain, index)
        x = (w0.to(tl.uint64) << 32) | w1.to(tl.uint64)
    return tl.umulhi(x, bound).to(tl.int64)
