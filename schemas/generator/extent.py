"""Offsets and lengths that may depend on a column's length, as exact sums rather than as text."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.generator.model import Field, Message


@dataclass(frozen=True)
class Extent:
    """`fixed` bytes and, for each of `parts`, element size times a named number of elements."""

    fixed: int
    parts: tuple[tuple[int, str], ...] = ()

    def __add__(self, other: Extent) -> Extent:
        return Extent(self.fixed + other.fixed, self.parts + other.parts)

    def __str__(self) -> str:
        terms = [str(self.fixed)] if self.fixed or not self.parts else []
        return " + ".join(terms + [f"{size}·{name}" for size, name in self.parts])


@dataclass(frozen=True)
class Placed:
    """A field, where it begins in the body, and its length in bytes."""

    field: Field
    offset: Extent
    length: Extent


def length(field: Field) -> Extent:
    """Bytes of `field`: all elements of a column."""
    if field.kind != "column" or field.repeat is None:
        return Extent(field.size)
    if field.repeat.isdigit():
        return Extent(field.size * int(field.repeat))
    return Extent(0, ((field.size, field.repeat),))


def place(fields: tuple[Field, ...]) -> tuple[Placed, ...]:
    """Every field with its offset; columns follow one another behind the fixed fields."""
    placed = []
    offset = Extent(0)
    for field in fields:
        placed.append(Placed(field, offset, length(field)))
        offset = offset + length(field)
    return tuple(placed)


def body_length(message: Message) -> Extent:
    """Bytes of the whole body."""
    total = Extent(0)
    for field in message.fields:
        total = total + length(field)
    return total
