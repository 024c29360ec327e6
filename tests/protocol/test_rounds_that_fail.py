"""How rounds and connections end: deadlines, discards, rejected rows, faults, and what the request goes on with."""

from __future__ import annotations

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import ConnectionState, Ended, ProposalReady, SessionState, TargetOnly
from pp1wire.wire import CommitKind, CompletionStatus, RejectCode, RemoteProtocolError
from tests.protocol.util import completion_for, frame, pair, replies_for, snapshot

K = CommitKind


def opened(**options):
    """Ends with session 1 open at both."""
    p = pair(**options)
    p.verifier.open([1, 2, 3], 5)
    p.to_worker()
    return p


def test_a_deadline_discards_the_round_and_the_request_goes_on():
    p = opened(step_timeout=0.5)
    p.verifier.step(1, 10.0)
    assert p.verifier.next_deadline() == 10.5
    assert p.verifier.check_deadlines(10.49) == []
    assert p.verifier.check_deadlines(10.5) == [TargetOnly(1, 2, "deadline")]
    assert p.verifier.next_deadline() is None
    assert p.verifier.counters.discards["deadline"] == 1
    p.verifier.target_only(1, 4)
    p.to_worker()
    assert p.worker.prefix_ids(1).tolist() == [1, 2, 3, 4]
    assert p.verifier.counters.target_only == p.worker.counters.target_only == 1


def test_an_answer_that_is_read_after_its_deadline_is_late():
    p = opened(step_timeout=0.5)
    p.verifier.step(1, 0.0)
    p.to_worker()
    p.answer_all()
    p.now = 0.5
    assert p.to_verifier() == [TargetOnly(1, 2, "deadline")]
    assert p.verifier.counters.dropped["stale_generation"] == 6


def test_a_proposal_in_time_has_no_deadline_any_more():
    p = opened(step_timeout=0.5)
    p.round(1)
    assert p.verifier.next_deadline() is None
    assert p.verifier.check_deadlines(99.0) == []


def test_deadlines_of_many_sessions_come_each_at_its_time():
    p = opened(step_timeout=1.0)
    p.verifier.open([9], 6)
    p.verifier.step(1, 0.0)
    p.verifier.step(2, 0.25)
    assert p.verifier.next_deadline() == 1.0
    assert [e.session for e in p.verifier.check_deadlines(1.1)] == [1]
    assert p.verifier.next_deadline() == 1.25
    assert [e.session for e in p.verifier.check_deadlines(5.0)] == [2]


def test_no_timeout_is_no_deadline():
    p = opened(step_timeout=None)
    p.verifier.step(1, 0.0)
    assert p.verifier.next_deadline() is None


@pytest.mark.parametrize("status", [s for s in CompletionStatus if s is not CompletionStatus.OK])
def test_a_worker_that_gives_up_leaves_the_target_alone(status):
    p = opened()
    p.verifier.step(1, 0.0)
    p.to_worker()
    p.worker.fail(p.drafts.pop().step, status)
    reason = f"completion_{status.name.lower()}"
    assert p.to_verifier() == [TargetOnly(1, 2, reason)]
    assert p.verifier.counters.discards[reason] == p.worker.counters.discards[reason] == 1
    p.verifier.target_only(1, 4)
    p.to_worker()
    assert snapshot(p.worker) == snapshot(p.verifier)
    [ready] = p.round(1)
    assert (ready.proposal.generation, ready.proposal.position) == (2, 4)


def test_a_consumer_can_discard_a_proposal_that_is_ready():
    p = opened()
    [ready] = p.round(1)
    assert p.verifier.discard(1) == [TargetOnly(1, 2, "consumer")]
    assert not ready.proposal.live
    assert p.verifier.counters.discards["consumer"] == 1
    p.to_worker()
    assert snapshot(p.worker) == snapshot(p.verifier)


def test_rising_a_discard_in_the_last_generation_ends_the_connection():
    p = pair()
    number = p.verifier.open([1], 5, generation=2**32 - 1)
    other = p.verifier.open([1], 6)
    p.verifier.step(number, 0.0)
    p.verifier.step(other, 0.0)
    assert p.verifier.check_deadlines(5.0) == [Ended("generation_exhausted")]
    assert (p.verifier.state, p.verifier.open_sessions) == (ConnectionState.ENDED, ())
    assert p.verifier.counters.discards["deadline"] == 1
    assert p.verifier.counters.discards["connection_lost"] == 1


def test_rows_behind_the_end_of_the_connection_are_not_read():
    p = pair()
    number = p.verifier.open([1], 5, generation=2**32 - 1)
    p.verifier.step(number, 0.0, depth=2)
    step = p.verifier._session(number).latest.step
    replies = replies_for(step, [1], p.verifier.agreement)
    bad = frame(p.verifier, replies[1])
    more = frame(p.verifier, replies[0], sequence=p.verifier._splitter.next_sequence + 1)
    assert p.verifier.receive(bad + more, 0.0) == [Ended("generation_exhausted")]


def test_eight_rejected_rounds_in_a_row_close_the_connection():
    p = pair()
    sessions = [p.verifier.open([1], seed) for seed in (1, 2)]
    for count in range(8):
        number = sessions[count % 2]
        p.verifier.step(number, 0.0, depth=2)
        step = p.verifier._session(number).latest.step
        # Of the right form, but not at the first position of its round.
        row = replies_for(step, p.verifier.prefix_ids(number), p.verifier.agreement)[1]
        data = frame(p.verifier, row)
        if count < 7:
            [event] = p.verifier.receive(data, 0.0)
            assert event.reason == "reply_position_mismatch"
            continue
        with pytest.raises(RemoteProtocolError) as error:
            p.verifier.receive(data, 0.0)
        assert error.value.code is RejectCode.TOO_MANY_DISCARDS
    assert p.verifier.state is ConnectionState.FAILED
    assert p.verifier.counters.discards["reply_position_mismatch"] == 8


def test_seven_rejected_rounds_and_a_good_one_begin_the_count_anew():
    p = pair()
    number = p.verifier.open([1], 1)
    for _ in range(3):
        for _ in range(7):
            p.verifier.step(number, 0.0, depth=2)
            step = p.verifier._session(number).latest.step
            row = replies_for(step, p.verifier.prefix_ids(number), p.verifier.agreement)[1]
            assert len(p.verifier.receive(frame(p.verifier, row), 0.0)) == 1
            # A deadline is no rejection: it neither counts nor forgives.
            p.verifier.step(number, 0.0)
            p.verifier.check_deadlines(50.0)
        p.verifier.step(number, 60.0, depth=1)
        step = p.verifier._session(number).latest.step
        replies = replies_for(step, [1], p.verifier.agreement)
        p.verifier.receive(frame(p.verifier, replies[0]), 60.0)
        p.verifier.receive(frame(p.verifier, completion_for(step, replies, p.verifier.agreement)), 60.0)
        p.verifier.discard(number)
    assert p.verifier.state is ConnectionState.OPEN


def test_events_before_an_error_come_first_and_the_error_stays():
    p = opened()
    p.verifier.step(1, 0.0)
    p.to_worker()
    p.answer_all()
    events = p.verifier.receive(p.worker.data_to_send() + b"JUNK" * 20, 0.0)
    assert [type(e) for e in events] == [ProposalReady]
    assert p.verifier.error.code is RejectCode.BAD_MAGIC
    assert p.verifier.open_sessions == ()
    assert p.verifier.counters.discards["connection_lost"] == 1
    for call in (lambda: p.verifier.receive(b"", 0.0), p.verifier.eof):
        with pytest.raises(RemoteProtocolError) as error:
            call()
        assert error.value is p.verifier.error
    assert p.verifier.check_deadlines(99.0) == []


def test_a_connection_that_failed_sends_nothing_more():
    p = opened()
    p.verifier.step(1, 0.0)
    p.verifier.close(1)
    assert p.verifier.has_data_to_send
    with pytest.raises(RemoteProtocolError):
        p.verifier.receive(b"JUNK", 0.0)
    assert not p.verifier.has_data_to_send
    assert p.verifier.data_to_send() == b""


def test_the_end_of_the_stream_loses_every_session():
    p = opened()
    p.verifier.open([5], 9)
    [ready] = p.round(1)
    p.verifier.step(2, 0.0)
    kept = ready.proposal.retain()
    before = kept.q.copy()
    assert p.verifier.eof() == [Ended("closed")]
    assert p.verifier.eof() == []
    assert p.verifier.counters.discards["connection_lost"] == 2
    assert p.verifier.next_deadline() is None
    assert np.array_equal(kept.q, before)
    with pytest.raises(LocalProtocolError):
        p.verifier.receive(b"", 0.0)
    with pytest.raises(LocalProtocolError):
        p.verifier.end()


def test_a_stream_that_ends_inside_a_frame_is_truncated():
    p = opened()
    p.verifier.step(1, 0.0)
    p.to_worker()
    p.answer_all()
    data = p.worker.data_to_send()
    p.verifier.receive(data[:-1], 0.0)
    with pytest.raises(RemoteProtocolError) as error:
        p.verifier.eof()
    assert error.value.code is RejectCode.TRUNCATED
    assert p.verifier.state is ConnectionState.FAILED


def test_ending_from_this_side_keeps_what_was_queued():
    p = opened()
    p.verifier.close(1)
    p.verifier.end()
    assert p.verifier.state is ConnectionState.ENDED
    [closed] = p.to_worker()
    assert closed.session == 1
    assert p.verifier.session_state(1) is SessionState.CLOSED
    assert p.verifier.session_state(2) is SessionState.ABSENT


def test_buffers_are_handed_out_without_copying_rows():
    p = opened()
    p.verifier.step(1, 0.0)
    p.to_worker()
    p.answer_all()
    pieces = p.worker.buffers_to_send()
    assert [len(piece) for piece in pieces] == [5 * p.worker.agreement.reply_frame_bytes, 64 + 40]
    assert p.worker.buffers_to_send() == []
    assert not p.worker.has_data_to_send
