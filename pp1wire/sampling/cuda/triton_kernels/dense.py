"""Counts of whole rows, several programs a row: maximum and refusals, weights, largest remainders, draw.

Grids are (rows, blocks of a row), or (rows,) where one program decides for a row. Programs of a row meet only in integer
additions, minima and maxima, so their order cannot matter. A faulty row runs through as a row of zeros.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pp1wire.sampling.cuda.triton_kernels.arithmetic import (
    BINS,
    COUNTS_FAULT,
    FAULT,
    FINE_WORD,
    FLOORS,
    FLOORS_FAULT,
    HIGHEST,
    INFINITE,
    INVERSE_MASS,
    LOWEST_KEY,
    MASKED,
    MASS,
    MASS_BITS,
    NAN,
    POSITIVE,
    PREFIX,
    QUOTA,
    RADIX_BITS,
    REMAINDERS_FAULT,
    STATE,
    TOTAL,
    grid_exp,
    ordered,
    philox,
    unordered,
)


@triton.jit
def scan(
    logits, logits_stride, bias, rows, keys, state, vocabulary,
    HAS_BIAS: tl.constexpr, HAS_KEYS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Bias added in FP32, faults and the maximum found; the row stored, or one unique int64 key a token."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = ids < vocabulary
    x = tl.load(logits + row * logits_stride + ids, mask=inside, other=float("-inf"))
    if HAS_BIAS:
        x = x + tl.load(bias + row * vocabulary + ids, mask=inside, other=0.0)
    x = tl.where(x == 0.0, 0.0, x)
    word = tl.where(x != x, NAN + ids, tl.where(x == float("inf"), INFINITE + ids, FINE_WORD))
    tl.atomic_min(state + row * STATE + FAULT, tl.min(word, axis=0))
    x = tl.where(word == FINE_WORD, x, float("-inf"))
    rank = tl.where(inside, ordered(x), LOWEST_KEY)
    tl.atomic_max(state + row * STATE + HIGHEST, tl.max(rank, axis=0).to(tl.int64))
    if HAS_KEYS:
        key = (rank.to(tl.int64) << 32) | (0xFFFFFFFF - ids)
        tl.store(keys + row * vocabulary + ids, key, mask=inside)
    else:
        tl.store(rows + row * vocabulary + ids, x, mask=inside)


@triton.jit
def weigh(rows, temperature, weights, state, vocabulary, BLOCK: tl.constexpr):
    """u of every token and their sum; a row without a finite logit is a fault."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    highest = tl.load(state + row * STATE + HIGHEST)
    if highest <= LOWEST_KEY:
        tl.atomic_min(state + row * STATE + FAULT, MASKED)
    fine = (highest > LOWEST_KEY) & (tl.load(state + row * STATE + FAULT) == FINE_WORD)
    x = tl.load(rows + row * vocabulary + ids, mask=inside, other=float("-inf"))
    top = tl.where(fine, unordered(highest), 0.0)
    x = tl.where(fine & inside, x, float("-inf"))
    u = grid_exp(x, top, tl.load(temperature + row))
    tl.store(weights + row * vocabulary + ids, u, mask=inside)
    tl.atomic_add(state + row * STATE + TOTAL, tl.sum(u, axis=0))


@triton.jit
def divide(
    weights, counts, counts_stride, histogram, state, vocabulary, shift, passes, BLOCK: tl.constexpr
):  # fmt: skip
    """Floors into `counts`, remainders over `weights`, and the histogram of the remainders' highest 11 bits."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    total = tl.load(state + row * STATE + TOTAL)
    total = tl.where(total > 0, total, 1)
    shifted = tl.load(weights + row * vocabulary + ids, mask=inside, other=0) << MASS_BITS
    floors = shifted // total
    rest = shifted - floors * total
    tl.store(counts + row * counts_stride + ids, floors.to(tl.int32), mask=inside)
    tl.store(weights + row * vocabulary + ids, rest, mask=inside)
    tl.atomic_add(state + row * STATE + FLOORS, tl.sum(floors, axis=0))
    tl.atomic_add(state + row * STATE + POSITIVE, tl.sum((rest > 0).to(tl.int64), axis=0))
    bins = tl.histogram((rest >> shift).to(tl.int32), BINS, mask=inside)
    tl.atomic_add(histogram + row * passes * BINS + tl.arange(0, BINS), bins, mask=bins > 0)


@triton.jit
def digit(
    weights, histogram, state, vocabulary, shift, step, passes, BLOCK: tl.constexpr
):  # fmt: skip
    """The histogram of the next 11 bits, among the remainders whose higher bits are those of the threshold."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    rest = tl.load(weights + row * vocabulary + ids, mask=inside, other=0)
    prefix = tl.load(state + row * STATE + PREFIX)
    among = inside & ((rest >> (shift + RADIX_BITS)) == prefix)
    bins = tl.histogram(((rest >> shift) & (BINS - 1)).to(tl.int32), BINS, mask=among)
    tl.atomic_add(histogram + (row * passes + step) * BINS + tl.arange(0, BINS), bins, mask=bins > 0)


@triton.jit
def choose(histogram, state, step, passes, FIRST: tl.constexpr):
    """One more digit of the threshold, and the quota of remainders that share it. Grid (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BINS)
    bins = tl.load(histogram + (row * passes + step) * BINS + lanes).to(tl.int64)
    if FIRST:
        floors = tl.load(state + row * STATE + FLOORS)
        positive = tl.load(state + row * STATE + POSITIVE)
        quota = MASS - floors
        prefix = quota * 0
        fine = tl.load(state + row * STATE + FAULT) == FINE_WORD
        if fine:
            if (quota < 0) | (quota >= MASS):
                tl.atomic_min(state + row * STATE + FAULT, FLOORS_FAULT + floors)
            elif (quota > 0) & (quota >= positive):
                # A remainder of zero must never get one more: a masked token would gain probability.
                tl.atomic_min(state + row * STATE + FAULT, REMAINDERS_FAULT + ((quota << 25) | positive))
    else:
        quota = tl.load(state + row * STATE + QUOTA)
        prefix = tl.load(state + row * STATE + PREFIX)
    upto = tl.cumsum(bins, axis=0)
    above = tl.sum(bins, axis=0) - upto
    # The bin where the quota runs out: more than what lies above it, at most what lies from it on.
    edge = tl.max(tl.where((above < quota) & (above + bins >= quota), lanes, 0), axis=0)
    taken = tl.sum(tl.where(lanes == edge, above, 0), axis=0)
    tl.store(state + row * STATE + PREFIX, (prefix << RADIX_BITS) | edge)
    tl.store(state + row * STATE + QUOTA, quota - taken)


@triton.jit
def ties(weights, tied, state, vocabulary, blocks, BLOCK: tl.constexpr):
    """How many remainders of each block equal the threshold."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    rest = tl.load(weights + row * vocabulary + ids, mask=inside, other=0)
    equal = inside & (rest == tl.load(state + row * STATE + PREFIX))
    tl.store(tied + row * blocks + block, tl.sum(equal.to(tl.int64), axis=0))


@triton.jit
def finish(
    weights, counts, counts_stride, q, q_stride, tied, sums, state, vocabulary, blocks,
    HAS_Q: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One more to whoever is above the threshold, and to the first ties; q into the wire's row; each block's mass."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    lanes = tl.arange(0, BLOCKS)
    earlier = tl.load(tied + row * blocks + lanes, mask=(lanes < block) & (lanes < blocks), other=0)
    threshold = tl.load(state + row * STATE + PREFIX)
    quota = tl.load(state + row * STATE + QUOTA) - tl.sum(earlier, axis=0)
    open_ = (tl.load(state + row * STATE + FLOORS) < MASS) & (tl.load(state + row * STATE + FAULT) == FINE_WORD)
    rest = tl.load(weights + row * vocabulary + ids, mask=inside, other=0)
    equal = inside & (rest == threshold)
    first = equal & (tl.cumsum(equal.to(tl.int64), axis=0) <= quota)
    more = inside & ((rest > threshold) | first) & open_
    total = tl.load(counts + row * counts_stride + ids, mask=inside, other=0) + more.to(tl.int32)
    tl.store(counts + row * counts_stride + ids, total, mask=inside)
    if HAS_Q:
        tl.store(q + row * q_stride + ids, total.to(tl.float32) * INVERSE_MASS, mask=inside)
    tl.store(sums + row * blocks + block, tl.sum(total.to(tl.int64), axis=0))


@triton.jit
def draw(
    counts, counts_stride, sums, keys, offset, tickets, tokens, tokens_stride, wire_token, wire_stride, state, vocabulary,
    blocks, HAS_WIRE: tl.constexpr, GIVEN: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The token that owns the ticket of this position, or a given one: its block by the blocks' masses, then its place.

    Grid (rows,).
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCKS)
    masses = tl.load(sums + row * blocks + lanes, mask=lanes < blocks, other=0)
    mass = tl.sum(masses, axis=0)
    if (tl.load(state + row * STATE + FAULT) == FINE_WORD) & (mass != MASS):
        tl.atomic_min(state + row * STATE + FAULT, COUNTS_FAULT + mass)
    if GIVEN:
        ticket = tl.load(tickets + row)
    else:
        w0, _ = philox(keys, row, offset, 1, 0)
        ticket = (w0 >> 8).to(tl.int64)
    upto = tl.cumsum(masses, axis=0)
    block = tl.sum(((upto <= ticket) & (lanes < blocks)).to(tl.int32), axis=0)
    before = tl.sum(tl.where(lanes < block, masses, 0), axis=0)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(counts + row * counts_stride + ids, mask=ids < vocabulary, other=0).to(tl.int64)
    token = block * BLOCK + tl.sum((before + tl.cumsum(own, axis=0) <= ticket).to(tl.int32), axis=0)
    # A faulty row has no mass and owns no ticket; its token is never used, but it indexes the next row's bias.
    token = tl.where(token < vocabulary, token, 0)
    tl.store(tokens + row * tokens_stride, token)
    if HAS_WIRE:
        tl.store(wire_token + row * wire_stride, token)
