"""Counts of rows of small support, one program a row: everything after the selection, in one kernel."""

from __future__ import annotations

import triton
import triton.language as tl

from pp1wire.sampling.cuda.triton_kernels.arithmetic import (
    COUNTS_FAULT,
    FAULT,
    FINE_WORD,
    FLOORS_FAULT,
    HIGHEST,
    INVERSE_MASS,
    LOWEST_KEY,
    MASKED,
    MASS,
    MASS_BITS,
    REMAINDERS_FAULT,
    STATE,
    grid_exp,
    philox,
    unordered,
)


@triton.jit
def sparse_row(
    chosen, temperature, state, ids_out, ids_stride, counts_out, counts_stride, entries_out, entries_stride,
    wire_ids, wire_ids_stride, wire_q, wire_q_stride, wire_entries, wire_token, wire_stride,
    keys, offset, tokens, tokens_stride, support, columns,
    HAS_WIRE: tl.constexpr, BITS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """From the chosen tokens to counts, token and the wire's row. Grid (rows,).

    `chosen` is int64 [rows, support], id << 32 | ordered logit, rising. `columns` is the length of the output's columns, at
    least `support`; what is not used there becomes zero.
    """
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, WIDTH)
    packed = tl.load(chosen + row * support + lanes, mask=lanes < support, other=0)
    ids = (packed >> 32).to(tl.int32)
    rank = tl.where(lanes < support, packed.to(tl.int32), LOWEST_KEY)
    highest = tl.load(state + row * STATE + HIGHEST)
    word = tl.load(state + row * STATE + FAULT)
    if highest <= LOWEST_KEY:
        word = tl.minimum(word, MASKED)
    fine = word == FINE_WORD
    rank = tl.where(fine, rank, LOWEST_KEY)
    x = tl.where(rank < 0, rank ^ 0x7FFFFFFF, rank).to(tl.float32, bitcast=True)
    u = grid_exp(x, tl.where(fine, unordered(highest), 0.0), tl.load(temperature + row))
    total = tl.sum(u, axis=0)
    shifted = u << MASS_BITS
    divisor = tl.where(total > 0, total, 1)
    floors = shifted // divisor
    rest = shifted - floors * divisor
    given = tl.sum(floors, axis=0)
    remaining = MASS - given
    positive = tl.sum((rest > 0).to(tl.int64), axis=0)
    if fine:
        if (remaining < 0) | (remaining >= MASS):
            word = tl.minimum(word, FLOORS_FAULT + given)
        elif (remaining > 0) & (remaining >= positive):
            word = tl.minimum(word, REMAINDERS_FAULT + ((remaining << 25) | positive))
    # The threshold, bit by bit from the top: the largest value that at least `remaining` remainders reach.
    threshold = remaining * 0
    for step in tl.static_range(BITS):
        candidate = threshold | (tl.full((), 1, tl.int64) << (BITS - 1 - step))
        reached = tl.sum((rest >= candidate).to(tl.int64), axis=0)
        threshold = tl.where(reached >= remaining, candidate, threshold)
    above = rest > threshold
    quota = remaining - tl.sum(above.to(tl.int64), axis=0)
    equal = rest == threshold
    first = equal & (tl.cumsum(equal.to(tl.int64), axis=0) <= quota)
    counts = floors.to(tl.int32) + ((above | first) & (lanes < support) & (remaining > 0) & fine).to(tl.int32)
    mass = tl.sum(counts.to(tl.int64), axis=0)
    if (word == FINE_WORD) & (mass != MASS):
        word = tl.minimum(word, COUNTS_FAULT + mass)
    tl.store(state + row * STATE + FAULT, word)
    w0, _ = philox(keys, row, offset, 1, 0)
    ticket = (w0 >> 8).to(tl.int32)
    running = tl.cumsum(counts, axis=0)
    own = (running > ticket) & (running - counts <= ticket) & (counts > 0)
    token = tl.sum(tl.where(own, ids, 0), axis=0)
    used = counts > 0
    entries = tl.sum(used.to(tl.int32), axis=0)
    # Used entries move up and unused places become zero: two disjoint sets of addresses.
    place = tl.cumsum(used.to(tl.int32), axis=0) - 1
    unused = (lanes >= entries) & (lanes < columns)
    tl.store(ids_out + row * ids_stride + place, ids, mask=used)
    tl.store(ids_out + row * ids_stride + lanes, lanes * 0, mask=unused)
    tl.store(counts_out + row * counts_stride + place, counts, mask=used)
    tl.store(counts_out + row * counts_stride + lanes, lanes * 0, mask=unused)
    tl.store(entries_out + row * entries_stride, entries)
    tl.store(tokens + row * tokens_stride, token)
    if HAS_WIRE:
        tl.store(wire_ids + row * wire_ids_stride + place, ids, mask=used)
        tl.store(wire_ids + row * wire_ids_stride + lanes, lanes * 0, mask=unused)
        tl.store(wire_q + row * wire_q_stride + place, counts.to(tl.float32) * INVERSE_MASS, mask=used)
        tl.store(wire_q + row * wire_q_stride + lanes, (lanes * 0).to(tl.float32), mask=unused)
        tl.store(wire_entries + row * wire_stride, entries)
        tl.store(wire_token + row * wire_stride, token)
