"""One frame by field names, read with the Construct declarations that the schemas generate."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pp1wire.capture.text import printable
from pp1wire.wire import Frame, MessageType, Representation
from pp1wire.wire._schema_v2 import BODY_FIELDS, BODY_STRUCTS, HEADER_FIELDS, constructs
from pp1wire.wire.header import HEADER_BYTES

__all__ = ["Dissector", "body_lines"]

_FIRST: Final = 4
_ENTRY: Final = 4
_COLUMNS_AT: Final = HEADER_BYTES + BODY_STRUCTS[MessageType.REPLY].size
_SPECS: Final = (HEADER_FIELDS, *BODY_FIELDS.values())
_TEXTS: Final = {spec.name for specs in _SPECS for spec in specs if spec.kind == "text"}
_CONSTANT: Final = {"wire_version", "message_type"}  # verified, and the headline says which message
_CHECKED: Final = {"agreement_id", "body_checksum", "header_checksum"}  # long numbers
_HIDDEN: Final = {spec.name for specs in _SPECS for spec in specs if spec.kind in ("zeros", "magic")}


class Dissector:
    """Turns frames with a verified header into plain values.

    Args:
        rows: whole columns instead of their length and first entries.
    """

    def __init__(self, *, rows: bool = False) -> None:
        self._rows = rows
        self._constructs = constructs()

    def fields(self, frame: Frame) -> dict[str, Any]:
        """{"message", "header", "body"} of a frame, ready for `json.dumps`.

        A body that its fields do not fit has an entry "undecodable", which says why. Columns are lists, or without
        `rows` {"count", "first"}; padding that is as it must be is no part of them.
        """
        import construct

        name = frame.header.message_type.name.lower()
        stream = io.BytesIO(frame.data)
        try:
            # The columns of a row are read below: a dense one has far too many entries for Construct.
            parsed = self._constructs[name].parse_stream(stream, id_entries=0, q_entries=0)
        except construct.ConstructError as error:
            header = {key: _plain(key, value) for key, value in frame.header._asdict().items()}
            reason = str(error).splitlines()[0]
            return {"message": name, "header": header, "body": {"undecodable": printable(reason)}}
        header = {key: _plain(key, value) for key, value in parsed.header.items() if not key.startswith("_")}
        fields = {k: v for k, v in parsed.items() if k != "header" and not k.startswith("_")}
        left = len(frame.data) - stream.tell()
        if frame.header.message_type is MessageType.COMMIT:
            fields["tokens"] = _unpadded(fields["tokens"], fields["token_count"])
        if frame.header.message_type is MessageType.REPLY:
            columns, left = _columns(frame)
            fields |= columns
        body = {key: self._column(v) if _is_column(v) else _plain(key, v) for key, v in fields.items()}
        if left:
            body["undecodable"] = f"{left} bytes more than the fields take"
        return {"message": name, "header": header, "body": body}

    def _column(self, values: Any) -> Any:
        count = len(values)
        first = [_plain("", value) for value in (values if self._rows else values[:_FIRST])]
        return first if self._rows else {"count": count, "first": first}


def body_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """The fields as text: what tells headers apart on two lines, then one line a body field."""
    header = {k: v for k, v in fields["header"].items() if k not in _CONSTANT and _is_worth(k, v)}
    for names in (header.keys() - _CHECKED, _CHECKED & header.keys()):
        yield f"    {'header':<24}" + ", ".join(f"{k} {v}" for k, v in header.items() if k in names)
    for key, value in fields["body"].items():
        if _is_worth(key, value):
            yield printable(f"    {key:<24}{_text(value)}")


def _columns(frame: Frame) -> tuple[dict[str, npt.NDArray[Any]], int]:
    """The columns of a row, and how many bytes they leave; their lengths follow from the frame's."""
    data = frame.data[_COLUMNS_AT:]
    sparse = frame.data[HEADER_BYTES + 12] == Representation.SPARSE
    width = 2 * _ENTRY if sparse else _ENTRY
    entries = len(data) // width
    ids = np.frombuffer(data, "<i4", entries if sparse else 0)
    q = np.frombuffer(data, "<f4", entries, offset=len(ids) * _ENTRY)
    return {"ids": ids, "q": q}, len(data) - entries * width


def _unpadded(tokens: list[int], count: int) -> list[int]:
    """The ids in use; all there are where something stands behind them."""
    return tokens if any(tokens[count:]) else tokens[:count]


def _is_column(value: Any) -> bool:
    return isinstance(value, list | np.ndarray)


def _is_worth(key: str, value: Any) -> bool:
    """Reserved bytes are worth a line only if they are not zero, the magic never is."""
    return key not in _HIDDEN or (key != "magic" and bool(str(value).strip("0")))


def _plain(key: str, value: Any) -> Any:
    """A value as JSON has it: enumerations by name, digests in hex, numbers that JSON lacks as text."""
    if isinstance(value, bytes):
        text = value.rstrip(b"\0")
        if key in _TEXTS and text.isascii() and text.decode("ascii").isprintable():
            return text.decode("ascii")
        return value.hex()
    if isinstance(value, str):
        return str(value).lower()
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float):
        return number if math.isfinite(number) else str(number)
    if hasattr(number, "name"):
        return number.name.lower()
    return int(number)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        more = ", …" if value["count"] > len(value["first"]) else ""
        return f"{value['count']} entries: {', '.join(map(str, value['first']))}{more}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
