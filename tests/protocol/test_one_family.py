"""[one family] whatever frames a hostile peer makes, well sealed or not: events, or one kind of error; and nothing half-done."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.protocol import Conversation, Direction
from pp1wire.protocol.tables import ConnectionState
from pp1wire.wire import CommitKind, MessageType, RemoteProtocolError, ResetReason, encode
from pp1wire.wire.header import HEADER_BYTES, seal
from tests.protocol.util import commit_for, completion_for, pair, replies_for, reset_for, snapshot, step_for

SMALL = st.integers(0, 3)


def bodies(end):
    """Honest bodies of every message, to be bent."""
    session = end._session(1)
    step = step_for(session, end.agreement)
    replies = replies_for(step, session.prefix.ids(), end.agreement)
    messages = [step, *replies, completion_for(step, replies, end.agreement)]
    messages += [commit_for(session, kind) for kind in CommitKind] + [
        reset_for(session, reason) for reason in ResetReason
    ]
    frames = [encode(m, end.agreement, 0) for m in messages]
    return [(frame[6], frame[HEADER_BYTES:]) for frame in frames]


@st.composite
def bent(draw, honest):
    """(message type, identity, body) near an honest one: sealed well, so that only its content can be wrong."""
    kind, body = draw(st.sampled_from(honest))
    kind = draw(st.one_of(st.just(kind), st.sampled_from([int(t) for t in MessageType])))
    body = bytearray(body)
    for _ in range(draw(st.integers(0, 3))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]))
    cut = draw(st.sampled_from([len(body)] * 9 + [len(body) - 4]))
    identity = {"session": draw(SMALL), "slot": draw(SMALL), "generation": draw(SMALL), "round": draw(SMALL)}
    return kind, identity, bytes(body[:cut])


def hostile(end, data, honest):
    """One to four such frames."""
    frames, number = b"", end._splitter.next_sequence
    for index in range(data.draw(st.integers(1, 4))):
        kind, identity, body = data.draw(bent(honest))
        frame = bytearray(HEADER_BYTES) + body
        seal(frame, kind, sequence=number + index, agreement_id=end.agreement.id, **identity)
        frames += frame
    return frames


def attempt(receive, data):
    """What `receive` returned, and the error it raised instead; any other exception fails the test."""
    try:
        return receive(data), None
    except RemoteProtocolError as error:
        return None, error


def both():
    p = pair()
    p.verifier.open([1, 2], 5)
    p.verifier.open([3], 6)
    p.to_worker()
    return p


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_one_family_at_the_worker(data):
    worker = both().worker
    honest = bodies(worker)
    for _ in range(2):
        sent = hostile(worker, data, honest)
        _, error = attempt(worker.receive, sent)
        assert worker.error is None or error in (None, worker.error)
        if worker.error is not None:
            assert (worker.error.scope, worker.state) == ("connection", ConnectionState.FAILED)
            before = snapshot(worker)
            assert attempt(worker.receive, sent) == (None, worker.error)
            assert snapshot(worker) == before
            return


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_one_family_at_the_verifier(data):
    p = both()
    honest = bodies(p.verifier)
    p.verifier.step(1, 0.0, depth=2)
    p.verifier.data_to_send()
    for _ in range(3):
        sent = hostile(p.verifier, data, honest)
        _, error = attempt(lambda d: p.verifier.receive(d, 0.0), sent)
        assert p.verifier.error is None or error in (None, p.verifier.error)
        if p.verifier.error is not None:
            assert (p.verifier.error.scope, p.verifier.state) == ("connection", ConnectionState.FAILED)
            assert p.verifier._pool.held() == 0
            return
        # Nothing but an honest whole answer makes a proposal.
        rounds = [s for s in p.verifier._live.sessions.open.values() if s.open_round()]
        assert p.verifier._pool.held() == len(rounds)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_one_family_at_the_judge(data):
    p = both()
    conversation = Conversation(p.verifier.agreement)
    honest = bodies(p.verifier)
    for direction in data.draw(st.lists(st.sampled_from(list(Direction)), min_size=1, max_size=4)):
        sent = hostile(p.worker if direction is Direction.VERIFIER else p.verifier, data, honest)
        for verdict in conversation.feed(direction, sent):
            assert (verdict.message, verdict.batch, verdict.error).count(None) == 2


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_one_family_for_any_bytes(data):
    p = both()
    for receive in (p.worker.receive, lambda d: p.verifier.receive(d, 0.0)):
        events, error = attempt(receive, data)
        assert events == [] if error is None else error.scope == "connection"
