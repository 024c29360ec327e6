"""One invariant a function. A harness returns what the bytes led to, and raises `Violation` when the invariant is broken.

Any other exception that escapes is a violation, too: PP1 bytes may only ever raise `RemoteProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable

from pp1wire.wire import Agreement, FrameReader, Message, RemoteProtocolError, decode, encode

__all__ = ["HARNESSES", "Violation"]

Outcome = str


class Violation(AssertionError):
    """An invariant is broken."""


def one_frame(data: bytes, agreement: Agreement | None) -> Outcome:
    """Invariant: bytes that decode to a message are exactly the bytes that encode it; all others are rejected."""
    try:
        message = decode(data, agreement)
    except RemoteProtocolError as error:
        return error.code.name
    sequence = int.from_bytes(data[8:16], "little")
    if encode(message, agreement, sequence) != data:
        raise Violation(f"a second spelling of {type(message).__name__}: {data.hex()}")
    return type(message).__name__


def stream_in_pieces(data: bytes, agreement: Agreement | None) -> Outcome:
    """Invariant: however a stream is cut, it gives the same messages and ends in the same error at the same offset."""
    whole = _read([data], agreement)
    for size in (1, 7, 64):
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        if _read(pieces, agreement) != whole:
            raise Violation(f"reads of {size} bytes differ from one read: {data.hex()}")
    return whole[1] or f"{len(whole[0])} messages"


def _read(pieces: list[bytes], agreement: Agreement | None) -> tuple[list[Message], str | None]:
    reader = FrameReader(agreement)
    messages: list[Message] = []
    errors = []
    for piece in [*pieces, b""]:
        # An error that does not end the connection is raised once, and reading goes on; each may hide one more.
        pending = piece
        while True:
            try:
                got = reader.feed(pending)
            except RemoteProtocolError as error:
                errors.append(f"{error.code.name} {error.offset} {error.path}")
                if error.scope == "connection":
                    return messages, "; ".join(errors)
                pending = b""
                continue
            messages += got
            if not got:
                break
            pending = b""
    try:
        reader.close()
    except RemoteProtocolError as error:
        errors.append(f"{error.code.name} {error.offset} {error.path}")
    return messages, "; ".join(errors) or None


HARNESSES: dict[str, Callable[[bytes, Agreement | None], Outcome]] = {
    "one_frame": one_frame,
    "stream_in_pieces": stream_in_pieces,
}
