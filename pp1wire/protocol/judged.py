"""What a passive judge says of a connection."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from pp1wire.wire import Message, RemoteProtocolError, ReplyBatch, Step

__all__ = ["Direction", "Judged"]


class Direction(StrEnum):
    """Who sent the bytes."""

    VERIFIER = "verifier"
    WORKER = "worker"


class Judged(NamedTuple):
    """One verdict. Exactly one of `message`, `batch` and `error` is set.

    Attributes:
        direction: who sent it.
        offset: bytes from the start of that direction to the frame; for an error without one, to where it was seen.
        message: a message that passed and was applied (any but REPLY).
        batch, start, stop: rows start … stop − 1 of `batch` passed. They view the bytes fed: judge them before the next
            `feed`, or feed immutable bytes.
        step: the STEP that rows or a COMPLETION answer.
        error: what is wrong; its `scope` says what that cost.
    """

    direction: Direction
    offset: int
    message: Message | None = None
    batch: ReplyBatch | None = None
    start: int = 0
    stop: int = 0
    step: Step | None = None
    error: RemoteProtocolError | None = None
