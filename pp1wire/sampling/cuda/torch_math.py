"""The exact sampler's arithmetic on torch tensors, rows along the first axis; nothing here reads a value back.

Each FP64 step is one torch operation, so none can be fused. T is a tensor everywhere: on CUDA a division by a Python number
is a multiplication by its rounded reciprocal.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pp1wire.sampling.allocate import MASS, MASS_BITS
from pp1wire.sampling.cuda.state import CODE_SHIFT, FINE, Fault
from pp1wire.sampling.philox import MAX_DRAWS, TICKETS
from pp1wire.sampling.weights import COEFFICIENTS, GRID_BITS, LN2_HIGH, LN2_LOW, LOG2_E, LOWEST, SHIFTER

__all__ = [
    "allocate",
    "below",
    "decode_keys",
    "grid_exp",
    "highest_logit",
    "philox",
    "scan_faults",
    "spans",
    "support_keys",
    "tickets",
]

_RADIX_BITS = 11
_BINS = 1 << _RADIX_BITS
_LOW32 = 0xFFFFFFFF
_LOW52 = (1 << 52) - 1
_NO_ID = (1 << 31) - 1
_PART = 32_768
_SIGN = -(1 << 63)
_LARGEST = (1 << 63) - 1
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def spans(rows: Tensor) -> list[slice]:
    """The columns of rows [n, V] in parts: on the CPU parts that stay in a core's cache, elsewhere one part."""
    width = rows.shape[1]
    part = _PART if rows.device.type == "cpu" else width
    return [slice(start, min(start + part, width)) for start in range(0, width, part)]


def scan_faults(rows: Tensor) -> Tensor:
    """Fault words int64 [n] of FP32 rows [n, V]: NaN, +inf, no finite logit."""
    ids = torch.arange(rows.shape[1], dtype=torch.int32, device=rows.device)
    # The first id of each, found without a value leaving the device.
    nan = torch.where(rows.isnan(), ids, _NO_ID).amin(1).long()
    infinite = torch.where(rows == torch.inf, ids, _NO_ID).amin(1).long()
    masked = torch.where(rows.amax(1) == -torch.inf, int(Fault.MASKED) << CODE_SHIFT, FINE)
    word = torch.where(infinite < _NO_ID, (int(Fault.INFINITE) << CODE_SHIFT) + infinite, masked)
    return torch.where(nan < _NO_ID, (int(Fault.NAN) << CODE_SHIFT) + nan, word)


def highest_logit(rows: Tensor, faults: Tensor) -> tuple[Tensor, Tensor]:
    """(rows with faulty ones masked out, their maxima as FP64 [n, 1], 0 for a faulty row)."""
    fine = (faults == FINE)[:, None]
    rows = torch.where(fine, rows, -torch.inf)
    return rows, torch.where(fine, rows.amax(1, keepdim=True).double(), 0.0)


def grid_exp(rows: Tensor, highest: Tensor, temperature: Tensor) -> Tensor:
    """u = rint(exp((x − highest) / T) · 2^38): int64 of the shape of `rows`; `highest` and T are FP64 [n, 1]."""
    weights = torch.empty(rows.shape, dtype=torch.int64, device=rows.device)
    for part in spans(rows):
        weights[:, part] = _grid_exp(rows[:, part], highest, temperature)
    return weights


def _grid_exp(rows: Tensor, highest: Tensor, temperature: Tensor) -> Tensor:
    d = rows.double().sub_(highest).div_(temperature).clamp_(min=LOWEST)
    t = (d * LOG2_E).add_(SHIFTER)
    k = t.view(torch.int64).clone()
    t.sub_(SHIFTER)
    scratch = t * LN2_HIGH
    d.sub_(scratch)
    d.sub_(torch.mul(t, LN2_LOW, out=scratch))
    torch.mul(d, COEFFICIENTS[0], out=t)
    t.add_(COEFFICIENTS[1])
    for coefficient in COEFFICIENTS[2:]:
        t.mul_(d).add_(coefficient)
    k.add_(GRID_BITS + 1023).bitwise_left_shift_(52)
    t.mul_(k.view(torch.float64)).add_(2.0**52)
    return t.view(torch.int64).bitwise_and_(_LOW52)


def allocate(weights: Tensor, faults: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """(counts int32 [n, V], fault words) of weights int64 [n, V] whose sums are below 2^bits, by largest remainders.

    Faulty rows get no counts. The weights are overwritten.
    """
    total = weights.sum(1, keepdim=True).clamp_(min=1)
    counts = torch.empty(weights.shape, dtype=torch.int32, device=weights.device)
    given = torch.zeros_like(total)
    for part in spans(weights):
        shifted = weights[:, part].bitwise_left_shift_(MASS_BITS)
        floors = torch.div(shifted, total, rounding_mode="trunc")
        counts[:, part] = floors
        given += floors.sum(1, keepdim=True)
        shifted.sub_(floors.mul_(total))
    rest = weights
    remaining = MASS - given
    positive = torch.count_nonzero(rest, 1)[:, None]
    threshold, quota = _threshold(rest, remaining, bits)
    more = (remaining > 0) & (faults == FINE)[:, None]
    for part in spans(weights):
        equal = rest[:, part] == threshold
        order = equal.cumsum(1)
        first = equal.logical_and_(order <= quota).logical_or_(rest[:, part] > threshold).logical_and_(more)
        counts[:, part] += first
        quota = quota - order[:, -1:]
    mass = counts.sum(1, dtype=torch.int64)
    given, remaining, positive = given[:, 0], remaining[:, 0], positive[:, 0]
    word = torch.where(mass == MASS, FINE, (int(Fault.COUNTS) << CODE_SHIFT) + mass)
    short = (remaining > 0) & (remaining >= positive)
    word = torch.where(short, (int(Fault.REMAINDERS) << CODE_SHIFT) + ((remaining << 25) | positive), word)
    word = torch.where((remaining < 0) | (remaining >= MASS), (int(Fault.FLOORS) << CODE_SHIFT) + given, word)
    return counts, torch.where(faults == FINE, word, faults)


def _threshold(rest: Tensor, remaining: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """The value that the last of the `remaining` largest remainders has, and how many that have it are among them.

    Found 11 bits at a time from the top, by histograms of the remainders that share the bits found so far.
    """
    quota, prefix = remaining, torch.zeros_like(remaining)
    one = torch.ones((), dtype=torch.int64, device=rest.device).expand(rest.shape)
    top = (bits - 1) // _RADIX_BITS * _RADIX_BITS
    for shift in range(top, -1, -_RADIX_BITS):
        bins = torch.zeros((rest.shape[0], _BINS + 1), dtype=torch.int64, device=rest.device)
        for part in spans(rest):
            digits = rest[:, part] >> shift
            if shift < top:
                # Of those with the threshold's higher bits, the next digit; all others fall outside one way or the other.
                digits = digits.sub_(prefix << _RADIX_BITS)
                digits.masked_fill_((digits < 0).logical_or_(digits > _BINS), _BINS)
            bins.scatter_add_(1, digits, one[:, part])
        bins = bins[:, :_BINS]
        above = bins.sum(1, keepdim=True) - bins.cumsum(1)
        edge = (above >= quota).sum(1, keepdim=True).clamp_(max=_BINS - 1)
        quota = quota - above.gather(1, edge)
        prefix = (prefix << _RADIX_BITS) | edge
    return prefix, quota


def support_keys(rows: Tensor) -> Tensor:
    """One unique int64 key a token: the logit's order above the inverted id; −0.0 counts as 0.0."""
    bits = torch.where(rows == 0, 0.0, rows).view(torch.int32).to(torch.int64)
    rank = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (rank << 32) | (_LOW32 - torch.arange(rows.shape[1], device=rows.device))


def decode_keys(keys: Tensor) -> Tensor:
    """The chosen keys [n, k] as id << 32 | ordered logit (32 bits), ids rising."""
    return (((_LOW32 - (keys & _LOW32)) << 32) | ((keys >> 32) & _LOW32)).sort(1).values


def philox(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
    """(w0, w1) of Philox4x32-10 in int64 tensors: products wrap, and masks keep 32 bits. `seed` is 64 bits, signed."""
    k0, k1 = seed & _LOW32, (seed >> 32) & _LOW32
    for step in range(10):
        if step:
            k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW32, (k1 + _KEY_STEPS[1]) & _LOW32
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((second >> 32) & _LOW32) ^ c1 ^ k0,
            second & _LOW32,
            ((first >> 32) & _LOW32) ^ c3 ^ k1,
            first & _LOW32,
        )
    return c0, c1


def _draw(keys: Tensor, offset: Tensor | int, domain: Tensor | int, index: int) -> tuple[Tensor, Tensor]:
    seed, generation, round_, position = keys.unbind(-1)
    second = torch.zeros_like(seed) + (domain << 24) + index
    return philox(position + offset, second, round_, generation, seed)


def tickets(keys: Tensor, offset: Tensor | int) -> Tensor:
    """The 24-bit proposal tickets at `offset` positions past the keys' own (int64 [..., 4]): int64 [...]."""
    w0, _ = _draw(keys, offset, 1, 0)
    return w0 >> (32 - TICKETS.bit_length() + 1)


def below(n: Tensor, keys: Tensor, offset: Tensor | int, domain: Tensor | int) -> Tensor:
    """Unbiased draws in [0, n), 1 ≤ n < 2^63, int64, all of one shape: Lemire's method, in 32-bit limbs.

    Reads back whether any draw was rejected, so it belongs to verification and never to a captured chain.
    """
    half = _LARGEST % n + 1  # 2^63 mod n, or n
    limit = torch.where(half >= n - half, half - (n - half), half + half)
    limit = torch.where(limit == n, 0, limit)
    result, pending = torch.zeros_like(n), torch.ones_like(n, dtype=torch.bool)
    for index in range(MAX_DRAWS):
        w0, w1 = _draw(keys, offset, domain, index)
        high, low = _product(w0, w1, n)
        result = torch.where(pending, high, result)
        pending = pending & ((low ^ _SIGN) < (limit ^ _SIGN))
        if not bool(pending.any()):
            break
    return result


def _product(x_high: Tensor, x_low: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 64 bits of (x_high·2^32 + x_low)·n, as wrapped int64."""
    n_high, n_low = n >> 32, n & _LOW32
    low = x_low * n_low
    middle = x_high * n_low + ((low >> 32) & _LOW32)
    other = x_low * n_high + (middle & _LOW32)
    high = x_high * n_high + ((middle >> 32) & _LOW32) + ((other >> 32) & _LOW32)
    return high, ((other & _LOW32) << 32) | (low & _LOW32)
