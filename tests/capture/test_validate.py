"""Validation: what a capture shows is judged as the ends would judge it; what it does not show is said, and never invented."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.findings import ExitStatus, Severity
from pp1wire.capture.pcapng import CaptureError
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.report import finding_line, report_lines
from pp1wire.capture.text import printable, time_text
from pp1wire.capture.validate import Validator, status_of, validate
from pp1wire.protocol import Conversation, Verifier, Worker
from pp1wire.wire import CommitKind, FrameSplitter, Representation, encode
from pp1wire.wire.header import seal
from tests.capture.golden import CLIENT, NOW, SERVER, VERIFIER, WORKER, Talk, capture, flip_row, golden, open_talk
from tests.protocol.util import answer, offer, sha

SPARSE = golden()
DENSE = golden(Representation.DENSE, rounds=1)
HELLO = 376


def judged(data: bytes, **options):
    validator = Validator(**options)
    validator.add(io.BytesIO(data), "capture")
    return validator.result


def codes(result, *severities):
    return [f.code for f in result.findings if not severities or f.severity in severities]


def blocks(data: bytes) -> list[bytes]:
    """A pcapng file as its blocks: the section header, the interface, and one for each packet."""
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 4)
        found.append(data[at : at + length])
        at += length
    return found


def without(data: bytes, *numbers: int) -> bytes:
    """The file without these packets, counted from 1."""
    parts = blocks(data)
    return b"".join(part for index, part in enumerate(parts) if index - 1 not in numbers)


def said(finding):
    """A finding but for its packet and time, which a missing packet shifts."""
    return finding.severity, finding.code, finding.direction, finding.offset, finding.message


@pytest.mark.parametrize("talk", [SPARSE, DENSE], ids=["sparse", "dense"])
@pytest.mark.parametrize("piece", [None, 1, 7, 1448])
def test_a_right_conversation_is_valid_however_it_was_cut_into_packets(talk, piece) -> None:
    result = judged(capture(talk.sent, piece=piece))
    assert (result.status, result.findings) == (ExitStatus.VALID, [])
    assert status_of(result) == 0
    counters, summary = talk.verifier.counters, result.summary
    assert (summary.rounds, summary.proposals, summary.commits) == (
        counters.steps,
        counters.proposals,
        counters.commits,
    )
    assert (summary.tokens, summary.target_only, summary.rows) == (counters.tokens, 1, counters.rows)
    assert summary.committed == counters.committed
    assert summary.unanswered == 1  # the round that was cancelled
    assert summary.bytes == {str(who): len(talk.stream(who)) for who in (VERIFIER, WORKER)}
    assert summary.frames["hello"] == 2
    assert summary.frames["step"] == counters.steps
    assert summary.frames["reply"] == counters.rows
    assert (summary.connections, summary.skipped_connections, summary.unjudged_frames) == (1, 0, 0)
    assert summary.latencies["step_to_completion"].count == counters.proposals


def test_latencies_are_those_of_the_packets() -> None:
    talk = open_talk()
    session = talk.verifier.open([1], 5)
    drafted = talk.round(session, depth=2).tokens.tolist()
    talk.verifier.commit(session, 2, CommitKind.BONUS, [*drafted, 1])
    talk.up()
    file = io.BytesIO()
    connection = Recorder(file).open(CLIENT, SERVER, NOW)
    for (who, data), now in zip(talk.sent, [0, 10, 100, 130, 170], strict=True):
        (connection.client_sent if who is VERIFIER else connection.server_sent)(data, NOW + now)
    latencies = judged(file.getvalue()).summary.latencies
    assert latencies["step_to_first_row"].to_json() == {
        "count": 1, "least_ns": 30, "mean_ns": 30, "p50_ns": 30, "p90_ns": 30, "p99_ns": 30, "most_ns": 30,
        "buckets": [{"up_to_ns": 31, "count": 1}],
    }  # fmt: skip
    assert latencies["step_to_completion"].most == 30
    assert latencies["completion_to_commit"].most == 40


@pytest.mark.parametrize("talk", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_every_cut_gives_the_findings_of_the_whole_packets_and_one_truncated(talk) -> None:
    data = capture(talk.sent[:8], end="leave")
    starts = [sum(map(len, blocks(data)[:n])) for n in range(len(blocks(data)) + 1)]
    for cut in [*range(4, 600), *range(600, len(data), 53), len(data)]:
        whole = max(start for start in starts if start <= cut)
        result = judged(data[:cut])
        truncated = [f for f in result.findings if f.code == "truncated" and f.connection is None]
        assert len(truncated) == (cut not in starts)
        assert result.status is ExitStatus.INCOMPLETE
        rest = [said(f) for f in result.findings if f not in truncated]
        assert rest == [said(f) for f in (judged(data[:whole]).findings if whole else [])] or whole == 0
        for finding in truncated:
            assert finding.offset == whole
            assert finding.severity is Severity.INCOMPLETE


FAULTY = golden(fault=True)


@pytest.mark.parametrize("piece", [100, None])
def test_gaps_drop_any_segment_and_the_findings_up_to_it_stay_the_same(piece) -> None:
    data = capture(FAULTY.sent, piece=piece)
    whole = judged(data).findings
    (fault,) = [f for f in whole if f.severity is Severity.INVALID]
    assert (fault.code, fault.scope) == ("body_checksum_mismatch", "proposal")
    assert set(codes(judged(data), Severity.NOTE)) == {"stale_round"}
    dropped = 0
    for number in range(fault.packet + 5, len(blocks(data)) - 1):
        result = judged(without(data, number))
        gaps = [f for f in result.findings if f.code == "gap"]
        if not gaps:
            continue  # it carried no bytes
        dropped += 1
        (gap,) = gaps
        at = result.findings.index(gap)
        assert [said(f) for f in result.findings[:at]] == [said(f) for f in whole]
        assert result.status is ExitStatus.INVALID
        for finding in result.findings[at + 1 :]:
            assert (finding.code, finding.uncertain) == ("resumed", True)
            assert finding.offset >= gap.offset + gap.length
    assert dropped > 10


def test_gaps_alone_are_incomplete_and_resume_at_a_verified_header() -> None:
    data = capture(SPARSE.sent, piece=100)
    bounds = {who: {f.offset for f in frames_of(SPARSE, who)} for who in (VERIFIER, WORKER)}
    for number in range(4, len(blocks(data)) - 1):
        result = judged(without(data, number))
        assert Severity.INVALID not in {f.severity for f in result.findings}, number
        for finding in result.findings:
            if finding.code == "resumed":
                assert finding.offset in bounds[finding.direction]
        if "gap" in codes(result):
            assert result.status is ExitStatus.INCOMPLETE


def frames_of(talk, who):
    splitter = FrameSplitter(None, 0)
    data = talk.stream(who)
    frames = splitter.feed(data)
    splitter.agreement = talk.verifier.agreement
    return frames + splitter.feed(b"")


def test_rows_behind_a_gap_are_still_judged_by_themselves() -> None:
    sent = list(SPARSE.sent)
    replies = [i for i, (who, data) in enumerate(sent) if who is WORKER and len(data) > HELLO]
    last = replies[-1]
    sent[last] = (WORKER, flip_row(sent[last][1]))
    data = capture(sent)
    packet = next(f.packet for f in judged(data).findings if f.code == "body_checksum_mismatch")
    result = judged(without(data, packet - 6))
    assert result.status is ExitStatus.INVALID
    (fault,) = [f for f in result.findings if f.severity is Severity.INVALID]
    assert (fault.code, fault.direction, fault.uncertain) == ("body_checksum_mismatch", "worker", True)
    assert fault.packet == packet - 1


# The same judge


def online(sent, who, at, byte):
    """What the ends' own judge says of the conversation with one byte changed."""
    judge, verdicts = Conversation(), []
    for index, (sender, data) in enumerate(sent):
        if index == at:
            data = data[:byte] + bytes([data[byte] ^ 0x10]) + data[byte + 1 :]
        verdicts += judge.feed(sender, data)
    return [(v.error.code.name.lower(), v.error.offset, v.error.path, v.error.expected, v.error.actual, v.error.scope)
            for v in verdicts if v.error is not None]  # fmt: skip


@given(st.data())
@settings(max_examples=60)
def test_same_judge_any_changed_byte_is_found_as_online_with_its_packet(data) -> None:
    talk = data.draw(st.sampled_from([SPARSE, DENSE]))
    at = data.draw(st.integers(0, len(talk.sent) - 1))
    who, content = talk.sent[at]
    byte = data.draw(st.integers(0, len(content) - 1))
    sent = list(talk.sent)
    sent[at] = (who, content[:byte] + bytes([content[byte] ^ 0x10]) + content[byte + 1 :])
    piece = data.draw(st.sampled_from([None, 50, 333]))
    if sent[at][1][:4] != b"PP1W" and at == 0:
        return  # not PP1 any more; there is a test for that
    file = capture(sent, piece=piece)
    found = [f for f in judged(file, ports=[9009]).findings if f.path is not None and f.path != "frame"]
    expected = [e for e in online(talk.sent, who, at, byte) if e[2] != "frame"]
    assert [(f.code, f.offset, f.path, f.expected, f.actual, f.scope) for f in found] == expected
    assert expected
    where = carried(file)
    for finding in found:
        _, packet = max((s, n) for s, n in where[finding.direction] if s <= finding.offset)
        assert (finding.packet, finding.connection, finding.file) == (packet, 1, "capture")
        assert finding.time_ns is not None


def carried(file):
    """For each direction, (stream offset, packet number) of every packet with bytes."""
    where, ends = {"verifier": [], "worker": []}, {"verifier": 0, "worker": 0}
    for number, block in enumerate(blocks(file)[2:], 1):
        packet = block[28:-4]
        length = struct.unpack_from(">H", packet, 2)[0] - 20 - (packet[32] >> 4) * 4
        who = "verifier" if packet[12:16] == bytes([10, 0, 0, 1]) else "worker"
        if length:
            where[who].append((ends[who], number))
            ends[who] += length
    return where


def test_same_judge_as_the_verifier_itself() -> None:
    talk = open_talk()
    session = talk.verifier.open([1, 2], 9)
    talk.verifier.step(session, 0.0, depth=3)
    talk.up()
    talk.answer_all()
    data = flip_row(talk.worker.data_to_send())
    talk.sent.append((WORKER, data))
    (event,) = talk.verifier.receive(data, 0.0)
    assert event.reason == "body_checksum_mismatch"
    talk.up()
    result = judged(capture(talk.sent))
    assert result.status is ExitStatus.INVALID
    (fault,) = [f for f in result.findings if f.severity is Severity.INVALID]
    assert (fault.code, fault.scope, fault.offset) == (event.reason, "proposal", HELLO + 48)
    assert fault.identity == (session, 1, 1)
    assert result.summary.discards == {k: v for k, v in talk.verifier.counters.discards.items() if v}
    # The verifier judged what followed behind its own RESET, which the capture has behind it.
    assert sum(result.summary.stale.values()) == sum(talk.verifier.counters.dropped.values()) == 3


def test_stale_answers_and_refusals_are_notes() -> None:
    talk = open_talk()
    session = talk.verifier.open([1, 2], 9)
    talk.verifier.step(session, 0.0, depth=2)
    talk.up()
    talk.answer_all()
    late = talk.worker.data_to_send()
    talk.verifier.cancel(session)
    data = talk.verifier.data_to_send()
    talk.sent += [(VERIFIER, data), (WORKER, late)]
    result = judged(capture(talk.sent))
    assert result.status is ExitStatus.VALID
    assert codes(result) == ["stale_generation"] * 3
    assert {f.severity for f in result.findings} == {Severity.NOTE}
    assert result.summary.stale == {"stale_generation": 3}

    verifier, worker = Verifier(offer()), Worker(answer(target_sha256=sha(9)))
    verifier.start(0.0)
    asked = verifier.data_to_send()
    worker.receive(asked)
    result = judged(capture([(VERIFIER, asked), (WORKER, worker.data_to_send())]))
    assert (result.status, codes(result)) == (ExitStatus.VALID, ["hello_refused"])


def test_a_fault_of_connection_scope_is_told_once_and_the_rest_is_not_judged() -> None:
    sent = list(SPARSE.sent)
    who, data = sent[2]
    sent[2] = (who, data[:20] + b"\xff" + data[21:])  # in a header
    result = judged(capture(sent))
    assert codes(result, Severity.INVALID) == ["header_checksum_mismatch"]
    assert result.summary.faults == {"header_checksum_mismatch": 1}
    assert result.summary.unjudged_bytes == len(SPARSE.stream(who)) - result.findings[0].offset
    assert result.summary.unjudged_frames > 10


@pytest.mark.parametrize("end", ["close", "abort"])
def test_an_end_inside_a_frame_is_invalid_and_a_missing_end_is_not(end) -> None:
    sent = [*SPARSE.sent[:3], (WORKER, SPARSE.sent[3][1][:50])]
    result = judged(capture(sent, end=end))
    assert codes(result) == ["truncated"]
    (fault,) = result.findings
    end_of = sum(len(data) for who, data in sent if who is sent[-1][0])
    assert (fault.severity, fault.scope, fault.offset) == (Severity.INVALID, "connection", end_of)
    left = judged(capture(sent, end="leave"))
    assert left.status is ExitStatus.INCOMPLETE
    assert codes(left) == ["unfinished", "unfinished"]
    assert "50 bytes into a frame" in left.findings[1].message


# What a capture does not show


def test_honest_a_capture_from_the_middle_is_incomplete() -> None:
    data = capture(SPARSE.sent, piece=100)
    for first in range(4, len(blocks(data)) - 8, 3):
        result = judged(without(data, *range(1, first)))
        assert result.status is ExitStatus.INCOMPLETE, first
        assert set(codes(result)) <= {"mid_stream", "one_way", "resumed", "unjudged", "gap", "unfinished"}
    late = judged(without(data, *range(1, 40)))
    assert "unjudged" in codes(late)
    assert late.summary.unjudged_frames == sum(late.summary.frames.values()) > 10
    assert all(f.packet is not None for f in late.findings if f.code in ("resumed", "unjudged"))


def test_honest_a_capture_that_lacks_only_the_handshake_is_judged_whole() -> None:
    result = judged(without(capture(SPARSE.sent), 1, 2, 3))
    assert codes(result) == ["mid_stream", "mid_stream"]
    assert result.status is ExitStatus.INCOMPLETE
    assert result.summary.proposals == SPARSE.verifier.counters.proposals


@pytest.mark.parametrize("piece", [None, 60, 300])
def test_honest_a_capture_without_its_handshake_and_another_packet_is_incomplete(piece) -> None:
    """Also where the answer's first bytes are missing, behind a whole offer."""
    data = capture(SPARSE.sent[:6], piece=piece)
    for number in range(4, len(blocks(data)) - 1):
        result = judged(without(data, 1, 2, 3, number))
        assert result.status is ExitStatus.INCOMPLETE, number
        assert set(codes(result)) <= {"mid_stream", "one_way", "resumed", "unjudged", "gap", "unfinished"}


def test_roles_follow_what_is_said_where_nobody_saw_who_connected() -> None:
    # The lower port is guessed to be the server's; here it is the verifier's.
    data = capture(SPARSE.sent, client=("10.0.0.1", 80), server=("10.0.0.2", 50_000))
    for first in (4, 12):
        result = judged(without(data, *range(1, first)))
        assert Severity.INVALID not in {f.severity for f in result.findings}
        assert result.summary.frames["reply"] > 10
        assert result.summary.bytes["worker"] > result.summary.bytes["verifier"]


@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_honest_one_direction_of_a_connection(who) -> None:
    packets = carried(capture(SPARSE.sent))
    other = "worker" if who is VERIFIER else "verifier"
    result = judged(without(capture(SPARSE.sent), *[number for _, number in packets[other]]))
    assert result.status is ExitStatus.INCOMPLETE
    assert Severity.INVALID not in {f.severity for f in result.findings}
    assert "one_way" in codes(result)
    counters = SPARSE.verifier.counters
    if who is VERIFIER:
        assert (result.summary.tokens, result.summary.commits) == (counters.tokens, counters.commits)
    else:
        assert result.summary.rows == counters.rows


def test_snaplen_cut_packets_are_incomplete() -> None:
    parts = blocks(capture(SPARSE.sent))
    snapped = []
    for part in parts:
        if len(part) > 600 and part[0] == 6:
            (original,) = struct.unpack_from("<I", part, 24)
            body = part[8:20] + struct.pack("<II", 300, original) + part[28 : 28 + 300]
            part = struct.pack("<II", 6, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
        snapped.append(part)
    result = judged(b"".join(snapped))
    assert result.status is ExitStatus.INCOMPLETE
    assert "cut" in codes(result)
    assert Severity.INVALID not in {f.severity for f in result.findings}


# What is not PP1

HTTP = [
    (VERIFIER, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"),
    (WORKER, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nPP1W"),
]


def test_other_protocols_are_skipped_unless_their_port_is_named() -> None:
    result = judged(capture(HTTP))
    assert codes(result) == ["not_pp1", "no_pp1"]
    assert result.status is ExitStatus.INCOMPLETE
    assert result.summary.skipped_connections == 1
    named = judged(capture(HTTP), ports=[9009])
    assert (named.status, codes(named)) == (ExitStatus.INVALID, ["bad_magic"])
    assert (named.findings[0].offset, named.findings[0].packet) == (0, 4)


def test_other_protocols_beside_pp1_change_nothing_but_a_note() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    http = recorder.open(("10.0.0.3", 4444), SERVER, NOW)
    pp1 = recorder.open(CLIENT, SERVER, NOW)
    http.client_sent(HTTP[0][1], NOW)
    for who, data in SPARSE.sent:
        (pp1.client_sent if who is VERIFIER else pp1.server_sent)(data, NOW)
    http.server_sent(HTTP[1][1], NOW)
    pp1.close(NOW)
    http.close(NOW)
    idle = recorder.open(("10.0.0.4", 4444), SERVER, NOW)
    idle.close(NOW)
    result = judged(file.getvalue())
    assert (result.status, codes(result)) == (ExitStatus.VALID, ["not_pp1"])
    assert (result.summary.connections, result.summary.skipped_connections) == (1, 2)


def test_a_server_that_answers_an_offer_in_another_protocol_is_at_fault() -> None:
    result = judged(capture([SPARSE.sent[0], HTTP[1]]))
    assert codes(result, Severity.INVALID) == ["bad_magic"]
    assert result.findings[0].direction == "worker"
    result = judged(capture([HTTP[0], SPARSE.sent[1]]))
    assert codes(result, Severity.INVALID) == ["bad_magic"]
    assert result.findings[0].direction == "verifier"


def test_bytes_behind_an_unanswered_offer_are_early_only_if_the_worker_was_there() -> None:
    early = [(VERIFIER, SPARSE.sent[0][1] + SPARSE.sent[2][1])]
    assert codes(judged(capture(early)), Severity.INVALID) == ["data_before_agreement"]
    split = [SPARSE.sent[0], SPARSE.sent[2], SPARSE.sent[1]]
    assert codes(judged(capture(split)), Severity.INVALID) == ["data_before_agreement"]


# Raw streams


@pytest.mark.parametrize("talk", [SPARSE, DENSE], ids=["sparse", "dense"])
@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_a_raw_stream_is_judged_as_far_as_it_shows(talk, who) -> None:
    result = judged(talk.stream(who))
    assert (result.status, codes(result)) == (ExitStatus.VALID, ["one_way"])
    assert result.files[0].kind == "stream"
    assert result.summary.frames["hello"] == 1
    counters = talk.verifier.counters
    if who is VERIFIER:
        assert (result.summary.tokens, result.summary.rounds) == (counters.tokens, counters.steps)
    else:
        assert (result.summary.rows, result.summary.frames["completion"]) == (counters.rows, counters.proposals)
    assert result.summary.bytes[str(who)] == len(talk.stream(who))


@given(st.sampled_from([VERIFIER, WORKER]), st.integers(4, 10**6), st.integers(0, 7))
@settings(max_examples=60)
def test_a_raw_stream_with_any_bit_flipped_is_invalid_where_it_was_flipped(who, place, bit) -> None:
    stream = bytearray(SPARSE.stream(who))
    at = 4 + place % (len(stream) - 4)
    stream[at] ^= 1 << bit
    result = judged(bytes(stream))
    start = max(f.offset for f in frames_of(SPARSE, who) if f.offset <= at)
    (fault, *_) = [f for f in result.findings if f.severity is Severity.INVALID]
    assert start <= fault.offset < start + 64 or fault.code in ("unsupported_version", "truncated")
    assert result.status is ExitStatus.INVALID


@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_every_cut_of_a_raw_stream_is_truncated(who) -> None:
    stream = SPARSE.stream(who)
    ends = {f.offset + len(f.data) for f in frames_of(SPARSE, who)}
    for cut in [*range(4, 900), *range(900, len(stream), 37)]:
        result = judged(stream[:cut])
        expected = [] if cut in ends else ["truncated"]
        assert codes(result, Severity.INVALID) == expected, cut
        if expected:
            (fault,) = [f for f in result.findings if f.severity is Severity.INVALID]
            assert fault.offset == cut


def test_a_raw_stream_with_its_peer_is_judged_by_the_agreement(tmp_path) -> None:
    own, peer = tmp_path / "verifier", tmp_path / "worker"
    own.write_bytes(SPARSE.stream(VERIFIER))
    peer.write_bytes(SPARSE.stream(WORKER))
    for path, other in ((own, peer), (peer, own)):
        result = validate([path], peer=other)
        assert (result.status, codes(result)) == (ExitStatus.VALID, ["one_way"])

    peer.write_bytes(encode(answer(max_depth=2, representations=(Representation.SPARSE,)), None, 0))
    # The id in every frame is that of other HELLOs.
    assert codes(validate([own], peer=peer), Severity.INVALID) == ["agreement_mismatch"]
    peer.write_bytes(encode(answer(target_sha256=sha(9)), None, 0))
    assert codes(validate([own], peer=peer), Severity.INVALID) == ["target_mismatch"]
    with pytest.raises(CaptureError, match="cannot read"):
        validate([own], peer=tmp_path / "missing")
    peer.write_bytes(b"GET / HTTP/1.1")
    with pytest.raises(CaptureError, match="expected a HELLO"):
        validate([own], peer=peer)


def test_an_offer_of_both_representations_is_followed_by_what_the_first_step_shows() -> None:

    for prefer in Representation:
        talk = Talk(Verifier(offer(), step_timeout=None), Worker(answer(), prefer=prefer))
        talk.verifier.start(0.0)
        talk.up()
        talk.down()
        session = talk.verifier.open([3], 4)
        drafted = talk.round(session, depth=2).tokens.tolist()
        talk.verifier.commit(session, 2, CommitKind.BONUS, [*drafted, 1])
        talk.up()
        result = judged(talk.stream(VERIFIER))
        assert (result.status, codes(result)) == (ExitStatus.VALID, ["one_way"])
        assert result.summary.tokens == 3


def test_a_message_of_the_other_direction_in_a_raw_stream_is_told() -> None:
    stream = SPARSE.stream(WORKER)
    step = bytearray(next(bytes(f.data) for f in frames_of(SPARSE, VERIFIER) if f.header.message_type == 2))
    header = frames_of(SPARSE, VERIFIER)[3].header
    seal(step, 2, sequence=frames_of(SPARSE, WORKER)[-1].header.sequence + 1, agreement_id=header.agreement_id,
         session=1, slot=0, generation=1, round=1)  # fmt: skip
    assert codes(judged(stream + bytes(step)), Severity.INVALID) == ["wrong_direction"]


def test_a_raw_verifier_stream_that_skips_a_number_is_told() -> None:
    frames = frames_of(SPARSE, VERIFIER)
    stream = b"".join(bytes(f.data) for f in frames if f is not frames[1])
    result = judged(stream)
    assert [(f.code, f.offset) for f in result.findings if f.severity is Severity.INVALID] == [
        ("sequence_mismatch", HELLO + 8)
    ]


@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_a_fault_of_connection_scope_ends_a_raw_stream(who) -> None:
    frames = frames_of(SPARSE, who)
    stream = b"".join(bytes(f.data) for f in frames if f is not frames[4])
    result = judged(stream)
    assert codes(result, Severity.INVALID) == ["sequence_mismatch"]
    length = len(frames[5].data)
    assert 0 <= len(stream) - frames[4].offset - result.summary.unjudged_bytes <= length


# Files


def test_what_is_no_capture_is_unreadable_in_one_line(tmp_path) -> None:
    (tmp_path / "directory").mkdir()
    samples = {
        "empty": b"", "text": b"hello world", "pcap": b"\xd4\xc3\xb2\xa1" + bytes(20), "gzip": b"\x1f\x8b" + bytes(20),
        "short": b"\n", "order": b"\n\r\r\n" + bytes(24),
    }  # fmt: skip
    for name, data in samples.items():
        (tmp_path / name).write_bytes(data)
    for name in [*samples, "directory", "missing"]:
        result = validate([tmp_path / name])
        assert (result.status, codes(result)) == (ExitStatus.UNREADABLE, ["unreadable"]), name
        assert "\n" not in finding_line(result.findings[0])
    both = validate([tmp_path / "missing", tmp_path / "empty"])
    assert (both.summary.files, both.counts) == (2, {"unreadable": 2})


def test_a_damaged_block_keeps_what_came_before_and_is_unreadable() -> None:
    parts = blocks(capture(SPARSE.sent))
    parts[10] = parts[10][:4] + b"\x03\0\0\0" + parts[10][8:]
    result = judged(b"".join(parts))
    assert result.status is ExitStatus.UNREADABLE
    assert codes(result)[-1] == "unreadable"
    assert result.findings[-1].offset == sum(map(len, parts[:10]))
    assert result.summary.frames["hello"] == 2


def test_invalid_comes_before_unreadable_before_incomplete(tmp_path) -> None:
    sent = list(SPARSE.sent)
    sent[-1] = (sent[-1][0], sent[-1][1][:-1] + b"\x01")
    files = {"valid": capture(SPARSE.sent), "invalid": capture(sent), "incomplete": capture(HTTP), "unreadable": b"?"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    order = [("incomplete", 2), ("unreadable", 3), ("invalid", 1)]
    chosen = [tmp_path / "valid"]
    assert validate(chosen).status == 0
    for name, status in order:
        chosen.append(tmp_path / name)
        result = validate(chosen)
        assert result.status == status
        assert [f.status for f in result.files][-1] == status


def test_reports_are_deterministic_and_json_goes_round() -> None:
    sent = list(SPARSE.sent)
    sent[3] = (sent[3][0], flip_row(sent[3][1]))
    data = without(capture(sent, piece=100), 60)
    one, two = judged(data), judged(data)
    text = json.dumps(one.to_json(), allow_nan=False)
    assert text == json.dumps(two.to_json(), allow_nan=False)
    assert json.loads(text) == one.to_json()
    assert list(report_lines(one)) == list(report_lines(two))
    assert json.loads(text)["status"] == "invalid"
    lines = list(report_lines(one))
    assert lines[0].startswith("invalid body_checksum_mismatch: capture, packet ")
    assert any(line.startswith("rounds") for line in lines)
    assert lines[-1].startswith("invalid: ")
    assert all(line.isprintable() for line in lines)


def test_findings_are_bounded_and_counted() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    for i in range(300):
        connection = recorder.open((f"10.1.{i // 200}.{i % 200}", 1000), SERVER, NOW)
        connection.client_sent(b"GET / HTTP/1.1", NOW)
        connection.close(NOW)
    result = judged(file.getvalue(), max_findings=10)
    assert codes(result) == ["not_pp1"] * 10 + ["no_pp1"]
    assert (result.counts["note"], result.left_out) == (300, 290)
    assert any("290 more findings" in line for line in report_lines(result))


def test_memory_does_not_grow_with_connections_or_unfinished_frames() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    talk = open_talk()
    ids = list(range(40)) * 6
    session = talk.verifier.open(ids, 1)
    talk.verifier.close(session)
    opening = talk.sent[:2]
    cut = talk.verifier.data_to_send()[:900]
    for i in range(400):
        connection = recorder.open((f"10.1.{i // 200}.{i % 200}", 1000 + i), SERVER, NOW)
        for who, data in [*opening, (VERIFIER, cut)]:
            (connection.client_sent if who is VERIFIER else connection.server_sent)(data, NOW)
    data = file.getvalue()
    tracemalloc.start()
    try:
        result = judged(data, max_held=100_000, max_findings=5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.counts["incomplete"] >= 800
    assert result.summary.connections == 400
    assert "given_up" in codes(judged(data, max_held=100_000, max_findings=2000))
    assert peak < 20_000_000


def test_memory_does_not_grow_with_tiny_segments_that_wait_for_an_answer() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    connection = recorder.open(CLIENT, SERVER, NOW)
    connection.client_sent(open_talk().sent[0][1], NOW)
    for _ in range(30_000):
        connection.client_sent(b"P", NOW)
    data = file.getvalue()
    tracemalloc.start()
    try:
        result = judged(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.status is not ExitStatus.VALID
    assert peak < 17_000_000  # 30,000 segments, each held as an event, would be 20 MB


def test_a_conflict_makes_what_follows_uncertain() -> None:
    sent = list(SPARSE.sent)
    sent[3] = (sent[3][0], flip_row(sent[3][1]))
    parts = blocks(capture(sent))
    number = next(f.packet for f in judged(b"".join(parts)).findings if f.severity is Severity.INVALID)
    good = blocks(capture(SPARSE.sent))[number + 1]
    result = judged(b"".join([*parts[: number + 2], good, *parts[number + 2 :]]))
    assert "conflict" in codes(result, Severity.INCOMPLETE)
    (fault,) = [f for f in result.findings if f.code == "body_checksum_mismatch"]
    assert not fault.uncertain  # found before the conflict was seen


def fragment_of(number: int) -> bytes:
    """The first fragment of a datagram with this number, whose others are missing."""
    return bytes.fromhex("4500001c") + number.to_bytes(2, "big") + bytes.fromhex("20004006") + bytes(18)


def test_packets_that_cannot_be_read_are_told_once_for_each_reason() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    connection = recorder.open(CLIENT, SERVER, NOW)
    writer = recorder._writer
    for number in range(5):
        writer.write_packet(NOW, fragment_of(number))
        writer.write_packet(NOW, b"\x45" + bytes(9))
    for who, data in SPARSE.sent:
        (connection.client_sent if who is VERIFIER else connection.server_sent)(data, NOW)
    connection.close(NOW)
    result = judged(file.getvalue())
    assert codes(result) == ["missing_fragment", "malformed"]  # in the order of the packets
    assert result.summary.skipped_packets == {"malformed": 5, "missing_fragment": 5}
    assert result.status is ExitStatus.INCOMPLETE


@given(st.binary(max_size=400), st.lists(st.tuples(st.booleans(), st.binary(max_size=80)), max_size=8))
@settings(max_examples=80)
def test_one_family_any_bytes_give_a_result(data, exchanges) -> None:
    judged(data)
    judged(b"PP1W" + data)
    judged(SPARSE.stream(WORKER)[:700] + data)
    judged(SPARSE.stream(VERIFIER)[:700] + data)
    sent = [(VERIFIER if up else WORKER, part) for up, part in exchanges if part]
    judged(capture([*SPARSE.sent[:4], *sent]))
    judged(without(capture([*SPARSE.sent[:4], *sent], piece=60), 1, 2, 3, 6))


def test_progress_is_told_for_large_files() -> None:
    heard = []
    validator = Validator(progress=lambda name, count: heard.append((name, count)))
    validator.add(io.BytesIO(SPARSE.stream(WORKER)[:HELLO] + bytes(9 << 20)), "big")
    assert [name for name, _ in heard] == ["big", "big"]


@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_a_raw_stream_from_the_middle_shows_headers_and_checksums(who) -> None:
    frames = frames_of(SPARSE, who)
    stream = SPARSE.stream(who)[frames[3].offset :]
    result = judged(stream)
    assert (result.status, codes(result)) == (ExitStatus.INCOMPLETE, ["unjudged", "one_way"])
    assert result.findings[1].direction == str(who)
    assert result.summary.unjudged_frames == len(frames) - 3
    damaged = stream[:70] + bytes([stream[70] ^ 1]) + stream[71:]
    assert "body_checksum_mismatch" in codes(judged(damaged), Severity.INVALID)


def test_a_verifier_stream_with_another_protocol_behind_the_offer() -> None:
    for junk in (b"G", b"GET / HTTP/1.1", b"PP", SPARSE.sent[2][1][:40]):
        found = codes(judged(SPARSE.stream(VERIFIER)[:HELLO] + junk), Severity.INVALID)
        assert found == ["truncated" if junk[:1] == b"P" else "bad_magic"]


def test_the_standard_input_is_read(monkeypatch) -> None:
    class Stdin:
        buffer = io.BytesIO(capture(SPARSE.sent))

    monkeypatch.setattr("sys.stdin", Stdin)
    result = validate(["-"])
    assert (result.status, result.files[0].name) == (ExitStatus.VALID, "-")


def test_a_file_that_stops_being_readable_is_unreadable_from_there() -> None:
    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 1000:
                raise OSError(5, "Input/output error")
            return super().read(size)

        read1 = read

    validator = Validator()
    validator.add(Failing(capture(SPARSE.sent)), "disk")
    assert codes(validator.result)[-1] == "unreadable"
    assert "Input/output error" in validator.result.findings[-1].message


def test_the_summary_names_everything_that_was_not_judged_or_went_wrong() -> None:
    lines = list(report_lines(judged(without(capture(FAULTY.sent, piece=100), 40))))
    text = "\n".join(lines)
    for piece in (
        "discarded             body_checksum_mismatch 1",
        "stale, dropped",
        "not judged",
        "accepted if reached",
    ):
        assert piece in text
    assert lines[-1].startswith("invalid: 1 invalid, 1 incomplete, ")
    file = io.BytesIO()
    recorder = Recorder(file)
    recorder.open(CLIENT, SERVER, NOW)
    recorder._writer.write_packet(NOW, fragment_of(1))
    text = "\n".join(report_lines(judged(file.getvalue())))
    assert "packets not read      missing_fragment 1" in text
    late = Recorder(file := io.BytesIO()).open(CLIENT, SERVER, 2**64 - 1)
    late.client_sent(b"PP1W" + bytes(100), 2**64 - 1)
    assert "2554-07-21T23:34:33.709551615Z" in "".join(report_lines(judged(file.getvalue())))
    assert time_text(2**80).endswith("s")
    assert time_text(1) == "1970-01-01T00:00:00.000000001Z"
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"


# TLS

CLIENT_HELLO = b"\x16\x03\x01\x00\xf5\x01\x00\x00\xf1\x03\x03" + bytes(200)
SERVER_HELLO = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + bytes(200)
TLS = [(VERIFIER, CLIENT_HELLO), (WORKER, SERVER_HELLO)]


@pytest.mark.parametrize("piece", [None, 1])
def test_tls_is_recognised_and_what_to_do_is_said(piece) -> None:
    (note, none) = judged(capture(TLS, piece=piece)).findings
    assert (note.code, none.code) == ("not_pp1", "no_pp1")
    assert "this is TLS; record inside it with tap=" in note.message
    (other, _) = judged(capture(HTTP, piece=piece)).findings
    assert "TLS" not in other.message


def test_tls_on_a_named_port_is_invalid_and_recognised() -> None:
    result = judged(capture(TLS), ports=[9009])
    (first, *_) = result.findings
    assert (first.severity, first.code) == (Severity.INVALID, "bad_magic")
    assert first.message.endswith(
        "; this is TLS; record inside it with tap= of a pp1wire.net endpoint (docs/deployment.md)"
    )
    assert "TLS" not in judged(capture(HTTP), ports=[9009]).findings[0].message


def test_a_raw_stream_of_tls_is_unreadable_and_recognised() -> None:
    (finding,) = judged(CLIENT_HELLO).findings
    assert finding.code == "unreadable"
    assert "got TLS; record inside it" in finding.message


# The report


def test_a_file_that_cannot_be_opened_is_told_once_without_a_summary_of_nothing(tmp_path) -> None:
    missing = tmp_path / "missing"
    assert list(report_lines(validate([missing]))) == [
        f"unreadable: {missing}: cannot open: No such file or directory",
        "unreadable: 1 unreadable",
    ]
    (tmp_path / "empty").write_bytes(b"")
    assert len(list(report_lines(validate([missing, tmp_path / "empty"])))) == 3
    (tmp_path / "good").write_bytes(capture(SPARSE.sent))
    lines = list(report_lines(validate([missing, tmp_path / "good"])))
    assert any(line.startswith("read                  2 files, ") for line in lines)


def test_numbers_have_separators_and_one_of_something_is_not_many() -> None:
    talk = open_talk()
    session = talk.verifier.open(list(range(40)) * 6, 5)
    drafted = talk.round(session, depth=2).tokens.tolist()
    talk.verifier.commit(session, 2, CommitKind.BONUS, [*drafted, 1])
    talk.up()
    lines = list(report_lines(judged(capture(talk.sent))))
    assert (
        f"bytes                 verifier {len(talk.stream(VERIFIER)):,}, worker {len(talk.stream(WORKER)):,}" in lines
    )
    assert len(talk.stream(VERIFIER)) > 1000
    assert "rounds                1 asked for, 1 proposal, 0 unanswered" in lines
    assert "committed             3 tokens by 1 proposal, 0 of the target alone" in lines


@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_the_note_of_a_raw_stream_says_what_its_peer_helped(tmp_path, who) -> None:
    other = WORKER if who is VERIFIER else VERIFIER
    for name, side in (("own", who), ("peer", other)):
        (tmp_path / name).write_bytes(SPARSE.stream(side))
    (alone,) = validate([tmp_path / "own"]).findings
    (together,) = validate([tmp_path / "own"], peer=tmp_path / "peer").findings
    assert "capacities that the other side made smaller (the other direction as --peer settles those)" in alone.message
    assert together.message.endswith("the peer's HELLO settled the agreement, so its id and capacities were judged")
    middle = SPARSE.stream(who)[frames_of(SPARSE, who)[3].offset :]
    (tmp_path / "middle").write_bytes(middle)
    (_, note) = validate([tmp_path / "middle"], peer=tmp_path / "peer").findings
    assert "settle" not in note.message  # without its own HELLO there is no agreement


@pytest.mark.parametrize("size", [0, 1, 311, 313])
@pytest.mark.parametrize("behind", [0, 400], ids=["alone", "more-behind"])
def test_a_hello_of_another_length_is_a_wrong_length_and_never_an_exception(size, behind) -> None:
    # Found by fuzzing: the role of a HELLO without a body was looked up before its length was judged.
    frame = bytearray(64 + size)
    seal(frame, 1, sequence=0, agreement_id=0)
    for sent in (bytes(frame) + bytes(behind), capture([(VERIFIER, bytes(frame) + bytes(behind))])):
        result = judged(sent)
        assert codes(result, Severity.INVALID) == ["oversized_body" if size > 312 else "wrong_body_length"]
