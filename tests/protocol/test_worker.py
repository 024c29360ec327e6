"""The worker's own behaviour: answers whole or row by row, late ones, wrong ones, and the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import (
    Closed,
    Committed,
    ConnectionState,
    Draft,
    Ended,
    Opened,
    ProposalReady,
    ResetTo,
    SessionState,
    Worker,
)
from pp1wire.sampling import sample
from pp1wire.wire import (
    CommitKind,
    CompletionStatus,
    RejectCode,
    RemoteProtocolError,
    ReplyBatch,
    Representation,
    ResetReason,
)
from tests.protocol.util import answer, commit_for, draft, frame, pair, snapshot, step_tickets

K = CommitKind


def asked(representation=Representation.SPARSE, **step):
    """Ends with one session, a STEP delivered, and an honest answer to it."""
    p = pair(representation)
    p.verifier.open([1, 2], 5)
    p.verifier.step(1, 0.0, **({"depth": 3} | step))
    p.to_worker()
    event = p.drafts.pop()
    return p, event.step, *draft(event.step, [1, 2], event.tickets())


def unchanged(p, call, match=None):
    before, counted = snapshot(p.worker), p.worker.counters.as_dict()
    with pytest.raises(LocalProtocolError, match=match):
        call()
    assert not p.worker.has_data_to_send
    assert (snapshot(p.worker), p.worker.counters.as_dict()) == (before, counted)


def test_the_worker_is_told_what_the_verifier_did():
    p = pair()
    p.verifier.open([1, 2], 5)
    [opened] = p.to_worker()
    assert (type(opened), opened.session, opened.slot, opened.generation) == (Opened, 1, 0, 1)
    assert opened.prefix_ids.tolist() == [1, 2]
    p.verifier.step(1, 0.0, depth=2, temperature=0.6, support=4)
    [asked_] = p.to_worker()
    assert (type(asked_), asked_.session) == (Draft, 1)
    assert (asked_.step.depth, asked_.step.temperature, asked_.step.support) == (2, 0.6, 4)
    assert asked_.tickets().shape == (2,)
    p.answer_all()
    [ready] = p.to_verifier()
    p.verifier.commit(1, 1, K.CORRECTION, [ready.proposal.tokens[0], 9])
    [committed] = p.to_worker()
    assert (type(committed), committed.session) == (Committed, 1)
    assert committed.commit.tokens.tolist() == [ready.proposal.tokens[0], 9]
    p.verifier.cancel(1, prefix_ids=[4])
    [reset] = p.to_worker()
    assert (type(reset), reset.session, reset.slot, reset.generation, reset.reason) == (
        ResetTo,
        1,
        0,
        2,
        ResetReason.CANCEL,
    )
    assert reset.prefix_ids.tolist() == p.worker.prefix_ids(1).tolist() == [4]
    p.verifier.close(1)
    assert p.to_worker() == [Closed(1, 0)]
    with pytest.raises(LocalProtocolError, match="not open"):
        p.worker.prefix_ids(1)


@pytest.mark.parametrize("representation", Representation)
def test_row_by_row_and_whole_answers_are_the_same_bytes(representation):
    p, step, tokens, rows = asked(representation)
    assert p.worker.awaits(step)
    assert p.worker.reply(step, tokens, rows)
    assert not p.worker.awaits(step)
    whole = p.worker.data_to_send()
    p, step, tokens, rows = asked(representation)
    for token, (ids, counts) in zip(tokens, rows, strict=True):
        assert p.worker.reply_row(step, token, ids, counts)
    assert p.worker.complete(step)
    assert p.worker.data_to_send() == whole
    p, step, tokens, rows = asked(representation)
    batch = ReplyBatch.from_rows(
        p.worker.agreement, session=1, slot=0, generation=1, round=1, position=2, tokens=tokens, rows=rows
    )
    assert p.worker.reply_batch(step, batch)
    [ready] = p.to_verifier()
    assert isinstance(ready, ProposalReady)
    assert p.worker.counters.rows == 3
    assert p.worker.session_state(1) is SessionState.READY


def test_rows_that_are_not_what_was_drawn_from_are_refused_here_first():
    p, step, tokens, rows = asked()
    # Another token with mass in the same row: the right form, the wrong ticket.
    ids, counts = rows[0]
    other = next(int(i) for i in ids if int(i) != tokens[0])
    unchanged(p, lambda: p.worker.reply(step, [other, *tokens[1:]], rows), "ticket_mismatch")
    unchanged(p, lambda: p.worker.reply_row(step, other, ids, counts), "ticket_mismatch")
    unchanged(p, lambda: p.worker.reply(step, tokens[:2], rows[:2]), "expected 3 rows")
    unchanged(p, lambda: p.worker.reply(step, tokens, rows[:2]))
    unchanged(p, lambda: p.worker.reply(step, tokens, [(ids, counts * 2), *rows[1:]]))
    unchanged(p, lambda: p.worker.reply(step, tokens, [(ids, counts - 1), *rows[1:]]))
    unchanged(p, lambda: p.worker.reply(step, tokens, [(ids[::-1], counts), *rows[1:]]))
    unchanged(p, lambda: p.worker.complete(step), "expected 3 rows before completion, sent 0")
    unchanged(p, lambda: p.worker.fail(step, CompletionStatus.OK), "failure")
    batch = ReplyBatch.from_rows(
        p.worker.agreement, session=1, slot=0, generation=1, round=1, position=2, tokens=tokens, rows=rows
    )
    for name, path in (("sessions", "session"), ("slots", "slot"), ("generations", "generation"), ("rounds", "round")):
        moved = replace(batch, **{name: getattr(batch, name) + 1})
        unchanged(p, lambda b=moved: p.worker.reply_batch(step, b), f"reply.{path}")
    moved = replace(batch, positions=batch.positions + 1)
    unchanged(p, lambda: p.worker.reply_batch(step, moved), "reply_position_mismatch")
    assert p.worker.reply(step, tokens, rows)
    assert [type(e) for e in p.to_verifier()] == [ProposalReady]


def test_rows_wider_than_the_step_asked_for_are_refused():
    p, step, tokens, rows = asked(support=4)
    wide = draft(replace(step, support=8), [1, 2], step_tickets([step])[0])
    assert len(wide[1][0][0]) == 8
    unchanged(p, lambda: p.worker.reply(step, *wide), "support_over_step")
    assert p.worker.reply(step, tokens, rows)


def test_no_more_rows_than_the_step_fixed():
    p, step, tokens, rows = asked(depth=1)
    assert p.worker.reply_row(step, tokens[0], *rows[0])
    p.worker.data_to_send()
    unchanged(p, lambda: p.worker.reply_row(step, tokens[0], *rows[0]), "too_many_rows")
    unchanged(p, lambda: p.worker.reply(step, tokens, rows), "at once|position")


def test_a_whole_answer_does_not_follow_single_rows():
    p, step, tokens, rows = asked()
    p.worker.reply_row(step, tokens[0], *rows[0])
    assert p.to_verifier() == []
    batch = ReplyBatch.from_rows(
        p.worker.agreement, session=1, slot=0, generation=1, round=1, position=2, tokens=tokens, rows=rows
    )
    unchanged(p, lambda: p.worker.reply_batch(step, batch), "at once")
    assert p.worker.fail(step, CompletionStatus.CANCELLED)
    assert [e.reason for e in p.to_verifier()] == ["completion_cancelled"]


@pytest.mark.parametrize("way", ["reset", "close", "next generation", "answered", "eof", "failed"])
def test_late_answers_of_a_slow_model_are_dropped_and_counted(way):
    p, step, tokens, rows = asked()
    if way in ("reset", "next generation"):
        p.verifier.cancel(1)
        if way == "next generation":
            p.verifier.step(1, 0.0, depth=3)
        p.to_worker()
    elif way == "close":
        p.verifier.close(1)
        p.to_worker()
    elif way == "answered":
        p.worker.reply(step, tokens, rows)
    elif way == "eof":
        assert p.worker.eof() == [Ended("closed")]
        assert p.worker.eof() == []
    else:
        with pytest.raises(RemoteProtocolError):
            p.worker.receive(b"nonsense")
    p.worker.data_to_send()
    before = snapshot(p.worker)
    assert not p.worker.awaits(step)
    batch = ReplyBatch.from_rows(
        pair().worker.agreement, session=1, slot=0, generation=1, round=1, position=2, tokens=tokens, rows=rows
    )
    late = [
        p.worker.reply(step, tokens, rows), p.worker.reply_row(step, tokens[0], *rows[0]), p.worker.complete(step),
        p.worker.fail(step, CompletionStatus.INTERNAL), p.worker.reply_batch(step, batch),
    ]  # fmt: skip
    assert late == [False] * 5
    assert p.worker.counters.dropped["late_answer"] == 5
    assert not p.worker.has_data_to_send
    assert snapshot(p.worker) == before


def test_an_answer_to_a_step_that_was_never_received_is_dropped():
    p, step, tokens, rows = asked()
    assert not p.worker.reply(replace(step, round=2), tokens, rows)
    assert not p.worker.reply(replace(step, generation=2), tokens, rows)
    assert not p.worker.reply(replace(step, session=2), tokens, rows)
    assert p.worker.reply(step, tokens, rows)


def test_the_worker_ends_from_its_own_side():
    p, *_ = asked()
    p.worker.end()
    assert (p.worker.state, p.worker.open_sessions) == (ConnectionState.ENDED, ())
    with pytest.raises(LocalProtocolError):
        p.worker.receive(b"")
    with pytest.raises(LocalProtocolError):
        p.worker.end()


def test_a_worker_that_was_never_spoken_to_ends_quietly():
    assert Worker(answer()).eof() == [Ended("closed")]


def test_events_before_an_error_come_first():
    p = pair()
    p.verifier.open([1], 5)
    data = p.verifier.data_to_send()
    events = p.worker.receive(data + b"HTTP" * 30)
    assert [type(e) for e in events] == [Opened]
    for call in (lambda: p.worker.receive(b""), p.worker.eof):
        with pytest.raises(RemoteProtocolError) as error:
            call()
        assert error.value.code is RejectCode.BAD_MAGIC
    assert p.worker.open_sessions == ()


def test_a_commit_beyond_the_agreed_prefix_is_refused():
    p = pair(offer_changes={"max_prefix": 3})
    p.verifier.open([1, 2, 3], 5)
    p.to_worker()
    commit = commit_for(p.worker._session(1), K.TARGET_ONLY)
    before = snapshot(p.worker)
    with pytest.raises(RemoteProtocolError) as error:
        p.worker.receive(frame(p.worker, commit))
    assert (error.value.code, error.value.path) == (RejectCode.VALUE_OUT_OF_BOUNDS, "commit.new_position")
    assert snapshot(p.worker) == before


def test_one_q_the_rows_sent_are_the_rows_drawn_from():
    for representation in Representation:
        p, step, tokens, rows = asked(representation)
        p.worker.reply(step, tokens, rows)
        [ready] = p.to_verifier()
        for (ids, counts), token, ticket in zip(
            ready.proposal.rows(), tokens, p.verifier._session(1).latest.tickets, strict=True
        ):
            all_ids = np.arange(len(counts), dtype=np.int32) if ids is None else ids
            assert sample(all_ids, counts, int(ticket)) == token


def test_a_step_that_no_draft_event_gave_is_refused():
    p = pair()
    p.verifier.open([1, 2], 5)
    p.verifier.step(1, 0.0, depth=2)
    p.to_worker()
    step = p.drafts[0].step
    rows = draft(step, [1, 2], p.drafts[0].tickets())
    for change in ({"depth": 1}, {"support": 1}, {"proposal_seed": 0}, {"slot": 1}):
        with pytest.raises(LocalProtocolError, match="Draft event"):
            p.worker.reply(replace(step, **change), *rows)
    assert not p.worker.has_data_to_send
    assert p.worker.reply(step, *rows)
