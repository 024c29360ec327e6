"""Many pieces judged together: the same verdicts and the same state as one by one, or nothing at all."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.protocol import Conversation, Direction, Piece
from pp1wire.wire import Representation
from pp1wire.wire._schema_v2 import HEADER_FIELDS
from pp1wire.wire.checksums import body_checksum, header_checksum
from tests.capture.golden import VERIFIER, WORKER, golden, open_talk

TALKS = {
    "sparse": golden(rounds=4).sent,
    "dense": golden(Representation.DENSE, rounds=2).sent,
    "discarded": golden(rounds=2, fault=True).sent,
}


def begun(sent):
    """A judge behind the HELLOs, and what follows them."""
    judge = Conversation()
    for who, data in sent[:2]:
        judge.feed(who, data)
    assert judge.agreement is not None
    return judge, [Piece(*piece) for piece in sent[2:]]


def cut(pieces, size):
    """The same bytes in pieces of at most `size`."""
    return [
        Piece(piece.direction, piece.data[at : at + size]) for piece in pieces for at in range(0, len(piece.data), size)
    ]


def state(judge):
    sessions = {
        number: (
            s.state, s.slot, s.generation, s.round, s.position, s.prefix.digest(), s.proposal_seed, s.context_version,
            None if s.current is None else (s.current.step, s.current.tokens, s.current.checksums, s.current.reply_bytes),
        )
        for number, s in judge.sessions.open.items()
    }  # fmt: skip
    slots = [None if s is None else (s.number, s is judge.sessions.open[s.number]) for s in judge.sessions.slots]
    return (
        sessions, slots, judge.sessions.last, judge.counters.as_dict(), judge.state, judge.unjudged,
        [judge.in_progress(direction) for direction in Direction],
    )  # fmt: skip


def told(verdict):
    """A verdict as plain values; rows as their content."""
    rows = None
    if verdict.batch is not None:
        rows = [
            (r.session, r.position, r.token, r.ids.tolist(), r.q.tolist())
            for r in (verdict.batch[i] for i in range(verdict.start, verdict.stop))
        ]
    error = verdict.error and (verdict.error.code, verdict.error.offset, verdict.error.path, str(verdict.error))
    return verdict.direction, verdict.offset, verdict.message, rows, verdict.step, error


def each(found):
    """Every row by itself, as a piece may hold several."""
    for index, verdict in found:
        direction, offset, message, rows, step, error = told(verdict)
        if rows is None:
            yield index, direction, message, None, step, error
        else:
            for row in rows:
                yield index, direction, None, row, step, error
        assert offset >= 376


def singly(judge, pieces):
    return list(each([(index, verdict) for index, piece in enumerate(pieces) for verdict in judge.feed(*piece)]))


@pytest.mark.parametrize("size", [7, 64, 300, 1 << 20])
@pytest.mark.parametrize("name", ["sparse", "dense"])
def test_the_same_verdicts_and_state(name, size):
    one, pieces = begun(TALKS[name])
    other, _ = begun(TALKS[name])
    pieces = cut(pieces, size)
    expected = singly(one, pieces)
    found = other.feed_together(pieces, each_row=True)
    assert list(each(found)) == expected
    assert state(other) == state(one)


@given(data=st.data(), size=st.sampled_from([50, 333, 5000]))
@settings(max_examples=40)
def test_any_split_into_batches(data, size):
    """Rounds, frames and rows go on where the batch before ended."""
    one, pieces = begun(TALKS["sparse"])
    other, _ = begun(TALKS["sparse"])
    pieces = cut(pieces, size)
    expected = singly(one, pieces)
    ends = sorted({*data.draw(st.lists(st.integers(0, len(pieces)), max_size=6)), len(pieces)})
    found, start = [], 0
    for end in ends:
        part = other.feed_together(pieces[start:end], each_row=True)
        assert [index for index, _ in part] == sorted(index for index, _ in part)
        found += [(start + index, verdict) for index, verdict in part]
        start = end
    assert list(each(found)) == expected
    assert state(other) == state(one)


def test_one_verdict_for_the_rows_of_a_round():
    one, pieces = begun(TALKS["sparse"])
    other, _ = begun(TALKS["sparse"])
    single = one.feed_together(pieces, each_row=True)
    grouped = other.feed_together(pieces)
    assert sum(v.stop - v.start for _, v in grouped) == sum(v.stop - v.start for _, v in single)
    assert sum(v.batch is not None for _, v in grouped) < sum(v.batch is not None for _, v in single)
    assert [told(v) for _, v in grouped if v.batch is None] == [told(v) for _, v in single if v.batch is None]
    first = {(v.step.session, v.step.round): i for i, v in reversed(single) if v.batch is not None}
    assert {(v.step.session, v.step.round): i for i, v in grouped if v.batch is not None} == first
    assert state(other) == state(one)


def test_what_is_wrong_is_left_to_the_judge_of_one_message():
    judge, pieces = begun(TALKS["discarded"])
    before = state(judge)
    assert judge.feed_together(pieces) is None
    assert state(judge) == before
    one, _ = begun(TALKS["discarded"])
    assert singly(judge, pieces) == singly(one, pieces)


@given(place=st.integers(0, 1 << 20), bit=st.integers(0, 7), sealed=st.booleans())
@settings(max_examples=400)
def test_strict_decode_a_changed_bit_is_never_let_pass(place, bit, sealed):
    """With checksums made right again behind it, too: then every other rule stands for itself."""
    _, pieces = begun(TALKS["sparse"])
    ends = list(accumulate(len(p.data) for p in pieces))
    place %= ends[-1]
    index = bisect_right(ends, place)
    data = bytearray(pieces[index].data)
    at = place - (ends[index] - len(data))
    data[at] ^= 1 << bit
    if sealed:
        _seal_frame_at(data, at)
    pieces[index] = Piece(pieces[index].direction, bytes(data))
    one, _ = begun(TALKS["sparse"])
    other, _ = begun(TALKS["sparse"])
    before = state(other)
    expected = singly(one, pieces)
    found = other.feed_together(pieces, each_row=True)
    if any(error is not None for *_, error in expected) or one.unjudged:
        assert found is None
        assert state(other) == before
    else:
        assert list(each(found)) == expected
        assert state(other) == state(one)


def _seal_frame_at(data, at):
    start = 0
    while start + 64 <= len(data):
        end = start + 64 + int.from_bytes(data[start + 16 : start + 20], "little")
        if start <= at < end <= len(data):
            frame = memoryview(data)[start:end]
            frame[48:56] = body_checksum(frame).to_bytes(8, "little")
            frame[56:64] = header_checksum(frame).to_bytes(8, "little")
            return
        start = end


@given(seed=st.integers(0, 1 << 20))
@settings(max_examples=150)
def test_exact_freshness_pieces_lost_repeated_or_exchanged(seed):
    rng = np.random.default_rng(seed)
    _, pieces = begun(TALKS["sparse"])
    index, other_index = rng.integers(0, len(pieces), 2)
    match seed % 3:
        case 0:
            del pieces[index]
        case 1:
            pieces.insert(int(other_index), pieces[index])
        case _:
            pieces[index], pieces[other_index] = pieces[other_index], pieces[index]
    one, _ = begun(TALKS["sparse"])
    other, _ = begun(TALKS["sparse"])
    before = state(other)
    expected = singly(one, pieces)
    found = other.feed_together(pieces, each_row=True)
    if found is None:
        assert state(other) == before
        assert any(error is not None for *_, error in expected) or one.unjudged
    else:
        assert list(each(found)) == expected
        assert state(other) == state(one)


def drafting():
    """A talk with a round of three rows in progress, and the worker's frames that answer it: rows, COMPLETION."""
    talk = open_talk()
    session = talk.verifier.open([1, 2, 3], 11)
    talk.verifier.step(session, 0.0, depth=3)
    talk.up()
    talk.answer_all()
    data, size = talk.worker.data_to_send(), talk.verifier.agreement.reply_frame_bytes
    return talk, session, [data[i * size : (i + 1) * size] for i in range(3)] + [data[3 * size :]]


def left_to_the_judge_of_one_message(sent):
    judge, pieces = begun(sent)
    before = state(judge)
    assert judge.feed_together(pieces) is None
    assert state(judge) == before
    return [error for *_, error in singly(judge, pieces) if error is not None]


def test_exact_freshness_rows_that_a_reset_overtook():
    talk, session, rows = drafting()
    talk.sent.append((WORKER, rows[0]))
    talk.verifier.cancel(session)
    talk.up()
    # Without the COMPLETION, which would give them away.
    talk.sent += [(WORKER, data) for data in rows[1:3]]
    errors = left_to_the_judge_of_one_message(talk.sent)
    assert [code.name for code, *_ in errors] == ["STALE_GENERATION"] * 2


@pytest.mark.parametrize("field", ["slot", "generation", "round"])
def test_exact_freshness_a_row_of_another_identity_between_those_of_a_round(field):
    talk, _, rows = drafting()
    spec = next(s for s in HEADER_FIELDS if s.name == field)
    row = bytearray(rows[1])
    row[spec.offset] += 1
    _seal_frame_at(row, 0)
    talk.sent += [(WORKER, data) for data in (rows[0], bytes(row), rows[2])]  # without the COMPLETION
    errors = left_to_the_judge_of_one_message(talk.sent)
    assert errors[0][2] == f"header.{field}"


def test_nothing_before_an_agreement_or_behind_a_fault():
    assert Conversation().feed_together([Piece(VERIFIER, b"PP1W")]) is None
    judge, pieces = begun(TALKS["sparse"])
    assert judge.feed(WORKER, b"no frame at all")[0].error is not None
    assert judge.feed_together(pieces) is None
