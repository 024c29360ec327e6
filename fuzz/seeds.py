"""What fuzzing begins with: every vector's bytes, with the agreement of its conversation."""

from __future__ import annotations

from pp1wire.capture.vectors import load_vectors
from pp1wire.protocol import agree
from pp1wire.wire import Agreement, Hello, MessageType, decode

__all__ = ["seeds"]


def seeds() -> list[tuple[bytes, Agreement | None]]:
    """(bytes, agreement) of every vector; a HELLO has none."""
    return [(vector.data, _agreement([sent.data for sent in vector.conversation])) for vector in load_vectors()]


def _agreement(frames: list[bytes]) -> Agreement | None:
    messages = [decode(frame, None) for frame in frames if frame[6] == MessageType.HELLO]
    hellos = [message for message in messages if isinstance(message, Hello)]
    return agree(*hellos[:2]) if len(hellos) >= 2 else None
