"""Rounds are followed as they were: their stages, outcomes, positions and terms."""

from __future__ import annotations

import io
from collections import Counter

import pytest

from pp1wire.capture.recorder import Recorder
from pp1wire.capture.rounds import MAX_KEPT, Rounds
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
    assert sum(rounds.commits.values()) == summary.commits + summary.target_only


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


def test_rounds_as_json_agree_with_the_totals():
    data = capture(golden(rounds=5, fault=True).sent)
    rounds = Rounds(3, 1)
    validator = Validator(observe=rounds)
    validator.add(io.BytesIO(data), "capture")
    told, summary = rounds.to_json(), validator.result.summary
    assert (told["count"], told["committed"]) == (summary.rounds, summary.commits)
    assert (told["discarded"], told["void"], told["open"]) == (1, summary.unanswered, 0)
    assert len(told["first"]) == 3
    first, second, _ = told["first"]
    assert (first["kind"], first["reason"], first["accepted"], first["commit"]) == (
        "discarded", "body_checksum_mismatch", None, None,
    )  # fmt: skip
    assert first["stages"]["first_row"] is None
    (finding,) = [f for f in validator.result.findings if f.code == "body_checksum_mismatch"]
    assert first["stages"]["end"]["packet"] == finding.packet
    assert first["stages"]["end"]["offset"] == finding.offset - 48  # of the checksum in the header
    assert (second["kind"], second["accepted"], second["commit"]) == ("committed", 1, "correction")
    (void,) = told["failed"]
    assert (void["kind"], void["reason"]) == ("void", "cancel")
    assert [one.listed for one in rounds.failed] == [False]


def test_failed_rounds_are_kept_up_to_their_limit():
    data = capture(golden(rounds=2, fault=True).sent)
    for most, most_failed, expected in ((0, 5, 2), (0, 1, 1), (0, 0, 0), (100, 5, 0)):
        rounds = Rounds(most, most_failed)
        Validator(observe=rounds).add(io.BytesIO(data), "capture")
        assert len(rounds.failed) == expected


def test_only_the_first_rounds_are_kept(tmp_path):
    path = tmp_path / "run.pcapng"
    path.write_bytes(capture(golden(rounds=20).sent))
    rounds = Rounds()
    summary = validate([path] * 20, observe=rounds).summary
    assert rounds.count == summary.rounds > MAX_KEPT == len(rounds.kept)
