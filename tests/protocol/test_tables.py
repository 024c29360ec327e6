"""[tables] for every state × event: listed means the new state at both ends; not listed means an error and nothing changed."""

from __future__ import annotations

import itertools

import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Verifier, Worker
from pp1wire.protocol.tables import (
    COMMIT_EVENTS,
    COMPLETION_EVENTS,
    CONNECTION,
    RESET_EVENTS,
    SESSION,
    ConnectionEvent,
    ConnectionState,
    Role,
    SessionEvent,
    SessionState,
)
from pp1wire.wire import CommitKind, CompletionStatus, RemoteProtocolError, ResetReason
from tests.protocol.util import (
    answer,
    commit_for,
    completion_for,
    frame,
    offer,
    pair,
    replies_for,
    reset_for,
    snapshot,
    step_for,
)

S, E = SessionState, SessionEvent
KINDS = {
    E.COMMIT: CommitKind.CORRECTION,
    E.COMMIT_NONE: CommitKind.NONE,
    E.COMMIT_TARGET_ONLY: CommitKind.TARGET_ONLY,
}
REASONS = {event: reason for reason, event in RESET_EVENTS.items()}
FROM_VERIFIER = [*REASONS, E.STEP, *KINDS]
FROM_WORKER = [E.REPLY, E.COMPLETION_OK, E.COMPLETION_FAILED]


def reach(state):
    """Both ends with session 1 in `state`; VOID is reached by a worker that gave up and whose verifier has not heard yet."""
    p = pair()
    if state is S.ABSENT:
        return p
    p.verifier.open([1, 2], 5)
    if state in (S.DRAFTING, S.READY, S.STOPPED, S.VOID):
        p.verifier.step(1, 0.0, depth=2)
    p.to_worker()
    if state in (S.READY, S.STOPPED):
        p.answer_all()
        p.to_verifier()
    if state is S.STOPPED:
        tokens = p.events[-1].proposal.tokens[:1]
        p.verifier.commit(1, 1, CommitKind.NONE, tokens)
        p.to_worker()
    if state is S.VOID:
        p.worker.fail(p.drafts.pop().step, CompletionStatus.INTERNAL)
        p.verifier._live.from_worker.discard(p.verifier._session(1))
    if state is S.CLOSED:
        p.verifier.close(1)
        p.to_worker()
    assert (p.verifier.session_state(1), p.worker.session_state(1)) == (state, state)
    return p


def command(verifier, event):
    """Ask a verifier for `event` through its own methods."""
    if event is E.RESET_OPEN:
        # A verifier never opens a number twice: it can only be asked to open another session.
        verifier._send(message(verifier, event))
    elif event is E.RESET_FAULT:
        verifier._send(message(verifier, event))
    elif event is E.RESET_CANCEL:
        verifier.cancel(1)
    elif event is E.RESET_CLOSE:
        verifier.close(1)
    elif event is E.STEP:
        verifier.step(1, 0.0, depth=2)
    elif event is E.COMMIT_TARGET_ONLY:
        verifier.target_only(1, 3)
    else:
        m = message(verifier, event)
        verifier.commit(1, m.accepted, m.kind, m.tokens)


class Gone:
    """What a message about a session that is not open would say."""

    def __init__(self):
        session = reach(S.IDLE).verifier._session(1)
        self.__dict__ = {n: getattr(session, n) for n in session.__slots__}
        self.generation, self.position, self.next_round = 1, session.position, 1


def message(end, event):
    session = end._live.sessions.open.get(1) or Gone()
    if event is E.RESET_OPEN and end._live.sessions.last == 0:
        return reset_for(session, ResetReason.OPEN, generation=1)
    if event in REASONS:
        return reset_for(session, REASONS[event])
    if event is E.STEP:
        return step_for(session, end.agreement)
    return commit_for(session, KINDS[event])


def test_the_tables_know_every_state_and_event():
    assert set(SESSION) == set(SessionState)
    assert {e for row in SESSION.values() for e in row} == set(SessionEvent)
    assert set(RESET_EVENTS) == set(ResetReason)
    assert set(COMMIT_EVENTS) == set(CommitKind)
    assert set(COMPLETION_EVENTS) == set(CompletionStatus)
    for role in Role:
        assert set(CONNECTION[role]) == set(ConnectionState)
        assert {e for row in CONNECTION[role].values() for e in row} == set(ConnectionEvent)
    assert SESSION[S.CLOSED] == {}
    for state in (ConnectionState.ENDED, ConnectionState.FAILED):
        assert all(CONNECTION[role][state] == {} for role in Role)


@pytest.mark.parametrize(("state", "event"), [*itertools.product(SessionState, FROM_VERIFIER)])
def test_tables_of_a_verifiers_messages(state, event):
    p = reach(state)
    following = SESSION[state].get(event)
    before, counted = snapshot(p.verifier), p.verifier.counters.as_dict()
    if following is None:
        with pytest.raises(LocalProtocolError):
            command(p.verifier, event)
        assert not p.verifier.has_data_to_send
        assert (snapshot(p.verifier), p.verifier.counters.as_dict()) == (before, counted)
    else:
        command(p.verifier, event)
        assert p.verifier.session_state(1) is following


@pytest.mark.parametrize(("state", "event"), [*itertools.product(SessionState, FROM_VERIFIER)])
def test_tables_of_a_verifiers_messages_at_the_worker(state, event):
    worker = reach(state).worker
    following = SESSION[state].get(event)
    before, data = snapshot(worker), frame(worker, message(worker, event))
    if following is None:
        with pytest.raises(RemoteProtocolError) as error:
            worker.receive(data)
        assert error.value.scope == "connection"
        assert snapshot(worker) == before
        assert worker.state is ConnectionState.FAILED
    else:
        assert len(worker.receive(data)) == 1
        assert worker.session_state(1) is following


@pytest.mark.parametrize(("state", "event"), [*itertools.product(SessionState, FROM_WORKER)])
def test_tables_of_a_workers_messages(state, event):
    verifier = reach(state).verifier
    following = SESSION[state].get(event)
    step = step_for(reach(S.IDLE).verifier._session(1), verifier.agreement, proposal_seed=5)
    replies = replies_for(step, [1, 2], verifier.agreement)
    if event is E.REPLY:
        data = frame(verifier, replies[0])
    else:
        sent = replies if event is E.COMPLETION_OK else []
        status = CompletionStatus.OK if event is E.COMPLETION_OK else CompletionStatus.INTERNAL
        if state is S.DRAFTING:
            for reply in sent:
                verifier.receive(frame(verifier, reply), 0.0)
        data = frame(verifier, completion_for(step, sent, verifier.agreement, status=status))
    before = snapshot(verifier)
    if following is None and state in (S.ABSENT, S.IDLE):
        # Nothing was ever asked for: a violation.
        with pytest.raises(RemoteProtocolError):
            verifier.receive(data, 0.0)
        assert (snapshot(verifier), verifier.state) == (before, ConnectionState.FAILED)
    elif following is None:
        # It was asked for, but is over: dropped and counted.
        assert verifier.receive(data, 0.0) == []
        assert snapshot(verifier) == before
        assert sum(verifier.counters.dropped.values()) == 1
    elif following is S.VOID:
        # The verifier leaves VOID at once, by a RESET.
        [event] = verifier.receive(data, 0.0)
        assert (verifier.session_state(1), event.generation) == (S.IDLE, 2)
        assert verifier.counters.states["session.void"] == 1
    else:
        verifier.receive(data, 0.0)
        assert verifier.session_state(1) is following


@pytest.mark.parametrize("state", SessionState)
def test_tables_of_a_discard(state):
    p = reach(state)
    if SESSION[state].get(E.DISCARD) is None:
        before = snapshot(p.verifier)
        with pytest.raises(LocalProtocolError):
            p.verifier.discard(1)
        assert snapshot(p.verifier) == before
        assert not p.verifier.has_data_to_send
    else:
        p.verifier.discard(1)
        assert p.verifier.session_state(1) is S.IDLE
        p.to_worker()
        assert snapshot(p.worker) == snapshot(p.verifier)


def connection(role, state):
    """An end in `state`."""
    p = pair()
    if state is ConnectionState.OPEN:
        return getattr(p, role)
    if state in (ConnectionState.ENDED, ConnectionState.FAILED):
        end = getattr(p, role)
        end._enter(ConnectionEvent.END if state is ConnectionState.ENDED else ConnectionEvent.FAIL)
        return end
    end = Verifier(offer()) if role is Role.VERIFIER else Worker(answer())
    if state is ConnectionState.OFFERED:
        end._enter(ConnectionEvent.OFFER)
    return end


@pytest.mark.parametrize(("role", "state", "event"), [*itertools.product(Role, ConnectionState, ConnectionEvent)])
def test_tables_of_a_connection(role, state, event):
    end = connection(role, state)
    following = CONNECTION[role][state].get(event)
    if following is None:
        with pytest.raises(LocalProtocolError):
            end._enter(event)
        assert end.state is state
    else:
        end._enter(event)
        assert end.state is following


@pytest.mark.parametrize("state", [s for s in ConnectionState if s is not ConnectionState.OPEN])
def test_a_connection_that_is_not_open_takes_no_commands(state):
    verifier = connection(Role.VERIFIER, state)
    for refused in (
        lambda: verifier.open([], 1),
        lambda: verifier.step(1, 0.0),
        lambda: verifier.commit(1, 0, CommitKind.CORRECTION, [1]),
        lambda: verifier.target_only(1, 1),
        lambda: verifier.cancel(1),
        lambda: verifier.close(1),
        lambda: verifier.discard(1),
        lambda: verifier.prefix_ids(1),
        lambda: verifier.generation(1),
    ):
        with pytest.raises(LocalProtocolError):
            refused()
    assert not verifier.has_data_to_send
    assert verifier.open_sessions == ()
