"""Packets laid out by hand: IPv6, fragments, links, and pcap files."""

from __future__ import annotations

import struct
from itertools import pairwise

from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import Endpoint, Flags, Segment, Skipped, build_ipv4_tcp
from pp1wire.capture.pcapng import LINKTYPE_RAW, CapturedPacket

CLIENT, SERVER = Endpoint(bytes([10, 0, 0, 1]), 40_000), Endpoint(bytes([10, 0, 0, 2]), 9_000)
CLIENT6 = Endpoint(bytes.fromhex("20010db8") + bytes(11) + b"\1", 40_000)
SERVER6 = Endpoint(bytes.fromhex("20010db8") + bytes(11) + b"\2", 9_000)


def captured(data: bytes, number: int = 1, *, original: int | None = None, link_type: int = LINKTYPE_RAW, time_ns=None):
    return CapturedPacket(
        number, time_ns, link_type, len(data) if original is None else original, memoryview(data), 100 * number
    )


def parse(data: bytes, *, original: int | None = None, link_type: int = LINKTYPE_RAW) -> Segment | Skipped | None:
    return Layers().add(captured(data, original=original, link_type=link_type))


def segment(data: bytes, **options) -> Segment:
    found = parse(data, **options)
    assert isinstance(found, Segment), found
    return found


def skipped(data: bytes, **options) -> Skipped:
    found = parse(data, **options)
    assert isinstance(found, Skipped), found
    return found


def tcp4(payload: bytes = b"payload", sequence: int = 1) -> bytes:
    return build_ipv4_tcp(CLIENT, SERVER, sequence, 2, Flags.ACK, payload)


def tcp_part(payload: bytes = b"payload", sequence: int = 1) -> bytes:
    """The TCP segment of `tcp4`, without IP."""
    return tcp4(payload, sequence)[20:]


def ipv4(
    payload: bytes, *, identification: int = 7, offset: int = 0, more: bool = False, protocol: int = 6, ends=None
) -> bytes:
    source, destination = ends or (CLIENT, SERVER)
    bits = offset // 8 | more << 13
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), identification, bits, 64, protocol, 0)
    return header + source.address + destination.address + payload


def ipv6(payload: bytes, following: int = 6, *, length: int | None = None) -> bytes:
    length = len(payload) if length is None else length
    return struct.pack(">IHBB", 6 << 28, length, following, 64) + CLIENT6.address + SERVER6.address + payload


def extension(following: int, size: int = 8, fill: bytes = b"") -> bytes:
    """A header that counts in units of 8 bytes."""
    body = fill or bytes(size - 2)
    return bytes([following, size // 8 - 1]) + body


def fragment_header(following: int, offset: int, more: bool, identification: int = 7) -> bytes:
    return struct.pack(">BBHI", following, 0, offset | more, identification)


def fragments4(payload: bytes, cuts: list[int], **options) -> list[bytes]:
    """An IPv4 datagram in parts, cut at these multiples of 8."""
    places = [0, *sorted(cuts), len(payload)]
    pairs = pairwise(places)
    return [ipv4(payload[a:b], offset=a, more=b < len(payload), **options) for a, b in pairs]


def fragments6(payload: bytes, cuts: list[int], *, following: int = 6, identification: int = 7) -> list[bytes]:
    places = [0, *sorted(cuts), len(payload)]
    pairs = pairwise(places)
    return [ipv6(fragment_header(following, a, b < len(payload), identification) + payload[a:b], 44) for a, b in pairs]


def pcap(
    packets, *, mark: str = "<", nano: bool = False, link_field: int = LINKTYPE_RAW, version: tuple[int, int] = (2, 4)
) -> bytes:
    """A file of (time in ns, packet) or (time in ns, packet, original length)."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    file = struct.pack(mark + "IHHiIII", magic, *version, 0, 0, 1 << 18, link_field)
    for time_ns, data, *original in packets:
        seconds, rest = divmod(time_ns, 10**9)
        file += struct.pack(mark + "IIII", seconds, rest if nano else rest // 1000, len(data), *original or [len(data)])
        file += data
    return file
