"""Rows of many sessions in one stream: however they are cut and interleaved, the same verdicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Conversation, Direction, ProposalReady, TargetOnly
from pp1wire.wire import RejectCode, RemoteProtocolError, Representation, encode
from tests.protocol.util import completion_for, pair, replies_for, snapshot


def verifier_with(slots, depth=3, representation=Representation.SPARSE):
    """A verifier that drafts in every slot, and the honest answer of each: messages in order."""
    p = pair(representation)
    answers = []
    for number in range(1, slots + 1):
        p.verifier.open([number], number)
        p.verifier.step(number, 0.0, depth=depth)
        step = p.verifier._session(number).latest.step
        replies = replies_for(step, [number], p.verifier.agreement)
        answers.append([*replies, completion_for(step, replies, p.verifier.agreement)])
    p.verifier.data_to_send()
    return p.verifier, answers


def stream(verifier, messages):
    first = verifier._splitter.next_sequence
    return b"".join(encode(m, verifier.agreement, first + i) for i, m in enumerate(messages))


def outcome(events):
    return [
        (e.session, e.proposal.tokens.tolist(), e.proposal.q.tobytes(), e.proposal.ids.tobytes())
        if isinstance(e, ProposalReady)
        else (e.session, e.generation, e.reason)
        for e in events
    ]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_stay_paired_however_slots_interleave_and_reads_are_cut_chunking(data):
    """[rows stay paired] four slots in flight give each proposal that one at a time gives."""
    representation = data.draw(st.sampled_from(list(Representation)))
    verifier, answers = verifier_with(4, representation=representation)
    alone = {}
    for index, answer in enumerate(answers):
        single, again = verifier_with(4, representation=representation)
        assert [a == b for a, b in zip(again[index], answer, strict=True)] == [True] * 4
        alone[index + 1] = outcome(single.receive(stream(single, answer), 0.0))
    order = data.draw(st.permutations([i for i, answer in enumerate(answers) for _ in answer]))
    queues = [list(answer) for answer in answers]
    whole = stream(verifier, [queues[i].pop(0) for i in order])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    events = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        events += verifier.receive(whole[start:end], 0.0)
    assert {e.session: outcome([e]) for e in events} == alone


FAULTS = {
    "ticket_mismatch": lambda r, a: replace(r, token=int(next(i for i in r.ids if i != r.token))),
    "reply_position_duplicate": lambda r, a: replace(r, position=r.position - 1),
    "reply_position_mismatch": lambda r, a: replace(r, position=r.position - 2),
    "too_many_rows": lambda r, a: replace(r, position=r.position + 9),
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_bad_row_costs_its_round_alone_and_the_same_code_however_it_is_cut(data):
    verifier, answers = verifier_with(3)
    victim, code = data.draw(st.integers(0, 2)), data.draw(st.sampled_from(sorted(FAULTS)))
    answers[victim][1] = FAULTS[code](answers[victim][1], verifier.agreement)
    order = data.draw(st.permutations([i for i, answer in enumerate(answers) for _ in answer]))
    queues = [list(answer) for answer in answers]
    whole = stream(verifier, [queues[i].pop(0) for i in order])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    events = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        events += verifier.receive(whole[start:end], 0.0)
    assert TargetOnly(victim + 1, 2, code) in events
    assert {e.session for e in events if isinstance(e, ProposalReady)} == {1, 2, 3} - {victim + 1}
    assert len(events) == 3
    # The rows and the completion behind the bad one are late.
    assert verifier.counters.dropped["stale_generation"] == 2
    assert sum(verifier.counters.discards.values()) == 1


@pytest.mark.parametrize("code", sorted(FAULTS))
def test_the_order_of_checks_is_that_of_the_stages(code):
    """A row with two faults is told the earlier one; a fault in a later row never hides one in an earlier row."""
    verifier, [answer] = verifier_with(1)
    first, second = answer[0], FAULTS[code](answer[1], verifier.agreement)
    bad = bytearray(stream(verifier, [first, second, answer[2]]))
    size = verifier.agreement.reply_frame_bytes
    # The third row's body is damaged as well.
    bad[-1] ^= 1
    [event] = verifier.receive(bad, 0.0)
    assert event.reason == code
    verifier, [answer] = verifier_with(1)
    bad = bytearray(stream(verifier, [first, second]))
    bad[2 * size - 1] ^= 1
    [event] = verifier.receive(bad, 0.0)
    assert event.reason == "body_checksum_mismatch"


def test_a_row_that_is_wider_than_the_step_and_has_the_wrong_ticket_is_wider_first():
    p = pair()
    p.verifier.open([1], 1)
    p.verifier.step(1, 0.0, depth=1, support=4)
    p.verifier.data_to_send()
    step = p.verifier._session(1).latest.step
    [reply] = replies_for(replace(step, support=8), [1], p.verifier.agreement)
    other = next(int(i) for i in reply.ids if i != reply.token)
    [event] = p.verifier.receive(stream(p.verifier, [replace(reply, token=other)]), 0.0)
    assert event.reason == "support_over_step"


def test_a_row_of_another_position_round_or_seed_has_the_wrong_ticket():
    """What checksums cannot see: noise used twice, or q that is not the law drawn from."""
    p = pair()
    p.verifier.open([1], 1)
    p.verifier.step(1, 0.0, depth=5)
    p.verifier.data_to_send()
    step = p.verifier._session(1).latest.step
    for other in (replace(step, proposal_seed=2), replace(step, round=2), replace(step, generation=2)):
        replies = replies_for(other, [1], p.verifier.agreement)
        moved = [replace(r, session=1, generation=step.generation, round=step.round) for r in replies]
        verifier = pair().verifier
        verifier.open([1], 1)
        verifier.step(1, 0.0, depth=5)
        assert [e.reason for e in verifier.receive(stream(verifier, moved), 0.0)] == ["ticket_mismatch"]


def test_completion_before_its_rows_is_a_fault_of_the_round():
    verifier, [answer] = verifier_with(1)
    [event] = verifier.receive(stream(verifier, [answer[0], answer[-1]]), 0.0)
    assert event.reason == "completion_rows_mismatch"
    verifier, [answer] = verifier_with(1)
    two = completion_for(verifier._session(1).latest.step, answer[:2], verifier.agreement)
    [event] = verifier.receive(stream(verifier, [*answer[:2], two]), 0.0)
    assert event.reason == "completion_rows_mismatch"


def test_a_damaged_completion_costs_the_round():
    verifier, [answer] = verifier_with(1)
    data = bytearray(stream(verifier, answer))
    data[-1] ^= 1
    [event] = verifier.receive(data, 0.0)
    assert event.reason == "body_checksum_mismatch"


def test_a_verifiers_message_to_the_verifier_has_the_wrong_direction():
    verifier, _ = verifier_with(1)
    before = snapshot(verifier)
    step = verifier._session(1).latest.step
    with pytest.raises(RemoteProtocolError) as error:
        verifier.receive(stream(verifier, [step]), 0.0)
    assert error.value.code is RejectCode.WRONG_DIRECTION
    assert snapshot(verifier) == before


def run(order, seeds, rounds=3):
    """Four requests with fixed seeds, sent and answered in the order given; per request, the bytes of its proposals."""
    p = pair()
    numbers = {name: p.verifier.open([ord(name) % 40], seeds[name]) for name in order}
    drawn = {name: [] for name in order}
    for _ in range(rounds):
        for name in order:
            p.verifier.step(numbers[name], 0.0, depth=3)
        p.to_worker()
        p.answer_all()
        for event in p.to_verifier():
            name = next(n for n in order if numbers[n] == event.session)
            proposal = event.proposal
            drawn[name].append((proposal.tokens.tolist(), proposal.q.tobytes(), proposal.ids.tobytes()))
            p.verifier.commit(event.session, 1, 1, [proposal.tokens[0], 3])
    return drawn


def test_rows_stay_paired_when_slots_are_permuted():
    """[rows stay paired] permuting slots leaves each request's draws byte-identical, and so does being alone."""
    seeds = {"a": 11, "b": 22, "c": 33, "d": 44}
    honest = run("abcd", seeds)
    assert len({str(v) for v in honest.values()}) == 4
    for order in ("dcba", "bdac", "cabd"):
        assert run(order, seeds) == honest
    for name in "abcd":
        assert run(name, seeds)[name] == honest[name]


def test_every_prefix_of_a_stream_needs_more_and_a_judge_hears_the_same():
    verifier, [answer] = verifier_with(1)
    data = stream(verifier, answer)
    for cut in range(0, len(data), 3):
        verifier, _ = verifier_with(1)
        assert verifier.receive(data[:cut], 0.0) == []
        [event] = verifier.receive(data[cut:], 0.0)
        assert isinstance(event, ProposalReady)


def test_a_conversation_joined_behind_the_greeting_is_judged_alike():
    p = pair()
    conversation = Conversation(p.verifier.agreement)
    p.verifier.open([1], 5)
    p.verifier.step(1, 0.0)
    data = p.verifier.data_to_send()
    assert [v.error for v in conversation.feed(Direction.VERIFIER, data)] == [None, None]
    p.worker.receive(data)
    step = p.worker._session(1).latest.step
    for reply in replies_for(step, [1], p.worker.agreement):
        p.worker.reply_row(step, reply.token, reply.ids, (reply.q * 2**24).astype(np.int32))
    p.worker.complete(step)
    verdicts = conversation.feed(Direction.WORKER, p.worker.data_to_send())
    assert [(v.batch is not None, v.error) for v in verdicts] == [(True, None), (False, None)]


def test_first_faults_of_own_rows_are_local():
    p = pair()
    p.verifier.open([1], 5)
    p.verifier.step(1, 0.0, depth=1)
    p.to_worker()
    step = p.drafts[0].step
    with pytest.raises(LocalProtocolError, match="q_zero_at_token"):
        p.worker.reply(step, [0], [(np.array([3], np.int32), np.array([2**24], np.int32))])
