"""Packets: from the bytes of one captured packet to one TCP segment, and back.

Source: RFC 791 (IPv4), RFC 9293 (TCP), RFC 1071 (checksum). Only headers are read here; nothing is put together
across packets. A checksum is never a reason to refuse a captured packet: network cards fill checksums in after the
capture has seen the packet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntFlag, StrEnum
from ipaddress import ip_address
from typing import NamedTuple

from pp1wire.capture.pcapng import LINKTYPE_RAW

__all__ = [
    "MAX_PAYLOAD",
    "Endpoint",
    "Flags",
    "Segment",
    "SkipCode",
    "Skipped",
    "build_ipv4_tcp",
    "internet_checksum",
    "parse_packet",
]

_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_TCP = struct.Struct(">HHIIHHHH")
_TCP_PROTOCOL = 6
_DONT_FRAGMENT = 0x4000
_MORE_OR_OFFSET = 0x3FFF

MAX_PAYLOAD = 65_535 - 40
"""Most payload bytes of one IPv4/TCP packet without options."""


class Flags(IntFlag):
    """TCP control bits."""

    FIN = 1
    SYN = 2
    RST = 4
    PSH = 8
    ACK = 16


class Endpoint(NamedTuple):
    """One end of a TCP connection."""

    address: bytes
    """4 bytes (IPv4) or 16 (IPv6), network order."""
    port: int

    def __str__(self) -> str:
        host = str(ip_address(self.address))
        return f"{host}:{self.port}" if len(self.address) == 4 else f"[{host}]:{self.port}"


class Segment(NamedTuple):
    """One TCP segment."""

    source: Endpoint
    destination: Endpoint
    sequence: int
    """u32; of the SYN, or of the payload's first byte."""
    acknowledgement: int
    """u32; meaningful with `Flags.ACK`."""
    flags: int
    payload: memoryview
    """The captured part of the payload, a view of the packet."""
    length: int
    """Payload bytes on the link; more than `len(payload)` where a snapshot length cut the packet."""


class SkipCode(StrEnum):
    """Why a packet yields no segment."""

    NOT_TCP = "not_tcp"
    """A whole packet of another protocol: nothing is wrong."""
    UNSUPPORTED = "unsupported"
    """It may carry TCP, in a form that is not read here."""
    MALFORMED = "malformed"
    """A header contradicts itself or the packet's length."""
    CUT = "cut"
    """The snapshot length cut the packet inside its headers."""


class Skipped(NamedTuple):
    """A packet that yields no segment."""

    code: SkipCode
    message: str


def internet_checksum(data: bytes | memoryview) -> int:
    """RFC 1071 checksum of `data`, as it is stored; 0 where `data` includes its own correct checksum.

    The ones'-complement sum of 16-bit words is the number modulo 65,535, since 2^16 = 1 there: one big-integer
    remainder instead of a loop over words.
    """
    number = int.from_bytes(data, "big") << (8 * (len(data) % 2))
    return (-number % 0xFFFF) if number else 0xFFFF


def build_ipv4_tcp(
    source: Endpoint,
    destination: Endpoint,
    sequence: int,
    acknowledgement: int,
    flags: int,
    payload: bytes | memoryview = b"",
    *,
    window: int = 0xFFFF,
    options: bytes = b"",
) -> bytes:
    """One IPv4 packet with one TCP segment and both checksums.

    Addresses are 4 bytes; `sequence` and `acknowledgement` are u32; `options` are TCP options, padded to a multiple
    of 4, at most 40 bytes. Raises `ValueError` where the result would exceed 65,535 bytes or the options 40.
    """
    if len(options) > 40 or len(options) % 4:
        raise ValueError(f"TCP options: expected a multiple of 4, at most 40 bytes, got {len(options)}")
    if len(source.address) != 4 or len(destination.address) != 4:
        raise ValueError(f"addresses: expected 4 bytes each, got {len(source.address)} and {len(destination.address)}")
    tcp_length = 20 + len(options) + len(payload)
    if tcp_length + 20 > 0xFFFF:
        raise ValueError(f"IPv4 packet: expected at most 65535 bytes, got {tcp_length + 20}")
    offset_and_flags = (20 + len(options)) // 4 << 12 | flags
    tcp = (source.port, destination.port, sequence, acknowledgement, offset_and_flags, window)
    pseudo = struct.pack(">4s4sHH", source.address, destination.address, _TCP_PROTOCOL, tcp_length)
    checksum = internet_checksum(b"".join((pseudo, _TCP.pack(*tcp, 0, 0), options, payload)))
    # "Don't fragment" allows an identification of 0 (RFC 6864).
    ip = (0x45, 0, 20 + tcp_length, 0, _DONT_FRAGMENT, 64, _TCP_PROTOCOL)
    ip_checksum = internet_checksum(_IPV4.pack(*ip, 0, source.address, destination.address))
    ip_header = _IPV4.pack(*ip, ip_checksum, source.address, destination.address)
    return b"".join((ip_header, _TCP.pack(*tcp, checksum, 0), options, payload))


def parse_packet(link_type: int, data: memoryview, original_length: int) -> Segment | Skipped:
    """The TCP segment in a captured packet.

    Args:
        link_type: of the capture's interface; those of `_LINK_PARSERS` are read.
        data: the captured bytes.
        original_length: the packet's length on the link; more than `len(data)` where it was cut.

    Padding after the IP packet is dropped. An IP total length of 0 (left so by segmentation offload) means "the whole
    packet".
    """
    parser = _LINK_PARSERS.get(link_type)
    if parser is None:
        return Skipped(SkipCode.UNSUPPORTED, f"link type {link_type}: expected one of {sorted(_LINK_PARSERS)}")
    return parser(data, max(original_length, len(data)))


def _short(what: str, needed: int, captured: int, original: int) -> Skipped:
    """A header that ends too early: by the snapshot length's fault, or by the packet's own."""
    code = SkipCode.CUT if original >= needed else SkipCode.MALFORMED
    return Skipped(code, f"{what}: expected at least {needed} bytes, got {captured} of {original}")


def _parse_raw(data: memoryview, original: int) -> Segment | Skipped:
    if not data:
        return _short("IP header", 20, 0, original)
    version = data[0] >> 4
    if version == 4:
        return _parse_ipv4(data, original)
    if version == 6:
        return Skipped(SkipCode.UNSUPPORTED, "IPv6")
    return Skipped(SkipCode.MALFORMED, f"IP version: expected 4 or 6, got {version}")


def _parse_ipv4(data: memoryview, original: int) -> Segment | Skipped:
    if len(data) < 20:
        return _short("IPv4 header", 20, len(data), original)
    first, _service, total, _identification, fragment, _ttl, protocol, _checksum, source, destination = (
        _IPV4.unpack_from(data)
    )
    header = (first & 0x0F) * 4
    total = total or original
    if header < 20 or header > total:
        return Skipped(SkipCode.MALFORMED, f"IPv4 header length: expected 20 to {total}, got {header}")
    if total > original:
        return Skipped(SkipCode.MALFORMED, f"IPv4 total length: expected at most {original}, got {total}")
    if protocol != _TCP_PROTOCOL:
        return Skipped(SkipCode.NOT_TCP, f"IP protocol {protocol}")
    if fragment & _MORE_OR_OFFSET:
        return Skipped(SkipCode.UNSUPPORTED, f"IPv4 fragment at byte {(fragment & 0x1FFF) * 8}")
    return _parse_tcp(source, destination, data[header:total], total - header)


def _parse_tcp(source: bytes, destination: bytes, data: memoryview, original: int) -> Segment | Skipped:
    if len(data) < 20:
        return _short("TCP header", 20, len(data), original)
    source_port, destination_port, sequence, acknowledgement, bits, _window, _checksum, _urgent = _TCP.unpack_from(data)
    header = (bits >> 12) * 4
    if header < 20 or header > original:
        return Skipped(SkipCode.MALFORMED, f"TCP header length: expected 20 to {original}, got {header}")
    return Segment(
        Endpoint(source, source_port),
        Endpoint(destination, destination_port),
        sequence,
        acknowledgement,
        bits & 0x1FF,
        data[header:],
        original - header,
    )


def _parse_ethernet(data: memoryview, original: int) -> Segment | Skipped:
    at = 12
    while True:
        if len(data) < at + 2:
            return _short("Ethernet header", at + 2, len(data), original)
        kind = int.from_bytes(data[at : at + 2], "big")
        if kind not in _VLAN_TAGS:
            return _parse_by_ethertype(kind, data, original, at + 2)
        at += 4


def _parse_by_ethertype(kind: int, data: memoryview, original: int, header: int) -> Segment | Skipped:
    if kind not in _IP_ETHERTYPES:
        return Skipped(SkipCode.NOT_TCP, f"EtherType {kind:#06x}")
    return _parse_raw(data[header:], original - header)


def _behind(what: str, header: int, ethertype_at: int | None) -> Callable[[memoryview, int], Segment | Skipped]:
    """A parser of a link header of fixed length, with an EtherType at `ethertype_at` if it has one."""

    def parse(data: memoryview, original: int) -> Segment | Skipped:
        if len(data) < header:
            return _short(what, header, len(data), original)
        if ethertype_at is None:
            return _parse_raw(data[header:], original - header)
        kind = int.from_bytes(data[ethertype_at : ethertype_at + 2], "big")
        return _parse_by_ethertype(kind, data, original, header)

    return parse


_VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_IP_ETHERTYPES = frozenset({0x0800, 0x86DD})

# The tcpdump link-type registry: each parser strips its own header and hands on to `_parse_raw`.
_LINK_PARSERS: dict[int, Callable[[memoryview, int], Segment | Skipped]] = {
    0: _behind("BSD loopback header", 4, None),
    1: _parse_ethernet,
    LINKTYPE_RAW: _parse_raw,
    108: _behind("loopback header", 4, None),
    113: _behind("Linux cooked header", 16, 14),
    228: _parse_raw,
    276: _behind("Linux cooked header, version 2", 20, 0),
}
