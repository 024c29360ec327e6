"""What every REPLY frame of an agreement has in common, so that all rows of a batch are filled and compared at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pp1wire.wire._schema_v2 import (
    BODY_STRUCTS,
    HEADER_STRUCT,
    MAGIC,
    WIRE_VERSION,
    MessageType,
    Representation,
    reply_frame_dtype,
)
from pp1wire.wire.agreement import HEADER_BYTES, Agreement
from pp1wire.wire.canonical import ROUND_ROWS
from pp1wire.wire.checksums import Buffer

__all__ = [
    "PREFIX_BYTES",
    "RowLayout",
    "Rows",
    "Words",
    "frame_parts",
    "numbers",
    "prefix_words",
    "row_layout",
    "words_are_fixed",
]

PREFIX_BYTES = HEADER_BYTES + BODY_STRUCTS[MessageType.REPLY].size
"""Header and row header."""
HEADER_SUM_AT = HEADER_BYTES - 8

Rows = npt.NDArray[np.void]
"""[n] of `RowLayout.dtype`."""
Words = npt.NDArray[np.uint64]
Part = tuple[slice, slice, slice]


class RowLayout(NamedTuple):
    """What every REPLY of an agreement has in common, so that all headers are filled and compared at once."""

    dtype: np.dtype[np.void]
    size: int
    constant: npt.NDArray[np.uint64]
    """The header and row header as 12 words, with zeros where rows differ."""
    fixed: npt.NDArray[np.uint64]
    """Ones in the bits of those words that are the same in every row."""


@lru_cache(maxsize=64)
def numbers(n: int) -> npt.NDArray[np.uint64]:
    """0 … n − 1."""
    return np.arange(n, dtype=np.uint64)


@lru_cache(maxsize=64)
def row_layout(agreement: Agreement) -> RowLayout:
    """The layout of an agreement's REPLY frames."""
    dtype = reply_frame_dtype(agreement.id_entries, agreement.q_entries)
    dense = agreement.representation is Representation.DENSE
    length = agreement.reply_frame_bytes - HEADER_BYTES

    def words(fixed: bool) -> npt.NDArray[np.uint64]:
        # Bits that differ from row to row are zero in both; reserved bytes are zero, and fixed.
        ones = 2**64 - 1 if fixed else 0
        header = HEADER_STRUCT.pack(
            b"\xff" * 4 if fixed else MAGIC, 0xFFFF if fixed else WIRE_VERSION, 0xFF if fixed else MessageType.REPLY,
            b"\xff" if fixed else b"\0", 0, 0xFFFFFFFF if fixed else length, 0, b"\xff\xff" if fixed else b"\0\0",
            ones or agreement.id, 0, 0, 0, 0, 0,
        )  # fmt: skip
        row = BODY_STRUCTS[MessageType.REPLY].pack(
            0, 0, (0xFFFFFFFF if fixed else agreement.vocab_size) if dense else 0, 0xFF if fixed else agreement.representation,
            b"\xff" * 3 if fixed else bytes(3), 0xFFFFFFFF if fixed else agreement.shard_first_id,
            0xFFFFFFFF if fixed else agreement.vocab_size, b"\xff" * 8 if fixed else bytes(8),
        )  # fmt: skip
        return np.frombuffer(header + row, dtype="<u8")

    return RowLayout(dtype, agreement.reply_frame_bytes, words(False), words(True))


def prefix_words(source: Buffer, n: int, size: int) -> Words:
    """Header and row header of n frames as little-endian words [n, 12], whatever the alignment of the source."""
    return np.ndarray((n, PREFIX_BYTES // 8), dtype="<u8", buffer=source, strides=(size, 8))


def words_are_fixed(words: Words, layout: RowLayout) -> bool:
    """Whether all that is the same in every row is so in these."""
    return not np.count_nonzero((words & layout.fixed) != layout.constant)


def frame_parts(n: int, size: int) -> Iterable[Part]:
    """Of each of n frames: what its header checksum covers, its identity, and its body."""
    return _round_parts(n, size) if n <= ROUND_ROWS else map(_part, range(0, n * size, size), repeat(size))


def _part(start: int, size: int) -> Part:
    return (
        slice(start, start + HEADER_SUM_AT),
        slice(start + 16, start + 48),
        slice(start + HEADER_BYTES, start + size),
    )


@lru_cache(maxsize=64)
def _round_parts(n: int, size: int) -> tuple[Part, ...]:
    return tuple(_part(start, size) for start in range(0, n * size, size))
