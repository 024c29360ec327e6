"""How each body is read and its message made, worked out once from the schema tables so that a small frame costs little."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire._schema_v2 import Message, RejectCode
from pp1wire.wire.fields import FieldSpec
from pp1wire.wire.frames import Frame, fault_in
from pp1wire.wire.header import HEADER_BYTES, Header
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["BODIES", "Body", "Seen"]

_MOST_SEEN: Final = 512


class Seen:
    """Integers and digests by themselves: messages of one conversation repeat them, and a held message should not hold a copy.

    Apart, as under `python -bb` it is an error to compare the two, which one dictionary does when their hashes collide.
    """

    __slots__ = ("digests", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.digests: dict[bytes, bytes] = {}


@dataclass(frozen=True, slots=True)
class Body:
    """The fixed fields of one message type, and how its class is filled."""

    unpack: Callable[..., tuple[Any, ...]]
    end: int
    """Bytes from the start of the frame to the columns."""
    checks: tuple[tuple[int, Callable[[Any], Any]], ...]
    """(index, what makes the value of the message of it; None if it is illegal), in the order of bytes."""
    specs: tuple[FieldSpec, ...]
    fields: Callable[[Iterable[Any]], Any]
    """Makes a named tuple of the fixed fields."""
    entries: int | None
    """Index of the field that counts the column's entries; None without a column."""
    column: Callable[[Any, Any], None] | None
    """Sets the message's column."""
    make: Callable[[type[Message]], Message]
    message_class: type[Message]
    setters: tuple[tuple[Callable[[Any, Any], None], int], ...]
    """Sets a field of the message from an index of the fixed fields."""
    numbers: tuple[tuple[Callable[[Any, Any], None], int], ...]
    """The same, for integers that messages repeat."""
    digests: tuple[tuple[Callable[[Any, Any], None], int], ...]
    """The same, for digests."""
    identity: tuple[tuple[Callable[[Any, Any], None], int], ...]
    """Sets a field of the message from an index of the header."""
    slot: Callable[[Any, Any], None] | None
    alone: tuple[tuple[Callable[[Any, Any], None], int], ...]
    """`setters`, `numbers` and `digests`, for a message that shares nothing."""

    def read(self, frame: Frame) -> list[Any]:
        """The fixed fields, reserved ones among them, each within its schema's bounds.

        Raises:
            RemoteProtocolError: the first, in the order of bytes, that is not.
        """
        values = list(self.unpack(frame.data, HEADER_BYTES))
        for index, legal in self.checks:
            value = legal(values[index])
            if value is None:
                raise _field_fault(frame, self.specs[index], values[index])
            values[index] = value
        return values

    def message(self, header: Header, values: list[Any], column: Any, seen: Seen | None) -> Message:
        """The message of fixed fields that were read, and its column (None without one), which nobody can write into."""
        message = self.make(self.message_class)
        if self.slot is not None:
            self.slot(message, header.slot)
        if seen is None:
            for set_field, index in self.identity:
                set_field(message, header[index])
            for set_field, index in self.alone:
                set_field(message, values[index])
        else:
            self._share(message, header, values, seen)
        if self.column is not None:
            self.column(message, column)
        return message

    def _share(self, message: Message, header: Header, values: list[Any], seen: Seen) -> None:
        numbers, digests = seen.numbers, seen.digests
        if len(numbers) + len(digests) > _MOST_SEEN:
            numbers.clear()
            digests.clear()
        for set_field, index in self.identity:
            value = header[index]
            set_field(message, numbers.setdefault(value, value))
        for set_field, index in self.numbers:
            value = values[index]
            set_field(message, numbers.setdefault(value, value))
        for set_field, index in self.digests:
            value = values[index]
            set_field(message, digests.setdefault(value, value))
        for set_field, index in self.setters:
            set_field(message, values[index])


def _legal(spec: FieldSpec) -> Callable[[Any], Any] | None:
    """What `Body.checks` needs for a field; None if all that its bytes can say is legal."""
    smallest, largest = spec.minimum, spec.maximum
    if spec.enum is not None:
        return {int(member): member for member in spec.enum}.get
    if spec.kind == "zeros":
        return {bytes(spec.size): bytes(spec.size)}.get
    if spec.kind == "text":
        return _text
    if spec.kind == "int" and largest - smallest < 2 ** (8 * spec.size) - 1:
        return lambda value: value if smallest <= value <= largest else None
    return None


def _text(value: bytes) -> str | None:
    held = value.rstrip(b"\0")
    text = held.decode("ascii") if held.isascii() else "\0"
    return text if text.isprintable() else None


def _field_fault(frame: Frame, spec: FieldSpec, value: Any) -> RemoteProtocolError:
    expected: object
    if spec.kind == "zeros":
        code, expected = RejectCode.RESERVED_NOT_ZERO, "zero bytes"
    elif spec.kind == "text":
        code, expected = RejectCode.TEXT_NOT_CANONICAL, "printable ASCII, then zero bytes"
    elif spec.enum is not None:
        code, expected = RejectCode.UNKNOWN_VALUE, spec.enum
    else:
        code = RejectCode.VALUE_OUT_OF_BOUNDS if spec.reject is None else RejectCode[spec.reject.upper()]
        expected = range(spec.minimum, spec.maximum + 1)
    return fault_in(frame, code, spec.offset, spec.name, expected, value)


def _body(number: int) -> Body:
    cls, specs = schema.MESSAGE_CLASSES[number], schema.BODY_FIELDS[number]
    derived, columns = schema.DERIVED_FIELDS[number], schema.BODY_COLUMNS[number]
    index = {spec.name: at for at, spec in enumerate(specs)}
    identity = schema.IDENTITY_FIELDS[number]
    elsewhere = derived.keys() | schema.AGREED_FIELDS[number].keys()
    # An enumeration's member and a float equal integers that they are not, and Python has one object of each small integer.
    numbers = {s.name for s in specs if s.kind == "int" and s.size > 1}
    digests = {s.name for s in specs if s.kind == "bytes"}
    carried = [s for s in specs if s.kind != "zeros" and s.name not in elsewhere]

    # mypy wants literals, which the schema replaces here.
    fields = cast("Any", namedtuple)(cls.__name__, index)

    def setter(name: str) -> Callable[[Any, Any], None]:
        # Frozen classes refuse ordinary assignment; their slots do not.
        set_field: Callable[[Any, Any], None] = cls.__dict__[name].__set__
        return set_field

    return Body(
        unpack=schema.BODY_STRUCTS[number].unpack_from,
        end=HEADER_BYTES + schema.BODY_STRUCTS[number].size,
        checks=tuple((at, legal) for at, legal in enumerate(map(_legal, specs)) if legal is not None),
        specs=specs,
        fields=fields._make,
        entries=next((index[name] for name in derived), None),
        column=setter(columns[0][0]) if columns else None,
        make=cls.__new__,
        message_class=cls,
        setters=tuple((setter(s.name), index[s.name]) for s in carried if s.name not in numbers | digests),
        alone=tuple((setter(s.name), index[s.name]) for s in carried),
        numbers=tuple((setter(s.name), index[s.name]) for s in carried if s.name in numbers),
        digests=tuple((setter(s.name), index[s.name]) for s in carried if s.name in digests),
        identity=tuple((setter(name), Header._fields.index(name)) for name in identity if name != "slot"),
        slot=setter("slot") if "slot" in identity else None,
    )


BODIES: Final[Mapping[int, Body]] = {number: _body(number) for number in schema.MESSAGE_CLASSES}
"""By message type. Of a REPLY, whose columns are two, `pp1wire.wire.faults` uses the checks alone."""
