"""RoCEv2 connections: streams in order, directions that belong together, gaps by packet, and the same judge as for TCP."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.events import Chunk, Ended, EndReason, Event, FindingCode, Opened, StreamFinding
from pp1wire.capture.events import Direction as Way
from pp1wire.capture.findings import ExitStatus, Severity
from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import Skipped
from pp1wire.capture.roce import RoceReassembler
from pp1wire.capture.show import show_file
from pp1wire.capture.validate import Validator
from tests.capture import roce_wire as wire
from tests.capture.golden import VERIFIER, WORKER, capture, flip_row, golden, open_talk
from tests.capture.packing import captured, pcap
from tests.capture.roce_wire import DOWN, UP, Link, conversation

TALK = golden()
FAULTY = golden(fault=True)


def judged(packets, **options):
    validator = Validator(**options)
    validator.add(io.BytesIO(packets if isinstance(packets, bytes) else pcap(packets, nano=True)), "capture")
    return validator.result


def codes(result):
    return [f.code for f in result.findings]


def said(finding):
    return finding.severity, finding.code, finding.direction, finding.offset, finding.message


def run(packets, reassembler: RoceReassembler | None = None) -> list[Event]:
    reassembler, layers, events = reassembler or RoceReassembler(), Layers(), []
    for number, (time_ns, data) in enumerate(packets, 1):
        found = layers.add(captured(data, number, time_ns=time_ns))
        if not isinstance(found, Skipped):
            events += reassembler.add(number, time_ns, found)
    events += reassembler.finish()
    assert reassembler.held == 0
    return events


def stream(events, way: Way = Way.TO_SERVER) -> bytes:
    data = b""
    for event in events:
        if isinstance(event, Chunk) and event.direction is way:
            assert event.offset == len(data)
            data += event.data
    return data


def findings(events):
    return [(e.code, e.direction, e.offset, e.length) for e in events if isinstance(e, StreamFinding)]


def numbered(link: Link, data) -> list[tuple[int, bytes]]:
    for packet in data:
        link.put(packet)
    return link.packets


@pytest.mark.parametrize("mtu", [48, 256, 4096])
@pytest.mark.parametrize("acks", [True, False], ids=["acknowledged", "without acknowledgements"])
def test_honest_a_connection_with_its_handshake_is_valid(mtu, acks) -> None:
    result = judged(conversation(TALK.sent, mtu=mtu, acks=acks))
    assert (result.status, result.findings) == (ExitStatus.VALID, [])
    counters, summary = TALK.verifier.counters, result.summary
    assert (summary.proposals, summary.commits, summary.rows) == (counters.proposals, counters.commits, counters.rows)
    assert summary.bytes == {str(who): len(TALK.stream(who)) for who in (VERIFIER, WORKER)}
    assert summary.connections == 1


def test_same_judge_and_summary_as_of_tcp() -> None:
    one, two = judged(capture(TALK.sent)).summary.to_json(), judged(conversation(TALK.sent)).summary.to_json()
    for varies in ("packets", "latencies", "span_ns"):
        del one[varies], two[varies]
    assert one == two


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_same_judge_any_changed_byte_is_found_as_in_tcp(data) -> None:
    at = data.draw(st.integers(1, len(TALK.sent) - 1))
    who, content = TALK.sent[at]
    byte = data.draw(st.integers(0, len(content) - 1))
    sent = list(TALK.sent)
    sent[at] = (who, content[:byte] + bytes([content[byte] ^ 0x10]) + content[byte + 1 :])
    one, two = judged(capture(sent)), judged(conversation(sent, mtu=128))
    assert [(*said(f), f.path, f.scope) for f in one.findings] == [(*said(f), f.path, f.scope) for f in two.findings]
    assert one.findings


@given(st.data(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_order_of_packets_with_their_times_gives_the_same_report(data, handshake) -> None:
    packets = conversation(TALK.sent, mtu=400, handshake=handshake, goodbye=handshake)
    assert len(packets) < 60
    whole = judged(packets)
    places = list(range(len(packets)))
    more = data.draw(st.lists(st.sampled_from(places), max_size=5))
    mixed = judged([packets[place] for place in data.draw(st.permutations(places + more))])
    assert [f[:4] for f in map(said, mixed.findings)] == [f[:4] for f in map(said, whole.findings)]
    one, two = whole.summary.to_json(), mixed.summary.to_json()
    del one["packets"], two["packets"]
    assert one == two


@pytest.mark.parametrize("acks", [True, False], ids=["acknowledged", "without acknowledgements"])
def test_gaps_drop_any_packet_and_the_findings_up_to_it_stay_the_same(acks) -> None:
    packets = conversation(FAULTY.sent, mtu=300, acks=acks)
    whole = judged(packets)
    (fault,) = [f for f in whole.findings if f.severity is Severity.INVALID]
    assert (fault.code, fault.scope) == ("body_checksum_mismatch", "proposal")
    dropped = 0
    # Without acknowledgements nothing shows that the last packet of a direction was there.
    for number in range(fault.packet + 3, len(packets) - (1 if acks else 4)):
        result = judged(packets[: number - 1] + packets[number:])
        gaps = [f for f in result.findings if f.code == "gap"]
        if not gaps:
            assert [said(f) for f in result.findings] == [said(f) for f in whole.findings]
            continue  # it was an acknowledgement
        dropped += 1
        (gap,) = gaps
        assert (gap.length, gap.message[-54:]) == (1, "not in the capture; offsets behind count each as one byte"[-54:])
        at = result.findings.index(gap)
        assert [said(f) for f in result.findings[:at]] == [said(f) for f in whole.findings]
        assert {f.code for f in result.findings[at + 1 :]} <= {"resumed"}
        assert sum(f.severity is Severity.INVALID for f in result.findings) == 1
    assert dropped > 10


@pytest.mark.parametrize("handshake", [True, False])
def test_gaps_alone_and_late_beginnings_are_incomplete_and_never_invalid(handshake) -> None:
    packets = conversation(TALK.sent, mtu=300, handshake=handshake)
    for number in range(len(packets)):
        for some in (packets[:number] + packets[number + 1 :], packets[number:], packets[:number]):
            result = judged(some)
            assert Severity.INVALID not in {f.severity for f in result.findings}, number
            if len(some) < len(packets) - 1:
                assert result.status is ExitStatus.INCOMPLETE


def test_every_cut_gives_the_findings_of_the_whole_packets_and_one_truncated() -> None:
    packets = conversation(TALK.sent[:6])
    data = pcap(packets, nano=True)
    bounds, at = [24], 24
    for _, packet in packets:
        at += 16 + len(packet)
        bounds.append(at)
    for cut in range(25, len(data), 31):
        whole = sum(bound <= cut for bound in bounds) - 1
        result = judged(data[:cut])
        truncated = [f for f in result.findings if f.code == "truncated" and f.connection is None]
        assert len(truncated) == (cut not in bounds)
        rest = [said(f) for f in result.findings if f not in truncated]
        assert rest == [said(f) for f in judged(packets[:whole]).findings]


def test_honest_without_its_handshake_a_connection_is_judged_whole_and_its_ends_are_told_as_missing() -> None:
    result = judged(conversation(TALK.sent, handshake=False, goodbye=False))
    assert codes(result) == ["mid_stream", "mid_stream", "unfinished", "unfinished"]
    assert result.summary.proposals == TALK.verifier.counters.proposals
    assert result.findings[0].endpoints == "10.0.0.1 queue pair 17 → 10.0.0.2 queue pair 34"


@pytest.mark.parametrize("way", [UP, DOWN], ids=["verifier", "worker"])
def test_honest_one_direction_alone_is_incomplete(way) -> None:
    link = Link(acks=False)
    for who, data in TALK.sent:
        if who is way:
            link.send(way, data)
    result = judged(link.packets)
    assert result.status is ExitStatus.INCOMPLETE
    assert "one_way" in codes(result)
    assert result.summary.bytes[str(way)] == len(TALK.stream(way))


def test_honest_snapshot_cuts_are_cuts_of_known_length() -> None:
    packets = conversation(TALK.sent, mtu=300)
    data = pcap([(t, p[:200], len(p)) for t, p in packets], nano=True)
    result = judged(data)
    assert result.status is ExitStatus.INCOMPLETE
    cut = next(f for f in result.findings if f.code == "cut")
    assert (cut.offset, cut.length) == (200 - 40, 300 - (200 - 40))
    assert set(codes(result)) <= {"cut", "resumed", "unjudged", "one_way", "unfinished"}


def test_a_fault_names_its_packet_and_time() -> None:
    talk = open_talk()
    session = talk.verifier.open([1, 2], 9)
    talk.verifier.step(session, 0.0, depth=3)
    talk.up()
    talk.answer_all()
    talk.sent.append((WORKER, flip_row(talk.worker.data_to_send())))
    packets = conversation(talk.sent, mtu=4096)
    (fault,) = [f for f in judged(packets).findings if f.severity is Severity.INVALID]
    # The handshake takes 3 packets, each exchange one and its acknowledgement.
    assert fault.packet == 3 + 2 * (len(talk.sent) - 1) + 1
    assert fault.time_ns == packets[fault.packet - 1][0]


# Streams


def test_sequence_numbers_wrap() -> None:
    link = Link(psns={UP: 2**24 - 2, DOWN: 0}, mtu=4)
    link.handshake()
    link.send(UP, bytes(range(40)))
    assert stream(run(link.packets)) == bytes(range(40))


def test_repetitions_are_dropped_and_contradictions_are_conflicts_where_the_first_is_kept() -> None:
    for late in (False, True):  # captured behind the end of the stream, or before it comes out
        link = Link(mtu=8, psns={UP: 9, DOWN: 5})
        link.handshake()
        link.send(UP, b"question")
        if late:
            link.send(DOWN, b"answer")
            link.send(UP, b"more")
            link.send(DOWN, b"more")
        link.put(wire.packet(UP, wire.ONLY, 0x22, 9, b"question"))
        assert findings(run(link.packets)) == []
        link.put(wire.packet(UP, wire.ONLY, 0x22, 9, b"quXXtion"))
        events = run(link.packets)
        assert findings(events) == [(FindingCode.CONFLICT, Way.TO_SERVER, 2, 2)]
        assert stream(events) == b"question" + (b"more" if late else b"")
        link.packets[-1] = (link.time, wire.packet(UP, wire.ONLY, 0x22, 9, b"question and more"))
        assert findings(run(link.packets)) == [(FindingCode.CONFLICT, Way.TO_SERVER, 8, 9)]


def test_other_operations_take_up_their_numbers_and_leave_no_gap() -> None:
    link = Link(psns={UP: 0, DOWN: 50}, acks=False)
    link.handshake()
    link.send(UP, b"one")
    up, down = 0x22, 0x11
    for way, opcode, pair, psn in (
        (UP, wire.WRITE_ONLY, up, 1), (UP, wire.READ, up, 2), (DOWN, wire.READ_FIRST, down, 2),
        (DOWN, wire.READ_MIDDLE, down, 3), (DOWN, wire.READ_LAST, down, 4), (UP, wire.COMPARE, up, 5),
    ):  # fmt: skip
        link.put(wire.packet(way, opcode, pair, psn, bytes(32)))
    link.psns[UP] = 6
    link.send(DOWN, b"answer")
    link.send(UP, b"two")
    events = run(link.packets)
    assert findings(events) == []
    assert (stream(events), stream(events, Way.TO_CLIENT)) == (b"onetwo", b"answer")


@pytest.mark.parametrize(
    ("distance", "code"),
    [((1 << 20) - 1, FindingCode.GAP), (1 << 20, FindingCode.OUTSIDE_WINDOW), (1 - (1 << 20), None),
     (-(1 << 20), FindingCode.OUTSIDE_WINDOW), (1 << 23, FindingCode.OUTSIDE_WINDOW)],
)  # fmt: skip
def test_caps_reached_a_number_far_away_belongs_to_no_place(distance, code) -> None:
    link = Link(psns={UP: 100, DOWN: 0})
    link.handshake()
    link.put(wire.packet(UP, wire.ONLY, 0x22, 100 + distance, b"far"))
    events = run(link.packets)
    assert [f[0] for f in findings(events)] == ([] if code is None else [code])
    assert [bytes(e.data) for e in events if isinstance(e, Chunk)] == ([b"far"] if code is FindingCode.GAP else [])


def test_acknowledged_packets_that_are_missing_are_a_gap_where_they_were_received() -> None:
    link = Link(psns={UP: 0, DOWN: 0}, mtu=8)
    link.handshake()
    link.send(UP, b"one")
    link.send(DOWN, b"before")
    lost = len(link.packets)
    link.send(UP, b"lost")
    link.send(DOWN, b"behind")
    link.goodbye()
    events = run(link.packets[:lost] + link.packets[lost + 1 :])
    told = [e.data if isinstance(e, Chunk) else e.code for e in events if isinstance(e, Chunk | StreamFinding)]
    assert told == [b"one", b"before", FindingCode.GAP, b"behind"]


@pytest.mark.parametrize("late", [True, False], ids=["captured late", "a clock that steps back"])
def test_any_order_what_was_sent_before_a_packet_comes_out_before_its_answer(late) -> None:
    """The question's first packet has a later time than the answer, but is followed by one with an earlier time."""
    link = Link(psns={UP: 0, DOWN: 0}, acks=False)
    link.handshake()
    sent = [
        (30, wire.packet(UP, wire.FIRST, 0x22, 0, b"one")),
        (10, wire.packet(UP, wire.LAST, 0x22, 1, b"two")),
        (20, wire.packet(DOWN, wire.ONLY, 0x11, 0, b"answer")),
    ]
    order = sorted(sent) if late else sent
    later = [wire.packet(UP, wire.ONLY, 0x22, 2, b"more"), wire.packet(DOWN, wire.ONLY, 0x11, 1, b"more")]
    behind = [(40 + n, p) for n, p in enumerate(later)]
    events = run([*link.packets, *((link.time + t, p) for t, p in order + behind)])
    assert [bytes(e.data) for e in events if isinstance(e, Chunk)] == [b"one", b"two", b"answer", b"more", b"more"]


def test_a_disconnect_ends_both_directions_and_its_absence_leaves_them_open() -> None:
    for goodbye, reason in ((True, EndReason.FIN), (False, EndReason.MISSING)):
        events = run(conversation([(UP, b"one"), (DOWN, b"two")], goodbye=goodbye))
        assert {e.direction: (e.reason, e.offset) for e in events if isinstance(e, Ended)} == {
            Way.TO_SERVER: (reason, 3), Way.TO_CLIENT: (reason, 3),
        }  # fmt: skip


def test_queue_pairs_used_again_are_another_connection() -> None:
    first, second = Link(psns={UP: 100, DOWN: 200}), Link(psns={UP: 7000, DOWN: 8000})
    for link, word in ((first, b"old"), (second, b"new")):
        link.handshake()
        link.send(UP, word)
    second.packets = [(time + 10**9, p) for time, p in second.packets]
    # The same handshake message again is none.
    events = run([*first.packets, first.packets[1], *second.packets])
    assert [bytes(e.data) for e in events if isinstance(e, Chunk)] == [b"old", b"new"]
    assert [e.connection.number for e in events if isinstance(e, Opened)] == [1, 2]
    assert findings(events) == []


# Which directions belong together


def several(count: int, *, psn_step: int, port_step: int, acks: bool = True) -> list[tuple[int, bytes]]:
    """Conversations between the same hosts without handshakes, mixed packet by packet."""
    links = []
    for n in range(count):
        psns = {UP: 1000 + n * psn_step, DOWN: 5_000_000 + n * psn_step}
        link = Link(pairs=(0x10 + n, 0x90 + n), psns=psns, port=50_000 + n * port_step, acks=acks, time=wire.NOW + n)
        for who, data in TALK.sent:
            link.send(who, data)
        links.append(link)
    return sorted(p for link in links for p in link.packets)


@pytest.mark.parametrize(
    ("steps", "acks"), [((100_000, 0), True), ((0, 1), True), ((0, 1), False), ((100_000, 1), True)],
    ids=["by acknowledgements", "by ports", "by ports alone", "by both"],
)  # fmt: skip
def test_directions_that_belong_together_are_found_without_a_handshake(steps, acks) -> None:
    result = judged(several(3, psn_step=steps[0], port_step=steps[1], acks=acks))
    assert sorted(set(codes(result))) == ["mid_stream", "unfinished"]
    assert result.summary.proposals == 3 * TALK.verifier.counters.proposals
    ends = {f.endpoints for f in result.findings}
    assert ends == {f"10.0.0.1 queue pair {0x10 + n} → 10.0.0.2 queue pair {0x90 + n}" for n in range(3)}


def test_honest_directions_that_cannot_be_told_apart_are_not_put_together() -> None:
    result = judged(several(3, psn_step=0, port_step=0))
    assert Severity.INVALID not in {f.severity for f in result.findings}
    assert result.status is ExitStatus.INCOMPLETE
    assert (codes(result).count("one_way"), result.summary.connections) == (6, 6)


def test_honest_directions_of_two_connections_are_not_put_together() -> None:
    """Only one direction of each is there, and its acknowledgements are of packets that are not."""
    packets = []
    for n, way in enumerate((UP, DOWN)):
        link = Link(pairs=(0x10 + n, 0x90 + n), psns={UP: 1000 + n * 100_000, DOWN: 5_000_000 + n * 100_000})
        for who, data in TALK.sent:
            link.send(who, data)
        address = wire.ENDS[way][0].address
        packets += [(time_ns, p) for time_ns, p in link.packets if p[12:16] == address]
    result = judged(sorted(packets))
    assert (codes(result).count("one_way"), result.summary.connections) == (2, 2)
    assert Severity.INVALID not in {f.severity for f in result.findings}


def test_unknown_operations_are_a_note_and_counted() -> None:
    packets = [(n, wire.packet(UP, 0x24, 7, n, bytes(8))) for n in range(5)]
    result = judged(conversation(TALK.sent) + packets)
    assert result.status is ExitStatus.VALID
    assert [(f.severity, f.code) for f in result.findings] == [(Severity.NOTE, "not_send")]
    assert result.summary.skipped_packets == {"not_send": 5}
    result = judged(packets)
    assert codes(result) == ["not_send", "no_pp1"]
    assert list(show_file(io.BytesIO(pcap(packets)), "capture")) == []


def test_tcp_and_roce_of_one_file_have_numbers_of_their_own() -> None:
    tcp = [(p.time_ns, bytes(p.data)) for p in packets_of(capture(TALK.sent))]
    result = judged(tcp + conversation(TALK.sent))
    assert (result.status, result.summary.connections) == (ExitStatus.VALID, 2)
    shown = list(show_file(io.BytesIO(pcap(tcp + conversation(TALK.sent), nano=True)), "capture"))
    assert {s.connection for s in shown} == {1, 2}
    assert {s.kind for s in shown} == {"frame"}


def packets_of(data: bytes):
    from pp1wire.capture.pcapng import PcapngReader

    return PcapngReader(io.BytesIO(data))


# Memory


@pytest.mark.parametrize("kind", ["one direction", "a hole", "one direction without its handshake", "many"])
def test_caps_reached_memory_is_bounded(kind) -> None:
    reassembler = RoceReassembler(max_held=1 << 20, max_recent=1 << 18, max_connections=64)
    layers, total, size = Layers(), 0, 5_000
    head = [p for _, p in conversation([], goodbye=False)] if "without" not in kind else []
    tracemalloc.start()
    for n in range(size):
        pair = 0x22 + (n if kind == "many" else 0)
        psn = 2**24 - 3 + n + (n > 50 and kind == "a hole")
        data = head[n] if n < len(head) else wire.packet(UP, wire.ONLY, pair, psn - len(head), bytes(1000))
        found = layers.add(captured(data, n + 1, time_ns=n))
        if not isinstance(found, Skipped):
            events = reassembler.add(n + 1, n, found)
            total += sum(len(e.data) for e in events if isinstance(e, Chunk))
        assert reassembler.held <= 1 << 20
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 << 20
    total += sum(len(e.data) for e in reassembler.finish() if isinstance(e, Chunk))
    assert total == 1000 * (size - len(head))
