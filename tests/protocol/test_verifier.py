"""The verifier's own behaviour: deadlines, discards and what follows them, commands that are refused without a trace, the end."""

from __future__ import annotations

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import ConnectionState, Ended, ProposalReady, SessionState, TargetOnly, Verifier
from pp1wire.sampling import proposal_seed, verification_seed
from pp1wire.wire import CommitKind, CompletionStatus, RejectCode, RemoteProtocolError, Representation
from tests.protocol.util import VOCAB, completion_for, draft, frame, offer, pair, replies_for, snapshot

K = CommitKind


def opened(**options):
    p = pair(**options)
    p.verifier.open([1, 2, 3], 5)
    p.to_worker()
    return p


def unchanged(p, call, match=None):
    """`call` is refused, and left no trace."""
    p.to_worker()
    before, counted = snapshot(p.verifier), p.verifier.counters.as_dict()
    held, deadline = p.verifier._pool.held(), p.verifier.next_deadline()
    with pytest.raises(LocalProtocolError, match=match):
        call()
    assert not p.verifier.has_data_to_send
    assert (snapshot(p.verifier), p.verifier.counters.as_dict()) == (before, counted)
    assert (p.verifier._pool.held(), p.verifier.next_deadline()) == (held, deadline)


def test_a_request_decoded_together():
    p = opened()
    for accepted, kind, last in ((2, K.CORRECTION, [7]), (5, K.BONUS, [8]), (0, K.CORRECTION, [9]), (3, K.NONE, [])):
        [ready] = p.round(1)
        assert isinstance(ready, ProposalReady)
        assert (ready.session, ready.proposal.round) == (1, ready.proposal.round)
        tokens = ready.proposal.tokens.tolist()
        p.verifier.commit(1, accepted, kind, tokens[:accepted] + last)
        p.to_worker()
        assert np.array_equal(p.verifier.prefix_ids(1), p.worker.prefix_ids(1))
        assert snapshot(p.verifier) == snapshot(p.worker)
    assert p.verifier.session_state(1) is SessionState.STOPPED
    p.verifier.close(1)
    p.to_worker()
    assert (p.verifier.open_sessions, p.worker.open_sessions) == ((), ())
    counters = p.verifier.counters
    assert (counters.steps, counters.proposals, counters.commits, counters.tokens) == (4, 4, 4, 13)
    assert counters.committed == counters.accepted == [3, 3, 2, 1, 1]
    assert p.worker.counters.committed == counters.committed
    assert p.worker.counters.bytes_sent == counters.bytes_received
    assert p.worker.counters.bytes_received == counters.bytes_sent
    assert sum(counters.discards.values()) == 0


def test_a_stop_token_truncates_and_the_raw_acceptances_are_counted_apart():
    p = opened()
    [ready] = p.round(1)
    tokens = ready.proposal.tokens[:2]
    unchanged(p, lambda: p.verifier.commit(1, 2, K.NONE, tokens, raw_accepted=1), "raw_accepted")
    unchanged(p, lambda: p.verifier.commit(1, 2, K.NONE, tokens, raw_accepted=6), "raw_accepted")
    p.verifier.commit(1, 2, K.NONE, tokens, raw_accepted=4)
    unchanged(p, lambda: p.verifier.step(1, 0.0), "STEP")
    p.verifier.close(1)
    assert p.verifier.counters.committed == [1, 1, 0, 0, 0]
    assert p.verifier.counters.accepted == [1, 1, 1, 1, 0]
    assert p.verifier.counters.discards["cancelled"] == 0


def test_commits_that_contradict_the_proposal_are_refused_here_first():
    p = opened()
    unchanged(p, lambda: p.verifier.commit(1, 0, K.CORRECTION, [1]), "expected a proposal")
    [ready] = p.round(1)
    tokens = ready.proposal.tokens.tolist()
    wrong = (tokens[0] + 1) % VOCAB
    for accepted, kind, ids, why in [
        (1, K.CORRECTION, [wrong, 1], "as proposed"),
        (5, K.CORRECTION, [*tokens, 1], "accepted"),
        (4, K.BONUS, [*tokens[:4], 1], "accepted"),
        (1, K.CORRECTION, tokens[:1], "token_count"),
        (1, K.CORRECTION, [tokens[0], VOCAB], "token_padded"),
        (1, K.CORRECTION, [tokens[0], -1], "token_out_of_range"),
        (0, K.NONE, [], "token_count|smallest|1 to 6"),
        (5, K.BONUS, [*tokens, 1, 2], "token_count|at most 6"),
        (0, K.TARGET_ONLY, [1], "target_only"),
        (-1, K.CORRECTION, [1], "accepted"),
    ]:
        unchanged(p, lambda a=accepted, k=kind, i=ids: p.verifier.commit(1, a, k, i), why)
    p.verifier.commit(1, 5, K.BONUS, [*tokens, 1])


def test_steps_and_opens_that_do_not_fit_are_refused():
    p = opened()
    for change in (
        {"depth": 0}, {"depth": 6}, {"temperature": 0.0}, {"temperature": float("nan")}, {"temperature": -1.0},
        {"support": 0}, {"support": 9}, {"temperature": float("inf")},
    ):  # fmt: skip
        unchanged(p, lambda c=change: p.verifier.step(1, 0.0, **c))
    for arguments in (
        ([VOCAB], 1),
        ([-1], 1),
        ([0] * 257, 1),
        ([1], 2**64),
        ([1], -1),
        ([1], 1, 2**32),
        ([[1]], 1),
        ([0.5], 1),
    ):
        unchanged(p, lambda a=arguments: p.verifier.open(*a))
    unchanged(p, lambda: p.verifier.open([1], 1, generation=0))
    unchanged(p, lambda: p.verifier.open([1], 1, generation=2**32))
    for change in ({"prefix_ids": [99]}, {"proposal_seed": 2**64}, {"context_version": -1}):
        unchanged(p, lambda c=change: p.verifier.cancel(1, **c))
    for number in (0, 2, -1):
        unchanged(p, lambda n=number: p.verifier.step(n, 0.0), "not open")
    unchanged(p, lambda: p.verifier.discard(1), "expected an open round")
    p.verifier.step(1, 0.0)
    unchanged(p, lambda: p.verifier.step(1, 0.0), "round_still_open")
    unchanged(p, lambda: p.verifier.target_only(1, 3), "no open round")
    unchanged(p, lambda: p.verifier.discard(1, "boredom"), "reason")


def test_dense_rows_take_no_support():
    p = opened(representation=Representation.DENSE)
    unchanged(p, lambda: p.verifier.step(1, 0.0, support=4), "support")
    [ready] = p.round(1)
    assert ready.proposal.ids.shape == (5, 0)


def test_all_slots_are_used_and_no_more():
    p = pair(offer_changes={"max_slots": 2})
    assert [p.verifier.open([], seed) for seed in (1, 2)] == [1, 2]
    unchanged(p, lambda: p.verifier.open([], 3), "all 2 slots")
    p.verifier.close(1)
    assert p.verifier.open([], 3) == 3
    p.to_worker()
    assert snapshot(p.worker) == snapshot(p.verifier)


def test_the_committed_length_never_exceeds_what_was_agreed():
    p = pair(offer_changes={"max_prefix": 10})
    p.verifier.open(list(range(6)), 1)
    unchanged(p, lambda: p.verifier.step(1, 0.0), "position 12, above the agreed 10")
    [ready] = p.round(1, depth=3)
    tokens = ready.proposal.tokens.tolist()
    p.verifier.commit(1, 3, K.BONUS, [*tokens, 1])
    p.to_worker()
    unchanged(p, lambda: p.verifier.target_only(1, 1), "at most 10")
    unchanged(p, lambda: p.verifier.step(1, 0.0, depth=1), "above the agreed 10")
    assert len(p.worker.prefix_ids(1)) == 10


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


def test_cancel_changes_prefix_seed_and_context_in_a_new_generation():
    p = opened()
    p.verifier.step(1, 0.0)
    assert p.verifier.cancel(1, prefix_ids=[8, 9], proposal_seed=50, context_version=3) == 2
    assert p.verifier.counters.discards["cancelled"] == 1
    assert p.verifier.next_deadline() is None
    [ready] = p.round(1)
    step = p.verifier._session(1).latest.step
    assert (step.position, step.proposal_seed, step.context_version, step.generation) == (2, 50, 3, 2)
    assert p.worker.prefix_ids(1).tolist() == [8, 9]
    assert ready.proposal.live
    assert p.verifier.cancel(1) == 3
    assert p.verifier.prefix_ids(1).tolist() == [8, 9]


def test_rising_generations_rise_across_reset_and_reconnect_and_keys_never_repeat():
    """No two STEPs of one request, over discards, cancellations and connections, share (generation, round)."""
    keys, generation, prefix = set(), 0, [1]
    for _ in range(3):
        p = pair()
        number = p.verifier.open(prefix, 5, generation=generation + 1)
        for way in ("round", "deadline", "cancel", "round"):
            p.verifier.step(number, 0.0, depth=2)
            step = p.verifier._session(number).latest.step
            assert (step.generation, step.round) not in keys
            keys.add((step.generation, step.round))
            assert step.generation > generation
            if way == "deadline":
                p.verifier.check_deadlines(9.0)
            elif way == "cancel":
                p.verifier.cancel(number)
            else:
                p.to_worker()
                p.answer_all()
                p.to_verifier()
                p.verifier.commit(number, 0, K.CORRECTION, [4])
        p.to_worker()
        generation, prefix = p.verifier.generation(number), p.verifier.prefix_ids(number)
        assert p.verifier.eof() == [Ended("closed")]
    assert len(keys) == 12


def test_rising_numbers_never_wrap():
    last = 2**32 - 1
    p = pair()
    number = p.verifier.open([1], 5, generation=last)
    unchanged(p, lambda: p.verifier.cancel(number), "generation: 4294967295 is the last")
    unchanged(p, lambda: p.verifier.close(number), "never wraps")
    p.verifier._session(number).round = last
    unchanged(p, lambda: p.verifier.step(number, 0.0), "round: 4294967295 is the last")
    unchanged(p, lambda: p.verifier.target_only(number, 1), "round: 4294967295")
    p.verifier._live.sessions.last = 2**64 - 1
    unchanged(p, lambda: p.verifier.open([1], 5), "used up")


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


def test_caps_reached_the_longest_prefix_opens_and_one_more_does_not():
    p = pair(offer_changes={"max_prefix": 20})
    unchanged(p, lambda: p.verifier.open([1] * 21, 5))
    number = p.verifier.open([1] * 20, 5)
    unchanged(p, lambda: p.verifier.cancel(number, prefix_ids=[1] * 21))
    p.verifier.cancel(number, prefix_ids=[1] * 15)
    unchanged(p, lambda: p.verifier.step(number, 0.0), "position 21, above the agreed 20")
    p.verifier.cancel(number, prefix_ids=[1] * 14)
    assert p.verifier.step(number, 0.0, depth=5) == 1


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


def test_the_verification_seed_is_in_no_message():
    """The worker sees the proposal seed alone."""
    root = 0x0123456789ABCDEF
    p = pair()
    sent = b""
    number = p.verifier.open([1, 2, 3], proposal_seed(root))
    p.verifier.step(number, 0.0)
    data = p.verifier.data_to_send()
    sent += data
    events = p.worker.receive(data)
    step = events[-1].step
    p.worker.reply(step, *draft(step, [1, 2, 3], events[-1].tickets()))
    p.to_verifier()
    p.verifier.commit(number, 0, K.CORRECTION, [1])
    p.verifier.cancel(number)
    p.verifier.close(number)
    sent += p.verifier.data_to_send()
    for order in ("little", "big"):
        assert proposal_seed(root).to_bytes(8, "little") in sent
        assert verification_seed(root).to_bytes(8, order) not in sent
        assert root.to_bytes(8, order) not in sent


def test_buffers_are_handed_out_without_copying_rows():
    p = opened()
    p.verifier.step(1, 0.0)
    p.to_worker()
    p.answer_all()
    pieces = p.worker.buffers_to_send()
    assert [len(piece) for piece in pieces] == [5 * p.worker.agreement.reply_frame_bytes, 64 + 40]
    assert p.worker.buffers_to_send() == []
    assert not p.worker.has_data_to_send


def test_an_offer_is_needed():
    with pytest.raises(LocalProtocolError):
        Verifier(offer(max_depth=6)).start(0.0)
