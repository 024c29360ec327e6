"""What others see of the judging of a capture: every verdict, with the place and time of its frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from pp1wire.protocol import Direction, Judged

__all__ = ["Observe", "Seen"]


class Seen(NamedTuple):
    """One verdict. Rows in it view bytes that live only until the call returns: copy what is to outlive it."""

    file: str
    connection: int
    """Number in the file, from 1; of raw streams 1."""
    endpoints: str | None
    """"client → server"; None for raw streams."""
    direction: Direction
    verdict: Judged
    packet: int | None
    """The one that carried the frame's first byte; None for raw streams."""
    time_ns: int | None
    """When the frame's last byte came, in nanoseconds since 1970."""
    uncertain: bool
    """It stands behind a gap, a conflict, or a beginning that is not there."""


Observe: TypeAlias = Callable[[Seen], None]
"""Called for every verdict of a connection in its order; connections that overlap in time take turns."""
