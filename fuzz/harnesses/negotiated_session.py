"""Invariant: whatever a hostile peer sends, from its HELLO on, an end raises one kind of error, each fault costs what its
scope says and nothing else, no refused command changes anything, every proposal is right by a second reading, a
passive judge counts the same, and memory is bounded by the agreement.

Input: a script (`fuzz.script`). Frames of the tested end's side are commands for it, with whatever numbers they have; those
of the other side are its peer's bytes.
"""

from __future__ import annotations

from functools import cache, lru_cache

from fuzz.agreements import hellos, valid_vectors
from fuzz.ends.verifier import VerifierUnderTest, own_offer
from fuzz.ends.worker import WorkerUnderTest, own_answer
from fuzz.independent import HEADER, Fields, fields_of
from fuzz.outcome import outcome
from fuzz.script import CLOCK, PIECEWISE, RETAIN, VERIFIER, WORKER, WORKER_UNDER_TEST, Record, parse
from pp1wire.wire import Hello, MessageType, RemoteProtocolError, decode
from pp1wire.wire._schema_v2 import BODY_STRUCTS

__all__ = ["run"]

_MOST_RECORDS = 200
_Tested = VerifierUnderTest | WorkerUnderTest


def run(data: bytes) -> str:
    """One input."""
    mode, records = parse(data)
    records = records[:_MOST_RECORDS]
    own = WORKER if mode & WORKER_UNDER_TEST else VERIFIER
    own_hello = next((h for h in map(_hello, (r.data for r in records if r.who == own)) if h is not None), None)
    offer, answer = _defaults()
    tested: _Tested
    if own == WORKER:
        tested = WorkerUnderTest(own_answer(own_hello, answer))
    else:
        plan = [f for f in (_command(r.data) for r in records if r.who == own) if f is not None]
        tested = VerifierUnderTest(own_offer(own_hello, offer), plan, bool(mode & RETAIN))
    for record in records:
        if tested.over:
            break
        _turn(tested, record, own, 7 if mode & PIECEWISE else 0xFFFF)
    tested.end_of_input()
    return outcome(tested.words)


def _turn(tested: _Tested, record: Record, own: int, piece: int) -> None:
    if record.who == CLOCK:
        tested.clock_turn()
    elif record.who == own:
        fields = _command(record.data)
        if fields is not None:
            tested.own_turn(fields)
    else:
        for start in range(0, len(record.data), piece):
            if not tested.over:
                tested.peer_turn(record.data[start : start + piece])


def _command(data: bytes) -> Fields | None:
    """The fields of a frame, right or wrong; None for what is none."""
    if len(data) < HEADER or data[6] not in BODY_STRUCTS or len(data) < HEADER + BODY_STRUCTS[data[6]].size:
        return None
    return fields_of(data[: len(data) - len(data) % 4])


@lru_cache(maxsize=256)
def _hello(data: bytes) -> Hello | None:
    if data[6:7] != bytes([MessageType.HELLO]):
        return None
    try:
        message = decode(data, None)
    except RemoteProtocolError:
        return None
    return message if isinstance(message, Hello) else None


@cache
def _defaults() -> tuple[Hello, Hello]:
    return next(both for both in map(hellos, valid_vectors()) if both is not None)
