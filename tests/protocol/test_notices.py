"""Notices: one for each discard and each drop that is counted, with its identity, and no secret in any."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

import pytest

from pp1wire.protocol import MessageDropped, RoundDiscarded, SessionReset
from pp1wire.wire import ResetReason
from tests.protocol.test_counters import ENDS, corrupt, late, opened, proposed


def watched():
    p = opened()
    seen = {"verifier": [], "worker": []}
    p.verifier.watch, p.worker.watch = seen["verifier"].append, seen["worker"].append
    return p, seen


def told(notices, kind):
    return Counter(n.reason for n in notices if isinstance(n, kind))


@pytest.mark.parametrize("what", [what for what, *_ in ENDS])
@pytest.mark.parametrize("ends", [False, True])
def test_every_count_has_one_notice(what, ends):
    p, seen = watched()
    what(p)
    p.to_worker()
    p.to_verifier()
    if ends:
        p.verifier.end()
        p.worker.eof()
    for end, notices in ((p.verifier, seen["verifier"]), (p.worker, seen["worker"])):
        assert told(notices, RoundDiscarded) == Counter({k: n for k, n in end.counters.discards.items() if n})
        assert told(notices, MessageDropped) == Counter({k: n for k, n in end.counters.dropped.items() if n})


def test_a_rejected_row_is_told_with_its_place():
    p, seen = watched()
    corrupt(p)
    discarded, reset, *_ = seen["verifier"]
    assert discarded == RoundDiscarded(1, 0, 1, 1, 3, 2, 0, "body_checksum_mismatch", discarded.error)
    assert discarded.error.path == "header.body_checksum"
    assert reset == SessionReset(1, 0, 2, 3, ResetReason.FAULT)


def test_what_a_round_had_reached_is_told():
    p, seen = watched()
    proposed(p)
    p.verifier.discard(1)
    assert seen["verifier"][0] == RoundDiscarded(1, 0, 1, 1, 3, 2, 2, "consumer")
    p.to_worker()
    assert seen["worker"][-1] == RoundDiscarded(1, 0, 1, 1, 3, 2, 2, "verifier_discarded")


def test_answers_that_come_too_late_are_told_at_the_end_that_drops_them():
    p, seen = watched()
    late(p)
    assert seen["worker"][-1] == MessageDropped(1, 1, 1, "late_answer")
    p, seen = watched()
    proposed(p)
    p.verifier.discard(1)
    p.to_worker()
    p.verifier.step(1, 0.0, depth=1)
    p.to_worker()
    p.answer_all()
    answer = p.worker.data_to_send()
    p.verifier.cancel(1)
    p.verifier.receive(answer, 0.0)
    dropped = [n for n in seen["verifier"] if isinstance(n, MessageDropped)]
    assert [(n.session, n.generation, n.round, n.reason) for n in dropped] == [(1, 2, 1, "stale_generation")] * 2
    assert {n.error.path for n in dropped} == {"header.generation"}


def test_notices_have_no_room_for_tokens_or_seeds():
    names = {f.name for kind in (RoundDiscarded, MessageDropped, SessionReset) for f in fields(kind)}
    assert names == {
        "session", "slot", "generation", "round", "position", "depth", "rows", "reason", "error",
    }  # fmt: skip
