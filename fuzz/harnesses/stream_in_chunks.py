"""Invariant: however a stream is cut into chunks, it gives the same messages and the same errors at the same offsets,
numbered without a gap, and never more than one frame is held.

Input: the place of an agreement in `agreements()` (u8, modulo their number), then the stream.
"""

from __future__ import annotations

from itertools import accumulate, chain, cycle, islice, pairwise, takewhile

from fuzz.agreements import agreements
from fuzz.independent import HEADER, frame_problem, frames_of
from fuzz.outcome import Violation, outcome
from pp1wire.wire import Agreement, FrameReader, FrameSplitter, Message, RemoteProtocolError

__all__ = ["run"]

_HELLO_FRAME = 376
_ODD = (1, 2, 63, 64, 65, 3, 200)


def run(data: bytes) -> str:
    """One input."""
    known = agreements()
    agreement, stream = known[(data[0] if data else 0) % len(known)], data[1:]
    messages, errors = whole = _read([stream], agreement)
    for pieces in ([stream[i : i + 17] for i in range(0, len(stream), 17)], _odd_pieces(stream)):
        if _read(pieces, agreement) != whole:
            raise Violation(f"chunks of {len(pieces[0])} and more bytes differ from one")
    _check_held(stream, agreement)
    frames = frames_of(stream)
    told = [e for e in errors if e[0] != "TRUNCATED"]
    _check_numbers(frames[: len(messages) + len([e for e in told if e[1] != "connection"])])
    if not errors and [frame_problem(f, agreement) for f in frames] != [None] * len(messages):
        raise Violation("a frame was accepted that is wrong by a second reading")
    return outcome([type(m).__name__.upper() for m in messages] + [e[0] for e in errors])


def _check_numbers(frames: list[bytes]) -> None:
    numbers = [int.from_bytes(frame[8:16], "little") for frame in frames]
    if any(b != a + 1 for a, b in pairwise(numbers)):
        raise Violation(f"frames numbered {numbers} were accepted")


def _check_held(stream: bytes, agreement: Agreement | None) -> None:
    splitter = FrameSplitter(agreement)
    most = _HELLO_FRAME if agreement is None else HEADER + agreement.longest_body
    for start in range(0, len(stream), 32):
        try:
            splitter.feed(stream[start : start + 32])
        except RemoteProtocolError:
            break
        # Without an agreement the splitter keeps what follows a HELLO for the agreement to come.
        if splitter.pending_bytes > most and not (agreement is None and splitter.offset):
            raise Violation(f"{splitter.pending_bytes} bytes are held of a frame that has {most} at most")
    if splitter.error is not None and splitter.pending_bytes:
        raise Violation(f"{splitter.pending_bytes} bytes are held behind an error")


def _odd_pieces(stream: bytes) -> list[bytes]:
    ends = takewhile(lambda end: end < len(stream), accumulate(cycle(_ODD)))
    bounds = [0, *islice(ends, 10_000), len(stream)]
    return [stream[a:b] for a, b in pairwise(bounds)]


def _read(pieces: list[bytes], agreement: Agreement | None) -> tuple[list[Message], list[tuple[str, str, int, str]]]:
    """Messages, and (code, scope, offset, path) of each error."""
    reader = FrameReader(agreement)
    messages: list[Message] = []
    errors: list[tuple[str, str, int, str]] = []
    for piece in chain(pieces, [b""]):
        pending, more = piece, True
        # One call may hide an error behind messages, or messages behind an error: ask until nothing comes.
        while more:
            try:
                got = reader.feed(pending)
                messages += got
                more = bool(got)
            except RemoteProtocolError as error:
                errors.append(_told(error))
                if error.scope == "connection":
                    return messages, errors
            pending = b""
    try:
        reader.close()
    except RemoteProtocolError as error:
        errors.append(_told(error))
    return messages, errors


def _told(error: RemoteProtocolError) -> tuple[str, str, int, str]:
    return error.code.name, error.scope, error.offset, error.path
