"""Where proposals lie: exact sizes, one copy, no reuse while anybody holds a buffer, and memory that other processes see."""

from __future__ import annotations

import mmap
import multiprocessing
import tracemalloc
from dataclasses import replace
from multiprocessing import shared_memory

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Verifier, required_bytes, row_views
from pp1wire.protocol.slots import SlotPool
from pp1wire.sampling import Key, VerdictKind, verify_chain
from pp1wire.wire import Agreement, CommitKind, Representation
from tests.protocol.util import PADDED, VOCAB, draft, offer, pair, step_tickets

DENSE, SPARSE = Representation.DENSE, Representation.SPARSE
SMALL = Agreement(1, SPARSE, VOCAB, PADDED, 2, 3, 8, 100)


@pytest.mark.parametrize(
    ("representation", "support", "expected"),
    [(DENSE, 32, 20_684_800), (SPARSE, 16, 5_120), (SPARSE, 32, 10_240), (SPARSE, 64, 20_480), (SPARSE, 256, 81_920)],
)
def test_two_buffers_a_slot_take_exactly_the_bytes_of_the_layout(representation, support, expected):
    agreement = Agreement(1, representation, 129_280, 129_280, 4, 5, support, 1000)
    assert required_bytes(agreement) == expected
    SlotPool(bytearray(expected), agreement)
    with pytest.raises(LocalProtocolError, match=f"at least {expected} bytes, got {expected - 1}"):
        SlotPool(bytearray(expected - 1), agreement)


def buffers(size):
    yield bytearray(size)
    yield memoryview(bytearray(size + 9))
    yield mmap.mmap(-1, size)
    yield np.zeros(size, np.uint8)
    yield np.zeros((size // 4, 2), np.float32)


def test_any_writable_contiguous_buffer_holds_proposals():
    size = required_bytes(pair().verifier.agreement)
    for buffer in buffers(size):
        p = pair(buffer=buffer)
        p.verifier.open([1], 3)
        [event] = p.round(1)
        ids, q = row_views(buffer, p.verifier.agreement, event.proposal.offset, 5)
        assert np.array_equal(ids, event.proposal.ids)
        assert np.array_equal(q, event.proposal.q)
        assert q.any()


def test_buffers_that_cannot_hold_proposals_are_refused_before_anything_else():
    size = required_bytes(SMALL)
    whole = np.zeros(4 * size, np.uint8)
    for bad, why in [
        (bytes(size), "read-only"), (memoryview(bytearray(size)).toreadonly(), "read-only"),
        (whole[::2], "non-contiguous"), (whole[: size - 1], "at least"), (whole[1 : size + 1], "multiple of 4"),
        ([0] * size, "writable buffer"), (None, "writable"),
    ]:  # fmt: skip
        with pytest.raises(LocalProtocolError, match=why):
            SlotPool(bad, SMALL)
    needed = max(required_bytes(pair(r).verifier.agreement) for r in Representation)
    with pytest.raises(LocalProtocolError, match="at least"):
        Verifier(offer(), buffer=bytearray(needed - 1))
    Verifier(offer(), buffer=bytearray(needed))


def test_a_pool_allocates_nothing_and_a_row_is_copied_once():
    agreement = Agreement(1, DENSE, 50_000, 50_000, 4, 5, 32, 1000)
    memory = bytearray(required_bytes(agreement))
    tracemalloc.start()
    pool = SlotPool(memory, agreement)
    lease = pool.lease(session=1, slot=3, generation=1, round_=1, position=0)
    assert tracemalloc.get_traced_memory()[1] < agreement.payload_bytes / 4
    tracemalloc.stop()
    assert lease._half.offset == 6 * 5 * agreement.payload_bytes


def test_a_buffer_is_used_again_only_when_every_consumer_has_released_it():
    pool = SlotPool(bytearray(required_bytes(SMALL)), SMALL)
    kept = {"session": 1, "slot": 0, "generation": 1, "position": 0}
    first = pool.lease(round_=1, **kept)
    one = first.publish([])
    one.retain().retain()
    first.end()
    second = pool.lease(round_=2, **kept)
    with pytest.raises(LocalProtocolError, match="both buffers"):
        pool.lease(round_=3, **kept)
    assert (pool.can_lease(0), pool.can_lease(1), pool.held()) == (False, True, 2)
    one.release()
    assert not pool.can_lease(0)
    assert one.live
    one.release()
    assert pool.can_lease(0)
    assert not one.live
    third = pool.lease(round_=3, **kept)
    assert third._half is first._half
    # An ended lease and a dead proposal have no say over a buffer that another round uses now.
    first.end()
    assert not pool.can_lease(0)
    for dead in (one.retain, one.release, one.rows, lambda: one.q, lambda: one.ids):
        with pytest.raises(LocalProtocolError):
            dead()
    second.end()
    third.end()
    assert pool.held() == 0


def test_a_proposal_cannot_be_released_more_often_than_it_was_retained():
    pool = SlotPool(bytearray(required_bytes(SMALL)), SMALL)
    lease = pool.lease(session=1, slot=0, generation=1, round_=1, position=0)
    proposal = lease.publish([])
    with pytest.raises(LocalProtocolError, match="more often"):
        proposal.release()
    proposal.retain().release()
    assert proposal.live


def test_a_closed_pool_lets_go_of_the_buffer():
    memory = mmap.mmap(-1, required_bytes(SMALL))
    pool = SlotPool(memory, SMALL)
    lease = pool.lease(session=1, slot=0, generation=1, round_=1, position=0)
    pool.close()
    memory.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        lease.publish([])


def test_views_cannot_be_written_through():
    p = pair()
    p.verifier.open([1], 3)
    [event] = p.round(1)
    for array in (event.proposal.q, event.proposal.ids, event.proposal.tokens):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("representation", Representation)
def test_a_proposal_is_what_was_drafted_and_verifies(representation):
    p = pair(representation)
    p.verifier.open([1], 3)
    [event] = p.round(1)
    proposal = event.proposal
    step = p.verifier._session(1).latest.step
    tokens, rows = draft(step, [1], step_tickets([step])[0])
    assert proposal.tokens.tolist() == tokens
    for (ids, counts), (sent_ids, sent_counts) in zip(proposal.rows(), rows, strict=True):
        dense = np.zeros(VOCAB, np.int32)
        dense[sent_ids] = sent_counts
        if ids is None:
            assert np.array_equal(counts, dense)
        else:
            assert np.array_equal(ids, sent_ids)
            assert np.array_equal(counts, sent_counts)
    target = np.full((6, VOCAB), 1 / VOCAB)
    verdict = verify_chain(target, proposal.rows(), proposal.tokens, Key(9, 1, 1, proposal.position))
    assert verdict.kind in VerdictKind


def test_round_r_plus_1_arrives_while_a_consumer_still_holds_round_r():
    p = pair()
    p.verifier.open([1], 3)
    held = []
    for _ in range(2):
        [event] = p.round(1)
        held.append(event.proposal.retain())
        before = event.proposal.q.copy()
        p.verifier.commit(1, 0, CommitKind.CORRECTION, [2])
    p.verifier.data_to_send()
    state, counted = p.verifier.prefix_ids(1), p.verifier.counters.as_dict()
    with pytest.raises(LocalProtocolError, match="both buffers of slot 0"):
        p.verifier.step(1, 0.0)
    assert np.array_equal(p.verifier.prefix_ids(1), state)
    assert p.verifier.counters.as_dict() == counted
    assert not p.verifier.has_data_to_send
    assert np.array_equal(held[1].q, before)
    held[0].release()
    p.verifier.step(1, 0.0)
    assert not held[0].live
    assert np.array_equal(held[1].q, before)


def test_a_slot_whose_proposals_are_still_held_is_not_given_to_a_new_session():
    p = pair(offer_changes={"max_slots": 1})
    p.verifier.open([1], 3)
    held = []
    for _ in range(2):
        [event] = p.round(1)
        held.append(event.proposal.retain())
        p.verifier.commit(1, 0, CommitKind.CORRECTION, [2])
    p.verifier.close(1)
    with pytest.raises(LocalProtocolError, match="slots are held"):
        p.verifier.open([1], 3)
    held[0].release()
    assert p.verifier.open([1], 3) == 2


def test_late_rows_meet_no_buffer_after_the_watchdog():
    p = pair(step_timeout=1.0)
    p.verifier.open([1], 3)
    p.verifier.step(1, 0.0, depth=3)
    p.to_worker()
    late = p.drafts.pop().step
    [event] = p.verifier.check_deadlines(1.0)
    assert event.reason == "deadline"
    # The generation is over before its buffer can be leased again.
    assert p.verifier.generation(1) == 2
    assert p.verifier._pool.held() == 0
    p.now = 1.5
    tokens, rows = draft(late, [1], step_tickets([late])[0], salt=1)
    assert p.worker.reply(late, tokens, rows)
    p.to_worker()
    [ready] = p.round(1, depth=3)
    assert p.verifier.counters.dropped["stale_generation"] == 4
    honest, _ = draft(p.verifier._session(1).latest.step, [1], step_tickets([p.verifier._session(1).latest.step])[0])
    assert ready.proposal.tokens.tolist() == honest


def _read_elsewhere(name, agreement, offset, depth, results):
    memory = shared_memory.SharedMemory(name=name)
    ids, q = row_views(memory.buf, agreement, offset, depth)
    results.put((ids.copy(), q.copy()))
    del ids, q
    memory.close()


def test_another_process_reads_a_proposal_from_shared_memory():
    size = required_bytes(pair().verifier.agreement)
    memory = shared_memory.SharedMemory(create=True, size=size)
    try:
        p = pair(buffer=memory.buf)
        p.verifier.open([4], 3)
        [event] = p.round(1)
        proposal = event.proposal.retain()
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        arguments = (memory.name, p.verifier.agreement, proposal.offset, proposal.depth, results)
        reader = context.Process(target=_read_elsewhere, args=arguments)
        reader.start()
        ids, q = results.get(timeout=60)
        reader.join()
        assert reader.exitcode == 0
        assert np.array_equal(ids, proposal.ids)
        assert np.array_equal(q, proposal.q)
        # The end of the connection lets go of the memory; this consumer does so by dropping its proposal.
        p.verifier.end()
        assert np.array_equal(q, proposal.q)
        proposal.release()
        del event, proposal
        p.events.clear()
    finally:
        memory.close()
        memory.unlink()


def test_agreements_of_another_shape_need_another_size():
    assert required_bytes(replace(SMALL, max_slots=4)) == 2 * required_bytes(SMALL)
    assert required_bytes(SMALL) == 2 * 2 * 3 * 8 * 8


def test_dense_rows_are_not_copied_about():
    """Early refusal is the wire's; here: what one read of whole rounds costs in memory, at both ends."""
    shape = {"vocab_size": 20_000, "padded_vocab_size": 20_000, "max_slots": 2}
    p = pair(DENSE, offer_changes=shape, answer_changes=shape, step_timeout=None)
    row = (np.arange(1024, dtype=np.int32) * 16, np.full(1024, 2**14, np.int32))
    for number in (1, 2):
        p.verifier.open([1], number)
        p.verifier.step(number, 0.0)
    p.to_worker()
    for event in p.drafts:
        p.worker.reply(event.step, [int(row[0][t >> 14]) for t in event.tickets()], [row] * 5)
    data = p.worker.data_to_send()
    payload = 10 * p.verifier.agreement.payload_bytes
    assert len(data) > payload
    tracemalloc.start()
    events = p.verifier.receive(data, 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(events) == 2
    # The counts of all rows, one row's temporaries, and nothing of the size of a round besides.
    assert peak < 1.5 * payload
