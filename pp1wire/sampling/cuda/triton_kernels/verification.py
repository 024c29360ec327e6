"""Verification on the device: the target on its grid, acceptance, residual over the whole vocabulary, its token."""

from __future__ import annotations

import triton
import triton.language as tl

from pp1wire.sampling.cuda.triton_kernels.arithmetic import (
    ACCEPTED,
    BONUS,
    FAULT,
    FINE_WORD,
    GRID,
    LOW52,
    MASS,
    MASS_BITS,
    MASS_FAULT,
    OUTCOME,
    OUTCOME_FAULT,
    ROUNDER,
    SCALE,
    STATE,
    TOKEN,
    TOKEN_FAULT,
    TOTAL,
    VALUE_FAULT,
    ZERO_FAULT,
    below,
)


@triton.jit
def share(weights, grid, totals, state, vocabulary, BLOCK: tl.constexpr):
    """P = rint(fp64(u) / fp64(U) · 2^38), half to even, and its sum."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    total = tl.load(state + row * STATE + TOTAL)
    divisor = tl.where(total > 0, total, 1).to(tl.float64)
    u = tl.load(weights + row * vocabulary + ids, mask=inside, other=0)
    scaled = u.to(tl.float64) / divisor * GRID
    p = (scaled + ROUNDER).to(tl.int64, bitcast=True) & LOW52
    tl.store(grid + row * vocabulary + ids, p, mask=inside)
    tl.atomic_add(totals + row, tl.sum(p, axis=0))


@triton.jit
def probabilities(p, grid, totals, state, vocabulary, BLOCK: tl.constexpr):
    """P = rint(p · 2^38) of given FP32 or FP64 probabilities; NaN, negative or ≥ 2 is a fault before any cast."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    inside = ids < vocabulary
    value = tl.load(p + row * vocabulary + ids, mask=inside, other=0.0).to(tl.float64)
    good = (value >= 0.0) & (value < 2.0)
    tl.atomic_min(state + row * STATE + FAULT, tl.min(tl.where(good, FINE_WORD, VALUE_FAULT + ids), axis=0))
    scaled = tl.where(good, value, 0.0) * GRID
    # rint for values up to 2^39: adding 2^52 rounds half to even.
    rounded = (scaled + ROUNDER).to(tl.int64, bitcast=True) & LOW52
    tl.store(grid + row * vocabulary + ids, rounded, mask=inside)
    tl.atomic_add(totals + row, tl.sum(rounded, axis=0))


@triton.jit
def judge(
    grid, totals, faults, laws, ids, counts, tokens, keys, outcome, vocabulary, columns,
    SPARSE: tl.constexpr, DEPTH: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """How many drafted tokens are accepted, and what follows. Grid (chains,); one draw a position, all of domain 2.

    `grid` is int64 [chains, DEPTH + 1, V], `faults` its rows' words and `laws` those of q's rows; `ids` and `counts` int32
    [chains, DEPTH, columns], looked up by global id if sparse (unused entries have count zero); `tokens` int32
    [chains, DEPTH].
    """
    chain = tl.program_id(0).to(tl.int64)
    word = tl.full((), FINE_WORD, tl.int64)
    for i in tl.static_range(DEPTH + 1):
        word = tl.minimum(word, tl.load(faults + chain * (DEPTH + 1) + i))
    accepted = tl.full((), 0, tl.int64)
    running = tl.full((), 1, tl.int64)
    lanes = tl.arange(0, WIDTH)
    for i in tl.static_range(DEPTH):
        row = chain * DEPTH + i
        token = tl.load(tokens + row).to(tl.int64)
        inside = (token >= 0) & (token < vocabulary)
        word = tl.minimum(word, tl.load(laws + row))
        if inside == 0:
            word = tl.minimum(word, TOKEN_FAULT + i)
        safe = tl.where(inside, token, 0)
        if SPARSE:
            own = tl.load(ids + row * columns + lanes, mask=lanes < columns, other=-1)
            held = tl.load(counts + row * columns + lanes, mask=lanes < columns, other=0)
            q = tl.sum(tl.where(own == safe, held, 0).to(tl.int64), axis=0)
        else:
            q = tl.load(counts + row * columns + safe).to(tl.int64)
        if q <= 0:
            word = tl.minimum(word, ZERO_FAULT + i)
        p = tl.load(grid + (chain * (DEPTH + 1) + i) * vocabulary + safe)
        bound = q * tl.load(totals + chain * (DEPTH + 1) + i)
        ticket = below(tl.where(bound > 0, bound, 1), keys, chain, i, 2)
        running = running * (ticket < (p << MASS_BITS)).to(tl.int64)
        accepted += running
    bonus = accepted == DEPTH
    scale = tl.where(bonus, 0, tl.load(totals + chain * (DEPTH + 1) + accepted))
    tl.store(outcome + chain * OUTCOME + ACCEPTED, accepted)
    tl.store(outcome + chain * OUTCOME + BONUS, bonus.to(tl.int64))
    tl.store(outcome + chain * OUTCOME + SCALE, scale)
    tl.store(outcome + chain * OUTCOME + OUTCOME_FAULT, word)


@triton.jit
def weigh_rows(
    ids, counts, laws, depth, vocabulary, columns, SPARSE: tl.constexpr, STEPS: tl.constexpr, WIDTH: tl.constexpr
):
    """Whether each row of q is a law: no negative count, mass 2^24, ids inside and rising while they have counts.

    Grid (rows,). The int64 word of a row that is none becomes a fault at its position in the chain.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, WIDTH)
    mass = tl.full((), 0, tl.int64)
    wrong = tl.full((), 0, tl.int64)
    for step in range(STEPS):
        at = step * WIDTH + lanes
        held = tl.load(counts + row * columns + at, mask=at < columns, other=0)
        mass += tl.sum(held.to(tl.int64), axis=0)
        wrong += tl.sum((held < 0).to(tl.int64), axis=0)
        if SPARSE:
            own = tl.load(ids + row * columns + at, mask=at < columns, other=0)
            before = tl.load(ids + row * columns + at - 1, mask=(at > 0) & (at < columns), other=-1)
            bad = (held > 0) & ((own <= before) | (own < 0) | (own >= vocabulary))
            wrong += tl.sum(bad.to(tl.int64), axis=0)
    if (wrong > 0) | (mass != MASS):
        tl.store(laws + row, MASS_FAULT + row % depth)


@triton.jit
def spread(ids, counts, outcome, dense, vocabulary, columns, DEPTH: tl.constexpr, WIDTH: tl.constexpr):
    """The sparse q of the rejected position as a dense row, by global id. Grid (chains,); `dense` holds zeros."""
    chain = tl.program_id(0).to(tl.int64)
    accepted = tl.load(outcome + chain * OUTCOME + ACCEPTED)
    row = chain * DEPTH + tl.where(accepted < DEPTH, accepted, DEPTH - 1)
    lanes = tl.arange(0, WIDTH)
    own = tl.load(ids + row * columns + lanes, mask=lanes < columns, other=-1)
    held = tl.load(counts + row * columns + lanes, mask=lanes < columns, other=0)
    tl.store(dense + chain * vocabulary + own, held, mask=(held > 0) & (own >= 0) & (own < vocabulary))


@triton.jit
def rest(
    grid, q, q_stride, q_depth_stride, outcome, weights, sums, vocabulary, blocks,
    DEPTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """max(P·2^24 − Q·U, 0) of the rejected position, or P after none, for every id; each block's mass."""
    chain, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < vocabulary
    accepted = tl.load(outcome + chain * OUTCOME + ACCEPTED)
    scale = tl.load(outcome + chain * OUTCOME + SCALE)
    bonus = accepted == DEPTH
    p = tl.load(grid + (chain * (DEPTH + 1) + accepted) * vocabulary + ids, mask=inside, other=0)
    at = tl.where(bonus, 0, accepted) * q_depth_stride
    counts = tl.load(q + chain * q_stride + at + ids, mask=inside, other=0).to(tl.int64)
    left = (p << MASS_BITS) - counts * scale
    weight = tl.where(bonus, p, tl.where(left > 0, left, 0))
    tl.store(weights + chain * vocabulary + ids, weight, mask=inside)
    tl.store(sums + chain * blocks + block, tl.sum(weight, axis=0))


@triton.jit
def pick(
    weights, sums, keys, outcome, vocabulary, blocks, DEPTH: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr
):
    """The correction or bonus token: an unbiased ticket below the mass of all blocks, in id order. Grid (chains,)."""
    chain = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCKS)
    masses = tl.load(sums + chain * blocks + lanes, mask=lanes < blocks, other=0)
    mass = tl.sum(masses, axis=0)
    accepted = tl.load(outcome + chain * OUTCOME + ACCEPTED)
    domain = tl.where(accepted == DEPTH, 4, 3).to(tl.int64)
    ticket = below(tl.where(mass > 0, mass, 1), keys, chain, accepted, domain)
    upto = tl.cumsum(masses, axis=0)
    block = tl.sum(((upto <= ticket) & (lanes < blocks)).to(tl.int64), axis=0)
    before = tl.sum(tl.where(lanes < block, masses, 0), axis=0)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(weights + chain * vocabulary + ids, mask=ids < vocabulary, other=0)
    token = block * BLOCK + tl.sum((before + tl.cumsum(own, axis=0) <= ticket).to(tl.int64), axis=0)
    tl.store(outcome + chain * OUTCOME + TOKEN, token)
