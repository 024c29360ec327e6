"""Every shared vector against the real ends and the passive judge: code, offset, path, and what the scope costs."""

from __future__ import annotations

import pytest

from pp1wire.protocol import Conversation, Direction, TargetOnly
from pp1wire.protocol.tables import ConnectionState
from pp1wire.wire import RemoteProtocolError, decode
from tests.protocol.puppets import VerifierPuppet, WorkerPuppet
from tests.protocol.vectors import every, name

CASES = [case for case in every() if not case[1].get("whole")]
ACCEPTING = next(before for _, vector, before in CASES if vector["after"] == "sparse: agreed")[1]["hex"]


def frames(before):
    return [(Direction(frame["from"]), bytes.fromhex(frame["hex"]), frame.get("code")) for frame in before]


def told(error):
    return error.code.name.lower(), error.scope, error.offset, error.path


def wanted(vector):
    return vector["code"], vector["scope"], vector["offset"], vector["path"]


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_judge_gives_each_vector_its_verdict_exact_code(case):
    _, vector, before = case
    conversation = Conversation()
    for direction, data, code in frames(before):
        errors = [v.error for v in conversation.feed(direction, data) if v.error is not None]
        assert [error.code.name.lower() for error in errors] == ([code] if code else [])
    direction = Direction(vector["from"])
    verdicts = conversation.feed(direction, bytes.fromhex(vector["hex"])) + conversation.close(direction)
    errors = [v.error for v in verdicts if v.error is not None]
    assert [told(e) for e in errors] == ([wanted(vector)] if vector["result"] == "invalid" else [])


def lead_verifier(before):
    puppet = VerifierPuppet()
    ahead = [data for direction, data, _ in frames(before) if direction is Direction.VERIFIER]
    for direction, data, _ in frames(before):
        if direction is Direction.VERIFIER:
            ahead.pop(0)
            puppet.send(data, ahead)
        else:
            puppet.receive(data)
    return puppet


def to_verifier(case):
    return case[1]["from"] == "worker" and case[2]


@pytest.mark.parametrize("case", [c for c in CASES if to_verifier(c)], ids=name)
def test_a_verifier_pays_what_the_scope_of_each_code_costs(case):
    _, vector, before = case
    puppet = lead_verifier(before)
    verifier, data = puppet.end, bytes.fromhex(vector["hex"])
    scope = vector.get("scope")
    dropped, sessions = dict(verifier.counters.dropped), verifier.open_sessions
    if scope == "connection":
        assert_fails(verifier, lambda d: verifier.receive(d, 0.0), verifier.eof, vector)
        return
    events = puppet.receive(data)
    assert (verifier.state, verifier.error) == (ConnectionState.OPEN, None)
    if scope == "proposal":
        [event] = events
        assert isinstance(event, TargetOnly)
        assert event.reason == vector["code"]
        assert verifier.counters.discards[event.reason] >= 1
        # The round is over at both ends: a RESET(fault) is queued, and the session goes on.
        assert puppet.queued
        verifier.target_only(event.session, 0)
    elif scope == "stale":
        assert events == []
        assert not puppet.queued
        assert verifier.counters.dropped[vector["code"]] == dropped[vector["code"]] + 1
    assert verifier.open_sessions == sessions


@pytest.mark.parametrize("case", [c for c in CASES if c[1]["from"] == "verifier"], ids=name)
def test_a_worker_closes_on_every_fault(case):
    _, vector, before = case
    answers = [data for direction, data, _ in frames(before) if direction is Direction.WORKER]
    puppet = WorkerPuppet(decode(answers[0] if answers else bytes.fromhex(ACCEPTING), None))
    for direction, data, _ in frames(before):
        (puppet.receive if direction is Direction.VERIFIER else puppet.send)(data)
    puppet.settle()
    worker = puppet.end
    if vector["result"] == "valid":
        assert worker.receive(bytes.fromhex(vector["hex"]))
        assert worker.error is None
    elif vector["code"] == "data_before_agreement":
        # The worker answers an offer at once, so bytes can come too early only together with it.
        fresh = WorkerPuppet(decode(bytes.fromhex(ACCEPTING), None)).end
        early = b"".join(data for _, data, _ in frames(before)) + bytes.fromhex(vector["hex"])
        assert_fails(fresh, fresh.receive, fresh.eof, vector | {"hex": early.hex()})
    else:
        assert_fails(worker, worker.receive, worker.eof, vector)


def assert_fails(end, receive, eof, vector):
    """The end tells the vector's verdict, and nothing else ever again."""

    def to_its_end():
        receive(bytes.fromhex(vector["hex"]))
        eof()

    with pytest.raises(RemoteProtocolError) as first:
        to_its_end()
    code, _, offset, path = wanted(vector)
    assert told(first.value) == (code, "connection", offset, path)
    assert (end.state, end.error, end.open_sessions) == (ConnectionState.FAILED, first.value, ())
    assert end.counters.failures[code] == 1
    assert not end.has_data_to_send
    for again in (lambda: receive(b""), lambda: receive(bytes.fromhex(vector["hex"])), eof):
        with pytest.raises(RemoteProtocolError) as second:
            again()
        assert second.value is first.value
