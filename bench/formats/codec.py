"""What a format has to be able to do, and the numbers of a row that every format carries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pp1wire.wire import ReplyBatch

NUMBERS = ("session", "slot", "generation", "round", "position", "token", "entries")

Row = tuple[tuple[int, ...], npt.NDArray[np.int32], npt.NDArray[np.float32]]
"""The `NUMBERS`, ids int32 [id_entries], q float32 [q_entries]."""


class Codec(NamedTuple):
    """One format."""

    name: str
    checks: str
    """What its decoder checks, in a line."""
    encode: Callable[[ReplyBatch], Any] | None
    """Arrays to bytes; None for a reader that cannot write."""
    decode: Callable[[bytes], Any]
    """Bytes to whatever the format's users would hold, with the columns as numpy arrays."""
    rows: Callable[[Any], list[Row]]
    """What `decode` returned as rows, to compare formats by."""
    per_value: bool = False
    """Whether it makes a Python object of each number, which takes seconds for dense rows."""


def columns(batch: ReplyBatch) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.int32], npt.NDArray[np.float32]]]:
    """The rows of a batch: numbers as Python's, counts as float32 q."""
    numbers = zip(
        batch.sessions.tolist(), batch.slots.tolist(), batch.generations.tolist(), batch.rounds.tolist(),
        batch.positions.tolist(), batch.tokens.tolist(), batch.entry_counts.tolist(), strict=True,
    )  # fmt: skip
    q = np.multiply(batch.counts, np.float32(2**-24), dtype=np.float32)  # int32 by float32 would be float64
    return zip(numbers, batch.ids, q, strict=True)
