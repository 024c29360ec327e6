"""Conversations with one field wrong, whose place is known because the test put it there."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pp1wire.protocol import Conversation
from pp1wire.wire import Representation
from tests.capture.golden import VERIFIER, WORKER, golden
from tests.wire.frames import changed, offset_of

SPARSE, DENSE = golden(), golden(Representation.DENSE, rounds=1)


@dataclass(frozen=True)
class Planted:
    name: str
    sent: list
    who: object
    at: int
    """Offset of the damage in what `who` sent."""
    data: bytes
    """What stands there now."""
    path: str


def frames(stream: bytes) -> list[int]:
    """Where its frames begin; by hand, as the code under test must not say."""
    found, at = [], 0
    while at < len(stream):
        found.append(at)
        at += 64 + int.from_bytes(stream[at + 16 : at + 20], "little")
    return found


def plant(name, talk, who, kind, path, value, *, seal=True, nth=1) -> Planted:
    """The `nth` frame of message type `kind` that `who` sent with the field at `path` changed."""
    stream, agreement = talk.stream(who), agreement_of(talk)
    start = [at for at in frames(stream) if stream[at + 6] == kind][nth]
    length = 64 + int.from_bytes(stream[start + 16 : start + 20], "little")
    at, code = offset_of(path, agreement)
    frame = changed(stream[start : start + length], agreement, seal, **{path.replace(".", "__", 1): value(code)})
    sent, passed = [], 0
    for sender, data in talk.sent:
        if sender is who:
            if passed <= start < passed + len(data):
                inside = start - passed
                data = data[:inside] + frame + data[inside + length :]
            passed += len(data)
        sent.append((sender, data))
    return Planted(name, sent, who, start + at, frame[at : at + struct.calcsize(code)], path)


def agreement_of(talk):
    judge = Conversation()
    for sender, data in talk.sent[:2]:
        judge.feed(sender, data)
    return judge.agreement


def _other_token(talk, nth):
    """A token that has a q in the row, and is not the one that the ticket draws."""
    stream = talk.stream(WORKER)
    start = [at for at in frames(stream) if stream[at + 6] == 3][nth]
    token, used = struct.unpack_from("<iI", stream, start + 68)
    ids = struct.unpack_from(f"<{used}i", stream, start + 96)
    return next(one for one in ids if one != token)


def cases() -> list[Planted]:
    sparse, dense = SPARSE, DENSE
    nan = float("nan")
    return [
        plant("header", sparse, WORKER, 3, "header.sequence", lambda _: 77),
        plant("header checksum", sparse, VERIFIER, 2, "header.header_checksum", lambda _: 1, seal=False),
        plant("slot", sparse, WORKER, 4, "header.slot", lambda _: 3),
        plant("row entry: id", sparse, WORKER, 3, "reply.ids[2]", lambda _: 0),
        plant("row entry: q", sparse, WORKER, 3, "reply.q[3]", lambda _: nan),
        plant("dense row entry: q", dense, WORKER, 3, "reply.q[20]", lambda _: nan),
        plant("token", sparse, WORKER, 3, "reply.token", lambda _: _other_token(sparse, 1)),
        plant("completion checksum", sparse, WORKER, 4, "completion.rows_checksum", lambda _: bytes(range(16))),
        plant("temperature", sparse, VERIFIER, 2, "step.temperature", lambda _: -1.0),
        plant("commit", sparse, VERIFIER, 5, "commit.tokens[0]", lambda _: -5),
        plant("prefix", sparse, VERIFIER, 6, "reset.prefix_ids[1]", lambda _: -1),
        plant("text", sparse, VERIFIER, 1, "hello.rng_abi", lambda _: b"\xff" * 32, nth=0),
    ]
