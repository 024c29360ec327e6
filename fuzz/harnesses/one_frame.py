"""Invariant: bytes that decode to a message are exactly the bytes that encode it and right by a second reading, and all
others raise `RemoteProtocolError`.

Input: the place of an agreement in `agreements()` (u8, modulo their number), then the frame.
"""

from __future__ import annotations

from fuzz.agreements import agreements
from fuzz.independent import frame_problem
from fuzz.outcome import Violation
from pp1wire.wire import RemoteProtocolError, decode, encode

__all__ = ["run"]


def run(data: bytes) -> str:
    """One input."""
    known = agreements()
    agreement, frame = known[(data[0] if data else 0) % len(known)], data[1:]
    try:
        message = decode(frame, agreement)
    except RemoteProtocolError as error:
        return error.code.name
    name = type(message).__name__
    problem = frame_problem(frame, agreement)
    if problem is not None:
        raise Violation(f"a {name} was accepted with a wrong {problem}")
    if encode(message, agreement, int.from_bytes(frame[8:16], "little")) != frame:
        raise Violation(f"a second spelling of a {name} was accepted")
    return name.upper()
