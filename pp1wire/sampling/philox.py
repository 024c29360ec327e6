"""Counter-based random words: Philox4x32-10, and the unbiased draws made from them.

Key and counter (all 32-bit words): key = (seed mod 2^32, seed >> 32), counter = (position, domain << 24 | draw, round,
generation). A stream is never advanced or restored: a draw is a pure function of its address, so two draws share noise
only if their addresses are equal. `_block` is the only place where Philox is computed.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import enum
import operator
from typing import Any, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.errors import SamplingError

__all__ = [
    "MAX_BOUND",
    "MAX_DRAWS",
    "TICKETS",
    "Domain",
    "below",
    "below_many",
    "proposal_tickets",
    "round_tickets",
    "unsigned",
    "words",
    "words_many",
]

TICKETS = 1 << 24
"""Number of proposal tickets: the total mass of a dyadic row."""
MAX_DRAWS = 1 << 24
"""Draw indices of one address are below this."""
MAX_BOUND = 1 << 63
"""Largest n of `below`."""

# Typed Any: numpy keeps uint64 when an array meets these Python integers, but its type stubs do not know it.
_LOW32: Any = 0xFFFFFFFF
_HIGHEST64: Any = 0xFFFFFFFFFFFFFFFF
_HALF: Any = 32
_MULTIPLIERS: tuple[Any, Any] = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS: tuple[Any, Any] = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD_TO_TICKET = 8  # a ticket is the top 24 bits of a 32-bit word

UInt64 = npt.NDArray[np.uint64]
Integers = SupportsIndex | npt.NDArray[np.integer[Any]]
# The arithmetic is written once and runs on Python integers and on uint64 arrays alike: nothing exceeds 64 bits.
Word = TypeVar("Word", int, UInt64)


class Domain(enum.IntEnum):
    """What a draw is for. Draws of different domains never share noise."""

    PROPOSAL = 1
    ACCEPTANCE = 2
    CORRECTION = 3
    BONUS = 4
    TARGET_ONLY = 5


def unsigned(value: SupportsIndex, bits: int, name: str) -> int:
    """`value` as a Python int, refused unless 0 ≤ value < 2^bits. Raises SamplingError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise SamplingError(f"{name}: expected an integer, got {type(value).__name__}") from None
    if not 0 <= number < 1 << bits:
        raise SamplingError(f"{name}: expected 0 <= {name} < 2^{bits}, got {number}")
    return number


def _unsigned_many(value: Integers, bits: int, name: str) -> UInt64:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise SamplingError(f"{name}: expected integers, got dtype {array.dtype}")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= 1 << bits):
        raise SamplingError(f"{name}: expected 0 <= {name} < 2^{bits}, got {array.min()} to {array.max()}")
    return array.astype(np.uint64)


def _block(c0: Word, c1: Word, c2: Word, c3: Word, k0: Word, k1: Word) -> tuple[Word, Word, Word, Word]:
    for step in range(_ROUNDS):
        if step:
            k0 = (k0 + _KEY_STEPS[0]) & _LOW32
            k1 = (k1 + _KEY_STEPS[1]) & _LOW32
        first = c0 * _MULTIPLIERS[0]
        second = c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (second >> _HALF) ^ c1 ^ k0, second & _LOW32, (first >> _HALF) ^ c3 ^ k1, first & _LOW32
    return c0, c1, c2, c3


def _product(x: Word, n: Word) -> tuple[Word, Word]:
    """High and low 64 bits of x·n, by 32-bit limbs: no intermediate exceeds 64 bits."""
    x_high, x_low, n_high, n_low = x >> _HALF, x & _LOW32, n >> _HALF, n & _LOW32
    low = x_low * n_low
    middle = x_high * n_low + (low >> _HALF)
    other = x_low * n_high + (middle & _LOW32)
    return x_high * n_high + (middle >> _HALF) + (other >> _HALF), ((other & _LOW32) << _HALF) | (low & _LOW32)


def words(
    seed: SupportsIndex,
    generation: SupportsIndex,
    round: SupportsIndex,
    position: SupportsIndex,
    domain: SupportsIndex,
    index: SupportsIndex = 0,
) -> npt.NDArray[np.uint32]:
    """The four uint32 words of draw `index` at one address.

    `seed` is 64 bits, `generation`, `round` and `position` 32 bits, `domain` 8 bits (1 to 5 are in use, see `Domain`),
    `index` 24 bits. Raises SamplingError for anything outside.
    """
    return np.array(_scalar_words(seed, generation, round, position, domain, unsigned(index, 24, "index")), np.uint32)


def _scalar_words(
    seed: SupportsIndex,
    generation: SupportsIndex,
    round_: SupportsIndex,
    position: SupportsIndex,
    domain: SupportsIndex,
    index: int,
) -> tuple[int, int, int, int]:
    key = unsigned(seed, 64, "seed")
    return _block(
        unsigned(position, 32, "position"),
        unsigned(domain, 8, "domain") << 24 | index,
        unsigned(round_, 32, "round"),
        unsigned(generation, 32, "generation"),
        key & _LOW32,
        key >> 32,
    )


def words_many(
    seed: Integers,
    generation: Integers,
    round: Integers,
    position: Integers,
    domain: Integers,
    index: Integers = 0,
) -> npt.NDArray[np.uint32]:
    """`words` for arrays of addresses, broadcast together: uint32 [..., 4]. Seeds above 2^63 need a uint64 array."""
    address, shape = _addresses(seed, generation, round, position, domain, _unsigned_many(index, 24, "index"))
    return np.stack(_array_words(address[:5], address[5]), axis=-1).astype(np.uint32).reshape(*shape, 4)


def _addresses(
    seed: Integers, generation: Integers, round_: Integers, position: Integers, domain: Integers, last: Integers
) -> tuple[tuple[UInt64, ...], tuple[int, ...]]:
    """The parts of an address and one more array, broadcast together and flattened, and their shape.

    Flat, because numpy 1 turns a uint64 scalar that meets a Python integer into a float.
    """
    parts = np.broadcast_arrays(
        _unsigned_many(seed, 64, "seed"),
        _unsigned_many(generation, 32, "generation"),
        _unsigned_many(round_, 32, "round"),
        _unsigned_many(position, 32, "position"),
        _unsigned_many(domain, 8, "domain"),
        np.asarray(last, np.uint64),
    )
    return tuple(part.reshape(-1) for part in parts), parts[0].shape


def _array_words(address: tuple[UInt64, ...], index: UInt64) -> tuple[UInt64, UInt64, UInt64, UInt64]:
    seed, generation, round_, position, domain = address
    shift: Any = 24
    return _block(position, domain << shift | index, round_, generation, seed & _LOW32, seed >> _HALF)


def below(
    n: SupportsIndex,
    seed: SupportsIndex,
    generation: SupportsIndex,
    round: SupportsIndex,
    position: SupportsIndex,
    domain: SupportsIndex,
) -> int:
    """An unbiased integer in [0, n), 1 ≤ n ≤ 2^63, at one address.

    x = w0·2^32 + w1 is scaled to the high 64 bits of x·n; the draw is rejected iff the low 64 bits are below
    2^64 mod n, and then the next draw index is used (Lemire, "Fast random integer generation in an interval", 2019).
    Raises SamplingError for n = 0, n > 2^63, an address out of range, or 2^24 rejections.
    """
    bound = _bound(unsigned(n, 64, "n"))
    for index in range(MAX_DRAWS):
        w0, w1, _, _ = _scalar_words(seed, generation, round, position, domain, index)
        high, low = _product(w0 << 32 | w1, bound)
        if low >= (_HIGHEST64 - bound + 1) % bound:
            return high
    raise SamplingError(f"below: all 2^24 draws of position {position} were rejected")


def _bound(n: int) -> int:
    if not 1 <= n <= MAX_BOUND:
        raise SamplingError(f"n: expected 1 <= n <= 2^63, got {n}")
    return n


def below_many(
    n: Integers,
    seed: Integers,
    generation: Integers,
    round: Integers,
    position: Integers,
    domain: Integers,
) -> npt.NDArray[np.int64]:
    """`below` for arrays of bounds and addresses, broadcast together: int64, the same numbers. Raises SamplingError."""
    bounds = _unsigned_many(n, 64, "n")
    if bounds.size:
        _bound(int(bounds.min()))
        _bound(int(bounds.max()))
    (*address, bound), shape = _addresses(seed, generation, round, position, domain, bounds)
    result = np.zeros(bound.size, np.uint64)
    pending = np.arange(bound.size)
    for index in range(MAX_DRAWS):
        if not pending.size:
            return result.reshape(shape).astype(np.int64)
        w0, w1, _, _ = _array_words(tuple(part[pending] for part in address), np.full(pending.size, index, np.uint64))
        limit = bound[pending]
        high, low = _product(w0 << _HALF | w1, limit)
        result[pending] = high
        pending = pending[low < (_HIGHEST64 - limit + 1) % limit]
    raise SamplingError(f"below: all 2^24 draws of {pending.size} addresses were rejected")


def proposal_tickets(
    seed: Integers,
    generation: Integers,
    round: Integers,
    positions: Integers,
) -> npt.NDArray[np.int64]:
    """The 24-bit tickets that draw the proposal's tokens: the top 24 bits of w0, domain 1, draw 0; int64, broadcast.

    A worker draws with them, and a verifier that knows the proposal seed recomputes them. Raises SamplingError.
    """
    address, shape = _addresses(seed, generation, round, positions, int(Domain.PROPOSAL), 0)
    first, _, _, _ = _array_words(address[:5], address[5])
    return (first.view(np.int64) >> _WORD_TO_TICKET).reshape(shape)


def round_tickets(
    seed: SupportsIndex, generation: SupportsIndex, round: SupportsIndex, position: SupportsIndex, depth: int
) -> npt.NDArray[np.int64]:
    """`proposal_tickets` of positions position … position + depth − 1, int64 [depth], without arrays on the way.

    For few tickets: a pass over arrays costs as much for one as for dozens. Raises SamplingError.
    """
    first, domain = operator.index(position), int(Domain.PROPOSAL)
    drawn = [_scalar_words(seed, generation, round, first + place, domain, 0)[0] for place in range(depth)]
    return np.array([word >> _WORD_TO_TICKET for word in drawn], np.int64)
