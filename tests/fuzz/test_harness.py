"""The harnesses hold on every vector and on mutations of it, reach what they should, and see a planted bug."""

from __future__ import annotations

import random

import pytest

from fuzz.harness import HARNESSES, Violation, one_frame, stream_in_pieces
from fuzz.mutate import mutated
from fuzz.seeds import seeds
from pp1wire.wire import MessageType, messages

CORPUS = seeds()


@pytest.mark.parametrize("name", HARNESSES)
def test_holds_on_every_vector(name):
    outcomes = {HARNESSES[name](data, agreement) for data, agreement in CORPUS}
    assert len(outcomes) > 40


def test_holds_on_mutations_and_reaches_the_rules_behind_the_checksums():
    rng = random.Random(1)
    outcomes = set()
    for _ in range(4_000):
        data, agreement = rng.choice(CORPUS)
        data = mutated(data, rng)
        outcomes.add(one_frame(data, agreement))
        stream_in_pieces(data, agreement)
    assert {"BODY_CHECKSUM_MISMATCH", "Q_MASS_MISMATCH", "RESERVED_NOT_ZERO", "OVERSIZED_BODY", "TRUNCATED"} <= outcomes


def test_sees_a_reserved_byte_that_is_no_longer_checked(monkeypatch):
    body = messages.BODIES[MessageType.STEP]
    unchecked = tuple(check for check in body.checks if body.specs[check[0]].kind != "zeros")
    monkeypatch.setitem(messages.BODIES, MessageType.STEP, body._replace(checks=unchecked))
    step = next(d for d, a in CORPUS if a is not None and d[6] == 2 and one_frame(d, a) == "Step")
    agreement = next(a for d, a in CORPUS if d == step)
    frame = bytearray(step)
    frame[64 + 6] = 1
    from fuzz.mutate import reseal

    reseal(frame)
    with pytest.raises(Violation):
        one_frame(bytes(frame), agreement)
