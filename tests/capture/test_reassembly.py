"""TCP reassembly. Every test builds its segments by hand, so that a bug of the recorder cannot hide one here."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.packets import Endpoint, Flags, Segment, build_ipv4_tcp
from pp1wire.capture.pcapng import CaptureError, PcapngReader, PcapngWriter, Truncated
from pp1wire.capture.reassembly import (
    Chunk,
    Connection,
    Direction,
    Ended,
    EndReason,
    Event,
    FindingCode,
    Opened,
    PacketFinding,
    Reassembler,
    StreamEvent,
    StreamFinding,
    stream_events,
)

CLIENT, SERVER = Endpoint(bytes([10, 0, 0, 1]), 40_000), Endpoint(bytes([10, 0, 0, 2]), 9_000)
UP, DOWN = Direction.TO_SERVER, Direction.TO_CLIENT
FIN, SYN, RST, ACK = Flags.FIN, Flags.SYN, Flags.RST, Flags.ACK


@dataclass
class Talk:
    """A conversation to cut into segments. Offsets count from the byte after the SYN."""

    isn_up: int = 1_000
    isn_down: int = 5_000
    client: Endpoint = CLIENT
    server: Endpoint = SERVER
    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)

    def raw(self, way: Direction, offset: int, data: bytes, flags: int, ack: int | None, length: int | None) -> Segment:
        ends, isns = (self.client, self.server), (self.isn_up, self.isn_down)
        if way is DOWN:
            ends, isns = ends[::-1], isns[::-1]
        acknowledgement = 0 if ack is None else (isns[1] + 1 + ack) % 2**32
        flags |= 0 if ack is None else ACK
        length = len(data) if length is None else length
        return Segment(*ends, (isns[0] + 1 + offset) % 2**32, acknowledgement, flags, memoryview(data), length)

    def up_at(
        self, offset: int, data: bytes = b"", flags: int = 0, ack: int | None = 0, length: int | None = None
    ) -> Segment:
        return self.raw(UP, offset, data, flags, ack, length)

    def down_at(
        self, offset: int, data: bytes = b"", flags: int = 0, ack: int | None = 0, length: int | None = None
    ) -> Segment:
        return self.raw(DOWN, offset, data, flags, ack, length)

    def handshake(self) -> list[Segment]:
        return [self.up_at(-1, flags=SYN, ack=None), self.down_at(-1, flags=SYN, ack=0), self.up_at(0)]

    def turn(self, way: Direction, data: bytes) -> Segment:
        """All of one turn as one segment that acknowledges everything before it."""
        mine, other = (self.up, self.down) if way is UP else (self.down, self.up)
        mine += data
        return self.raw(way, len(mine) - len(data), data, 0, len(other), None)

    def farewell(self) -> list[Segment]:
        return [
            self.up_at(len(self.up), flags=FIN, ack=len(self.down)),
            self.down_at(len(self.down), flags=FIN, ack=len(self.up) + 1),
            self.up_at(len(self.up) + 1, ack=len(self.down) + 1),
        ]


def run(segments: Iterable[Segment], reassembler: Reassembler | None = None) -> list[StreamEvent]:
    reassembler = reassembler or Reassembler()
    events: list[StreamEvent] = []
    for number, segment in enumerate(segments, 1):
        events += reassembler.add(number, number * 10, segment)
    return events + reassembler.finish()


def chunks(events: Iterable[Event], way: Direction = UP) -> list[Chunk]:
    return [e for e in events if isinstance(e, Chunk) and e.direction is way]


def stream(events: Iterable[Event], way: Direction = UP) -> bytes:
    """The bytes of one direction; fails if offsets are not those of an unbroken stream."""
    data = b""
    for chunk in chunks(events, way):
        assert chunk.offset == len(data)
        data += chunk.data
    return data


def findings(events: Iterable[Event]) -> list[tuple[FindingCode, Direction, int, int]]:
    return [(e.code, e.direction, e.offset, e.length) for e in events if isinstance(e, StreamFinding)]


def ends(events: Iterable[Event]) -> dict[Direction, tuple[EndReason, int]]:
    found = [(e.direction, (e.reason, e.offset)) for e in events if isinstance(e, Ended)]
    assert len(found) == len(dict(found)), "a direction ended twice"
    return dict(found)


def split(segment: Segment, cuts: Iterable[int], overlap: int) -> list[Segment]:
    """The same bytes as several segments, each reaching back into the one before."""
    places = sorted({0, *(cut % max(len(segment.payload), 1) for cut in cuts)})
    parts = []
    for start, stop in zip(places, [*places[1:], len(segment.payload)], strict=True):
        begin = max(start - overlap, 0)
        data = segment.payload[begin:stop]
        parts.append(segment._replace(sequence=(segment.sequence + begin) % 2**32, payload=data, length=len(data)))
    return parts


sequence_numbers = st.one_of(st.integers(2**32 - 60, 2**32 - 1), st.integers(0, 2**32 - 1), st.just(0))
turns = st.lists(st.tuples(st.sampled_from([UP, DOWN]), st.binary(min_size=2, max_size=20)), min_size=1, max_size=7)


@given(st.data(), sequence_numbers, sequence_numbers, turns)
@settings(max_examples=300, deadline=None)
def test_any_order_gives_the_same_streams_and_causal_order(
    data: st.DataObject, isn_up: int, isn_down: int, turns: list[tuple[Direction, bytes]]
) -> None:
    talk = Talk(isn_up, isn_down)
    segments = talk.handshake()
    marks = []  # (direction, offset behind the turn), in the order in which the turns were taken
    for way, payload in turns:
        cuts = data.draw(st.lists(st.integers(1, 20), max_size=2))
        segments += split(talk.turn(way, payload), cuts, overlap=data.draw(st.integers(0, 5)))
        marks.append((way, len(talk.up if way is UP else talk.down)))
    segments += talk.farewell()
    segments += data.draw(st.lists(st.sampled_from(segments), max_size=6))
    events = run(data.draw(st.permutations(segments)))

    assert isinstance(events[0], Opened)
    assert events[0].connection == Connection(1, CLIENT, SERVER, True)
    assert stream(events, UP) == talk.up
    assert stream(events, DOWN) == talk.down
    assert findings(events) == []
    assert ends(events) == {UP: (EndReason.FIN, len(talk.up)), DOWN: (EndReason.FIN, len(talk.down))}
    # A turn comes out after every turn of the other end that it acknowledges.
    reached = {UP: 0, DOWN: 0}
    for chunk in (e for e in events if isinstance(e, Chunk)):
        for i, (way, stop) in enumerate(marks):
            if way is chunk.direction and stop > chunk.offset:
                earlier = [other_stop for other, other_stop in marks[:i] if other is not way]
                assert reached[DOWN if way is UP else UP] >= max(earlier, default=0) - 1
                break
        reached[chunk.direction] = chunk.offset + len(chunk.data)


def test_in_order_bytes_come_out_at_once_with_their_packet() -> None:
    talk = Talk()
    reassembler = Reassembler()
    for number, segment in enumerate(talk.handshake(), 1):
        reassembler.add(number, None, segment)
    connection = Connection(1, CLIENT, SERVER, True)
    assert reassembler.add(4, 40, talk.turn(UP, b"question")) == [
        Chunk(connection, UP, 0, memoryview(b"question"), 4, 40)
    ]
    assert reassembler.add(5, None, talk.turn(DOWN, b"answer")) == [
        Chunk(connection, DOWN, 0, memoryview(b"answer"), 5, None)
    ]


def test_any_order_across_directions_an_answer_waits_for_its_question() -> None:
    talk = Talk()
    segments = talk.handshake()
    question, answer = talk.turn(UP, b"question"), talk.turn(DOWN, b"answer")
    events = run([*segments, answer, question])
    assert [(c.direction, c.packet) for c in events if isinstance(c, Chunk)] == [(UP, 5), (DOWN, 4)]


# Conflicts


@pytest.mark.parametrize("hole", [False, True], ids=["emitted", "held"])
@pytest.mark.parametrize(
    ("second", "at", "conflict"),
    [
        (b"abXYef", 0, (2, 2)),
        (b"Xbcdef", 0, (0, 1)),
        (b"abcdeX", 0, (5, 1)),
        (b"XbcdeX", 0, (0, 6)),
        (b"dXfgh", 3, (4, 1)),
        (b"ab", 0, None),
        (b"efgh", 4, None),
    ],
)
def test_any_order_overlap_with_different_bytes_is_a_conflict(
    second: bytes, at: int, conflict: tuple[int, int] | None, hole: bool
) -> None:
    talk = Talk()
    base = 3 if hole else 0
    segments = [*talk.handshake(), talk.up_at(base, b"abcdef"), talk.up_at(base + at, second)]
    if hole:
        segments.append(talk.up_at(0, b"012"))
    events = run(segments)
    expected = [] if conflict is None else [(FindingCode.CONFLICT, UP, base + conflict[0], conflict[1])]
    assert findings(events) == expected
    kept = b"012"[:base] + b"abcdef" + second[6 - at :]
    assert stream(events) == kept  # the first copy stays, the last never wins
    if expected:
        (finding,) = (e for e in events if isinstance(e, StreamFinding))
        assert finding.packet == 5
        assert finding.message == "packets 4 and 5 hold different bytes"


def test_any_order_one_segment_over_several_held_ones() -> None:
    talk = Talk()
    events = run(
        [
            *talk.handshake(),
            talk.up_at(2, b"cd"),
            talk.up_at(6, b"gh"),
            talk.up_at(10, b"kl"),
            talk.up_at(0, b"abcdefgXijkl"),
        ]
    )
    assert findings(events) == [(FindingCode.CONFLICT, UP, 7, 1)]
    assert stream(events) == b"abcdefghijkl"
    assert [c.packet for c in chunks(events)] == [7, 4, 7, 5, 7, 6]


# Gaps


def many_turns() -> tuple[Talk, list[Segment]]:
    talk = Talk(isn_up=2**32 - 20)
    segments = talk.handshake()
    for i in range(12):
        segments.append(talk.turn(UP if i % 3 else DOWN, bytes([65 + i]) * (5 + i)))
    return talk, segments


@pytest.mark.parametrize("farewell", [True, False], ids=["fin", "acknowledged"])
@pytest.mark.parametrize("dropped", range(3, 15))
def test_gaps_dropping_any_one_segment_is_one_gap(dropped: int, farewell: bool) -> None:
    talk, segments = many_turns()
    segments += (
        talk.farewell()
        if farewell
        else [talk.up_at(len(talk.up), ack=len(talk.down)), talk.down_at(len(talk.down), ack=len(talk.up))]
    )
    lost = segments[dropped]
    way = UP if lost.source == CLIENT else DOWN
    offset = (lost.sequence - (talk.isn_up if way is UP else talk.isn_down) - 1) % 2**32
    whole = [e for e in run(segments) if isinstance(e, Chunk)]
    events = run(segments[:dropped] + segments[dropped + 1 :])
    assert findings(events) == [(FindingCode.GAP, way, offset, len(lost.payload))]
    found = [e for e in events if isinstance(e, Chunk)]
    # Packet numbers behind the gap are one lower; everything else, the order too, is the same.
    assert [(c.direction, c.offset, c.data) for c in found] == [
        (c.direction, c.offset, c.data) for c in whole if (c.direction, c.offset) != (way, offset)
    ]
    place = next(i for i, e in enumerate(events) if isinstance(e, StreamFinding))
    assert [e for e in events[:place] if isinstance(e, Chunk)] == whole[: dropped - 3]


def test_gaps_consecutive_losses_are_one_gap() -> None:
    _, segments = many_turns()
    events = run(segments[:4] + segments[6:])  # the two turns of the client that follow the server's first
    assert findings(events) == [(FindingCode.GAP, UP, 0, 6 + 7)]


def test_gaps_a_late_copy_fills_the_hole() -> None:
    talk, segments = many_turns()
    events = run([*segments[:5], *segments[6:], segments[5]])
    assert findings(events) == []
    assert stream(events) == talk.up


def test_gaps_are_declared_when_the_bound_is_reached_not_before() -> None:
    talk = Talk()
    reassembler = Reassembler(max_held=4 * (768 + 1000))
    segments = [*talk.handshake(), *(talk.up_at(10 + 1000 * i, bytes(1000)) for i in range(6))]
    seen = [reassembler.add(i, None, segment) for i, segment in enumerate(segments)]
    assert [findings(events) for events in seen] == [[]] * 7 + [[(FindingCode.GAP, UP, 0, 10)], []]
    assert [len(chunks(events)) for events in seen] == [0] * 7 + [5, 1]
    late = reassembler.add(99, None, talk.up_at(0, b"0123456789"))
    assert late == []
    assert reassembler.unchecked == 10


def test_gaps_of_a_direction_that_only_acknowledgements_show() -> None:
    talk = Talk()
    events = run([*talk.handshake(), talk.down_at(0, b"answer", ack=100), talk.down_at(6, b"more", ack=100)])
    assert findings(events) == [(FindingCode.GAP, UP, 0, 100)]
    assert stream(events, DOWN) == b"answermore"


def test_gaps_an_acknowledged_fin_is_not_a_byte() -> None:
    talk = Talk()
    events = run([*talk.handshake(), talk.turn(UP, b"bye"), talk.down_at(0, b"late answer", ack=4)])
    assert findings(events) == []
    assert ends(events) == {UP: (EndReason.MISSING, 3), DOWN: (EndReason.MISSING, 11)}


def test_gaps_impossible_acknowledgements_do_not_block() -> None:
    talk = Talk()
    events = run([*talk.handshake(), talk.down_at(0, b"answer", ack=2**30 + 5), talk.up_at(0, b"x", ack=2**31)])
    assert findings(events) == []
    assert stream(events, DOWN) == b"answer"


def test_gaps_acknowledgements_in_a_circle_are_broken_by_packet_order() -> None:
    talk = Talk()
    events = run([*talk.handshake(), talk.up_at(0, b"up", ack=50), talk.down_at(0, b"down", ack=60)])
    assert [(c.direction, bytes(c.data)) for c in events if isinstance(c, Chunk)] == [(UP, b"up"), (DOWN, b"down")]
    assert findings(events) == [(FindingCode.GAP, UP, 2, 58), (FindingCode.GAP, DOWN, 4, 46)]


def test_gaps_an_acknowledgement_beyond_the_end_does_not_invent_bytes() -> None:
    talk = Talk()
    events = run([*talk.handshake(), talk.up_at(0, b"up"), talk.up_at(2, flags=FIN), talk.down_at(0, b"x", ack=1000)])
    assert findings(events) == []
    assert stream(events, DOWN) == b"x"


# Wrapping


@pytest.mark.parametrize("isn", [0, 2**31, 2**32 - 1])
def test_honest_sequence_numbers_wrap_more_than_once(isn: int) -> None:
    talk = Talk(isn_up=isn)
    step = 2**29
    segments = talk.handshake() + [
        talk.up_at(step * i, b"ab", length=step)
        for i in range(20)  # 10 GiB, of which two bytes a packet were captured
    ]
    events = run(segments)
    assert [c.offset for c in chunks(events)] == [step * i for i in range(20)]
    assert findings(events) == [(FindingCode.CUT, UP, step * i + 2, step - 2) for i in range(20)]


# Starts


def test_honest_mid_stream_start() -> None:
    talk = Talk()
    events = run([talk.down_at(500, b"answer", ack=300), talk.up_at(300, b"next", ack=506), talk.up_at(304, b"!")])
    assert events[0] == Opened(Connection(1, CLIENT, SERVER, from_start=False), 1, 10)
    assert findings(events) == [(FindingCode.MID_STREAM, DOWN, 0, 0), (FindingCode.MID_STREAM, UP, 0, 0)]
    assert (stream(events, UP), stream(events, DOWN)) == (b"next!", b"answer")
    assert ends(events) == {UP: (EndReason.MISSING, 5), DOWN: (EndReason.MISSING, 6)}


def test_honest_mid_stream_start_streams_after_the_window() -> None:
    talk = Talk()
    reassembler = Reassembler(start_window=4)
    seen = [reassembler.add(i, None, talk.up_at(i, bytes([i]))) for i in range(6)]
    assert [len(chunks(events)) for events in seen] == [0, 0, 0, 4, 1, 1]
    # A direction that appears later begins where it appears.
    events = reassembler.add(7, None, talk.down_at(77, b"late"))
    assert findings(events) == [(FindingCode.MID_STREAM, DOWN, 0, 0)]
    assert stream(events, DOWN) == b"late"


def test_honest_mid_stream_segments_from_before_the_start_are_left_out() -> None:
    talk = Talk()
    events = run(
        [talk.up_at(100, b"abc"), talk.up_at(103, b"def"), talk.up_at(95, b"01234abX")], Reassembler(start_window=2)
    )
    assert stream(events) == b"abcdef"
    assert findings(events) == [(FindingCode.MID_STREAM, UP, 0, 0), (FindingCode.CONFLICT, UP, 2, 1)]


def test_honest_start_without_the_servers_syn() -> None:
    talk = Talk()
    segments = [*talk.handshake()[::2], talk.turn(UP, b"question"), talk.down_at(4, b"wer", ack=8)]
    events = run(segments)
    assert isinstance(events[0], Opened)
    assert events[0].connection.from_start
    # The client's handshake says where the server's stream began, so the missing bytes are known.
    assert findings(events) == [(FindingCode.MID_STREAM, DOWN, 0, 0), (FindingCode.GAP, DOWN, 0, 4)]
    assert [(c.offset, bytes(c.data)) for c in chunks(events, DOWN)] == [(4, b"wer")]


def test_honest_start_without_the_clients_syn() -> None:
    talk = Talk(client=SERVER, server=CLIENT)  # roles that ports alone would get wrong
    events = run([*talk.handshake()[1:], talk.turn(UP, b"question")])
    assert isinstance(events[0], Opened)
    assert events[0].connection == Connection(1, SERVER, CLIENT, True)
    assert findings(events) == []
    assert stream(events) == b"question"


def test_honest_capture_of_one_direction() -> None:
    talk = Talk()
    ups = [talk.up_at(-1, flags=SYN, ack=None), *(talk.up_at(2 * i, b"ab", ack=100 * i) for i in range(100))]
    events = run(ups)
    assert stream(events) == b"ab" * 100
    assert findings(events) == []


def test_data_in_the_syn_is_data() -> None:
    talk = Talk()
    syn, answer, _ = talk.handshake()
    events = run([syn._replace(payload=memoryview(b"early"), length=5), answer, talk.up_at(5, b"later")])
    assert stream(events) == b"earlylater"


def test_bare_tails_of_unseen_conversations_are_nothing() -> None:
    talk = Talk()
    reassembler = Reassembler()
    assert run([talk.up_at(10, ack=4), talk.down_at(4, ack=10), talk.down_at(4, flags=RST)], reassembler) == []
    assert reassembler.held == 0


# The same ports again


def test_a_port_used_again_is_a_new_connection() -> None:
    first, second = Talk(1000, 5000), Talk(70_000, 90_000)
    segments = [*first.handshake(), first.turn(UP, b"one"), *first.farewell()]
    segments += [*second.handshake(), second.turn(UP, b"two")]
    events = run(segments)
    assert [(c.connection.number, bytes(c.data)) for c in chunks(events)] == [(1, b"one"), (2, b"two")]
    assert findings(events) == []


def test_a_port_used_again_ends_what_was_open() -> None:
    first, second = Talk(1000, 5000), Talk(70_000, 90_000)
    events = run([*first.handshake(), first.up_at(4, b"behind a hole"), *second.handshake()])
    kinds = [(type(e).__name__, e.connection.number) for e in events]
    assert kinds == [
        ("Opened", 1),
        ("StreamFinding", 1),
        ("Chunk", 1),
        ("Ended", 1),
        ("Ended", 1),
        ("Opened", 2),
        ("Ended", 2),
        ("Ended", 2),
    ]


def test_a_port_used_again_after_a_mid_stream_start() -> None:
    old, new = Talk(), Talk(isn_up=2**31, isn_down=7)
    events = run([old.up_at(5, b"old"), *new.handshake(), new.turn(UP, b"new")])
    assert [(c.connection.number, bytes(c.data)) for c in chunks(events)] == [(1, b"old"), (2, b"new")]


@pytest.mark.parametrize("settled", [True, False])
def test_a_syn_after_one_way_data_is_a_new_connection(settled: bool) -> None:
    old, new = Talk(), Talk(isn_up=2**31, isn_down=10_000)  # the old bytes lie before the new start
    events = run(
        [old.down_at(5, b"old"), *new.handshake(), new.turn(UP, b"new")], Reassembler(start_window=1 if settled else 64)
    )
    numbers = [(c.connection.number, bytes(c.data)) for c in events if isinstance(c, Chunk)]
    assert numbers == [(1, b"old"), (2, b"new")]


@pytest.mark.parametrize("position", [1, 2, 3, 4])
def test_a_repeated_syn_changes_nothing(position: int) -> None:
    talk = Talk()
    segments = [*talk.handshake(), talk.turn(UP, b"question")]
    for repeated in segments[:2]:
        events = run([*segments[:position], repeated, *segments[position:]])
        assert stream(events) == b"question"
        assert sum(isinstance(e, Opened) for e in events) == 1


def test_a_second_number_for_one_syn_changes_nothing() -> None:
    talk = Talk()
    segments = talk.handshake()
    other = segments[1]._replace(sequence=99)
    events = run([*segments[:2], other, segments[2], talk.turn(DOWN, b"answer")])
    assert stream(events, DOWN) == b"answer"
    assert sum(isinstance(e, Opened) for e in events) == 1


def test_an_answer_to_an_unseen_syn_is_a_new_connection() -> None:
    first, second = Talk(1000, 5000), Talk(70_000, 90_000)
    events = run([first.handshake()[0], second.handshake()[1], second.turn(UP, b"two")])
    assert [(c.connection.number, bytes(c.data)) for c in chunks(events)] == [(2, b"two")]


# Ends


def test_a_reset_ends_its_sender_at_once_and_the_other_at_the_end() -> None:
    talk = Talk()
    reassembler = Reassembler()
    segments = [*talk.handshake(), talk.turn(UP, b"question"), talk.down_at(0, flags=RST, ack=8)]
    seen = [reassembler.add(i, None, segment) for i, segment in enumerate(segments)]
    assert ends(seen[-1]) == {DOWN: (EndReason.RESET, 0)}
    assert ends(reassembler.finish()) == {UP: (EndReason.RESET, 8)}


def test_a_reset_shows_what_is_missing_before_it() -> None:
    talk = Talk()
    events = run([*talk.handshake(), talk.up_at(20, flags=RST), talk.down_at(0, flags=RST, ack=None)])
    assert findings(events) == [(FindingCode.GAP, UP, 0, 20)]


def test_resets_with_foreign_numbers_are_only_resets() -> None:
    talk = Talk()
    events = run([*talk.handshake(), talk.turn(UP, b"question"), talk.down_at(2**31 - 9, flags=RST, ack=None)])
    assert findings(events) == []
    assert ends(events) == {UP: (EndReason.RESET, 8), DOWN: (EndReason.RESET, 0)}
    one_way = run([talk.up_at(0, b"ab"), talk.down_at(9, flags=RST)])
    assert ends(one_way) == {UP: (EndReason.RESET, 2), DOWN: (EndReason.RESET, 0)}


@pytest.mark.parametrize(
    ("extra", "finding"),
    [
        ([(2, b"cdef", 0)], (FindingCode.AFTER_END, UP, 4, 2)),
        ([(9, b"far", 0)], (FindingCode.AFTER_END, UP, 9, 3)),
        ([(6, b"", FIN)], (FindingCode.AFTER_END, UP, 6, 0)),
        ([(3, b"", FIN)], (FindingCode.AFTER_END, UP, 3, 0)),
        ([(4, b"", FIN)], None),
        ([(6, b"", RST)], None),
    ],
)
def test_what_contradicts_the_end_is_a_finding(
    extra: list[tuple[int, bytes, int]], finding: tuple[FindingCode, Direction, int, int] | None
) -> None:
    talk = Talk()
    segments = [*talk.handshake(), talk.up_at(0, b"abcd", flags=FIN)]
    events = run(segments + [talk.up_at(*item) for item in extra])
    assert findings(events) == ([] if finding is None else [finding])
    assert stream(events) == b"abcd"
    assert ends(events)[UP] == (EndReason.FIN, 4)


def test_a_segment_outside_every_window_is_a_finding() -> None:
    talk = Talk()
    stray = [talk.up_at(2**30 + 3, b"ahead"), talk.up_at(-(2**30), b"behind")]
    events = run([*talk.handshake(), talk.turn(UP, b"abc"), *stray, talk.turn(UP, b"def")])
    assert findings(events) == [
        (FindingCode.OUTSIDE_WINDOW, UP, 2**30 + 3, 5),
        (FindingCode.OUTSIDE_WINDOW, UP, -(2**30), 6),
    ]
    assert stream(events) == b"abcdef"


def test_honest_snapshot_cuts_do_not_hold_the_stream_up() -> None:
    talk = Talk()
    reassembler = Reassembler()
    for i, segment in enumerate(talk.handshake()):
        reassembler.add(i, None, segment)
    events = reassembler.add(4, 7, talk.up_at(0, b"head", length=1000))
    events += reassembler.add(5, 8, talk.up_at(1000, b"next", length=1000))
    assert [(c.offset, bytes(c.data)) for c in chunks(events)] == [(0, b"head"), (1000, b"next")]
    assert findings(events) == [(FindingCode.CUT, UP, 4, 996), (FindingCode.CUT, UP, 1004, 996)]
    # A whole copy of cut bytes comes too late, but contradicts nothing.
    assert reassembler.add(6, 9, talk.up_at(0, b"head" + bytes(996))) == []


# Bounds


def test_caps_reached_by_remembered_bytes() -> None:
    talk = Talk()
    reassembler = Reassembler(max_recent=2 * (768 + 4))
    segments = [*talk.handshake(), *(talk.turn(UP, b"abcd") for _ in range(3))]
    for i, segment in enumerate(segments):
        reassembler.add(i, None, segment)
    assert findings(reassembler.add(10, None, talk.up_at(4, b"abcX"))) == [(FindingCode.CONFLICT, UP, 7, 1)]
    assert reassembler.unchecked == 0
    assert reassembler.add(11, None, talk.up_at(0, b"abcX")) == []  # too old to be compared
    assert reassembler.unchecked == 4


def test_caps_reached_by_connections() -> None:
    talks = [Talk(client=Endpoint(CLIENT.address, 50_000 + i)) for i in range(3)]
    reassembler = Reassembler(max_connections=2)
    events: list[StreamEvent] = []
    for talk in talks[:2]:
        for segment in [*talk.handshake(), talk.turn(UP, b"abc")]:
            events += reassembler.add(1, None, segment)
    events += reassembler.add(2, None, talks[0].turn(UP, b"still here"))
    assert ends(events) == {}
    assert [e.connection.client.port for e in reassembler.add(3, None, talks[2].handshake()[0])] == [50_001, 50_001]


def test_early_refusal_small_views_do_not_keep_large_packets() -> None:
    talk = Talk()
    reassembler = Reassembler()
    for i, segment in enumerate(talk.handshake()):
        reassembler.add(i, None, segment)
    tracemalloc.start()
    try:
        for i in range(200):
            packet = memoryview(bytes(1_000_000))
            reassembler.add(i, None, talk.up_at(10 + 20 * i, packet[:10]))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2_000_000


def test_early_refusal_waiting_connections_share_one_bound() -> None:
    reassembler = Reassembler(max_held=100_000)
    opened = 0
    for i in range(300):
        talk = Talk(client=Endpoint(CLIENT.address, 10_000 + i))
        events = reassembler.add(i, None, talk.up_at(0, bytes(1000)))  # no handshake: it waits
        opened += sum(isinstance(e, Opened) for e in events)
        assert reassembler.held <= 100_000
    assert opened == 300 - 100_000 // 1768


segments_of_any_kind = st.builds(
    Segment,
    st.sampled_from([CLIENT, SERVER, CLIENT._replace(port=9_000)]),
    st.sampled_from([CLIENT, SERVER]),
    st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1)),
    st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1)),
    st.integers(0, 31),
    st.binary(max_size=12).map(memoryview),
    st.just(0),
)


@given(st.lists(st.tuples(segments_of_any_kind, st.integers(0, 20)), max_size=40), st.sampled_from([1, 4, 64]))
@settings(max_examples=400, deadline=None)
def test_one_family_of_events_for_any_segments(items: list[tuple[Segment, int]], start_window: int) -> None:
    """Whatever comes in: opened first, offsets rise, every missing byte is a finding, both ends end once, nothing stays."""
    segments = [segment._replace(length=len(segment.payload) + more) for segment, more in items]
    reassembler = Reassembler(start_window=start_window, max_held=8_000, max_recent=8_000, max_connections=2)
    position: dict[tuple[int, Direction], int] = {}
    ended = set()
    for event in run(segments, reassembler):
        if isinstance(event, Opened):
            assert (event.connection.number, UP) not in position
            position[event.connection.number, UP] = position[event.connection.number, DOWN] = 0
            continue
        key = (event.connection.number, event.direction)
        if isinstance(event, Chunk):
            assert event.offset == position[key]
            assert event.data
            position[key] += len(event.data)
        elif isinstance(event, Ended):
            assert key not in ended
            assert event.offset == position[key]
            ended.add(key)
        elif event.code in (FindingCode.GAP, FindingCode.CUT):
            assert event.offset == position[key]
            assert event.length > 0
            position[key] += event.length
    assert ended == set(position)
    assert reassembler.held == 0


# From the file to the events


def file_of(segments: Iterable[Segment]) -> bytes:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for i, s in enumerate(segments, 1):
        writer.write_packet(
            i * 10, build_ipv4_tcp(s.source, s.destination, s.sequence, s.acknowledgement, s.flags, s.payload)
        )
    return file.getvalue()


def events_of(data: bytes) -> list[Event]:
    return list(stream_events(PcapngReader(io.BytesIO(data))))


def test_same_judge_a_file_gives_the_events_of_its_segments() -> None:
    _, segments = many_turns()
    assert events_of(file_of(segments)) == run(segments)


def test_every_cut_of_a_file_keeps_the_findings_of_whole_packets() -> None:
    _, segments = many_turns()
    segments = segments[:7] + segments[8:]  # with a gap
    data = file_of(segments)
    stops = [len(file_of(segments[:n])) for n in range(len(segments) + 1)]
    for cut in range(stops[0], len(data)):
        found = events_of(data[:cut])
        kept = sum(1 for stop in stops[1:] if stop <= cut)
        truncated = [e for e in found if isinstance(e, Truncated)]
        assert len(truncated) == (0 if cut in stops else 1)
        assert [e for e in found if not isinstance(e, Truncated)] == run(segments[:kept])


def test_packets_that_cannot_be_read_are_findings_and_others_nothing() -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    good = build_ipv4_tcp(CLIENT, SERVER, 1, 2, 0, b"x")
    writer.write_packet(1, b"\x50" + bytes(60))
    writer.write_packet(2, good[:9] + b"\x11" + good[10:])
    writer.write_packet(3, good)
    found = events_of(file.getvalue())
    assert found[0] == PacketFinding("malformed", 1, 1, "IP version: expected 4 or 6, got 5")
    assert sum(isinstance(e, PacketFinding) for e in found) == 1
    assert stream(found) == b"x"


def test_a_broken_file_gives_its_packets_events_before_the_error() -> None:
    _, segments = many_turns()
    events: list[Event] = []
    broken = file_of(segments) + b"\1\0\0\0\7\0\0\0\0\0\0\0"
    with pytest.raises(CaptureError, match="block length"):
        events.extend(stream_events(PcapngReader(io.BytesIO(broken))))  # takes what comes before the error
    assert events == run(segments)
