"""One connection, event by event: a loss costs what depends on it, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture import connection_judge
from pp1wire.capture.connection_judge import ConnectionJudge
from pp1wire.capture.events import Chunk, Connection, Direction, Ended, EndReason, FindingCode, StreamFinding
from pp1wire.capture.findings import Severity
from pp1wire.capture.packets import Endpoint
from pp1wire.capture.places import MAX_MARKS, Marks, Walk
from pp1wire.capture.scanner import FrameScanner, Undecoded
from pp1wire.capture.summary import Summary
from pp1wire.wire import Frame
from tests.capture.golden import VERIFIER, WORKER, flip_row, golden
from tests.capture.test_validate import frames_of

SPARSE = golden()
HELLO = 376
UP, DOWN = Direction.TO_SERVER, Direction.TO_CLIENT
WAYS = {VERIFIER: UP, WORKER: DOWN}


class Events:
    """Feeds a judge; offsets and packets count up by themselves."""

    def __init__(self, *, from_start=True, named=False):
        self.connection = Connection(1, Endpoint(b"\x0a\0\0\x01", 1), Endpoint(b"\x0a\0\0\x02", 2), from_start)
        self.findings, self.summary = [], Summary()
        self.judge = ConnectionJudge(self.connection, "file", self.findings.append, self.summary, named=named)
        self.at = {UP: 0, DOWN: 0}
        self.packet = 0

    def send(self, who, data):
        way = WAYS[who]
        self.packet += 1
        self.judge.take(Chunk(self.connection, way, self.at[way], memoryview(data), self.packet, self.packet * 10))
        self.at[way] += len(data)

    def lose(self, who, length, code=FindingCode.GAP):
        way = WAYS[who]
        self.judge.take(StreamFinding(code, self.connection, way, self.at[way], length, None, None, "lost"))
        self.at[way] += length

    def end(self, who, reason=EndReason.FIN):
        self.judge.take(Ended(self.connection, WAYS[who], self.at[WAYS[who]], reason, None, None))

    def finish(self, reason=EndReason.FIN):
        self.end(VERIFIER, reason)
        self.end(WORKER, reason)
        self.judge.finish()
        return self.summary

    @property
    def codes(self):
        return [f.code for f in self.findings]

    def invalid(self):
        return [f.code for f in self.findings if f.severity is Severity.INVALID]


def test_a_workers_frame_that_a_verifiers_gap_cuts_in_two_is_finished_and_the_next_judged_alone() -> None:
    for cut in (1, 19, 20, 63, 64, 200):
        events = Events()
        for who, data in SPARSE.sent[:3]:
            events.send(who, data)
        rows = SPARSE.sent[3][1]
        events.send(WORKER, rows[:cut])
        lost = SPARSE.sent[4][1]
        events.lose(VERIFIER, len(lost))
        events.send(WORKER, rows[cut:])
        for who, data in SPARSE.sent[5:]:
            events.send(who, data)
        summary = events.finish()
        assert events.codes == ["gap", "resumed"], cut
        counters = SPARSE.verifier.counters
        # The row in progress is the judge's of both directions, which can say nothing of it any more.
        assert summary.rows + summary.unjudged_frames == counters.rows
        assert summary.unjudged_frames == (cut >= 20)
        assert summary.frames["completion"] == counters.proposals


def test_a_second_gap_and_a_gap_before_anything_is_known() -> None:
    events = Events()
    stream = SPARSE.stream(VERIFIER)
    bounds = [f.offset for f in frames_of(SPARSE, VERIFIER)]
    events.lose(VERIFIER, 10)
    events.send(VERIFIER, stream[10:500])
    events.lose(VERIFIER, 40)
    events.send(VERIFIER, stream[540:])
    events.finish()
    assert events.codes == ["gap", "one_way", "resumed", "unjudged", "gap", "resumed"]
    assert [f.offset for f in events.findings if f.code == "resumed"] == [HELLO, min(b for b in bounds if b >= 540)]
    early = Events()
    early.lose(VERIFIER, 10)
    early.send(VERIFIER, stream[10:300])
    early.lose(VERIFIER, 10)
    early.send(VERIFIER, stream[310:])
    early.finish()
    assert early.codes == ["gap", "gap", "one_way", "resumed", "unjudged"]
    assert early.findings[3].offset == HELLO


def test_a_few_bytes_then_a_gap_then_pp1() -> None:
    events = Events()
    stream = SPARSE.stream(WORKER)
    events.send(WORKER, stream[:2])
    events.lose(WORKER, 5)
    events.send(WORKER, stream[7:])
    events.finish()
    assert events.invalid() == []
    assert "resumed" in events.codes


def test_the_answer_teaches_the_verifiers_layout() -> None:
    events = Events()
    events.lose(VERIFIER, HELLO)
    events.send(WORKER, SPARSE.sent[1][1])
    stream = bytearray(SPARSE.stream(VERIFIER)[HELLO:])
    stream[70] ^= 1  # in the RESET's body
    events.send(VERIFIER, bytes(stream))
    events.finish()
    assert events.invalid() == ["body_checksum_mismatch"]
    assert "unjudged" not in events.codes


def test_an_answer_heard_first_in_a_capture_from_the_middle_is_no_fault() -> None:
    events = Events(from_start=False)
    events.lose(VERIFIER, 0, FindingCode.MID_STREAM)
    events.lose(WORKER, 0, FindingCode.MID_STREAM)
    events.send(WORKER, SPARSE.sent[1][1])
    for who, data in SPARSE.sent[2:]:
        events.send(who, data)
    summary = events.finish()
    assert events.codes == ["mid_stream", "mid_stream", "one_way", "resumed"]
    assert summary.frames["commit"] == summary.frames["step"] == SPARSE.verifier.counters.steps
    assert summary.rows == SPARSE.verifier.counters.rows
    unasked = Events()
    unasked.send(WORKER, SPARSE.sent[1][1])
    assert unasked.invalid() == ["unexpected_message"]


def test_waiting_for_an_answer_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(connection_judge, "_MAX_WAITING", 300)
    events = Events()
    events.send(VERIFIER, SPARSE.sent[0][1])
    rest = SPARSE.stream(VERIFIER)[HELLO:]
    for at in range(0, len(rest), 100):
        events.send(VERIFIER, rest[at : at + 100])
        assert events.judge.held <= 300 + 376 + 100
    summary = events.finish()
    assert events.codes == ["one_way"]
    assert summary.tokens == SPARSE.verifier.counters.tokens


def test_a_gap_in_a_verifiers_direction_alone_ends_its_sessions_and_not_its_frames() -> None:
    events = Events()
    events.send(VERIFIER, SPARSE.sent[0][1])
    rest = SPARSE.stream(VERIFIER)[HELLO:]
    events.send(VERIFIER, rest[:600])
    events.lose(WORKER, HELLO)
    events.send(VERIFIER, rest[600:1000])
    seen = events.judge.held
    events.lose(VERIFIER, 100)
    events.send(VERIFIER, rest[1100:])
    summary = events.finish()
    assert seen < 400
    assert events.codes == ["one_way", "gap", "gap", "resumed"]
    assert 0 < summary.tokens < SPARSE.verifier.counters.tokens
    assert summary.frames["commit"] > summary.commits + summary.target_only


@pytest.mark.parametrize("reason", [EndReason.FIN, EndReason.RESET, EndReason.MISSING])
def test_an_offer_without_answer_by_how_the_worker_ended(reason) -> None:
    events = Events()
    events.send(VERIFIER, SPARSE.sent[0][1])
    events.send(VERIFIER, SPARSE.sent[2][1])
    events.end(WORKER, reason)
    events.end(VERIFIER, reason)
    events.judge.finish()
    if reason is EndReason.MISSING:
        assert events.codes == ["one_way", "unfinished", "unfinished"]
    else:
        assert events.codes == ["data_before_agreement"]


def test_giving_up_frees_what_is_held_and_keeps_what_was_counted() -> None:
    for lost in (False, True):
        events = Events()
        for who, data in SPARSE.sent[:4]:
            events.send(who, data)
        if lost:
            events.lose(VERIFIER, 50)
        events.send(WORKER, SPARSE.sent[5][1][:100])
        assert events.judge.held >= 100
        events.judge.give_up(64)
        assert events.judge.held == 0
        events.send(WORKER, SPARSE.sent[5][1][100:])
        events.send(VERIFIER, b"anything")
        summary = events.finish()
        assert events.codes == ["gap", "given_up"] if lost else ["given_up"]
        assert summary.proposals == 1
        assert summary.unjudged_bytes >= len(SPARSE.sent[5][1]) - 100 + 8
    nothing = Events()
    nothing.send(VERIFIER, b"PP")
    nothing.judge.give_up(1)
    nothing.finish()
    assert nothing.codes == ["given_up"]


def test_a_conflict_makes_every_later_finding_uncertain() -> None:
    events = Events()
    for who, data in SPARSE.sent[:3]:
        events.send(who, data)
    events.judge.take(StreamFinding(FindingCode.CONFLICT, events.connection, UP, 10, 2, 1, 1, "differ"))
    events.send(WORKER, flip_row(SPARSE.sent[3][1]))
    events.finish()
    (fault,) = [f for f in events.findings if f.code == "body_checksum_mismatch"]
    assert fault.uncertain
    assert events.findings[0].severity is Severity.INCOMPLETE


def test_harmless_findings_are_notes_and_those_of_other_protocols_are_not_told() -> None:
    events = Events()
    for who, data in SPARSE.sent:
        events.send(who, data)
    events.judge.take(StreamFinding(FindingCode.AFTER_END, events.connection, UP, 10, 2, 1, 1, "beyond"))
    events.finish()
    assert [(f.code, f.severity) for f in events.findings] == [("after_end", Severity.NOTE)]
    foreign = Events()
    foreign.send(VERIFIER, b"SSH-2.0-x" * 20)
    foreign.lose(VERIFIER, 100)
    foreign.send(VERIFIER, b"more")
    foreign.finish(EndReason.MISSING)
    assert foreign.codes == ["not_pp1"]


@given(st.data())
@settings(max_examples=80)
def test_chunking_a_scanner_finds_the_same_however_bytes_are_split(data) -> None:
    stream = bytearray(SPARSE.stream(data.draw(st.sampled_from([VERIFIER, WORKER])))[:2000])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at : at + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=6)) + b"PP1W"

    def scan(cuts):
        scanner, found, start = FrameScanner(), [], 0
        for cut in [*cuts, len(stream)]:
            found += scanner.feed(bytes(stream[start:cut]))
            assert scanner.held <= scanner.untold
            start = cut
        found += scanner.close()
        assert scanner.untold == 0
        return [(i.offset, i.length, i.start) if isinstance(i, Undecoded) else (i.offset, bytes(i.data)) for i in found]

    whole = scan([])
    assert scan(sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))) == whole
    assert scan(range(1, len(stream))) == whole
    assert sum(i[1] if len(i) == 3 else len(i[1]) for i in whole) == len(stream)


def test_a_header_that_is_verified_but_claims_too_much_is_not_believed() -> None:
    from pp1wire.capture.scanner import LONGEST_BODY
    from pp1wire.wire._schema_v2 import HEADER_STRUCT
    from pp1wire.wire.checksums import header_checksum

    frame = frames_of(SPARSE, VERIFIER)[1]
    values = list(HEADER_STRUCT.unpack(frame.data[:64]))
    values[5] = LONGEST_BODY + 4
    header = bytearray(HEADER_STRUCT.pack(*values))
    header[56:64] = header_checksum(header).to_bytes(8, "little")
    scanner = FrameScanner()
    (lost, found) = scanner.feed(bytes(header) + bytes(frame.data))
    assert isinstance(lost, Undecoded)
    assert lost.error.code.name == "OVERSIZED_BODY"
    assert isinstance(found, Frame)
    assert (lost.length, found.offset) == (64, 64)


def test_behind_missing_bytes_no_frame_is_due() -> None:
    frame = bytes(frames_of(SPARSE, VERIFIER)[1].data)
    scanner = FrameScanner()
    (cut,) = scanner.feed(frame[:50]) + scanner.skip(20)
    assert (cut.offset, cut.length, cut.error) == (0, 50, None)
    lost, found = scanner.feed(b"tail of a frame" + frame)
    assert (lost.offset, lost.length, lost.error) == (70, 15, None)
    assert found.offset == 85


def test_marks_are_bounded_and_name_the_packet_of_a_byte() -> None:
    marks = Marks()
    assert marks.at(5) == (None, None)
    for i in range(10):
        marks.add(i * 10, i, i * 100)
    assert marks.at(0) == (0, 0)
    assert marks.at(39) == (3, 300)
    assert marks.at(10_000) == (9, 900)
    marks.forget(35)
    assert marks.at(35) == (3, 300)
    assert marks.at(95) == (9, 900)
    for i in range(10, 3 * MAX_MARKS):
        marks.add(i * 10, i, 0)
        assert len(marks._offsets) <= MAX_MARKS
    last = 3 * MAX_MARKS - 1
    assert marks.at(last * 10 + 5)[0] == last


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=6), st.data())
def test_walk_follows_frames_however_they_are_split(sizes, data) -> None:
    stream, starts = b"", [0]
    for sequence, size in enumerate(sizes):
        stream += bytes(8) + sequence.to_bytes(8, "little") + size.to_bytes(4, "little") + bytes(44) + bytes(size)
        starts.append(len(stream))
    walk, at = Walk(), 0
    for cut in [*sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8))), len(stream)]:
        walk.feed(at, stream[at:cut])
        at = cut
        assert walk.begin == max(s for s in starts if s <= at)
        assert walk.next in starts
        assert walk.next + len(walk.head) <= max(at, walk.next)
    assert (walk.next, walk.sequence) == (len(stream), len(sizes) - 1)
