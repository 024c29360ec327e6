"""The small agreements that inputs are judged by: those of the shared vectors, so that their frames fit."""

from __future__ import annotations

from functools import cache

from pp1wire.capture.vectors import Vector, load_vectors
from pp1wire.protocol import agree
from pp1wire.wire import Agreement, Hello, MessageType, decode

__all__ = ["agreement_of", "agreements", "hellos", "valid_vectors"]


@cache
def valid_vectors() -> tuple[Vector, ...]:
    """The vectors that are legal: what fuzzing begins with. What is illegal it has to find."""
    return tuple(v for v in load_vectors() if v.reject is None)


def hellos(vector: Vector) -> tuple[Hello, Hello] | None:
    """Offer and answer of the conversation before a vector, if it has both."""
    frames = [sent.data for sent in vector.conversation if sent.data[6] == MessageType.HELLO]
    messages = [m for m in (decode(frame, None) for frame in frames) if isinstance(m, Hello)]
    return (messages[0], messages[1]) if len(messages) == 2 else None


def agreement_of(vector: Vector) -> Agreement | None:
    """What a vector is judged by; None for a HELLO."""
    both = hellos(vector)
    return None if both is None else agree(*both)


@cache
def agreements() -> tuple[Agreement | None, ...]:
    """None, for a HELLO, and the agreements of the vectors: an input names one by its place here."""
    found = {a.id: a for a in map(agreement_of, valid_vectors()) if a is not None}
    return (None, *(found[identity] for identity in sorted(found)))
