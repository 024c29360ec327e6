"""Many whole frames as columns: one verdict over all their headers, for who judges a recorded stream in large pieces.

As in `pp1wire.wire.canonical`, only whether everything is right is said here. When it is not, `check_header` and
`check_body_checksum` say what is wrong; the two agree on every stream (tests/wire/test_frame_columns.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from pp1wire.wire._schema_v2 import BODY_FIELDS, HEADER_FIELDS, MAGIC, WIRE_VERSION, MessageType, Representation
from pp1wire.wire.agreement import HEADER_BYTES, Agreement
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import Header, check_header, check_opening
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["FrameColumns", "read_columns"]

_LENGTH_AT: Final = next(spec.offset for spec in HEADER_FIELDS if spec.name == "body_length")
_unpack_length = Struct("<I").unpack_from
_TOKEN_AT: Final = HEADER_BYTES + next(s.offset for s in BODY_FIELDS[MessageType.REPLY] if s.name == "token")
_unpack_token = Struct("<i").unpack_from
_SUM_AT: Final = HEADER_BYTES - 8
_TYPES: Final = {int(t): t for t in MessageType}
_REPLY: Final = int(MessageType.REPLY)
_HEADER: Final = np.dtype([(spec.name, f"<u{spec.size}") for spec in HEADER_FIELDS])
_FIXED: Final = {
    "magic": int.from_bytes(MAGIC, "little"),
    "wire_version": WIRE_VERSION,
    "reserved_1": 0,
    "reserved_2": 0,
}


class FrameColumns(NamedTuple):
    """n whole frames, back to back from the start of `data`, whose headers are right; of sparse REPLYs the body checksum is, too.

    Other bodies are hashed by who decodes them.
    """

    data: bytes
    bounds: list[int]
    """[n + 1]: where each frame begins, and where the last one ends."""
    types: list[int]
    sequences: list[int]
    slots: list[int]
    sessions: list[int]
    generations: list[int]
    rounds: list[int]
    body_sums: list[int]

    def row_token(self, index: int) -> int:
        """The token that the REPLY at `index` names."""
        token: int = _unpack_token(self.data, self.bounds[index] + _TOKEN_AT)[0]
        return token

    def frame(self, index: int, view: memoryview, offset: int, agreement: Agreement) -> Frame:
        """Frame `index` as a splitter would return it; `view` is all of `data`, which begins at `offset` of the stream."""
        start, end = self.bounds[index], self.bounds[index + 1]
        header = Header(
            _TYPES[self.types[index]], self.sequences[index], end - start - HEADER_BYTES, self.slots[index], agreement.id,
            self.sessions[index], self.generations[index], self.rounds[index], self.body_sums[index],
        )  # fmt: skip
        return Frame(header, view[start:end], offset + start, view, start)


def read_columns(data: bytes, agreement: Agreement, sequence: int | None) -> FrameColumns | None:
    """The whole frames at the start of `data`; None if anything of them, or of the header behind them, is wrong.

    Args:
        data: begins with a frame.
        agreement: the connection's.
        sequence: number of the first frame; None takes any.
    """
    bounds = _bounds(data, agreement)
    if bounds is None:
        return None
    n = len(bounds) - 1
    starts = np.array(bounds[:n], np.intp)
    octets = np.frombuffer(data, np.uint8)
    headers = octets[starts[:, None] + np.arange(HEADER_BYTES)].view(_HEADER).reshape(n)
    types = headers["message_type"]
    if n:
        sequence = int(headers["sequence"][0]) if sequence is None else sequence
        if not _fields_are_good(headers, types, agreement, sequence):
            return None
    following = None if sequence is None else sequence + n
    if not _rest_is_good(data, bounds[-1], agreement, following):
        return None
    kinds, sums = types.tolist(), headers["body_checksum"].tolist()
    if not _header_sums_are_good(data, bounds, headers["header_checksum"].tolist()):
        return None
    if agreement.representation is Representation.SPARSE and not _row_sums_are_good(data, bounds, kinds, sums):
        return None
    return FrameColumns(
        data, bounds, kinds, headers["sequence"].tolist(), headers["slot"].tolist(), headers["session"].tolist(),
        headers["generation"].tolist(), headers["round"].tolist(), sums,
    )  # fmt: skip


def _bounds(data: bytes, agreement: Agreement) -> list[int] | None:
    """Where frames begin and the last one ends, as far as lengths tell; None if one is longer than any may be."""
    bounds, position, size, longest = [0], 0, len(data), agreement.longest_body
    while size - position >= HEADER_BYTES:
        (length,) = _unpack_length(data, position + _LENGTH_AT)
        if length > longest:
            return None
        position += HEADER_BYTES + length
        if position > size:
            break
        bounds.append(position)
    return bounds


def _rest_is_good(data: bytes, start: int, agreement: Agreement, sequence: int | None) -> bool:
    """Whether what is behind the whole frames may become one."""
    try:
        check_opening(data[start : start + 6], 0)
        if len(data) - start >= HEADER_BYTES:
            check_header(data, 0, agreement, sequence, start=start)
    except RemoteProtocolError:
        return False
    return True


def _fields_are_good(
    headers: npt.NDArray[np.void], types: npt.NDArray[np.uint8], agreement: Agreement, sequence: int
) -> bool:
    n = len(headers)
    if any(np.count_nonzero(headers[name] != value) for name, value in _FIXED.items()):
        return False
    if types.max() > len(_TYPES) or types.min() == MessageType.HELLO or types.min() == 0:
        return False
    smallest, largest, step = _body_bounds(agreement)[:, types]
    lengths = headers["body_length"].astype(np.int64)
    if sequence + n > 2**64:
        return False
    good = (smallest <= lengths) & (lengths <= largest) & ((lengths - smallest) % step == 0)
    good &= headers["sequence"] == np.arange(n, dtype=np.uint64) + np.uint64(sequence)
    good &= (headers["agreement_id"] == np.uint64(agreement.id)) & (headers["slot"] < agreement.max_slots)
    good &= (headers["session"] != 0) & (headers["generation"] != 0)
    good &= (headers["round"] == 0) == (types == MessageType.RESET)
    return bool(np.count_nonzero(good) == n)


@lru_cache(maxsize=64)
def _body_bounds(agreement: Agreement) -> npt.NDArray[np.int64]:
    """(smallest, largest, step) by message type, [3, types + 1]."""
    bounds = np.ones((3, len(_TYPES) + 1), np.int64)
    for number in _TYPES:
        if number != MessageType.HELLO:
            bounds[:, number] = agreement.body_bytes(number)
    return bounds


def _header_sums_are_good(data: bytes, bounds: Sequence[int], sums: Sequence[int]) -> bool:
    digest = xxhash.xxh3_64_intdigest
    return all(digest(data[start : start + _SUM_AT]) == own for start, own in zip(bounds[:-1], sums, strict=True))


def _row_sums_are_good(data: bytes, bounds: Sequence[int], types: Sequence[int], sums: Sequence[int]) -> bool:
    digest = xxhash.xxh3_64_intdigest
    return all(
        kind != _REPLY or digest(data[start + HEADER_BYTES : end], digest(data[start + 16 : start + 48])) == own
        for kind, start, end, own in zip(types, bounds[:-1], bounds[1:], sums, strict=True)
    )
