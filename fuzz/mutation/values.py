"""Values for a field: its bounds and those of its type, other members of its enumeration, and near misses."""

from __future__ import annotations

import math
import random
from typing import Final

from pp1wire.wire.fields import FieldSpec

__all__ = ["COUNTS", "Q_BITS", "other_value", "token"]

_FEW: Final = 16
_DOUBLES: Final = (0.0, -0.0, -1.0, 1.0, 0.6, 5e-324, 1.8e308, math.nan, math.inf, -math.inf)
Q_BITS: Final = (
    0x00000000, 0x80000000, 0x00000001, 0x33000000, 0x33800000, 0x33C00000, 0x3F800000, 0x3F800001, 0x40000000,
    0xB3800000, 0xBF000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7F7FFFFF, 0xFFFFFFFF,
)  # fmt: skip
"""Bit patterns of float32: zeros, the smallest numbers, 2^-25, 2^-24, 1.5 of it, 1 and above, negatives, infinities and NaN."""
COUNTS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 255)


def other_value(spec: FieldSpec, now: int | float | bytes, rng: random.Random) -> int | float | bytes:
    """Another value for a field that holds `now`, legal or not."""
    if spec.kind == "int" and isinstance(now, int):
        return _other_int(spec, now, rng)
    if spec.kind == "enum" and spec.enum is not None:
        members = [int(v) for v in spec.enum]
        return rng.choice([*members, *members, max(members) + 1, 0, 255])
    if spec.kind == "float":
        return rng.choice(_DOUBLES)
    data = bytearray(now if isinstance(now, bytes) else b"")
    if spec.kind == "text" and rng.random() < 0.5:
        # Printable, so that it is another text and not none.
        data[rng.randrange(4)] = rng.randrange(0x21, 0x7F)
    elif rng.random() < 0.2:
        data[:] = bytes(len(data))
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def token(rng: random.Random) -> int:
    """A token id: small ones, as vocabularies are small here, and those at the ends of the type."""
    return rng.choice((rng.randrange(18), rng.randrange(18), -1, -(2**31), 2**31 - 1, 11, 12, 15, 16))


def _other_int(spec: FieldSpec, now: int, rng: random.Random) -> int:
    if spec.maximum - spec.minimum < _FEW:
        return rng.randrange(spec.minimum - 1, spec.maximum + 2)
    match rng.randrange(5):
        case 0:
            return rng.choice((spec.minimum, spec.minimum - 1, spec.maximum, spec.maximum + 1))
        case 1:
            return now + rng.choice((-2, -1, 1, 2))
        case 2:
            return rng.randrange(18)
        case 3:
            return rng.choice((0, 1, (1 << 8 * spec.size) - 1, 1 << 8 * spec.size - 1))
        case _:
            return rng.getrandbits(8 * spec.size)
