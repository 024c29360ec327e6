"""TCP segments: what a packet that carries one says, and how the recorder builds one.

Source: RFC 791 (IPv4), RFC 9293 (TCP), RFC 1071 (checksum). A checksum is never a reason to refuse a captured packet:
network cards fill checksums in after the capture has seen the packet.
"""

from __future__ import annotations

import struct
from enum import IntFlag, StrEnum
from ipaddress import ip_address
from typing import NamedTuple

__all__ = [
    "MAX_PAYLOAD",
    "Endpoint",
    "Flags",
    "Segment",
    "SkipCode",
    "Skipped",
    "build_ipv4_tcp",
    "internet_checksum",
    "parse_tcp",
    "short",
]

_IPV4 = struct.Struct(">BBHHHBBH4s4s")
_TCP = struct.Struct(">HHIIHHHH")
_TCP_PROTOCOL = 6
_DONT_FRAGMENT = 0x4000
_MORE_OR_OFFSET = 0x3FFF  # of a fragment
_IPV4_BYTES = 20
_VERSION_4 = 0x45  # with a header of 20 bytes
_PLAIN = struct.Struct(">BBHHHBBH4s4sHHIIHxxxxxx")
"""An IPv4 header without options, and a TCP header."""

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
    NOT_SEND = "not_send"
    """RoCEv2 in another form than SENDs of a reliable connection: nothing is wrong, but it could carry something."""
    CONFLICT = "conflict"
    """Two fragments hold different bytes for the same place of a datagram; it was dropped."""
    MISSING_FRAGMENT = "missing_fragment"
    """Not all fragments of a datagram are in the capture."""


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


def short(what: str, needed: int, captured: int, original: int) -> Skipped:
    """A header that ends too early: by the snapshot length's fault, or by the packet's own."""
    code = SkipCode.CUT if original >= needed else SkipCode.MALFORMED
    return Skipped(code, f"{what}: expected at least {needed} bytes, got {captured} of {original}")


def usual_segment(data: memoryview, start: int, original: int) -> Segment | None:
    """The segment of a whole, plain IPv4 packet at `start` of `data`, at a third of the cost; None to look at it in full.

    Plain: without IP options, not a fragment, not cut. It is what `parse_ip` and `parse_tcp` would make of it.

    Args:
        original: length of `data` on the link.
    """
    if len(data) - start < _PLAIN.size:
        return None
    (
        version, _, total, _, bits, _, protocol, _, source, destination,
        source_port, destination_port, sequence, acknowledgement, flags,
    ) = _PLAIN.unpack_from(data, start)  # fmt: skip
    header = _IPV4_BYTES + (flags >> 12) * 4
    end = start + total
    if (
        version != _VERSION_4
        or protocol != _TCP_PROTOCOL
        or bits & _MORE_OR_OFFSET
        or header < _IPV4_BYTES + _TCP.size
        or header > total
        or end > len(data)
        or end > original
    ):
        return None
    return Segment(
        Endpoint(source, source_port),
        Endpoint(destination, destination_port),
        sequence,
        acknowledgement,
        flags & 0x1FF,
        data[start + header : end],
        total - header,
    )


def parse_tcp(source: bytes, destination: bytes, data: memoryview, original: int) -> Segment | Skipped:
    """The segment in an IP payload of `original` bytes, of which `data` were captured, between two IP addresses."""
    if len(data) < 20:
        return short("TCP header", 20, len(data), original)
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
