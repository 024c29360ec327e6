"""Packets that go on where their stream is take a short way; everything comes out as by the long one."""

from __future__ import annotations

import gzip
import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture import layers
from pp1wire.capture._lane import Lane
from pp1wire.capture.events import Chunk, FindingCode, StreamFinding
from pp1wire.capture.packets import Endpoint, Flags, build_ipv4_tcp
from pp1wire.capture.pcap import PcapReader
from pp1wire.capture.pcapng import CaptureError, PcapngReader, PcapngWriter
from pp1wire.capture.reassembly import Reassembler, stream_events
from pp1wire.capture.sources import CountingFile, open_source
from tests.capture.golden import capture, golden
from tests.capture.packing import CLIENT6, SERVER6, pcap
from tests.capture.test_validate import blocks

GOLDEN = capture(golden(rounds=2).sent, piece=120)


def events(reader, *, short: bool, connections: int, keep: bool = False):
    with pytest.MonkeyPatch.context() as patch:
        if not short:
            patch.setattr(layers, "usual_segment", lambda *_: None)
            patch.setattr(Lane, "take", lambda *_: False)
            patch.setattr(PcapngReader, "_usual_packets", lambda *_: iter(()))
            patch.setattr(PcapReader, "_usual_packets", lambda *_: iter(()))
        return [
            (event._replace(data=bytes(event.data)) if hasattr(event, "data") and not keep else event)
            for event in stream_events(
                reader(), Reassembler(max_held=1 << 16, max_recent=1 << 12, max_connections=connections)
            )
        ]


def same(reader, connections=3):
    expected = events(reader, short=False, connections=connections)
    assert events(reader, short=True, connections=connections) == expected
    return expected


def test_it_is_taken():
    """Otherwise nothing here would be compared."""
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        whole = Lane.take
        patch.setattr(Lane, "take", lambda *a: taken.append(whole(*a)) or taken[-1])
        list(stream_events(PcapngReader(io.BytesIO(GOLDEN))))
    assert taken.count(False) < 0.2 * len(taken)


@given(seed=st.integers(0, 1 << 20))
@settings(max_examples=150)
def test_captures_any_order_loss_repetition_and_damage(seed):
    rng = np.random.default_rng(seed)
    parts = blocks(GOLDEN)
    head, packets = parts[:2], parts[2:]
    for _ in range(rng.integers(0, 6)):
        one, other = (int(i) for i in rng.integers(0, len(packets), 2))
        match rng.integers(0, 5):
            case 0:
                del packets[one]
            case 1:
                packets.insert(other, packets[one])
            case 2:
                packets[one], packets[other] = packets[other], packets[one]
            case 3:  # an answer before what it acknowledges
                packets[one : one + 2] = packets[one : one + 2][::-1]
            case _:
                changed = bytearray(packets[one])
                changed[int(rng.integers(28, 68))] ^= 1 << int(rng.integers(0, 8))
                packets[one] = bytes(changed)
    assert same(lambda: PcapngReader(io.BytesIO(b"".join(head + packets))))


CLIENT, SERVER = Endpoint(b"\x0a\0\0\1", 40_000), Endpoint(b"\x0a\0\0\2", 9_009)
segment = st.tuples(
    st.booleans(),
    st.integers(-60, 400),
    st.integers(-60, 400),
    st.sampled_from(
        [Flags.ACK, Flags.ACK, Flags.ACK | Flags.PSH, Flags(0), Flags.SYN, Flags.ACK | Flags.FIN, Flags.RST]
    ),
    st.integers(0, 60),
    st.sampled_from([0, 0, 0, 20, 50]),
    st.sampled_from([b"", b"", b"\1\1\1\1"]),
)


@given(segments=st.lists(segment, min_size=3, max_size=25), base=st.sampled_from([1_000, 2**32 - 100]))
@settings(max_examples=300)
def test_captures_any_segments(segments, base):
    """Sequence numbers near each other and near the wrap, all flags, payloads cut by the snapshot length, options, padding."""
    packets = [
        build_ipv4_tcp(CLIENT, SERVER, base - 1, 0, Flags.SYN),
        build_ipv4_tcp(SERVER, CLIENT, base - 1, base, Flags.SYN | Flags.ACK),
    ]
    records = [(packet, len(packet)) for packet in packets]
    at = {True: 0, False: 0}
    for from_client, skew, ack_skew, flags, length, cut, options in segments:
        sequence = at[from_client] + (skew if abs(skew) % 5 == 0 else 0)
        acknowledged = at[not from_client] + (ack_skew if abs(ack_skew) % 5 == 0 else 0)
        ends = (CLIENT, SERVER) if from_client else (SERVER, CLIENT)
        numbers = ((base + sequence) % 2**32, (base + acknowledged) % 2**32)
        packet = build_ipv4_tcp(*ends, *numbers, int(flags), bytes([length]) * length, options=options)
        at[from_client] = max(at[from_client], sequence + length)
        records.append((packet[: max(len(packet) - cut, 20)], len(packet)))
    data = bytearray(pcap([(i, data) for i, (data, _) in enumerate(records)], link_field=101))
    position = 24
    for captured, original in records:
        data[position + 12 : position + 16] = original.to_bytes(4, "little")
        position += 16 + len(captured)
    assert same(lambda: PcapReader(io.BytesIO(bytes(data))))


def test_captures_what_waits_for_what_it_acknowledges_comes_out_as_soon_as_that_is_there():
    def packet(from_client, sequence, acknowledged, data=b"", flags=Flags.ACK):
        ends = (CLIENT, SERVER) if from_client else (SERVER, CLIENT)
        return build_ipv4_tcp(*ends, sequence, acknowledged, int(flags), data)

    packets = [
        packet(True, 99, 0, flags=Flags.SYN),
        packet(False, 199, 100, flags=Flags.SYN | Flags.ACK),
        packet(False, 200, 104, b"answer"),
        packet(True, 100, 200, b"ask?"),
        packet(True, 104, 200, b"more"),
    ]
    found = same(lambda: PcapReader(io.BytesIO(pcap(list(enumerate(packets)), link_field=101))))
    assert [event.data for event in found if hasattr(event, "data")] == [b"ask?", b"answer", b"more"]


# Two connections of IPv4 and one of IPv6, whose packets are mixed, repeated, lost, damaged and cut.
TALKS = [(CLIENT, SERVER), (Endpoint(CLIENT.address, 40_001), SERVER), (CLIENT6, SERVER6)]
LINKS = {101: b"", 1: bytes(12), 113: bytes(14), 276: b""}


def framed(link_type, packet, tags):
    kind = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
    if link_type == 101:
        return packet
    if link_type == 276:
        return kind + bytes(18) + packet
    return LINKS[link_type] + b"\x81\x00\x00\x07" * tags + kind + packet


def packed(talk, from_client, numbers, flags, data):
    source, destination = TALKS[talk] if from_client else TALKS[talk][::-1]
    if len(source.address) == 4:
        return build_ipv4_tcp(source, destination, *numbers, int(flags), data)
    four = build_ipv4_tcp(
        Endpoint(bytes(4), source.port), Endpoint(bytes(4), destination.port), *numbers, int(flags), data
    )
    return struct.pack(">IHBB", 6 << 28, len(four) - 20, 6, 64) + source.address + destination.address + four[20:]


def interleaved(rng):
    """Packets of three conversations, most with a handshake."""
    at = {(talk, way): int(rng.integers(0, 1 << 32)) for talk in range(3) for way in (True, False)}
    packets = []

    def send(talk, way, flags, size=0):
        numbers = (at[talk, way], at[talk, not way])
        packets.append(packed(talk, way, numbers, flags, rng.bytes(size)))
        at[talk, way] = (at[talk, way] + size + bool(flags & (Flags.SYN | Flags.FIN))) % (1 << 32)

    for talk in range(3):
        if rng.random() < 0.8:
            send(talk, True, Flags.SYN)
            send(talk, False, Flags.SYN | Flags.ACK)
    for _ in range(40):
        talk, way = int(rng.integers(0, 3)), bool(rng.random() < 0.5)
        send(talk, way, Flags.ACK, int(rng.integers(1, 90)) if rng.random() < 0.6 else 0)
        if rng.random() < 0.02:
            send(talk, way, Flags.ACK | (Flags.FIN if rng.random() < 0.5 else Flags.RST))
    return packets


def disturbed(rng, packets):
    for _ in range(int(rng.integers(0, 7))):
        one, other = (int(i) for i in rng.integers(0, len(packets), 2))
        match rng.integers(0, 5):
            case 0:
                del packets[one]
            case 1:
                packets.insert(other, packets[one])
            case 2:
                packets[one], packets[other] = packets[other], packets[one]
            case 3:
                changed = bytearray(packets[one])
                changed[int(rng.integers(0, len(changed)))] ^= 1 << int(rng.integers(0, 8))
                packets[one] = bytes(changed)
            case _:
                packets[one] += bytes(6)  # padding of the link
    return packets


@given(
    seed=st.integers(0, 1 << 31),
    known=st.sampled_from([2, 3, 9]),
    link_type=st.sampled_from(sorted(LINKS)),
    kind=st.sampled_from(["pcap", "pcapng", "gz"]),
)
@settings(max_examples=250)
def test_captures_connections_interleaved_on_any_link(seed, known, link_type, kind):
    rng = np.random.default_rng(seed)
    records = []
    for packet in disturbed(rng, interleaved(rng)):
        data = framed(link_type, packet, int(rng.integers(0, 3)) if rng.random() < 0.2 else 0)
        records.append((data[: len(data) - int(rng.integers(0, 50))] if rng.random() < 0.05 else data, len(data)))
    if kind == "pcapng":
        file = io.BytesIO()
        writer = PcapngWriter(file, link_type=link_type)
        for time_ns, (data, _) in enumerate(records):
            writer.write_packet(time_ns, data)
        whole = file.getvalue()
        assert same(lambda: PcapngReader(io.BytesIO(whole)), known)
        return
    whole = pcap([(1000 * i, data, original) for i, (data, original) in enumerate(records)], link_field=link_type)
    if kind == "gz":
        packed_file = gzip.compress(whole, 1)
        assert same(lambda: open_source(CountingFile(io.BytesIO(packed_file), ""), "").packets(), known)
    else:
        assert same(lambda: PcapReader(io.BytesIO(whole)), known)


@pytest.mark.parametrize("short", [False, True])
def test_captures_bytes_keep_no_padding_and_no_options_in_memory(short):
    """What is held is counted by its payload, so that a small payload must not hold a large packet or block."""
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for sequence, flags, source, destination in (
        (0, Flags.SYN, CLIENT, SERVER),
        (0, Flags.SYN | Flags.ACK, SERVER, CLIENT),
    ):
        writer.write_packet(0, build_ipv4_tcp(source, destination, sequence, 1, int(flags)))
    for sequence in range(1, 9):
        padding, comment = (bytes(60_000), "") if sequence % 2 else (b"", "x" * 60_000)
        packet = build_ipv4_tcp(CLIENT, SERVER, sequence, 1, int(Flags.ACK), b"!")
        writer.write_packet(sequence, packet + padding, comment=comment)
    found = events(lambda: PcapngReader(io.BytesIO(file.getvalue())), short=short, connections=3, keep=True)
    chunks = [event for event in found if isinstance(event, Chunk)]
    assert [chunk.offset for chunk in chunks] == list(range(8))
    assert max(len(chunk.data.obj) for chunk in chunks) < 2_000


def test_captures_overlaps_of_one_byte_are_compared():
    reassembler = Reassembler()
    packets = [
        build_ipv4_tcp(CLIENT, SERVER, 0, 0, int(Flags.SYN)),
        build_ipv4_tcp(SERVER, CLIENT, 0, 1, int(Flags.SYN | Flags.ACK)),
        build_ipv4_tcp(CLIENT, SERVER, 1, 1, int(Flags.ACK), b"abc"),
        build_ipv4_tcp(CLIENT, SERVER, 3, 1, int(Flags.ACK), b"Xde"),
    ]
    found = list(stream_events(PcapReader(io.BytesIO(pcap(list(enumerate(packets)), link_field=101))), reassembler))
    assert [bytes(event.data) for event in found if isinstance(event, Chunk)] == [b"abc", b"de"]
    (conflict,) = (event for event in found if isinstance(event, StreamFinding) and event.code is FindingCode.CONFLICT)
    assert (conflict.offset, conflict.length, conflict.packet) == (2, 1, 4)
    assert reassembler.unchecked == 0


def test_captures_packets_longer_than_allowed_are_refused_though_they_were_read_ahead():
    reader = iter(PcapReader(io.BytesIO(pcap([(0, bytes(40)), (1, bytes(41))])), max_packet=40))
    assert len(next(reader).data) == 40
    with pytest.raises(CaptureError, match="expected at most 40, got 41"):
        next(reader)
