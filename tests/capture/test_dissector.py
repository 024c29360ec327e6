"""The Wireshark dissector in a real tshark: the same fields as `show`, the same codes as the judge, no error on anything."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from pp1wire.capture.recorder import Recorder
from pp1wire.capture.show import show
from pp1wire.capture.vectors import load_vectors
from pp1wire.protocol import Direction
from pp1wire.wire import MessageType, Representation
from pp1wire.wire._schema_v2 import BODY_COLUMNS, BODY_FIELDS, HEADER_FIELDS, HEADER_STRUCT
from pp1wire.wire.header import HEADER_BYTES, seal
from tests.capture.golden import NOW, VERIFIER, WORKER, capture, flip_row, golden, open_talk
from tests.capture.test_validate import blocks
from tests.capture.wireshark import PORT, layers, severities, tshark

pytestmark = pytest.mark.system

SPARSE = golden()
DENSE = golden(Representation.DENSE, rounds=1)
SERVER = "10.0.0.2"
# What the dissector shows beyond what `show` does.
OWN = {"pp1.reply.entry", "pp1.reply.count", "pp1.reply.nonzero", "pp1.reply.total"}
# What no dissector of single packets can know, or shows under another name; with the reason.
NOT_CHECKED = {
    "ticket_mismatch": "needs Philox and the seed",
    "truncated": "the bytes never come, so TCP goes on waiting for them",
    "extra_data": "a rule for a message in memory",
    "bad_magic": "shown as undecoded bytes",
    "data_before_agreement": "a capture that lacks the answer looks the same",
}


def write(tmp_path, data: bytes):
    path = tmp_path / "capture.pcapng"
    path.write_bytes(data)
    return path


# Fields


def with_temperature():
    """A conversation whose float64 fields are no round numbers."""
    talk = open_talk()
    session = talk.verifier.open([3, 1, 2], 2**64 - 1, context_version=2**32 - 1)
    for temperature in (0.7, 1e-3, 123.456):
        talk.verifier.step(session, 0.0, depth=1, temperature=temperature)
        talk.up()
        talk.answer_all()
        talk.down()
        talk.verifier.cancel(session)
    talk.up()
    return talk


@pytest.mark.parametrize("piece", [None, 90])
@pytest.mark.parametrize("talk", [SPARSE, DENSE, with_temperature()], ids=["sparse", "dense", "temperature"])
def test_json_is_that_of_show_field_by_field(talk, piece, tmp_path) -> None:
    path = write(tmp_path, capture(talk.sent, piece=piece))
    shown = [json.loads(json.dumps(item.to_json())) for item in show(path, rows=True)]
    # The first pass meets what TCP reassembles differently from the second, which Wireshark's window always makes.
    found = layers(path, passes=1 + (piece is not None))
    assert len(found) == len(shown) > 5
    by_frame = {(layer.source, int(layer.one("pp1.header.sequence"))): layer for layer in found}
    assert len(by_frame) == len(shown)
    for item in shown:
        assert item["kind"] == "frame"
        sequence = item["fields"]["header"]["sequence"]
        layer = by_frame[item["endpoints"].split(":")[0], sequence]
        assert layer.packet == completing_packet(talk.sent, piece, layer.source, item["offset"] + item["length"])
        same_fields(layer, item["fields"])
        assert layer.codes == []


def completing_packet(sent, piece, source, end) -> int:
    """The packet of `capture` that carries the byte before `end` of this sender's stream."""
    packet, reached = 3, 0  # behind the handshake
    for who, data in sent:
        for start in range(0, len(data), piece or len(data)):
            packet += 1
            if (who is WORKER) == (source == SERVER):
                reached += len(data[start : start + (piece or len(data))])
                if reached >= end:
                    return packet
    raise AssertionError(f"{end} bytes were never sent")


def same_fields(layer, fields) -> None:
    name = fields["message"]
    specs = {spec.name: spec for spec in BODY_FIELDS[MessageType[name.upper()]]}
    headers = {spec.name: spec for spec in HEADER_FIELDS}
    assert [key for key, _ in layer.pairs if key.startswith("pp1.header.")] == [f"pp1.header.{key}" for key in headers]
    for key, value in fields["header"].items():
        assert plain(layer.one(f"pp1.header.{key}"), headers[key]) == value
    body = fields["body"]
    columns = [key for key, value in body.items() if isinstance(value, list)]
    own = {key for key, _ in layer.pairs if key.startswith(f"pp1.{name}.")} - OWN
    assert own == {f"pp1.{name}.{key}" for key in body if key not in columns or body[key]}
    for key in body.keys() - columns:
        assert plain(layer.one(f"pp1.{name}.{key}"), specs[key]) == body[key]
    if name == "reply":
        same_row(layer, body)
    else:
        for key in columns:
            assert [int(value) for value in layer.all(f"pp1.{name}.{key}")] == body[key]


def plain(text, spec):
    """What `show` has for a value that tshark prints as `text`."""
    if spec.kind == "int":
        return int(text)
    if spec.kind == "enum":
        return spec.enum(int(text)).name.lower()
    if spec.kind == "float":
        return float(text)
    return text if spec.kind == "text" else text.replace(":", "")


def same_row(layer, body) -> None:
    q = np.array(body["q"], dtype=np.float32)
    at = np.arange(body["entry_count"]) if body["ids"] else np.flatnonzero(q)
    ids = [body["ids"][i] for i in at] if body["ids"] else at.tolist()
    assert [int(value) for value in layer.all("pp1.reply.entry")] == ids
    assert [int(value) for value in layer.all("pp1.reply.ids")] == (ids if body["ids"] else [])
    assert [np.float32(value) for value in layer.all("pp1.reply.q")] == q[at].tolist()
    assert [int(value) for value in layer.all("pp1.reply.count")] == (q[at].astype(np.float64) * 2**24).tolist()
    assert not q[len(at) :].any() or not body["ids"]
    assert int(layer.one("pp1.reply.nonzero")) == np.count_nonzero(q)
    assert int(layer.one("pp1.reply.total")) == 2**24


def test_every_field_of_the_schemas_can_be_filtered_on(tmp_path) -> None:
    path = write(tmp_path, capture(SPARSE.sent))
    paths = {f"pp1.header.{spec.name}" for spec in HEADER_FIELDS}
    for kind in MessageType:
        name = kind.name.lower()
        paths |= {f"pp1.{name}.{spec.name}" for spec in BODY_FIELDS[kind]}
        paths |= {f"pp1.{name}.{column}" for column, _, _ in BODY_COLUMNS[kind]}
    # One filter of all of them: tshark ends with an error at a name that it does not know.
    tshark(path, "-Y", " or ".join(sorted(paths)))
    for expression, kind, least in (
        ("pp1.header.session == 2 and pp1.step", "step", 3),
        ("pp1.step.temperature == 1.0", "step", 6),
        ("pp1.reply.q > 0.1 and pp1.reply.count > 1677721", "reply", 6),
        ('pp1.commit.kind == "correction"', "commit", 4),
        ('pp1.hello.q_semantic == "dyadic24-standard-v1"', "hello", 2),
    ):
        lines = tshark(path, *PORT, "-Y", expression).splitlines()
        assert least <= len(lines) < 20
        assert all(kind.upper() in line for line in lines)


# Links


def test_request_and_response_are_linked_both_ways(tmp_path) -> None:
    path = write(tmp_path, capture(SPARSE.sent))
    found = layers(path, passes=2)

    def of(kind, round_=1, session="1"):
        return [
            layer for layer in found
            if layer.all(f"pp1.{kind}.position") and layer.one("pp1.header.session") == session
            and layer.one("pp1.header.round") == str(round_)
        ]  # fmt: skip

    for session in ("1", "2"):
        for round_ in (1, 2, 3):
            (step,), (done,), (commit,) = (of(kind, round_, session) for kind in ("step", "completion", "commit"))
            rows = of("reply", round_, session)
            assert {int(n) for n in step.all("pp1.response_in")} == {r.packet for r in rows} | {done.packet}
            for layer in (*rows, done, commit):
                assert int(layer.one("pp1.request_in")) == step.packet
            for layer in (step, *rows, done):
                assert int(layer.one("pp1.commit_in")) == commit.packet
            for layer in (*rows, commit):
                assert int(layer.one("pp1.completion_in")) == done.packet
            # The capture's packets come a microsecond apart.
            assert float(done.one("pp1.response_time")) == pytest.approx((done.packet - step.packet) * 1e-6, abs=1e-9)
            assert float(commit.one("pp1.commit_time")) == pytest.approx((commit.packet - done.packet) * 1e-6, abs=1e-9)
    offer, answer = found[:2]
    assert int(offer.one("pp1.response_in")) == answer.packet
    assert int(answer.one("pp1.request_in")) == offer.packet
    # A target-only COMMIT answers nothing, and the round that a RESET cut short has no COMMIT.
    assert not [k for layer in of("commit", 4) for k, _ in layer.pairs if k.endswith("_in")]
    assert not [k for layer in of("step", 5) for k, _ in layer.pairs if k.endswith("_in")]


def test_rounds_of_two_connections_are_not_mixed(tmp_path) -> None:
    first = capture(SPARSE.sent)
    second = blocks(capture(SPARSE.sent, client=("10.0.0.1", 40_001)))[2:]
    path = write(tmp_path, first + b"".join(second))
    packets = len(blocks(first)) - 2
    found = layers(path, passes=2)
    links = [int(v) <= packets for layer in found for k, v in layer.pairs if k.endswith("_in")]
    sides = [layer.packet <= packets for layer in found for k, _ in layer.pairs if k.endswith("_in")]
    assert links == sides
    assert links.count(True) == links.count(False) > 20
    assert severities(found) == set()


# The list of packets


def test_info_names_every_message_of_a_segment(tmp_path) -> None:
    path = write(tmp_path, capture(SPARSE.sent))
    lines = tshark(path, *PORT, "-Y", "pp1").splitlines()
    assert lines[2].endswith("RESET s1 g1 open pos 3 | RESET s2 g1 open pos 3 | STEP s1 g1 r1 pos 3 depth 2")
    assert " PP1 " in lines[2]
    assert sum(
        line.count(name) for line in lines for name in ("HELLO", "STEP", "REPLY", "COMPLETION", "COMMIT", "RESET")
    ) == len(layers(path))
    # Of pieces, each message is told in the packet that completes it, and no packet tells more than its own.
    for piece in (90, 150):
        cut = tshark(write(tmp_path, capture(SPARSE.sent, piece=piece)), *PORT, "-2", "-Y", "pp1").splitlines()
        assert sum(line.count("|") + 1 for line in cut if " PP1 " in line) == len(layers(path))


def test_connections_are_recognised_by_their_first_bytes_and_ports_by_preference(tmp_path) -> None:
    free = write(tmp_path, capture(SPARSE.sent, server=("10.0.0.2", 50_321)))
    told = tshark(free, "-Y", "pp1").splitlines()
    assert len(told) > 10
    assert tshark(free, "-Y", "pp1", "-o", "pp1.port:50000-51000").splitlines() == told
    # Port 9009 is another dissector's, until the preference says whose it is.
    taken = write(tmp_path, capture(SPARSE.sent))
    assert tshark(taken, "-Y", "pp1") == ""
    assert len(tshark(taken, "-Y", "pp1", *PORT).splitlines()) == len(told)
    other = write(tmp_path, capture([(VERIFIER, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")], server=("10.0.0.2", 50_321)))
    assert tshark(other, "-Y", "pp1") == ""


# Expert information


def body_bytes(frame: bytes) -> int:
    return int.from_bytes(frame[16:20], "little")


def test_every_vector_gets_the_code_that_the_judge_gives(tmp_path) -> None:
    vectors = load_vectors()
    path = tmp_path / "vectors.pcapng"
    with Recorder.create(path) as recorder:
        now = NOW
        for index, vector in enumerate(vectors):
            connection = recorder.open(("10.0.0.1", 20_000 + index), ("10.0.0.2", 9009), now)
            # Only with its body is a frame behind a gap told from a part of one.
            behind = (
                b""
                if vector.reject is None or vector.reject[0] != "sequence_mismatch"
                else bytes(body_bytes(vector.data))
            )
            before = ((s.sender, s.data) for s in vector.conversation)
            for sender, data in [*before, (vector.sender, vector.data + behind)]:
                now += 1_000
                (connection.client_sent if sender is Direction.VERIFIER else connection.server_sent)(data, now)
            connection.close(now)
    text = tshark(
        path, *PORT, "-Y", "tcp.len > 0", "-T", "fields", "-e", "tcp.stream", "-e", "_ws.expert.message",
        "-e", "_ws.expert.severity", "-e", "_ws.lua.error", "-E", "aggregator=;",
    )  # fmt: skip
    last = {}
    for line in text.splitlines():
        stream, messages, severity, error = line.split("\t")
        assert error == ""
        codes = [message.split(":")[0] for message in messages.split(";") if ": " in message]
        last[int(stream)] = dict(itertools.zip_longest(codes, severity.split(";")[-len(codes) :] if codes else []))
    checked, unchecked = set(), set()
    for index, vector in enumerate(vectors):
        codes = last[index]
        if vector.reject is None:
            assert set(codes) <= {"round_failed"}, vector.name
            continue
        code = vector.reject[0]
        if code in NOT_CHECKED or vector.name == "hello/answer-first":  # that may be a capture of one direction
            unchecked.add(code)
            assert code not in codes, vector.name
            continue
        checked.add(code)
        assert code in codes, (vector.name, codes)
        expected = {"hello_refused": "note", "sequence_mismatch": "warn"}.get(
            code, "note" if code.startswith("stale_") else "error"
        )
        assert {"note": 0x400000, "warn": 0x600000, "error": 0x800000}[expected] == int(codes[code]), vector.name
    assert set(NOT_CHECKED) <= unchecked
    assert len(checked) == len({v.reject[0] for v in vectors if v.reject}) - len(NOT_CHECKED)


def test_a_fault_stands_at_its_field_and_preferences_turn_checks_off(tmp_path) -> None:
    sent = list(SPARSE.sent)
    at = next(i for i, (who, data) in enumerate(sent) if who is WORKER and data[6] == MessageType.REPLY)
    sent[at] = (WORKER, flip_row(sent[at][1]))
    path = write(tmp_path, capture(sent))
    found = [layer for layer in layers(path) if layer.codes]
    assert found[0].codes == ["body_checksum_mismatch"]
    assert found[0].all("pp1.expert.body_checksum_mismatch") == [""]
    # The rest of the round is stale, as the verifier discards it; the COMMIT of it is unexpected.
    assert [code for layer in found[1:3] for code in layer.codes] == ["stale_round", "stale_round"]
    assert "body_checksum_mismatch" not in str(layers(path, "-o", "pp1.check_bodies:FALSE")[5:8])
    unchecked = layers(path, "-o", "pp1.check_bodies:FALSE", "-o", "pp1.check_rows:FALSE")
    assert severities(unchecked) <= {"note"} or [c for layer in unchecked for c in layer.codes] == [
        "completion_checksum_mismatch"
    ]


def wrong_mass(index: int):
    """The conversation with one q of its first row doubled, under right checksums."""
    sent = list(SPARSE.sent)
    at = next(i for i, (who, data) in enumerate(sent) if who is WORKER and data[6] == MessageType.REPLY)
    data = sent[at][1]
    size = HEADER_BYTES + body_bytes(data)
    frame = bytearray(data[:size])
    place = slice(HEADER_BYTES + 32 + 4 * 8 + 4 * index, HEADER_BYTES + 32 + 4 * 8 + 4 * index + 4)
    frame[place] = (np.frombuffer(bytes(frame[place]), "<f4") * 2).tobytes()
    values = dict(zip([spec.name for spec in HEADER_FIELDS], HEADER_STRUCT.unpack(data[:HEADER_BYTES]), strict=True))
    names = ("sequence", "slot", "agreement_id", "session", "generation", "round")
    seal(frame, MessageType.REPLY, **{name: values[name] for name in names})
    sent[at] = (WORKER, bytes(frame) + data[size:])
    return sent


def test_mass_is_checked_under_a_right_checksum_unless_turned_off(tmp_path) -> None:
    path = write(tmp_path, capture(wrong_mass(3)))
    bad = [layer for layer in layers(path) if "q_mass_mismatch" in layer.codes]
    assert len(bad) == 1
    assert int(bad[0].one("pp1.reply.total")) > 2**24
    assert not [layer for layer in layers(path, "-o", "pp1.check_rows:FALSE") if "q_mass_mismatch" in layer.codes]


def test_long_rows_and_prefixes_are_shown_up_to_a_bound(tmp_path) -> None:
    path = write(tmp_path, capture(DENSE.sent))
    replies = [layer for layer in layers(path, "-o", "pp1.max_entries:2") if layer.all("pp1.reply.token")]
    text = tshark(path, *PORT, "-o", "pp1.max_entries:2", "-V", "-O", "pp1")
    assert text.count("2 of 48 entries are shown") == len(replies)
    assert "2 of 3 ids are shown" in text
    assert {len(layer.all("pp1.reply.q")) for layer in replies} == {2}
    assert {layer.one("pp1.reply.nonzero") for layer in replies} == {"48"}
