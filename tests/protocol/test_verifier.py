"""The verifier's own behaviour: deadlines, discards and what follows them, commands that are refused without a trace, the end."""

from __future__ import annotations

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Ended, ProposalReady, SessionState, Verifier
from pp1wire.sampling import proposal_seed, verification_seed
from pp1wire.wire import CommitKind, Representation
from tests.protocol.util import VOCAB, draft, offer, pair, snapshot

K = CommitKind


def opened(**options):
    """Ends with session 1 open at both."""
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
        unchanged(p, lambda n=number: p.verifier.step(n, 0.0), "session")
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


def test_caps_reached_the_longest_prefix_opens_and_one_more_does_not():
    p = pair(offer_changes={"max_prefix": 20})
    unchanged(p, lambda: p.verifier.open([1] * 21, 5))
    number = p.verifier.open([1] * 20, 5)
    unchanged(p, lambda: p.verifier.cancel(number, prefix_ids=[1] * 21))
    p.verifier.cancel(number, prefix_ids=[1] * 15)
    unchanged(p, lambda: p.verifier.step(number, 0.0), "position 21, above the agreed 20")
    p.verifier.cancel(number, prefix_ids=[1] * 14)
    assert p.verifier.step(number, 0.0, depth=5) == 1


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


def test_an_offer_is_needed():
    with pytest.raises(LocalProtocolError):
        Verifier(offer(max_depth=6)).start(0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda v: v.step(1, "soon"),
        lambda v: v.step(1, None),
        lambda v: v.step(1, float("nan")),
        lambda v: v.step(1, 0.0, depth="1"),
        lambda v: v.step(1, 0.0, depth=1.0),
        lambda v: v.step(1, 0.0, temperature=None),
        lambda v: v.step(1, 0.0, support=1.0),
        lambda v: v.step([], 0.0),
        lambda v: v.step(1.0, 0.0),
        lambda v: v.open([1], 1.5),
        lambda v: v.open([1], 1, generation=1.5),
        lambda v: v.cancel(1, proposal_seed=1.5),
        lambda v: v.cancel(1, context_version="2"),
    ],
)
def test_arguments_of_a_wrong_type_change_nothing(call):
    p = opened()
    unchanged(p, lambda: call(p.verifier))


@pytest.mark.parametrize(
    "arguments",
    [
        {"raw_accepted": 1.5},
        {"raw_accepted": "1"},
        {"raw_accepted": -1},
        {"raw_accepted": np.array([1, 1])},
        {"accepted": 1.0},
        {"accepted": None},
        {"accepted": 2**70},
        {"kind": "bonus"},
        {"kind": 99},
    ],
)
def test_commits_of_a_wrong_type_change_nothing(arguments):
    p = opened()
    [ready] = p.round(1, depth=2)
    good = {"accepted": 1, "kind": K.CORRECTION, "tokens": [int(ready.proposal.tokens[0]), 3]}
    unchanged(p, lambda: p.verifier.commit(1, **(good | arguments)))
    unchanged(p, lambda: p.verifier.discard(1, []))
    p.verifier.commit(1, **good)


def test_a_proposal_that_came_with_the_end_of_the_connection_has_no_rows_any_more():
    p = pair()
    session = p.verifier.open([1, 2], 5)
    p.verifier.step(session, 0.0, depth=2)
    p.to_worker()
    p.answer_all()
    [event] = p.verifier.receive(p.worker.data_to_send() + b"not a frame", 0.0)
    assert isinstance(event, ProposalReady)
    assert p.verifier.error is not None
    assert not event.proposal.live
    for look in (lambda: event.proposal.q, lambda: event.proposal.rows(), lambda: event.proposal.retain()):
        with pytest.raises(LocalProtocolError):
            look()
