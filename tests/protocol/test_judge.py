"""The passive judge: what it says when one side fails, when bytes are missing, and that it says the same however bytes are cut.

tests/protocol/test_vectors.py holds it to every vector, tests/protocol/test_stateful.py to any honest history.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.protocol import Conversation, Counters, Direction
from pp1wire.protocol.tables import ConnectionState, SessionState
from pp1wire.wire import CommitKind, Hello, RejectCode, Representation, encode
from tests.protocol.util import Pair, Verifier, Worker, answer, commit_for, offer, step_for

V, W = Direction.VERIFIER, Direction.WORKER
C = RejectCode


def recorded(rounds=2, representation=Representation.SPARSE):
    """A conversation of `rounds` rounds, a discard, and a close: (direction, bytes) in capture order."""
    p = Pair(Verifier(offer(representations=(representation,))), Worker(answer()))
    log = []

    def down():
        log.append((V, p.verifier.data_to_send()))
        p.drafts += [e for e in p.worker.receive(log[-1][1]) if hasattr(e, "tickets")]

    def up():
        log.append((W, p.worker.data_to_send()))
        return p.verifier.receive(log[-1][1], 0.0)

    p.verifier.start(0.0)
    down()
    up()
    p.verifier.open([1], 3)
    for _ in range(rounds):
        p.verifier.step(1, 0.0)
        down()
        p.answer_all()
        [ready] = up()
        p.verifier.commit(1, 1, CommitKind.CORRECTION, [ready.proposal.tokens[0], 2])
    p.verifier.step(1, 0.0)
    down()
    p.answer_all()
    p.verifier.check_deadlines(99.0)
    down()
    up()
    p.verifier.target_only(1, 3)
    p.verifier.close(1)
    down()
    return log, p


def told(verdicts):
    """Everything the judge said, less how rows were grouped."""
    result = []
    for v in verdicts:
        if v.batch is not None:
            result += [(v.direction, v.batch[i], v.step) for i in range(v.start, v.stop)]
        elif v.error is not None:
            result.append((v.direction, v.error.code, v.error.offset, v.error.path))
        else:
            result.append((v.direction, v.offset, v.message, v.step))
    return result


def judge(log, conversation=None):
    conversation = conversation or Conversation()
    return [v for direction, data in log for v in conversation.feed(direction, data)], conversation


def test_an_honest_conversation_has_only_stale_findings():
    log, p = recorded()
    verdicts, conversation = judge(log)
    errors = [v.error for v in verdicts if v.error is not None]
    assert [e.code for e in errors] == [C.STALE_GENERATION] * 6
    assert [type(v.message) for v in verdicts[:2]] == [Hello, Hello]
    assert conversation.state is ConnectionState.OPEN
    assert conversation.sessions.open == {}
    assert conversation.close(V) == conversation.close(W) == []
    assert conversation.agreement == p.verifier.agreement
    own, seen = p.verifier.counters, conversation.counters
    assert (seen.bytes_sent, seen.bytes_received) == (own.bytes_sent, own.bytes_received)
    assert (seen.committed, seen.tokens, seen.rows, seen.dropped) == (own.committed, own.tokens, own.rows, own.dropped)
    rows = [v for v in verdicts if v.batch is not None]
    assert [(v.step.round, v.stop - v.start) for v in rows] == [(1, 5), (2, 5)]


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_judge_says_the_same_however_bytes_are_cut_chunking(data):
    log, _ = recorded(1, data.draw(st.sampled_from(list(Representation))))
    position = data.draw(st.integers(2, len(log) - 1))
    damaged = bytearray(log[position][1])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    log[position] = (log[position][0], bytes(damaged))
    whole = told(judge(log)[0])
    pieces = []
    for direction, sent in log:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=3)))
        pieces += [(direction, sent[a:b]) for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert told(judge(pieces)[0]) == whole


def test_every_bit_any_one_flip_in_a_conversation_is_found():
    """One flipped bit in any byte behind the greeting: some verdict is an error that the honest conversation does not have."""
    log, _ = recorded(1)
    honest = told(judge(log)[0])
    found = 0
    for position in range(2, len(log)):
        direction, sent = log[position]
        for index in range(0, len(sent), 37):
            damaged = bytearray(sent)
            damaged[index] ^= 1 << index % 8
            verdicts, conversation = judge([*log[:position], (direction, bytes(damaged)), *log[position + 1 :]])
            # A late answer is dropped by its header; what its body says is nobody's business.
            if position == len(log) - 2 and told(verdicts) == honest:
                continue
            assert told(verdicts) != honest or conversation.close(direction)
            assert any(v.error for v in verdicts) or conversation.close(direction)
            found += 1
    assert found > 50


def test_who_recomputes_rows_can_have_the_prefixes():
    log, _ = recorded()
    for keep, ids in ((True, 5), (False, 0)):
        conversation = Conversation(keep_ids=keep)
        judge(log[:-1], conversation)
        session = conversation.sessions.open[1]
        assert (session.position, len(session.prefix.ids())) == (5, ids)


def test_a_fault_of_connection_scope_is_told_once():
    log, _ = recorded()
    conversation = Conversation()
    judge(log[:4], conversation)
    [verdict] = conversation.feed(W, b"JUNKJUNK")
    assert (verdict.direction, verdict.error.code, verdict.offset) == (W, C.BAD_MAGIC, verdict.error.offset)
    assert conversation.feed(W, b"JUNK") == conversation.close(W) == []
    assert conversation.counters.failures["bad_magic"] == 1


def test_without_the_workers_side_a_verifier_is_judged_as_far_as_can_be():
    log, p = recorded()
    conversation = Conversation()
    judge(log[:2], conversation)
    conversation.lose(W)
    verdicts = [v for direction, data in log[2:] if direction is V for v in conversation.feed(V, data)]
    assert all(v.error is None for v in verdicts)
    assert conversation.counters.tokens == p.verifier.counters.tokens
    # What it says of itself is still held to the rules.
    alone = Conversation(p.verifier.agreement, worker_seen=False)
    judge([(V, log[2][1])], alone)
    session = alone.sessions.open[1]
    commit = commit_for(session, CommitKind.CORRECTION)
    for change, code in (({"accepted": 5, "tokens": np.arange(6), "new_position": 7}, C.COMMIT_OVER_DEPTH), ({}, None)):
        data = encode(replace(commit, **change), p.verifier.agreement, 3)
        judge_ = Conversation(p.verifier.agreement, worker_seen=False)
        judge([(V, log[2][1])], judge_)
        [verdict] = judge_.feed(V, data)
        assert (verdict.error and verdict.error.code) is code
    assert session.state is SessionState.DRAFTING


def test_without_the_verifiers_side_a_worker_is_not_judged():
    log, _ = recorded()
    conversation = Conversation()
    judge(log[:3], conversation)
    conversation.lose(V)
    assert conversation.feed(W, log[3][1]) == []
    assert conversation.unjudged == 6
    # Its frames are still split: a broken one is a fault of its own.
    [verdict] = conversation.feed(W, b"JUNK")
    assert verdict.error.code is C.BAD_MAGIC


def test_a_worker_that_speaks_first_is_out_of_turn():
    [verdict] = Conversation().feed(W, encode(answer(representations=(Representation.SPARSE,)), None, 0))
    assert verdict.error.code is C.UNEXPECTED_MESSAGE


def test_an_answer_that_offers_is_a_wrong_role_and_so_is_an_offer_that_answers():
    conversation = Conversation()
    [verdict] = conversation.feed(V, encode(answer(), None, 0))
    assert verdict.error.code is C.WRONG_ROLE
    assert conversation.state is ConnectionState.FAILED
    conversation = Conversation()
    conversation.feed(V, encode(offer(), None, 0))
    [verdict] = conversation.feed(W, encode(replace(offer(), nonce=bytes([9] * 16)), None, 0))
    assert verdict.error.code is C.WRONG_ROLE


def test_bytes_before_the_answer_are_the_verifiers_fault_alone():
    log, _ = recorded()
    for early in ([(V, log[0][1] + b"P")], [log[0], (V, b"P")]):
        verdicts, conversation = judge(early)
        assert [v.error and v.error.code for v in verdicts] == [None, C.DATA_BEFORE_AGREEMENT]
        assert conversation.feed(*log[1]) == []
        assert conversation.close(V) == conversation.close(W) == []


def test_a_refusal_is_the_end():
    worker = Worker(answer(), draining=True)
    first = encode(offer(), None, 0)
    worker.receive(first)
    conversation = Conversation()
    conversation.feed(V, first)
    [verdict] = conversation.feed(W, worker.data_to_send())
    assert verdict.error.code is C.HELLO_REFUSED
    assert conversation.state is ConnectionState.ENDED
    assert conversation.agreement is None
    assert conversation.sessions is None


def test_a_cut_stream_is_truncated():
    log, _ = recorded()
    direction, data = log[-1]
    _, conversation = judge([*log[:-1], (direction, data[:-1])])
    [verdict] = conversation.close(direction)
    assert verdict.error.code is C.TRUNCATED
    assert conversation.close(direction) == []


def test_after_a_discard_the_worker_goes_on_unharmed():
    log, p = recorded(0)
    conversation = Conversation()
    judge(log[:3], conversation)
    session = conversation.sessions.open[1]
    # The verifier moves to the next generation; the judge saw the same RESET and takes its next STEP.
    judge(log[3:4], conversation)
    assert session.generation == 2
    step = step_for(session, p.verifier.agreement)
    [verdict] = conversation.feed(V, encode(step, p.verifier.agreement, 4))
    assert verdict.message == step


def test_counters_name_every_reason_state_and_position_from_the_start():
    report = Counters().as_dict()
    assert {code.name.lower() for code in RejectCode if code.scope == "proposal"} <= set(report["discards"])
    assert {"deadline", "connection_lost", "cancelled", "consumer", "completion_model_error"} <= set(report["discards"])
    assert {"stale_session", "stale_generation", "stale_round", "late_answer"} == set(report["dropped"])
    assert set(report["failures"]) == {code.name.lower() for code in RejectCode}
    assert {f"session.{s}" for s in SessionState} | {f"connection.{s}" for s in ConnectionState} == set(
        report["states"]
    )
    assert report["committed"] == report["accepted"] == [0] * 5
    counters = Counters()
    counters.as_dict()["discards"]["deadline"] = 9
    assert counters.discards["deadline"] == 0
