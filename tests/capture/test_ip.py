"""IP headers: IPv6 with its extension headers, and packets larger than any on a link."""

from __future__ import annotations

import struct

import pytest

from pp1wire.capture.packets import SkipCode
from tests.capture.packing import CLIENT6, SERVER6, extension, fragment_header, ipv6, segment, skipped, tcp4, tcp_part

HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION, MOBILITY = 0, 43, 44, 51, 60, 135
TCP = 6


def authentication(following: int, words: int = 6) -> bytes:
    return bytes([following, words - 2]) + bytes(4 * words - 2)


def test_honest_ipv6_is_read() -> None:
    found = segment(ipv6(tcp_part()) + b"link padding")
    assert found[:5] == (CLIENT6, SERVER6, 1, 2, 16)
    assert (bytes(found.payload), found.length) == (b"payload", 7)
    assert str(found.source) == "[2001:db8::1]:40000"


EXTENSIONS = {
    "hop by hop": (HOP, extension(TCP)),
    "a long one": (DESTINATION, extension(TCP, 2048)),
    "routing": (ROUTING, extension(TCP, 24)),
    "authentication": (AUTHENTICATION, authentication(TCP)),
    "authentication, not a multiple of 8": (AUTHENTICATION, authentication(TCP, 7)),
    "mobility": (MOBILITY, extension(TCP, 16)),
    "a fragment that is the whole": (FRAGMENT, fragment_header(TCP, 0, False)),
    "all": (
        HOP,
        extension(DESTINATION) + extension(ROUTING) + extension(FRAGMENT, 24)
        + fragment_header(AUTHENTICATION, 0, False) + authentication(DESTINATION) + extension(TCP),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTENSIONS)
def test_honest_extension_headers_are_passed_over_and_their_cuts_told(name) -> None:
    following, headers = EXTENSIONS[name]
    data = ipv6(headers + tcp_part(), following)
    found = segment(data)
    assert (bytes(found.payload), found.length) == (b"payload", 7)
    for cut in range(0, 40 + len(headers), 7):
        assert skipped(data[:cut], original=len(data)).code is SkipCode.CUT


def test_an_extension_header_longer_than_the_packet_is_malformed() -> None:
    found = skipped(ipv6(bytes([TCP, 200]) + bytes(30), HOP))
    assert found == (SkipCode.MALFORMED, "IPv6 extension header: expected at most 32 bytes, got 1608")
    found = skipped(ipv6(extension(TCP)[:6], HOP))
    assert found == (SkipCode.MALFORMED, "IPv6 extension header: expected at least 8 bytes, got 6 of 6")


def test_a_payload_longer_than_the_packet_is_malformed() -> None:
    found = skipped(ipv6(tcp_part(), length=28))
    assert found == (SkipCode.MALFORMED, "IPv6 payload length: expected at most 27, got 28")


@pytest.mark.parametrize("protocol", [58, 59, 50])
def test_other_protocols_over_ipv6_are_no_tcp(protocol) -> None:
    assert skipped(ipv6(bytes(40), protocol)) == (SkipCode.NOT_TCP, f"IP protocol {protocol}")
    assert skipped(ipv6(extension(protocol) + bytes(40), HOP)) == (SkipCode.NOT_TCP, f"IP protocol {protocol}")


# Segmentation offload: packets larger than 16 bits can say.

LARGE = bytes(range(256)) * 1200


def jumbo(length: int) -> bytes:
    return extension(TCP, fill=b"\xc2\x04" + struct.pack(">I", length))


def padded_jumbo(length: int) -> bytes:
    return extension(TCP, 24, b"\0\x01\x02\0\0\0" + b"\xc2\x04" + struct.pack(">I", length) + bytes(10))


def test_honest_super_packets_are_read_whole() -> None:
    packet = tcp4(b"")[:2] + b"\0\0" + tcp4(b"")[4:] + LARGE
    found = segment(packet)
    assert found.payload == LARGE
    assert found.length == len(LARGE) == 307_200
    for header in (jumbo, padded_jumbo, lambda _: extension(TCP), lambda _: jumbo(0)):
        size = len(header(0))
        packet = ipv6(header(size + 20 + len(LARGE)) + tcp_part(b"") + LARGE, HOP, length=0)
        found = segment(packet)
        assert found.payload == LARGE
        assert segment(packet[:1000], original=len(packet)).length == len(LARGE)
    assert segment(ipv6(tcp_part(b"") + LARGE, length=0)).payload == LARGE


def test_a_jumbo_length_is_believed_as_far_as_there_is_a_packet() -> None:
    body = tcp_part()
    assert segment(ipv6(jumbo(8 + len(body)) + body + b"padding", HOP, length=0)).payload == b"payload"
    found = skipped(ipv6(jumbo(8 + len(body) + 1) + body, HOP, length=0))
    assert found == (SkipCode.MALFORMED, "IPv6 payload length: expected at most 35, got 36")


def test_honest_a_super_packet_in_a_capture_of_ordinary_length_limits() -> None:
    """What a snapshot length of 64 KB leaves of one."""
    packet = tcp4(b"")[:2] + b"\0\0" + tcp4(b"")[4:] + LARGE
    found = segment(packet[:65_535], original=len(packet))
    assert (len(found.payload), found.length) == (65_535 - 40, len(LARGE))
