"""Processes that share a file tell what one alone tells, to the byte, whatever lies in the file and in which order."""

from __future__ import annotations

import gzip
import io
import json
import os
from functools import cache
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture import parallel, sharing
from pp1wire.capture._shares import Share
from pp1wire.capture.findings import ExitStatus, Severity
from pp1wire.capture.packets import Endpoint
from pp1wire.capture.pcapng import CapturedPacket, PcapngReader
from pp1wire.capture.sharing import is_shared, judge_part, merge_parts
from pp1wire.capture.validate import validate
from tests.capture.golden import capture, golden
from tests.capture.packing import CLIENT, SERVER, ipv4, pcap
from tests.capture.roce_wire import conversation as roce_conversation

TALKS = (golden(), golden(fault=True))
OTHER = [(golden().sent[0][0], b"GET / HTTP/1.1\r\n\r\n" * 20)]


@cache
def packets(number: int, kind: int, end: str) -> list[bytes]:
    """Those of one connection."""
    sent = OTHER if kind == 2 else TALKS[kind].sent
    file = capture(sent, end=end, client=(f"10.0.{number}.1", 40_000 + number), piece=700)
    return [bytes(p.data) for p in PcapngReader(io.BytesIO(file)) if isinstance(p, CapturedPacket)]


def in_fragments(packet: bytes, identification: int) -> list[bytes]:
    ends = Endpoint(packet[12:16], 0), Endpoint(packet[16:20], 0)
    body = packet[20:]
    cut = max(len(body) // 2 // 8 * 8, 8)
    parts = [(0, body[:cut], len(body) > cut), *([(cut, body[cut:], False)] if len(body) > cut else [])]
    return [ipv4(data, identification=identification, offset=at, more=more, ends=ends) for at, data, more in parts]


JUNK = (
    b"",
    b"\x45",
    b"\x99" * 40,
    ipv4(b"\1" * 30, protocol=1),
    ipv4(b"\0" * 8, protocol=17),
    ipv4(bytes(12) + b"\x10\x00" + bytes(6)),  # a TCP header that is too short
    ipv4(bytes(12) + b"\xf0\x00" + bytes(6)),  # or longer than the packet
    ipv4(b"part of a datagram that never comes"[:32], offset=0, more=True),
)


@st.composite
def captures(draw) -> bytes:
    numbers = count(1)
    streams: list[list[bytes]] = []
    for number in range(draw(st.integers(0, 5))):
        kind, end = draw(st.integers(0, 2)), draw(st.sampled_from(["close", "abort", "none"]))
        mine = [[packet] for packet in packets(number, kind, end)]
        start = draw(st.sampled_from([0, 0, 1, 3, 9]))  # joined late
        for _ in range(draw(st.integers(0, 3))):
            at = draw(st.integers(0, len(mine) - 1))
            match draw(st.sampled_from(["lose", "repeat", "fragment", "cut", "spoil", "swap"])):
                case "lose":
                    mine[at] = []
                case "repeat":
                    mine[at] = mine[at] * 2
                case "fragment":
                    mine[at] = [part for p in mine[at] for part in in_fragments(p, next(numbers))]
                case "cut":
                    mine[at] = [p[: len(p) // 2] for p in mine[at]]
                case "spoil":
                    mine[at] = [p[:-1] + bytes([p[-1] ^ 1]) for p in mine[at]]
                case "swap":
                    mine[at : at + 2] = mine[at : at + 2][::-1]
        stream = [packet for pieces in mine[start:] for packet in pieces]
        if draw(st.booleans()):
            stream += packets(number, draw(st.integers(0, 2)), "none")  # the same ports again
        streams.append(stream)
    if draw(st.booleans()):
        streams.append([p for _, p in roce_conversation(TALKS[1].sent, handshake=draw(st.booleans()))])
    streams.append(draw(st.lists(st.sampled_from(JUNK), max_size=4)))
    rnd = draw(st.randoms(use_true_random=False))
    order: list[bytes] = []
    streams = [stream for stream in streams if stream]
    together = draw(st.booleans())
    while streams:
        stream = rnd.choice(streams) if together else streams[0]
        taken = rnd.randint(1, 5)
        order += stream[:taken]
        del stream[:taken]
        streams = [stream for stream in streams if stream]
    file = pcap(
        [(1_700_000_000_000_000_000 + 1000 * i, packet, max(len(packet), 60)) for i, packet in enumerate(order)]
    )
    return file[: len(file) - draw(st.sampled_from([0, 0, 0, 1, 30]))]


def text(result) -> str:
    return json.dumps(result.to_json())


@settings(max_examples=60, deadline=None)
@given(captures(), st.integers(1, 4), st.sampled_from([0, 1, 3, 1000]), st.sampled_from([(), (9000, 9009)]))
def test_parts_make_up_the_report_of_one(tmp_path_factory, file, processes, most, ports) -> None:
    path = tmp_path_factory.getbasetemp() / "shared.pcap"
    path.write_bytes(file)
    parts = [judge_part(str(path), i, processes, max_findings=most, ports=ports) for i in range(processes)]
    whole = validate([path], max_findings=most, ports=ports)
    assert text(merge_parts(parts, most)) == text(whole)


def many(connections: int, faulty: int) -> bytes:
    file = [packets(n, int(n % faulty == 0), "close") for n in range(connections)]
    return pcap([(10**18 + i, p) for i, p in enumerate(p for stream in file for p in stream)])


def test_every_process_has_work_and_none_has_anothers(tmp_path) -> None:
    path = tmp_path / "run.pcap"
    path.write_bytes(many(6, 2))
    parts = [judge_part(str(path), i, 3) for i in range(3)]
    assert [part.summary.connections for part in parts] == [2, 2, 2]
    whole = validate([path])
    assert [part.summary.rounds for part in parts] == [whole.summary.rounds // 3] * 3
    found = merge_parts(parts, 1000)
    assert [f.connection for f in found.findings if f.severity is Severity.INVALID] == [1, 3, 5]


def test_connections_beyond_those_dealt_out_are_told_apart_too(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pp1wire.capture._shares._DEALT", 2)
    path = tmp_path / "run.pcap"
    path.write_bytes(many(12, 3))
    parts = [judge_part(str(path), i, 2) for i in range(2)]
    assert all(part.summary.connections > 2 for part in parts)
    assert text(merge_parts(parts, 1000)) == text(validate([path]))
    shares = [Share(i, 3) for i in range(3)]
    for n in range(200):
        one = CLIENT.address + SERVER.address + n.to_bytes(2, "big") + b"\0\1"
        two = SERVER.address + CLIENT.address + b"\0\1" + n.to_bytes(2, "big")
        assert [share.owns(one) for share in shares].count(True) == 1
        assert [share.owns(one) for share in shares] == [share.owns(two) for share in shares]
        assert len(shares[0]._own) <= 4


@pytest.mark.parametrize("content", [b"", b"what?", gzip.compress(many(3, 2)), gzip.compress(many(3, 2))[:-40]])
def test_other_files_come_out_alike(tmp_path, content) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    parts = [judge_part(str(path), i, 2) for i in range(2)]
    assert text(merge_parts(parts, 1000)) == text(validate([path]))
    path.unlink()
    parts = [judge_part(str(path), i, 2) for i in range(2)]
    assert text(merge_parts(parts, 1000)) == text(validate([path]))


def test_a_raw_stream_is_judged_once(tmp_path) -> None:
    path = tmp_path / "stream"
    for talk in TALKS:
        path.write_bytes(b"".join(data for who, data in talk.sent if who is talk.sent[1][0]))
        parts = [judge_part(str(path), i, 2) for i in range(2)]
        assert text(merge_parts(parts, 1000)) == text(validate([path]))


def test_a_file_that_changes_is_told(tmp_path) -> None:
    path = tmp_path / "run"
    path.write_bytes(many(2, 3))
    first = judge_part(str(path), 0, 2)
    path.write_bytes(many(3, 4))
    result = merge_parts([first, judge_part(str(path), 1, 2)], 1000)
    assert result.status in (ExitStatus.UNREADABLE, ExitStatus.INVALID)
    assert result.findings[-1].message.startswith("read differently by the processes that share it: ")
    path.unlink()
    result = merge_parts([first, judge_part(str(path), 1, 2)], 1000)
    assert result.findings[-1].message.endswith("0 bytes, 0 packets, then cannot open: No such file or directory")


def test_what_is_worth_sharing(tmp_path, monkeypatch) -> None:
    small, large, pipe = tmp_path / "small", tmp_path / "large", tmp_path / "pipe"
    small.write_bytes(b"x")
    with large.open("wb") as file:
        file.truncate(8 << 20)
    os.mkfifo(pipe)
    shared = [
        is_shared(str(name)) for name in (small, large, pipe, tmp_path, tmp_path / "none", f"file://{large}", "a\0")
    ]
    assert shared == [False, True, False, False, False, False, False]


def test_processes_give_the_report_of_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sharing, "_WORTH", 1)
    path, other = tmp_path / "run.pcap", tmp_path / "other.pcap"
    path.write_bytes(many(5, 2))
    other.write_bytes(many(4, 3))
    told = []
    monkeypatch.setattr("pp1wire.capture.sources._TELL_EVERY", 1000)
    shared = validate([path], jobs=2, progress=lambda *a: told.append(a))
    assert text(shared) == text(validate([path]))
    names = [path, other, tmp_path / "missing"]
    assert text(validate(names, jobs=7)) == text(validate(names))


def test_a_killed_process_costs_the_shared_file_alone(tmp_path, monkeypatch) -> None:
    path, pipe = tmp_path / "run.pcap", tmp_path / "pipe"
    path.write_bytes(many(3, 2))
    monkeypatch.setattr(parallel, "is_shared", lambda name: name == str(path))
    original = parallel._hand

    def hand(job, work):
        original(job, work)
        if work.index == 1:
            job.process.kill()

    monkeypatch.setattr(parallel, "_hand", hand)
    result = validate([path, pipe], jobs=4)
    assert [f.message for f in result.findings] == [
        "a process that judged it was ended by signal 9",
        "cannot open: No such file or directory",
    ]


def alike(path, file: bytes, processes: int = 2) -> None:
    path.write_bytes(file)
    parts = [judge_part(str(path), i, processes) for i in range(processes)]
    assert text(merge_parts(parts, 1000)) == text(validate([path]))


@pytest.mark.parametrize("processes", [2, 3])
def test_connections_whose_start_is_settled_at_the_end_are_numbered_by_their_last_packets(tmp_path, processes) -> None:
    late = [packets(n, n % 2, "none")[3:20] for n in range(4)]  # without handshakes, and too few to be settled before
    order = [p for stream in late for p in stream[:-1]] + [stream[-1] for stream in late[::-1]]
    roce = [p for _, p in roce_conversation(TALKS[1].sent[:6], handshake=False, goodbye=False)][:20]
    forwards = [p for stream in late for p in stream]
    for mixed in (order, roce + order, order + roce, roce + forwards):
        alike(tmp_path / "run.pcap", pcap([(10**18 + i, p) for i, p in enumerate(mixed)]), processes)


def test_rocev2_that_needs_a_full_look_is_judged_once(tmp_path) -> None:
    def with_options(packet: bytes) -> bytes:
        total = (len(packet) + 4).to_bytes(2, "big")
        return b"\x46" + packet[1:2] + total + packet[4:20] + b"\1\1\1\0" + packet[20:]

    sent = roce_conversation(TALKS[1].sent)
    assert all(packet[0] == 0x45 for _, packet in sent)
    file = pcap([(time_ns, with_options(packet)) for time_ns, packet in sent])
    alike(tmp_path / "run.pcap", file)
    assert validate([tmp_path / "run.pcap"]).summary.connections == 1
