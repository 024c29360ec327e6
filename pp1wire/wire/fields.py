"""What the generated schema tables are made of."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["FieldSpec"]


class FieldSpec(NamedTuple):
    """One fixed field of a header or body, as its schema declares it."""

    name: str
    kind: str
    """magic, zeros, bytes, text, int, float or enum."""
    offset: int
    """Bytes from the start of the header, or of the body."""
    size: int
    """Bytes."""
    minimum: int
    """Smallest legal value of an int field."""
    maximum: int
    """Largest legal value of an int field."""
    enum: type[IntEnum] | None
    """Enumeration of an enum field."""
    reject: str | None
    """Name of the reject code for a value out of bounds, where it is not the general one."""
