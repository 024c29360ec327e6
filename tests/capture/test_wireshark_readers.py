"""Wireshark's programs as independent readers and writers: files that editcap and mergecap wrote are judged as their originals,
and tshark puts the same streams together."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from pp1wire.capture.events import Chunk
from pp1wire.capture.events import Direction as Way
from pp1wire.capture.findings import ExitStatus
from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import Flags, build_ipv4_tcp
from pp1wire.capture.pcap import PcapReader
from pp1wire.capture.pcapng import PcapngReader
from pp1wire.capture.reassembly import stream_events
from pp1wire.capture.rocev2 import CmMessage, Operation, RocePacket
from pp1wire.capture.validate import Validator
from tests.capture.golden import MICRO, NOW, VERIFIER, WORKER, capture, golden
from tests.capture.packing import CLIENT, SERVER, captured, fragments4, fragments6, ipv6, pcap, tcp4, tcp_part
from tests.capture.roce_wire import conversation

pytestmark = pytest.mark.system

TALK = golden()
OWN = capture(TALK.sent, piece=500)


def program(name: str, *arguments: str | Path) -> str:
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed"
    return subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=True, timeout=60).stdout


def fields(path: Path, names: Iterable[str], *options: str) -> list[list[str]]:
    """Of each packet, what tshark shows of these fields."""
    wanted = [part for name in names for part in ("-e", name)]
    out = program("tshark", "-n", "-r", path, *options, "-T", "fields", *wanted)
    return [line.split("\t") for line in out.splitlines()]


def judged(data: bytes):
    validator = Validator()
    validator.add(io.BytesIO(data), "capture")
    return validator.result


def report(data: bytes) -> dict:
    """All that is said of a file but for its size and kind."""
    found = judged(data).to_json()
    del found["files"]
    return found


@pytest.fixture
def own(tmp_path) -> Path:
    path = tmp_path / "own.pcapng"
    path.write_bytes(OWN)
    return path


@pytest.mark.parametrize("kind", ["nsecpcap", "pcapng"])
@pytest.mark.parametrize("data", [OWN, OWN[:-100], OWN[:2000] + OWN[2600:]], ids=["whole", "cut", "damaged"])
def test_honest_pcap_and_pcapng_of_the_same_packets_give_the_same_report(kind, data, tmp_path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(data)
    subprocess.run(
        [shutil.which("editcap"), "-F", kind, source, target], capture_output=True, timeout=60
    )  # keeps whole packets
    one, two = report(data), report(target.read_bytes())
    # editcap leaves out what cannot be read as packets.
    one["findings"] = [f for f in one["findings"] if f["code"] not in ("truncated", "unreadable") or f["connection"]]
    assert one["findings"] == two["findings"]
    assert one["summary"] == two["summary"]


def test_honest_microseconds_differ_in_times_alone(own, tmp_path) -> None:
    program("editcap", "-F", "pcap", own, tmp_path / "out")
    one, two = report(OWN)["summary"], report((tmp_path / "out").read_bytes())["summary"]
    assert {**one, "latencies": 0, "span_ns": 0} == {**two, "latencies": 0, "span_ns": 0}


@pytest.mark.parametrize("length", [20, 60, 100, 300])
def test_honest_snapshot_lengths_of_editcap_are_cuts(length, own, tmp_path) -> None:
    reports = []
    for kind in ("pcapng", "nsecpcap"):
        program("editcap", "-F", kind, "-s", str(length), own, tmp_path / kind)
        reports.append(report((tmp_path / kind).read_bytes()))
    assert reports[0] == reports[1]
    assert reports[0]["status"] == "incomplete"
    assert {"cut"} <= {f["code"] for f in reports[0]["findings"]} <= {"cut", "no_pp1", "one_way", "resumed", "unjudged"}


def test_honest_merged_files_with_an_interface_each_are_one_capture(own, tmp_path) -> None:
    """Each direction captured on a link of its own, as two taps do."""
    packets = list(PcapngReader(io.BytesIO(OWN)))
    ethernet, cooked = bytes(12) + b"\x08\x00", bytes(14) + b"\x08\x00"
    sides = {True: [], False: []}
    for packet in packets:
        up = bytes(packet.data[12:16]) == bytes([10, 0, 0, 1])
        sides[up].append((packet.time_ns, (ethernet if up else cooked) + bytes(packet.data)))
    for up, link_type in ((True, 1), (False, 113)):
        (tmp_path / str(up)).write_bytes(pcap(sides[up], nano=True, link_field=link_type))
    program("mergecap", "-w", tmp_path / "merged", tmp_path / "True", tmp_path / "False")
    merged = (tmp_path / "merged").read_bytes()
    assert report(merged) == report(OWN)
    # Behind each other instead of by time, the order across directions is that of the acknowledgements.
    program("mergecap", "-a", "-w", tmp_path / "joined", tmp_path / "True", tmp_path / "False")
    joined = judged((tmp_path / "joined").read_bytes())
    assert (joined.status, joined.findings) == (ExitStatus.VALID, [])


def test_the_streams_are_those_that_tshark_follows(tmp_path) -> None:
    """Out of order, repeated and overlapping, with sequence numbers that wrap."""
    source = random.Random(11)
    up, down = TALK.stream(VERIFIER), TALK.stream(WORKER)
    bases = 2**32 - 500, 2**32 - 1200
    ends = (CLIENT, SERVER)
    packets = [
        build_ipv4_tcp(*ends, bases[0] - 1, 0, Flags.SYN),
        build_ipv4_tcp(*ends[::-1], bases[1] - 1, bases[0], Flags.SYN | Flags.ACK),
        build_ipv4_tcp(*ends, bases[0], bases[1], Flags.ACK),
    ]
    for stream, base, other, pair in (
        (up, bases[0], bases[1], ends),
        (down, bases[1], (bases[0] + len(up)) % 2**32, ends[::-1]),
    ):
        parts = [(at, stream[at : at + 180]) for at in range(0, len(stream), 120)]
        parts += source.sample(parts, 4)
        for index in range(0, len(parts) - 3, 3):
            mixed = parts[index : index + 3]
            source.shuffle(mixed)
            parts[index : index + 3] = mixed
        packets += [build_ipv4_tcp(*pair, (base + at) % 2**32, other, Flags.ACK, part) for at, part in parts]
    data = pcap([(NOW + n * MICRO, p) for n, p in enumerate(packets)], nano=True)
    (tmp_path / "file").write_bytes(data)
    out = program("tshark", "-n", "-r", tmp_path / "file", "-q", "-z", "follow,tcp,raw,0")
    lines = [line for line in out.splitlines() if line.strip() and set(line.strip()) <= set("0123456789abcdef")]
    theirs = (
        bytes.fromhex("".join(line for line in lines if not line.startswith("\t"))),
        bytes.fromhex("".join(line.strip() for line in lines if line.startswith("\t"))),
    )
    ours = {Way.TO_SERVER: b"", Way.TO_CLIENT: b""}
    for event in stream_events(PcapReader(io.BytesIO(data))):
        assert not hasattr(event, "code")
        if isinstance(event, Chunk):
            ours[event.direction] += event.data
    assert tuple(ours.values()) == theirs == (up, down)


def test_fragments_are_put_together_as_tshark_does(tmp_path) -> None:
    payloads = [random.Random(n).randbytes(100 + n * 37) for n in range(12)]
    packets = []
    for number, payload in enumerate(payloads):
        whole = tcp_part(payload, 1 + number * 10_000)
        parts = fragments4(whole, [40, 96], identification=number) if number % 2 else fragments6(
            whole, [40, 96], identification=number
        )  # fmt: skip
        random.Random(number).shuffle(parts)
        packets += parts
    packets += [tcp4(b"whole"), ipv6(tcp_part(b"whole"))]
    (tmp_path / "file").write_bytes(pcap([(NOW + n, p) for n, p in enumerate(packets)], nano=True))
    theirs = [row for row in fields(tmp_path / "file", ["frame.number", "tcp.seq_raw", "tcp.payload"]) if row[1]]
    layers, ours = Layers(), []
    for number, packet in enumerate(packets, 1):
        found = layers.add(captured(packet, number))
        if found is not None:
            ours.append([str(number), str(found.sequence), bytes(found.payload).hex()])
    assert ours == theirs
    assert len(ours) == 14


def test_roce_is_read_as_tshark_reads_it(tmp_path) -> None:
    packets = conversation(TALK.sent, mtu=100)
    (tmp_path / "file").write_bytes(pcap(packets, nano=True))
    names = [
        "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "data.data",
        "infiniband.cm.req.localqpn", "infiniband.cm.req.startpsn", "infiniband.cm.rep.localqpn", "infiniband.cm.rep.startpsn",
        "frame.protocols",
    ]  # fmt: skip
    rows = fields(tmp_path / "file", names)
    assert len(rows) == len(packets)
    layers, sends = Layers(), 0
    for number, ((_, data), row) in enumerate(zip(packets, rows, strict=True), 1):
        found = layers.add(captured(data, number))
        opcode, pair, psn = int(row[0]), int(row[1], 0), int(row[2])
        if isinstance(found, RocePacket):
            after = found.operation is Operation.ACKNOWLEDGE
            assert (found.opcode, found.queue_pair, found.psn) == (opcode, pair, (psn + after) % 2**24)
            # Some payloads look to tshark like other protocols.
            if found.operation is Operation.SEND and row[8] == "raw:ip:udp:infiniband:data":
                sends += 1
                shown = bytes.fromhex(row[3])
                # tshark shows the padding with the payload.
                assert shown[: found.length] == found.payload
                assert len(shown) - found.length == -found.length % 4
        elif isinstance(found, CmMessage) and number <= 2:
            at = 4 + 2 * (number - 1)
            assert (found.queue_pair, found.psn) == (int(row[at], 0), int(row[at + 1], 0))
    assert sends > 50
