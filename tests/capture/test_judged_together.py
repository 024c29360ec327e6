"""What goes well is judged in batches; findings, totals and what is watched are those of judging each packet by itself."""

from __future__ import annotations

import io
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture import _batch
from pp1wire.capture.connection_judge import ConnectionJudge
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.validate import Validator
from pp1wire.wire import Representation
from tests.capture.golden import NOW, VERIFIER, capture, golden
from tests.capture.test_validate import blocks

SPARSE = golden(rounds=3)
CAPTURES = {
    "sparse": capture(SPARSE.sent),
    "pieces": capture(SPARSE.sent, piece=100),
    "dense": capture(golden(Representation.DENSE, rounds=1).sent, piece=700),
    "discarded": capture(golden(rounds=2, fault=True).sent),
    "aborted": capture(SPARSE.sent[:-3], end="abort"),
    "unfinished": capture(SPARSE.sent[:-3], end="none"),
}


def judged(data, *, together=True, watched=False, **options):
    """The whole report, and what was seen."""
    seen = defaultdict(list)  # of each connection by itself

    def see(one):
        verdict = one.verdict
        when = one.time_ns, one.direction, one.uncertain
        if verdict.batch is None:
            seen[one.connection].append(
                (str(verdict.error), verdict.message, verdict.step, verdict.offset, one.packet, *when)
            )
        else:  # one or several rows at a time
            rows = (verdict.batch[i] for i in range(verdict.start, verdict.stop))
            seen[one.connection].extend((str(row), verdict.step, *when) for row in rows)

    with pytest.MonkeyPatch.context() as patch:
        if not together:
            patch.setattr(ConnectionJudge, "_goes_well", lambda self: False)
        validator = Validator(observe=see if watched else None, **options)
        validator.add(io.BytesIO(data), "capture")
    return validator.result.to_json(), seen


def same(data, **options):
    expected, singly = judged(data, together=False, watched=True, **options)
    assert judged(data, **options)[0] == expected
    found, seen = judged(data, watched=True, **options)
    assert found == expected
    assert seen == singly
    return expected


@pytest.mark.parametrize("name", CAPTURES)
def test_the_same_report(name):
    assert same(CAPTURES[name])["summary"]["rows"] > 5


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("most", [0, 700, 5000])
def test_the_same_report_however_large_a_batch_may_be(name, most, monkeypatch):
    monkeypatch.setattr(_batch, "_MAX_BATCH", most)
    same(CAPTURES[name])


@given(name=st.sampled_from(sorted(CAPTURES)), seed=st.integers(0, 1 << 20), most=st.sampled_from([900, 1 << 20]))
@settings(max_examples=150)
def test_captures_damaged_packets(name, seed, most):
    """Lost, repeated, exchanged and changed."""
    rng = np.random.default_rng(seed)
    parts = blocks(CAPTURES[name])
    head, packets = parts[:2], parts[2:]
    for _ in range(rng.integers(1, 4)):
        one, other = (int(i) for i in rng.integers(0, len(packets), 2))
        match rng.integers(0, 4):
            case 0:
                del packets[one]
            case 1:
                packets.insert(other, packets[one])
            case 2:
                packets[one], packets[other] = packets[other], packets[one]
            case _:
                changed = bytearray(packets[one])
                changed[int(rng.integers(28, len(changed) - 4))] ^= 1 << int(rng.integers(0, 8))
                packets[one] = bytes(changed)
        if len(packets) < 3:
            break
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_batch, "_MAX_BATCH", most)
        same(b"".join(head + packets))


def interleaved(talks) -> bytes:
    """A capture of several connections whose exchanges alternate."""
    file = io.BytesIO()
    recorder = Recorder(file)
    connections = [recorder.open(("10.0.0.1", 40_000 + i), ("10.0.0.2", 9_009), NOW) for i in range(len(talks))]
    now = NOW
    for index in range(max(map(len, talks))):
        for connection, sent in zip(connections, talks, strict=True):
            if index < len(sent):
                now += 1_000
                sender, data = sent[index]
                (connection.client_sent if sender is VERIFIER else connection.server_sent)(data, now)
    for connection in connections:
        connection.close(now)
    return file.getvalue()


def test_connections_that_alternate():
    talks = [SPARSE.sent, golden(rounds=2, fault=True).sent, golden(rounds=1).sent]
    data = interleaved(talks)
    totals = same(data)["summary"]
    assert totals["connections"] == 3
    assert totals["discards"]


def test_bounded_work_what_is_held_for_a_batch_is_judged_before_a_connection_is_given_up():
    data = interleaved([SPARSE.sent] * 4)
    validator = Validator(max_held=20_000)
    validator.add(io.BytesIO(data), "capture")
    assert not validator.result.findings
    assert validator.result.to_json() == judged(data, together=False)[0]
