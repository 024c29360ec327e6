"""What a device writes about a row instead of raising, and the errors the host makes of it.

Nothing may be raised, or even read back, inside a chain. So every row owns one int64 word, and whoever finds a fault
lowers it: the smallest word is the first fault in the order of the checks, and among equals the lowest id. The texts are
those of the numpy backend.
"""

from __future__ import annotations

import enum

from pp1wire.sampling.allocate import MASS_BITS
from pp1wire.sampling.errors import AllocationError, SamplingError

__all__ = ["CODE_SHIFT", "FINE", "Fault", "Outcome", "State", "raise_fault"]

CODE_SHIFT = 50
"""A fault word is code << 50 | detail."""
FINE = (1 << 62) + 1
"""The word of a row without a fault: larger than any fault."""
_DETAIL = (1 << CODE_SHIFT) - 1
_FIELD = 25
"""Two numbers of a detail are first << 25 | second."""


class Fault(enum.IntEnum):
    """Codes of fault words, in the order of the checks."""

    NAN = 1
    """detail: the first id"""
    INFINITE = 2
    """detail: the first id"""
    MASKED = 3
    """no finite logit"""
    FLOORS = 4
    """detail: the sum of the floors"""
    REMAINDERS = 5
    """detail: what is to be handed out << 25 | positive remainders"""
    COUNTS = 6
    """detail: the sum of the counts"""
    VALUE = 7
    """a given probability that is NaN, negative or ≥ 2; detail: the first id"""
    TOTAL = 8
    """a target row that does not sum to one within 2^-10"""
    ZERO = 9
    """q has no mass at a drafted token; detail: the position in the chain"""
    TOKEN = 10
    """a drafted token outside the vocabulary; detail: the position in the chain"""
    MASS = 11
    """a row of q that is no law of mass 2^24; detail: the position in the chain"""


class State(enum.IntEnum):
    """Columns of the int64 state of a row, which the kernels combine by integer addition, minimum and maximum."""

    FAULT = 0
    HIGHEST = 1
    """the largest logit, as an integer of the same order"""
    TOTAL = 2
    FLOORS = 3
    POSITIVE = 4
    PREFIX = 5
    """leading bits of the threshold of the remainders, as far as they are known"""
    QUOTA = 6
    """how many of the remainders with these leading bits get one more"""
    WIDTH = 7


class Outcome(enum.IntEnum):
    """Columns of the int64 outcome of a verified chain."""

    ACCEPTED = 0
    TOKEN = 1
    BONUS = 2
    FAULT = 3
    SCALE = 4
    """the U that the correction's q is scaled by; 0 for a bonus"""
    WIDTH = 5


def raise_fault(word: int, name: str, vocabulary: int) -> None:
    """Raise the error of a drafted row's fault word, about the row called `name`; nothing if the row is fine.

    Faults of verification (`Fault.VALUE` and on) have no text here: the numpy backend says what is wrong there.
    """
    if word >= FINE:
        return
    code, detail = Fault(word >> CODE_SHIFT), word & _DETAIL
    if code is Fault.NAN:
        raise SamplingError(f"{name}: NaN at id {detail}")
    if code is Fault.INFINITE:
        raise SamplingError(f"{name}: +inf at id {detail}")
    if code is Fault.MASKED:
        raise SamplingError(f"{name}: no finite logit among {vocabulary}")
    if code is Fault.FLOORS:
        raise AllocationError(f"floors: expected 0 <= 2^24 - sum < 2^24, got sum {detail}")
    if code is Fault.REMAINDERS:
        remaining, positive = detail >> _FIELD, detail & ((1 << _FIELD) - 1)
        raise AllocationError(f"remainders: expected more than {remaining} positive ones, got {positive}")
    raise AllocationError(f"counts: expected a sum of 2^{MASS_BITS}, got {detail}")
