"""IP headers: IPv4, and IPv6 with its extension headers.

Source: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 2675 (jumbograms), RFC 4302 (authentication header). Nothing is put
together here: a fragment is told as one.

Segmentation offload hands packets to a capture that are larger than any on the link. Where one does not fit the
header's 16-bit length, the length is 0: the packet is then as long as it was captured.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from pp1wire.capture.packets import SkipCode, Skipped, short

__all__ = ["EXTENSIONS", "TCP", "UDP", "Datagram", "Fragment", "parse_extensions", "parse_ip"]

TCP, UDP = 6, 17

_IPV4 = struct.Struct(">xBHHHBBH4s4s")
_IPV6 = struct.Struct(">HBx16s16s")
_IPV6_BYTES = 40
_MORE_OR_OFFSET, _MORE, _OFFSET = 0x3FFF, 0x2000, 0x1FFF

_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
# Also mobility (RFC 6275), host identity (RFC 7401) and shim6 (RFC 5533): all count in units of 8 bytes.
EXTENSIONS: Final = frozenset({_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION, 135, 139, 140})
"""Numbers of the IPv6 extension headers that are passed over."""
_JUMBO_OPTION = 0xC2


class Datagram(NamedTuple):
    """What a whole IP packet carries."""

    source: bytes
    """4 bytes (IPv4) or 16 (IPv6), network order."""
    destination: bytes
    protocol: int
    payload: memoryview
    """The captured part."""
    length: int
    """Payload bytes on the link; more than `len(payload)` where a snapshot length cut the packet."""


class Fragment(NamedTuple):
    """A part of a datagram."""

    source: bytes
    destination: bytes
    protocol: int
    """Of IPv6 the first header behind the fragment header, which may be an extension."""
    identification: int
    offset: int
    """Of the part, in bytes of the datagram's payload."""
    more: bool
    """Whether another part follows."""
    payload: memoryview
    length: int


def parse_ip(data: memoryview, original: int) -> Datagram | Fragment | Skipped:
    """The payload of an IP packet with whatever follows it on the link, as link padding.

    Args:
        data: the captured bytes from the IP header on.
        original: how many there were on the link.
    """
    if not data:
        return short("IP header", 20, 0, original)
    version = data[0] >> 4
    if version == 4:
        return _parse_ipv4(data, original)
    if version == 6:
        return _parse_ipv6(data, original)
    return Skipped(SkipCode.MALFORMED, f"IP version: expected 4 or 6, got {version}")


def _parse_ipv4(data: memoryview, original: int) -> Datagram | Fragment | Skipped:
    if len(data) < 20:
        return short("IPv4 header", 20, len(data), original)
    _service, total, identification, bits, _ttl, protocol, _checksum, source, destination = _IPV4.unpack_from(data)
    header = (data[0] & 0x0F) * 4
    total = total or original
    if header < 20 or header > total:
        return Skipped(SkipCode.MALFORMED, f"IPv4 header length: expected 20 to {total}, got {header}")
    if total > original:
        return Skipped(SkipCode.MALFORMED, f"IPv4 total length: expected at most {original}, got {total}")
    payload, length = data[header:total], total - header
    if bits & _MORE_OR_OFFSET:
        offset, more = (bits & _OFFSET) * 8, bool(bits & _MORE)
        return Fragment(source, destination, protocol, identification, offset, more, payload, length)
    return Datagram(source, destination, protocol, payload, length)


def _parse_ipv6(data: memoryview, original: int) -> Datagram | Fragment | Skipped:
    if len(data) < _IPV6_BYTES:
        return short("IPv6 header", _IPV6_BYTES, len(data), original)
    length, protocol, source, destination = _IPV6.unpack_from(data, 4)
    if length == 0:
        length = _jumbo_length(data) if protocol == _HOP_BY_HOP else None
        length = original - _IPV6_BYTES if length is None else length
    if length > original - _IPV6_BYTES:
        expected = original - _IPV6_BYTES
        return Skipped(SkipCode.MALFORMED, f"IPv6 payload length: expected at most {expected}, got {length}")
    payload = data[_IPV6_BYTES : _IPV6_BYTES + length]
    return parse_extensions(Datagram(source, destination, protocol, payload, length))


def _jumbo_length(data: memoryview) -> int | None:
    """The length in a jumbo payload option; None where there is none (or it was cut off, or says 0)."""
    options = data[_IPV6_BYTES:]
    if len(options) > 1:
        options = options[2 : (options[1] + 1) * 8]
    at = 0
    while at + 2 <= len(options):
        if options[at] == 0:  # one byte of padding
            at += 1
            continue
        size = options[at + 1]
        if options[at] == _JUMBO_OPTION and size == 4 and at + 6 <= len(options):
            return int.from_bytes(options[at + 2 : at + 6], "big") or None
        at += 2 + size
    return None


def parse_extensions(datagram: Datagram) -> Datagram | Fragment | Skipped:
    """What stands behind the IPv6 extension headers that a payload begins with; a datagram without any as it is."""
    source, destination, protocol, payload, length = datagram
    while protocol in EXTENSIONS:
        if len(payload) < 8:
            return short("IPv6 extension header", 8, len(payload), length)
        following = payload[0]
        if protocol == _FRAGMENT:
            bits, identification = payload[2] << 8 | payload[3], int.from_bytes(payload[4:8], "big")
            payload, length = payload[8:], length - 8
            # A fragment that is the whole datagram belongs to no other (RFC 6946).
            if bits & 0xFFF9:
                offset, more = bits & 0xFFF8, bool(bits & 1)
                return Fragment(source, destination, following, identification, offset, more, payload, length)
        else:
            size = (payload[1] + 2) * 4 if protocol == _AUTHENTICATION else (payload[1] + 1) * 8
            if size > length:
                return Skipped(
                    SkipCode.MALFORMED, f"IPv6 extension header: expected at most {length} bytes, got {size}"
                )
            if size > len(payload):
                return short("IPv6 extension header", size, len(payload), length)
            payload, length = payload[size:], length - size
        protocol = following
    return Datagram(source, destination, protocol, payload, length)
