"""Rounds are followed as they were: their stages, outcomes, positions and terms."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.capture.html.histogram import Histogram
from pp1wire.capture.html.rounds import MAX_KEPT, Rounds
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.validate import Validator, validate
from pp1wire.wire import CommitKind, Representation
from tests.capture.golden import CLIENT, NOW, SERVER, VERIFIER, WORKER, capture, golden, open_talk


def followed(data: bytes):
    rounds = Rounds()
    validator = Validator(observe=rounds)
    validator.add(io.BytesIO(data), "capture")
    return rounds, validator.result.summary


@pytest.mark.parametrize("representation", list(Representation))
@pytest.mark.parametrize("fault", [False, True])
def test_what_is_followed_agrees_with_what_is_counted(representation, fault):
    rounds, summary = followed(capture(golden(representation, rounds=5, fault=fault).sent))
    assert rounds.count == summary.rounds == len(rounds.kept)
    kinds = Counter(one.kind for one in rounds.kept)
    assert kinds["committed"] == summary.commits
    assert kinds["discarded"] == sum(summary.discards.values()) == int(fault)
    assert kinds["void"] == summary.unanswered == 1
    assert kinds["open"] == 0
    assert rounds.accepted == summary.committed
    assert rounds.decided[0] == summary.commits
    assert sum(rounds.commits.values()) == summary.commits + summary.target_only
    for stage, key in (
        ("first_row", "step_to_first_row"),
        ("completion", "step_to_completion"),
        ("commit", "completion_to_commit"),
    ):
        span, held = summary.latencies[key], rounds.latencies[stage]
        assert (held.count, held.least, held.most) == (span.count, span.least_ns, span.most_ns)


def test_positions_count_for_proposals_that_had_them():
    rounds, _ = followed(capture(golden(rounds=3).sent))
    depths = [one.depth for one in rounds.kept if one.kind == "committed"]
    assert rounds.decided == [sum(depth > position for depth in depths) for position in range(5)]
    assert len(set(depths)) > 1


def test_stages_have_the_times_and_packets_of_their_frames():
    talk = open_talk()
    session = talk.verifier.open([1], 5)
    drafted = talk.round(session, depth=2).tokens.tolist()
    talk.verifier.commit(session, 2, CommitKind.BONUS, [*drafted, 1])
    talk.up()
    file = io.BytesIO()
    connection = Recorder(file).open(CLIENT, SERVER, NOW)
    for (who, data), now in zip(talk.sent, [0, 10, 100, 130, 170], strict=True):
        (connection.client_sent if who is VERIFIER else connection.server_sent)(data, NOW + now)
    rounds, _ = followed(file.getvalue())
    (one,) = rounds.kept
    assert {stage: time - NOW for stage, time in one.times.items()} == {
        "step": 100, "first_row": 130, "completion": 130, "end": 170,
    }  # fmt: skip
    assert list(one.packets.values()) == [6, 7, 7, 8]
    assert (one.kind, one.outcome) == ("committed", "2 of 2 drafted committed, and a bonus")
    assert (one.slot, one.identity) == (0, (session, 1, 1))


def test_a_capture_that_ends_inside_a_round_leaves_it_open():
    talk = open_talk()
    session = talk.verifier.open([1], 5)
    talk.verifier.step(session, 0.0)
    talk.up()
    rounds, _ = followed(capture(talk.sent))
    assert [one.kind for one in rounds.kept] == ["open"]


def test_terms_are_told_once_with_their_connections(tmp_path):
    path = tmp_path / "run.pcapng"
    path.write_bytes(capture(golden().sent))
    rounds = Rounds()
    validate([path, path], observe=rounds)
    (told,) = rounds.terms.told()
    assert told.connections == [(str(path), 1)] * 2
    terms = dict(told.terms)
    assert terms["HELLO"] == "offered and accepted"
    assert terms["q"] == "sparse"
    assert rounds.terms.told() == [told]


@pytest.mark.parametrize(("who", "said"), [(VERIFIER, "offer alone"), (WORKER, "answer alone")])
def test_one_direction_tells_its_own_terms(who, said):
    rounds, _ = followed(golden().stream(who))
    (told,) = rounds.terms.told()
    assert told.terms[0] == ("HELLO", said)
    assert not any(one.times for one in rounds.kept)


def test_only_the_first_rounds_are_kept(tmp_path):
    path = tmp_path / "run.pcapng"
    path.write_bytes(capture(golden(rounds=20).sent))
    rounds = Rounds()
    summary = validate([path] * 20, observe=rounds).summary
    assert rounds.count == summary.rounds > MAX_KEPT == len(rounds.kept)
    assert rounds.accepted == summary.committed


@given(st.lists(st.integers(-5, 2**62), min_size=1, max_size=60))
def test_quantiles_are_right_to_a_hundredth(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    clipped = sorted(max(value, 0) for value in values)
    assert (histogram.count, histogram.least, histogram.most) == (len(values), clipped[0], clipped[-1])
    for share in (0.5, 0.9, 0.99, 1.0):
        right = next(v for i, v in enumerate(clipped) if (i + 1) / len(clipped) >= share)
        assert right <= histogram.quantile(share) <= right * 1.01
    points = histogram.points()
    assert [share for _, share in points] == sorted({share for _, share in points})
    assert points[-1] == (clipped[-1], 1.0)
