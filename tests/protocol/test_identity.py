"""[identity] any one wrong identity on any message: the matching code, and no state changes.

[late] answers to what is over are dropped and counted, answers to what was never asked are violations.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pp1wire.protocol import SessionState, TargetOnly
from pp1wire.wire import CommitKind, CompletionStatus, RejectCode, RemoteProtocolError, ResetReason
from pp1wire.wire.header import HEADER_BYTES, seal
from pp1wire.wire.messages import pack_body
from pp1wire.wire.reader import message_type_of
from tests.protocol.util import (
    commit_for,
    completion_for,
    frame,
    pair,
    replies_for,
    reset_for,
    snapshot,
    step_for,
)

C = RejectCode
OTHER = bytes(range(16))


def worker_with(kind):
    """A worker with two sessions, and the next message of the first one."""
    p = pair()
    p.verifier.open([1, 2], 5)
    p.verifier.open([3], 6)
    p.to_worker()
    if kind == "commit":
        p.round(1, depth=2)
    worker = p.worker
    session = worker._session(1)
    if kind == "step":
        return worker, step_for(session, worker.agreement)
    if kind == "commit":
        return worker, commit_for(session, CommitKind.CORRECTION)
    if kind == "target_only":
        return worker, commit_for(session, CommitKind.TARGET_ONLY)
    if kind == "open":
        return worker, replace(reset_for(session, ResetReason.OPEN, generation=1), session=3, slot=2)
    return worker, reset_for(session, ResetReason[kind.upper()])


TO_WORKER = [
    # message, what is wrong in it, code
    *[("step", change, code) for change, code in [
        ({"session": 9}, C.SESSION_NOT_OPEN), ({"slot": 1}, C.SLOT_MISMATCH), ({"generation": 2}, C.GENERATION_NOT_NEXT),
        ({"round": 2}, C.ROUND_NOT_NEXT), ({"position": 3}, C.POSITION_MISMATCH),
        ({"prefix_digest": OTHER}, C.PREFIX_DIGEST_MISMATCH), ({"session": 2}, C.SLOT_MISMATCH),
        ({"slot": 1, "session": 2}, C.POSITION_MISMATCH),
    ]],
    *[(kind, change, code) for kind in ("commit", "target_only") for change, code in [
        ({"session": 9}, C.SESSION_NOT_OPEN), ({"slot": 1}, C.SLOT_MISMATCH), ({"generation": 2}, C.GENERATION_NOT_NEXT),
        ({"round": 3}, C.ROUND_NOT_NEXT), ({"position": 3, "new_position": 4}, C.POSITION_MISMATCH),
        ({"prefix_digest": OTHER}, C.PREFIX_DIGEST_MISMATCH), ({"new_digest": OTHER}, C.COMMIT_DIGEST_MISMATCH),
        ({"new_position": 9}, C.COMMIT_POSITION_MISMATCH),
    ]],
    *[(kind, change, code) for kind in ("fault", "cancel", "close") for change, code in [
        ({"session": 9}, C.SESSION_NOT_OPEN), ({"slot": 1}, C.SLOT_MISMATCH), ({"generation": 3}, C.GENERATION_NOT_NEXT),
        ({"generation": 1}, C.GENERATION_NOT_NEXT),
    ]],
    ("fault", {"prefix_digest": OTHER}, C.PREFIX_DIGEST_MISMATCH), ("fault", {"position": 1}, C.PREFIX_COUNT_MISMATCH),
    ("close", {"prefix_digest": OTHER}, C.PREFIX_DIGEST_MISMATCH), ("close", {"position": 1}, C.POSITION_MISMATCH),
    ("open", {"session": 1}, C.SLOT_MISMATCH), ("open", {"session": 1, "slot": 0}, C.GENERATION_NOT_NEXT),
    ("open", {"session": 1, "slot": 0, "generation": 2}, C.RESET_REASON_MISMATCH),
    ("open", {"slot": 1}, C.SLOT_OCCUPIED), ("open", {"reason": ResetReason.FAULT}, C.RESET_REASON_MISMATCH),
    ("open", {"reason": ResetReason.FAULT, "generation": 2}, C.SESSION_NOT_OPEN),
]  # fmt: skip
MESSAGES = ("step", "commit", "target_only", "fault", "cancel", "close", "open")


def refused(end, data, *now):
    """The error for `data`; the end fails, but no session changes."""
    before = snapshot(end)
    with pytest.raises(RemoteProtocolError) as error:
        end.receive(data, *now)
    assert error.value.scope == "connection"
    assert snapshot(end) == before
    return error.value


def forged(end, message):
    """`message` as the next frame, whatever it says: its own encoder would refuse some of these."""
    kind = message_type_of(message)
    data = bytearray(HEADER_BYTES) + pack_body(message, kind)
    identity = {n: getattr(message, n) for n in ("session", "slot", "generation", "round") if hasattr(message, n)}
    seal(data, kind, sequence=end._splitter.next_sequence, agreement_id=end.agreement.id, **identity)
    return bytes(data)


@pytest.mark.parametrize(("kind", "change", "code"), TO_WORKER)
def test_identity_of_what_a_worker_receives(kind, change, code):
    worker, message = worker_with(kind)
    assert refused(worker, forged(worker, replace(message, **change))).code is code


@pytest.mark.parametrize("kind", MESSAGES)
def test_agreement_and_sequence_identity_of_what_a_worker_receives(kind):
    for header, code in (
        ({"sequence": 99}, C.SEQUENCE_MISMATCH),
        ({"sequence": 0}, C.SEQUENCE_MISMATCH),
        ({"agreement": True}, C.AGREEMENT_MISMATCH),
    ):
        worker, message = worker_with(kind)
        if "agreement" in header:
            header = {"agreement": replace(worker.agreement, id=worker.agreement.id ^ 1)}
        assert refused(worker, frame(worker, message, **header)).code is code
    worker, message = worker_with(kind)
    worker.receive(frame(worker, message))
    assert worker.error is None


def test_closed_sessions_are_never_opened_again():
    worker, message = worker_with("close")
    worker.receive(frame(worker, message))
    again = replace(worker_with("open")[1], session=1, slot=0)
    assert refused(worker, frame(worker, again)).code is C.SESSION_NOT_RISING


def test_a_reset_of_a_closed_session_is_refused():
    worker, message = worker_with("close")
    worker.receive(frame(worker, message))
    assert refused(worker, frame(worker, replace(message, generation=3))).code is C.SESSION_NOT_OPEN


def test_a_replayed_step_is_a_violation():
    p = pair()
    p.verifier.open([1], 5)
    p.verifier.step(1, 0.0)
    data = p.verifier.data_to_send()
    p.worker.receive(data)
    session = p.worker._session(1)
    step = session.latest.step
    assert refused(p.worker, frame(p.worker, step)).code is C.ROUND_NOT_NEXT


def verifier_with(kind, representation=None):
    """A verifier with two sessions that drafts in the first, and the worker's next message."""
    p = pair() if representation is None else pair(representation)
    p.verifier.open([1, 2], 5)
    p.verifier.open([3], 6)
    p.verifier.step(1, 0.0, depth=2)
    p.verifier.data_to_send()
    verifier = p.verifier
    step = verifier._session(1).latest.step
    replies = replies_for(step, [1, 2], verifier.agreement)
    if kind == "reply":
        return verifier, replies[0]
    for reply in replies:
        assert verifier.receive(frame(verifier, reply), 0.0) == []
    return verifier, completion_for(step, replies, verifier.agreement)


HEADERS_TO_VERIFIER = [
    ({"session": 3}, C.SESSION_NEVER_ISSUED),
    ({"slot": 1}, C.SLOT_MISMATCH),
    ({"session": 2}, C.SLOT_MISMATCH),
    ({"session": 2, "slot": 1}, C.ROUND_NEVER_ISSUED),
    ({"generation": 2}, C.GENERATION_NEVER_ISSUED),
    ({"round": 2}, C.ROUND_NEVER_ISSUED),
]


@pytest.mark.parametrize("kind", ["reply", "completion"])
@pytest.mark.parametrize(("change", "code"), HEADERS_TO_VERIFIER)
def test_identity_of_what_a_verifier_receives(kind, change, code):
    verifier, message = verifier_with(kind)
    assert refused(verifier, frame(verifier, replace(message, **change)), 0.0).code is code


@pytest.mark.parametrize("kind", ["reply", "completion"])
def test_agreement_and_sequence_identity_of_what_a_verifier_receives(kind):
    for name, code in (("sequence", C.SEQUENCE_MISMATCH), ("agreement", C.AGREEMENT_MISMATCH)):
        verifier, message = verifier_with(kind)
        other = replace(verifier.agreement, id=verifier.agreement.id ^ 1)
        header = {"sequence": 99} if name == "sequence" else {"agreement": other}
        assert refused(verifier, frame(verifier, message, **header), 0.0).code is code


BODIES_TO_VERIFIER = [
    ("reply", {"position": 3}, C.REPLY_POSITION_MISMATCH),
    ("reply", {"position": 4}, C.TOO_MANY_ROWS),
    ("reply", {"position": 1}, C.REPLY_POSITION_MISMATCH),
    ("completion", {"position": 3}, C.COMPLETION_POSITION_MISMATCH),
    ("completion", {"context_version": 1}, C.COMPLETION_CONTEXT_MISMATCH),
    ("completion", {"rows": 1}, C.COMPLETION_ROWS_MISMATCH),
    ("completion", {"reply_bytes": 1}, C.COMPLETION_BYTES_MISMATCH),
    ("completion", {"rows_checksum": OTHER}, C.COMPLETION_CHECKSUM_MISMATCH),
    ("completion", {"status": CompletionStatus.INTERNAL, "rows": 1}, C.COMPLETION_ROWS_MISMATCH),
]


@pytest.mark.parametrize(("kind", "change", "code"), BODIES_TO_VERIFIER)
def test_identity_in_a_body_costs_the_round_alone(kind, change, code):
    verifier, message = verifier_with(kind)
    before = snapshot(verifier)[0][1]
    [event] = verifier.receive(frame(verifier, replace(message, **change)), 0.0)
    assert event == TargetOnly(1, 2, code.name.lower())
    after = snapshot(verifier)[0][1]
    assert (after[1], after[2], after[3]) == (2, SessionState.IDLE, 0)
    assert (after[4], after[5]) == (before[4], before[5])
    assert verifier.counters.discards[code.name.lower()] == 1


def test_a_duplicate_row_is_told_from_one_too_many():
    verifier, _ = verifier_with("reply")
    step = verifier._session(1).latest.step
    replies = replies_for(step, [1, 2], verifier.agreement)
    verifier.receive(frame(verifier, replies[0]), 0.0)
    [event] = verifier.receive(frame(verifier, replies[0]), 0.0)
    assert event.reason == "reply_position_duplicate"
    verifier, _ = verifier_with("completion")
    [event] = verifier.receive(frame(verifier, replace(replies[1], position=4)), 0.0)
    assert event.reason == "too_many_rows"


@pytest.mark.parametrize("kind", ["reply", "completion"])
@pytest.mark.parametrize("way", ["deadline", "cancel", "close", "next round", "completed"])
def test_late_answers_are_dropped_and_counted(kind, way):
    verifier, message = verifier_with(kind)
    data_code = {"deadline": "stale_generation", "cancel": "stale_generation", "close": "stale_session"}
    if way == "deadline":
        [event] = verifier.check_deadlines(1.0)
        assert event == TargetOnly(1, 2, "deadline")
    elif way == "cancel":
        verifier.cancel(1)
    elif way == "close":
        verifier.close(1)
    else:
        if kind == "reply":
            step = verifier._session(1).latest.step
            replies = replies_for(step, [1, 2], verifier.agreement)
            for reply in replies:
                verifier.receive(frame(verifier, reply), 0.0)
            completion = completion_for(step, replies, verifier.agreement)
        else:
            completion = message
        [event] = verifier.receive(frame(verifier, completion), 0.0)
        if way == "next round":
            verifier.commit(1, 0, CommitKind.CORRECTION, [4])
            verifier.step(1, 0.0)
    verifier.data_to_send()
    before = snapshot(verifier)
    for _ in range(3):
        assert verifier.receive(frame(verifier, message), 0.5) == []
    assert snapshot(verifier) == before
    assert not verifier.has_data_to_send
    code = data_code.get(way, "stale_round")
    assert {k: v for k, v in verifier.counters.dropped.items() if v} == {code: 3}


def test_a_late_answer_is_not_even_looked_into():
    verifier, reply = verifier_with("reply")
    verifier.cancel(1)
    data = bytearray(frame(verifier, reply))
    data[-1] ^= 1
    assert verifier.receive(data, 0.0) == []
    assert verifier.counters.dropped["stale_generation"] == 1
