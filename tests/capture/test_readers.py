"""Files that scapy and dpkt wrote are judged as our own; and what they read of a file is what we read.

scapy (GPL-2.0) and dpkt are tools of these tests; the package imports neither.
"""

from __future__ import annotations

import io
import random
import socket

import dpkt
import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, fragment6
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether, Loopback
from scapy.packet import Packet, Raw
from scapy.utils import PcapNgWriter, PcapWriter, RawPcapNgReader, RawPcapReader

from pp1wire.capture.events import Chunk
from pp1wire.capture.events import Direction as Way
from pp1wire.capture.findings import ExitStatus, Severity
from pp1wire.capture.pcap import PcapReader
from pp1wire.capture.pcapng import CapturedPacket, PcapngReader
from pp1wire.capture.reassembly import stream_events
from pp1wire.capture.validate import Validator
from tests.capture.golden import MICRO, NOW, VERIFIER, WORKER, capture, golden
from tests.capture.packing import pcap
from tests.capture.roce_wire import conversation

TALK = golden()
OWN = capture(TALK.sent)
HOSTS4, HOSTS6 = ("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")
PORTS = (40_000, 9_009)


def judged(data: bytes):
    validator = Validator()
    validator.add(io.BytesIO(data), "capture")
    return validator.result


def totals(result) -> dict:
    summary = result.summary.to_json()
    return {k: v for k, v in summary.items() if k not in ("packets", "latencies", "span_ns")}


def conversation_of(layer, size: int = 700) -> list[Packet]:
    """The golden conversation as scapy's packets; `layer` makes what is below TCP, by who sends (0 the client)."""
    numbers, packets = [1000, 5000], []

    def add(sender: int, flags: str, data: bytes = b"") -> None:
        ports = PORTS if sender == 0 else PORTS[::-1]
        acknowledged = numbers[1 - sender] if "A" in flags else 0
        tcp = TCP(sport=ports[0], dport=ports[1], seq=numbers[sender], ack=acknowledged, flags=flags)
        packets.append(layer(sender) / tcp / Raw(data) if data else layer(sender) / tcp)
        numbers[sender] += len(data) + ("S" in flags or "F" in flags)

    for sender, flags in ((0, "S"), (1, "SA"), (0, "A")):
        add(sender, flags)
    for who, data in TALK.sent:
        for at in range(0, len(data), size):
            add(int(who is WORKER), "PA", data[at : at + size])
    for sender, flags in ((0, "FA"), (1, "FA"), (0, "A")):
        add(sender, flags)
    return timed(packets)


def timed(packets: list[Packet]) -> list[Packet]:
    for number, packet in enumerate(packets):
        packet.time = (NOW + number * MICRO) / 10**9
    return packets


def ip4(sender: int, **fields) -> Packet:
    source, destination = HOSTS4 if sender == 0 else HOSTS4[::-1]
    return IP(src=source, dst=destination, **fields)


def ip6(sender: int) -> Packet:
    source, destination = HOSTS6 if sender == 0 else HOSTS6[::-1]
    return IPv6(src=source, dst=destination)


def ether(**fields) -> Packet:
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", **fields)


def written(packets: list[Packet], **options) -> bytes:
    """A pcap file, by scapy."""
    file = io.BytesIO()
    file.close, finish = lambda: None, file.close
    writer = PcapWriter(file, **options)
    writer.write(packets)
    writer.flush()
    data = file.getvalue()
    finish()
    return data


def written_ng(packets: list[Packet], path) -> bytes:
    writer = PcapNgWriter(str(path))
    writer.write(packets)
    writer.close()
    return path.read_bytes()


LINKS = {
    "Ethernet": (lambda s: ether() / ip4(s), 1),
    "VLAN": (lambda s: ether() / Dot1Q(vlan=5) / ip4(s), 1),
    "802.1ad and two VLANs": (lambda s: ether() / Dot1AD(vlan=9) / Dot1Q(vlan=5) / Dot1Q(vlan=6) / ip4(s), 1),
    "Ethernet, IPv6": (lambda s: ether() / ip6(s), 1),
    "VLAN, IPv6": (lambda s: ether() / Dot1Q(vlan=5) / ip6(s), 1),
    "Linux cooked": (lambda s: CookedLinux() / ip4(s), 113),
    "Linux cooked, IPv6": (lambda s: CookedLinux(proto=0x86DD) / ip6(s), 113),
    "Linux cooked 2": (lambda s: CookedLinuxV2() / ip4(s), 276),
    "Linux cooked 2, IPv6": (lambda s: CookedLinuxV2(proto=0x86DD) / ip6(s), 276),
    "loopback": (lambda s: Loopback(type=socket.AF_INET) / ip4(s), 0),
    "loopback, IPv6": (lambda s: Loopback(type=30) / ip6(s), 0),
    "raw": (lambda s: ip4(s), 101),
    "raw, IPv6": (lambda s: ip6(s), 101),
    "IPv6 options": (lambda s: ip6(s) / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt(), 101),
}


@pytest.mark.parametrize("name", LINKS)
def test_honest_every_link_that_scapy_writes_is_read(name) -> None:
    layer, link_type = LINKS[name]
    result = judged(written(conversation_of(layer), linktype=link_type, nano=True))
    assert (result.status, result.findings) == (ExitStatus.VALID, [])
    assert totals(result) == totals(judged(OWN))


@pytest.mark.parametrize("order", "<>", ids=["little-endian", "big-endian"])
@pytest.mark.parametrize("nano", [False, True], ids=["microseconds", "nanoseconds"])
@pytest.mark.parametrize("gz", [False, True], ids=["plain", "gzip"])
def test_honest_every_kind_of_pcap_that_scapy_writes_is_read(order, nano, gz, tmp_path) -> None:
    path = tmp_path / "file"
    writer = PcapWriter(str(path), linktype=1, endianness=order, nano=nano, gz=gz)
    writer.write(conversation_of(LINKS["VLAN"][0]))
    writer.close()
    data = path.read_bytes()
    assert (data[:2] == b"\x1f\x8b") == gz
    result = judged(data)
    assert (result.status, result.findings, result.files[0].kind) == (ExitStatus.VALID, [], "pcap")
    assert totals(result) == totals(judged(OWN))


def test_honest_pcapng_that_scapy_writes_is_read(tmp_path) -> None:
    data = written_ng(conversation_of(LINKS["Ethernet, IPv6"][0]), tmp_path / "file")
    result = judged(data)
    assert (result.status, result.files[0].kind) == (ExitStatus.VALID, "pcapng")
    assert totals(result) == totals(judged(OWN))
    # Each link has an interface of its own.
    cooked, tagged = conversation_of(LINKS["Linux cooked"][0])[::2], conversation_of(LINKS["VLAN"][0])[1::2]
    for packets, name in ((cooked, "any"), (tagged, "eth0")):
        for packet in packets:
            packet.sniffed_on = name
    mixed = sorted([*cooked, *tagged], key=lambda p: p.time)
    assert judged(written_ng(mixed, tmp_path / "mixed")).status is ExitStatus.VALID


# Fragments


def fragmented(packets: list[Packet], six: bool, size: int) -> list[Packet]:
    found: list[Packet] = []
    for number, packet in enumerate(packets, 1):
        if six:
            whole = IPv6(src=packet.src, dst=packet.dst) / IPv6ExtHdrFragment(id=number) / packet.payload
            found += [ether() / part for part in fragment6(whole, size)]
        else:
            found += [ether() / part for part in fragment(packet, size)]
    return timed(found)


@pytest.mark.parametrize("six", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("order", ["sent", "reversed in each datagram", "shuffled"])
def test_any_order_of_fragments_that_scapy_cuts_gives_the_conversation(six, order) -> None:
    numbers = iter(range(1, 1000))
    layer = ip6 if six else (lambda s: ip4(s, id=next(numbers)))
    packets = fragmented(conversation_of(layer), six, 200)
    assert len(packets) > 50
    if order != "sent":
        # Datagrams in order, their fragments not; then everything in any.
        packets = packets[::-1] if order.startswith("reversed") else random.Random(3).sample(packets, len(packets))
    result = judged(written(packets, linktype=1, nano=True))
    assert (result.status, result.findings) == (ExitStatus.VALID, [])
    assert totals(result) == totals(judged(OWN))


def is_fragment(packet: Packet) -> bool:
    if IPv6ExtHdrFragment in packet:
        return bool(packet[IPv6ExtHdrFragment].offset or packet[IPv6ExtHdrFragment].m)
    return bool(packet[IP].frag or packet[IP].flags.MF) if IP in packet else False


@pytest.mark.parametrize("six", [False, True], ids=["IPv4", "IPv6"])
def test_gaps_a_fragment_that_is_missing_or_contradicted_is_a_gap_and_nothing_is_invented(six) -> None:
    numbers = iter(range(1, 1000))
    layer = ip6 if six else (lambda s: ip4(s, id=next(numbers)))
    packets = fragmented(conversation_of(layer), six, 200)
    for number in range(20, 40):
        dropped = judged(written(packets[:number] + packets[number + 1 :], linktype=1, nano=True))
        changed = packets[number].copy()
        changed = Ether(bytes(changed)[:-1] + bytes([bytes(changed)[-1] ^ 1]))
        changed.time = packets[number].time
        contradicted = judged(written([*packets[: number + 1], changed, *packets[number + 1 :]], linktype=1, nano=True))
        for result, code in ((dropped, "missing_fragment"), (contradicted, "conflict")):
            found = [f.code for f in result.findings]
            assert Severity.INVALID not in {f.severity for f in result.findings}
            if is_fragment(packets[number]):
                # Where the last one is contradicted, the datagram is there already.
                assert {code, "gap"} <= set(found) or found == ["conflict"], (number, found)


# RoCEv2


def roce_by_scapy() -> list[Packet]:
    """The same connection as our own packets, with scapy's headers and checksums."""
    packets = []
    for _, data in conversation(TALK.sent):
        bth = data[28:40]
        padding = bth[1] >> 4 & 3
        packets.append(
            ether()
            / IP(src=socket.inet_ntoa(data[12:16]), dst=socket.inet_ntoa(data[16:20]), flags="DF")
            / UDP(sport=50_000, dport=4791)
            / BTH(
                opcode=bth[0], padcount=padding, dqpn=int.from_bytes(bth[5:8], "big"),
                psn=int.from_bytes(bth[9:12], "big"), ackreq=1,
            )
            / Raw(data[40:-4])
        )  # fmt: skip
    return timed(packets)


def test_honest_roce_that_scapy_writes_is_read() -> None:
    packets = roce_by_scapy()
    assert bytes(packets[5])[-4:] != b"icrc"
    result = judged(written(packets, linktype=1, nano=True))
    assert (result.status, result.findings) == (ExitStatus.VALID, [])
    assert totals(result) == totals(judged(OWN))


# What others read


def seen(packets) -> list[tuple[int, bytes, int]]:
    return [(p.time_ns, bytes(p.data), p.original_length) for p in packets if isinstance(p, CapturedPacket)]


@pytest.mark.parametrize("mark", "<>", ids=["little-endian", "big-endian"])
@pytest.mark.parametrize("nano", [False, True], ids=["microseconds", "nanoseconds"])
def test_scapy_and_dpkt_read_the_same_of_a_pcap_file(mark, nano) -> None:
    items = [(NOW + n * 1001 * MICRO, random.Random(n).randbytes(n), n + n % 3 * 100) for n in range(40)]
    data = pcap(items, mark=mark, nano=nano, link_field=1)
    ours = seen(PcapReader(io.BytesIO(data)))
    unit = 1 if nano else 1000
    theirs = [
        (meta.sec * 10**9 + meta.usec * unit, packet, meta.wirelen) for packet, meta in RawPcapReader(io.BytesIO(data))
    ]
    assert ours == theirs
    # dpkt drops the original lengths, and its times are numbers of seconds.
    found = list(dpkt.pcap.Reader(io.BytesIO(data)))
    assert [packet for _, packet in found] == [p[1] for p in ours]
    assert all(abs(float(time) - p[0] / 10**9) < 2e-6 for (time, _), p in zip(found, ours, strict=True))


def test_scapy_and_dpkt_read_the_same_of_a_pcapng_file() -> None:
    ours = seen(PcapngReader(io.BytesIO(OWN)))
    found = RawPcapNgReader(io.BytesIO(OWN))
    theirs = [((m.tshigh << 32) + m.tslow, packet, m.wirelen) for packet, m in found]
    assert ours == theirs
    assert [packet for _, packet in dpkt.pcapng.Reader(io.BytesIO(OWN))] == [p[1] for p in ours]


def test_dpkt_writes_what_we_read() -> None:
    ours = seen(PcapngReader(io.BytesIO(OWN)))
    for writer_type, reader in ((dpkt.pcap.Writer, PcapReader), (dpkt.pcapng.Writer, PcapngReader)):
        file = io.BytesIO()
        kinds = {"linktype": 101} if writer_type is dpkt.pcap.Writer else {
            "idb": dpkt.pcapng.InterfaceDescriptionBlockLE(linktype=101)
        }  # fmt: skip
        writer = writer_type(file, **kinds)
        for time_ns, packet, _ in ours:
            writer.writepkt(packet, ts=time_ns / 10**9)
        assert [p[1:] for p in seen(reader(io.BytesIO(file.getvalue())))] == [p[1:] for p in ours]
        result = judged(file.getvalue())
        assert (result.status, result.findings) == (ExitStatus.VALID, [])
        assert totals(result) == totals(judged(OWN))


def test_the_streams_are_those_that_dpkt_finds_packet_by_packet() -> None:
    """Of a capture in order and without loss, dpkt's payloads behind each other are the streams."""
    data = written(conversation_of(LINKS["802.1ad and two VLANs"][0]), linktype=1, nano=True)
    theirs: dict[Way, bytes] = {Way.TO_SERVER: b"", Way.TO_CLIENT: b""}
    for _, packet in dpkt.pcap.Reader(io.BytesIO(data)):
        tcp = dpkt.ethernet.Ethernet(packet).data.data
        theirs[Way.TO_SERVER if tcp.dport == PORTS[1] else Way.TO_CLIENT] += tcp.data
    ours = dict.fromkeys(theirs, b"")
    for event in stream_events(PcapReader(io.BytesIO(data))):
        if isinstance(event, Chunk):
            ours[event.direction] += event.data
    assert ours == theirs
    assert ours[Way.TO_SERVER] == TALK.stream(VERIFIER)
