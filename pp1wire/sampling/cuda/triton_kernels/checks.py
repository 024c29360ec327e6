"""The strict rules of received rows, on the device: values, order, bounds, mass, token, ticket.

q is judged as it lies in the wire's row, before anything is scaled: bits above those of 1.0 (negatives, minus zero, infinities
and NaN included) never reach arithmetic.
"""

from __future__ import annotations

import triton
import triton.language as tl

from pp1wire.sampling.cuda.rules import Rule
from pp1wire.sampling.cuda.triton_kernels.arithmetic import MASS, philox

VALUE = tl.constexpr(int(Rule.VALUE))
ORDER = tl.constexpr(int(Rule.ORDER))
BOUNDS = tl.constexpr(int(Rule.BOUNDS))
MASS_RULE = tl.constexpr(int(Rule.MASS))
DRAWN = tl.constexpr(int(Rule.TOKEN))
TICKET = tl.constexpr(int(Rule.TICKET))
ONE_BITS = tl.constexpr(0x3F800000)
SCALE = tl.constexpr(2.0**24)


@triton.jit
def read_counts(bits):
    """(counts, whether each is a multiple of 2^-24 from 0 to 1) of q's bits as int32; FP64 is exact here."""
    sane = (bits >= 0) & (bits <= ONE_BITS)
    scaled = tl.where(sane, bits, 0).to(tl.float32, bitcast=True).to(tl.float64) * SCALE
    counts = scaled.to(tl.int32)
    return counts, sane & (counts.to(tl.float64) == scaled)


@triton.jit
def check_sparse(
    wire_ids, wire_ids_stride, wire_q, wire_q_stride, wire_entries, wire_token, wire_stride, counts_out, verdicts,
    keys, key_rows, vocabulary, columns, HAS_KEYS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Every rule of a sparse row, and its counts. Grid (rows,); int32 verdicts, a bit a broken rule."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, WIDTH)
    inside = lanes < columns
    entries = tl.load(wire_entries + row * wire_stride)
    token = tl.load(wire_token + row * wire_stride)
    ids = tl.load(wire_ids + row * wire_ids_stride + lanes, mask=inside, other=0)
    before = tl.load(wire_ids + row * wire_ids_stride + lanes - 1, mask=inside & (lanes > 0), other=-1)
    bits = tl.load(wire_q + row * wire_q_stride + lanes, mask=inside, other=0)
    counts, exact = read_counts(bits)
    fitting = (entries > 0) & (entries <= columns)
    used = inside & (lanes < entries)
    value = tl.sum((inside & (exact == 0)).to(tl.int32), axis=0)
    # A used entry has a count and an id above the one before; an unused one has neither count nor id.
    order = (used & ((counts == 0) | ((lanes > 0) & (ids <= before)))) | (
        inside & (used == 0) & ((ids != 0) | (bits != 0))
    )
    bounds = used & ((ids < 0) | (ids >= vocabulary))
    mass = tl.sum(counts.to(tl.int64), axis=0)
    at = used & (ids == token)
    own = tl.sum(tl.where(at, counts, 0).to(tl.int64), axis=0)
    verdict = tl.where(value > 0, VALUE, 0)
    verdict |= tl.where((tl.sum(order.to(tl.int32), axis=0) > 0) | (fitting == 0), ORDER, 0)
    verdict |= tl.where(tl.sum(bounds.to(tl.int32), axis=0) > 0, BOUNDS, 0)
    verdict |= tl.where(mass != MASS, MASS_RULE, 0)
    verdict |= tl.where(own == 0, DRAWN, 0)
    if HAS_KEYS:
        earlier = tl.sum(tl.where(used & (ids < token), counts, 0).to(tl.int64), axis=0)
        w0, _ = philox(keys, row // key_rows, row % key_rows, 1, 0)
        ticket = (w0 >> 8).to(tl.int64)
        verdict |= tl.where((earlier > ticket) | (ticket >= earlier + own), TICKET, 0)
    tl.store(counts_out + row * columns + lanes, counts, mask=inside)
    tl.store(verdicts + row, verdict)


@triton.jit
def check_dense(
    wire_q, wire_q_stride, wire_token, wire_stride, counts_out, sums, verdicts, vocabulary, columns,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Values, padding and sums of a dense row, block by block: int64 sums [rows, 3] of all, before the token, at it."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < columns
    token = tl.load(wire_token + row * wire_stride)
    bits = tl.load(wire_q + row * wire_q_stride + ids, mask=inside, other=0)
    counts, exact = read_counts(bits)
    value = tl.sum((exact == 0).to(tl.int32), axis=0)
    padding = tl.sum((inside & (ids >= vocabulary) & (bits != 0)).to(tl.int32), axis=0)
    verdict = tl.where(value > 0, VALUE, 0) | tl.where(padding > 0, BOUNDS, 0)
    tl.atomic_or(verdicts + row, verdict)
    wide = counts.to(tl.int64)
    tl.atomic_add(sums + row * 3, tl.sum(wide, axis=0))
    tl.atomic_add(sums + row * 3 + 1, tl.sum(tl.where(ids < token, wide, 0), axis=0))
    tl.atomic_add(sums + row * 3 + 2, tl.sum(tl.where(ids == token, wide, 0), axis=0))
    tl.store(counts_out + row * columns + ids, counts, mask=inside)


@triton.jit
def close_dense(
    wire_entries, wire_token, wire_stride, sums, verdicts, keys, key_rows, vocabulary, HAS_KEYS: tl.constexpr
):
    """Mass, token, ticket and entry count of a dense row, from its sums. Grid (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    token = tl.load(wire_token + row * wire_stride)
    mass, earlier, own = tl.load(sums + row * 3), tl.load(sums + row * 3 + 1), tl.load(sums + row * 3 + 2)
    verdict = tl.load(verdicts + row)
    verdict |= tl.where(tl.load(wire_entries + row * wire_stride) != vocabulary, ORDER, 0)
    verdict |= tl.where(mass != MASS, MASS_RULE, 0)
    verdict |= tl.where((own == 0) | (token < 0) | (token >= vocabulary), DRAWN, 0)
    if HAS_KEYS:
        w0, _ = philox(keys, row // key_rows, row % key_rows, 1, 0)
        ticket = (w0 >> 8).to(tl.int64)
        verdict |= tl.where((earlier > ticket) | (ticket >= earlier + own), TICKET, 0)
    tl.store(verdicts + row, verdict)
