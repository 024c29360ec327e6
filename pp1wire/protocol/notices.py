"""What an end tells its watcher while it works: rounds and messages that it threw away, and RESETs. For logs.

Owners act on events; nothing needs to act on a notice. None of them holds a token, a q or a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pp1wire.wire import RemoteProtocolError, ResetReason

__all__ = ["MessageDropped", "Notice", "RoundDiscarded", "SessionReset", "Watch"]


@dataclass(frozen=True, slots=True)
class RoundDiscarded:
    """A round is void: one notice for each count in `Counters.discards`.

    Attributes:
        session, slot, generation, round: of its STEP.
        position, depth: of its first drafted token, and how many were asked for.
        rows: how many had passed every check.
        reason: the key in `Counters.discards`.
        error: the reject, if a broken rule was the reason. Its `expected` and `actual` may hold tokens and probabilities.
    """

    session: int
    slot: int
    generation: int
    round: int
    position: int
    depth: int
    rows: int
    reason: str
    error: RemoteProtocolError | None = None


@dataclass(frozen=True, slots=True)
class MessageDropped:
    """A stale message, or on a worker a late answer of its owner: one notice for each count in `Counters.dropped`."""

    session: int
    generation: int
    round: int
    reason: str
    error: RemoteProtocolError | None = None


@dataclass(frozen=True, slots=True)
class SessionReset:
    """A RESET was sent (verifier) or taken (worker); `generation` is the new one, `position` the length of the prefix."""

    session: int
    slot: int
    generation: int
    position: int
    reason: ResetReason


Notice: TypeAlias = RoundDiscarded | MessageDropped | SessionReset
Watch: TypeAlias = Callable[[Notice], None]
"""Called in the midst of a change: it must neither raise nor call the end back."""
