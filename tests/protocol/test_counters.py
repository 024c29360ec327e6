"""Counters add up: every round that was asked for is committed, discarded with a reason, or open; on both ends."""

from __future__ import annotations

import pytest

from pp1wire.protocol import Counters, Role, SessionState
from pp1wire.protocol.counters import EQUATIONS
from pp1wire.wire import CommitKind, CompletionStatus, ResetReason
from tests.protocol.util import pair


def opened(**options):
    p = pair(**options)
    p.verifier.open([1, 2, 3], 5)
    p.to_worker()
    return p


def commit(p, kind=CommitKind.CORRECTION, accepted=1):
    (ready,) = p.round(1, depth=2)
    tokens = [*ready.proposal.tokens[:accepted].tolist(), *([7] if kind is not CommitKind.NONE else [])]
    p.verifier.commit(1, accepted, kind, tokens)


def asked(p):
    p.verifier.step(1, p.now, depth=2)


def proposed(p):
    p.round(1, depth=2)


def corrupt(p):
    asked(p)
    p.to_worker()
    p.answer_all()
    data = bytearray(p.worker.data_to_send())
    data[100] ^= 1
    p.verifier.receive(data, p.now)


def late(p):
    asked(p)
    p.to_worker()
    p.verifier.check_deadlines(9.0)
    p.to_worker()
    p.answer_all()


def failed(p):
    asked(p)
    p.to_worker()
    p.worker.fail(p.drafts.pop().step, CompletionStatus.CAPACITY)
    p.to_verifier()


def refused(p):
    proposed(p)
    p.verifier.discard(1)


def cancelled(p):
    proposed(p)
    p.verifier.cancel(1)


def cancelled_early(p):
    asked(p)
    p.verifier.cancel(1)


def closed(p):
    proposed(p)
    p.verifier.close(1)


# What is done, then: unused proposals, discards of the verifier, discards of the worker.
ENDS = [
    (asked, 0, {}, {}),
    (proposed, 0, {}, {}),
    (corrupt, 0, {"body_checksum_mismatch": 1}, {"verifier_discarded": 1}),
    (late, 0, {"deadline": 1}, {"verifier_discarded": 1}),
    (failed, 0, {"completion_capacity": 1}, {"completion_capacity": 1}),
    (refused, 1, {"consumer": 1}, {"verifier_discarded": 1}),
    (cancelled, 1, {"cancelled": 1}, {"cancelled": 1}),
    (cancelled_early, 0, {"cancelled": 1}, {"cancelled": 1}),
    (closed, 1, {"cancelled": 1}, {"cancelled": 1}),
    (commit, 0, {}, {}),
    (lambda p: commit(p, CommitKind.BONUS, 2), 0, {}, {}),
    (lambda p: commit(p, CommitKind.NONE), 0, {}, {}),
    (lambda p: p.verifier.target_only(1, 3), 0, {}, {}),
]


@pytest.mark.parametrize(("what", "unused", "verifier", "worker"), ENDS)
def test_every_round_is_accounted_for_on_both_ends(what, unused, verifier, worker):
    p = opened()
    what(p)
    p.to_worker()
    assert p.verifier.imbalance() == p.worker.imbalance() == []
    assert p.verifier.counters.unused == unused
    for end, expected in ((p.verifier, verifier), (p.worker, worker)):
        assert {reason: n for reason, n in end.counters.discards.items() if n} == expected


@pytest.mark.parametrize("what", [what for what, *_ in ENDS])
@pytest.mark.parametrize("fault", [False, True])
def test_a_lost_connection_accounts_for_what_was_open_on_it(what, fault):
    p = opened()
    what(p)
    p.to_worker()
    for end in (p.verifier, p.worker):
        drafting, ready = end.open_rounds
        lost, unused = end.counters.discards["connection_lost"], end.counters.unused
        if fault:
            garbage = b"\0" * 64
            with pytest.raises(Exception, match="bad_magic"):
                end.receive(garbage, 0.0) if end is p.verifier else end.receive(garbage)
        else:
            end.end()
        assert end.open_rounds == (0, 0)
        assert end.imbalance() == []
        assert end.counters.discards["connection_lost"] == lost + drafting + ready
        assert end.counters.unused == unused + ready


def test_open_rounds_are_those_drafted_and_those_that_wait_for_their_commit():
    p = opened()
    assert p.verifier.open_rounds == (0, 0)
    asked(p)
    assert (p.verifier.open_rounds, p.worker.open_rounds) == ((1, 0), (0, 0))
    p.to_worker()
    p.answer_all()
    assert (p.verifier.open_rounds, p.worker.open_rounds) == ((1, 0), (0, 1))
    p.to_verifier()
    assert p.verifier.open_rounds == (0, 1)
    assert p.verifier.session_state(1) is SessionState.READY


@pytest.mark.parametrize(
    ("counter", "broken"),
    [
        ("steps", {"rounds", "states"}),
        ("proposals", {"proposals", "states"}),
        ("commits", {"rounds", "proposals", "tokens"}),
        ("unused", {"proposals"}),
        ("target_only", {"tokens"}),
        ("tokens", {"tokens"}),
    ],
)
@pytest.mark.parametrize("role", list(Role))
def test_a_number_that_is_off_breaks_the_equations_it_is_in(role, counter, broken):
    p = opened()
    commit(p)
    p.to_worker()
    end = p.verifier if role is Role.VERIFIER else p.worker
    setattr(end.counters, counter, getattr(end.counters, counter) + 1)
    assert told(end.imbalance()) == broken


def told(lines):
    return {name for name, text in EQUATIONS.items() if any(line.startswith(text) for line in lines)}


def off(**changes):
    counters = Counters()
    for name, value in changes.items():
        setattr(counters, name, value)
    return counters


@pytest.mark.parametrize(
    ("role", "counters", "broken"),
    [
        (Role.VERIFIER, off(committed=[0, 1, 0, 0, 0], tokens=1), {"committed", "accepted"}),
        (Role.VERIFIER, off(accepted=[1, 0, 0, 0, 0]), {"accepted"}),
        (Role.VERIFIER, off(rows=1, row_bytes=9), {"rows"}),
        (Role.WORKER, off(rows=1, row_bytes=9), set()),
        (Role.WORKER, off(accepted=[1, 0, 0, 0, 0]), {"accepted"}),
        (Role.WORKER, off(rows=-1), {"rows"}),
        (Role.WORKER, off(states=Counters().states | {"connection.failed": 1}), {"failures"}),
        (Role.WORKER, off(states=Counters().states | {"session.ready": 1}), {"states"}),
        (Role.WORKER, off(discards=Counters().discards | {"deadline": 1}), {"rounds"}),
    ],
)
def test_each_equation_is_checked(role, counters, broken):
    assert told(counters.imbalance(role)) == broken


def test_the_sums_of_connections_balance_as_each_does():
    total, both = Counters(), []
    for what in (asked, refused, commit):
        p = opened()
        what(p)
        both.append(p.verifier)
    for name in ("steps", "proposals", "commits", "unused", "tokens", "target_only", "rows", "row_bytes"):
        setattr(total, name, sum(getattr(v.counters, name) for v in both))
    total.bytes_received = sum(v.counters.bytes_received for v in both)
    for name in ("discards", "states"):
        setattr(total, name, {key: sum(getattr(v.counters, name)[key] for v in both) for key in getattr(total, name)})
    for name in ("committed", "accepted"):
        setattr(total, name, [sum(column) for column in zip(*(getattr(v.counters, name) for v in both), strict=True)])
    assert total.imbalance(Role.VERIFIER, drafting=1) == []
    (line,) = total.imbalance(Role.VERIFIER)
    assert line.startswith("steps = commits + all discards + drafting + ready: broken by steps 3, ")


def test_a_reset_that_resumes_nothing_is_no_discard_of_the_worker():
    p = opened()
    assert p.verifier.cancel(1) == 2
    (event,) = p.to_worker()
    assert event.reason is ResetReason.CANCEL
    assert sum(p.worker.counters.discards.values()) == 0
