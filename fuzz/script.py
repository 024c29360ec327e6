"""The input of `negotiated_session`: a mode, then records of who does what, in order.

    input  = mode u8, record*
    record = who u8 (modulo 3: 0 verifier, 1 worker, 2 a second passes), length u16 little-endian, bytes[length]

Every sequence of bytes is such a script: a record that is cut ends with the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["CLOCK", "PIECEWISE", "RETAIN", "VERIFIER", "WORKER", "WORKER_UNDER_TEST", "Record", "pack", "parse"]

VERIFIER: Final = 0
WORKER: Final = 1
CLOCK: Final = 2

WORKER_UNDER_TEST: Final = 1
"""Mode bit: the Worker is tested and the verifier is hostile, instead of the other way round."""
PIECEWISE: Final = 2
"""Mode bit: records arrive in pieces of 7 bytes."""
RETAIN: Final = 4
"""Mode bit: proposals are held beyond their rounds."""


class Record(NamedTuple):
    """One turn."""

    who: int
    data: bytes


def parse(data: bytes) -> tuple[int, list[Record]]:
    """Mode and records of an input."""
    records, at = [], 1
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 3], "little")
        records.append(Record(data[at] % 3, data[at + 3 : at + 3 + size]))
        at += 3 + size
    return data[0] if data else 0, records


def pack(mode: int, records: Iterable[Record]) -> bytes:
    """The input that `parse` takes apart; what is beyond 65,535 bytes of a record is left out."""
    parts = [bytes([mode])]
    for who, data in records:
        parts += [bytes([who]), min(len(data), 0xFFFF).to_bytes(2, "little"), data[:0xFFFF]]
    return b"".join(parts)
