"""What fuzzing begins with: the valid vectors and their conversations, as inputs of each harness, and the corpus."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from fuzz import script
from fuzz.agreements import agreement_of, agreements, valid_vectors
from pp1wire.capture import Recorder
from pp1wire.capture.vectors import Vector
from pp1wire.protocol import Direction

__all__ = ["CORPUS", "corpus", "inputs_of", "recorded", "seeds"]

CORPUS: Final = Path(__file__).parent / "corpus"
"""`HARNESS/NAME` is an input of that harness."""

_MICROSECOND = 1_000
_NOW = 1_800_000_000_000_000_000
Turns = list[tuple[Direction, bytes]]


def corpus(harness: str) -> list[bytes]:
    """The inputs of a harness that the repository holds, by name."""
    return [path.read_bytes() for path in sorted((CORPUS / harness).glob("*"))]


@cache
def seeds(harness: str) -> tuple[bytes, ...]:
    """The valid vectors as inputs of a harness, each once."""
    return tuple(dict.fromkeys(data for vector in valid_vectors() for data in inputs_of(harness, vector)))


def inputs_of(harness: str, vector: Vector) -> Iterable[bytes]:
    """A vector as inputs of a harness."""
    turns = [(sent.sender, sent.data) for sent in vector.conversation] + [(vector.sender, vector.data)]
    known = agreements()
    place = bytes([known.index(agreement_of(vector)) if vector.conversation else 0])
    match harness:
        case "one_frame":
            yield place + vector.data
        case "stream_in_chunks":
            for direction in Direction:
                frames = [data for sender, data in turns if sender is direction]
                # Behind a HELLO; alone it is a stream, too, that has no agreement yet.
                yield place + b"".join(frames[1:]) if vector.conversation else b"\0" + b"".join(frames)
        case "negotiated_session":
            records = [script.Record(list(Direction).index(sender), data) for sender, data in turns]
            # The vector's own frame comes from the hostile side; a whole conversation is as good from either.
            hostile = 0 if vector.sender is Direction.WORKER else script.WORKER_UNDER_TEST
            for mode in dict.fromkeys((hostile, 0 if vector.file == "conversations" else hostile)):
                yield script.pack(mode, records)
        case "capture":
            yield recorded(turns)
            for direction in Direction:
                yield b"".join(data for sender, data in turns if sender is direction)


def recorded(turns: Turns) -> bytes:
    """A conversation as a pcapng file."""
    file = io.BytesIO()
    connection = Recorder(file).open(("10.0.0.1", 40_000), ("10.0.0.2", 9_009), _NOW)
    for turn, (sender, data) in enumerate(turns):
        send = connection.client_sent if sender is Direction.VERIFIER else connection.server_sent
        send(data, _NOW + (turn + 1) * _MICROSECOND)
    connection.close(_NOW + (len(turns) + 1) * _MICROSECOND)
    return file.getvalue()
