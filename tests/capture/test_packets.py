"""IPv4/TCP packets, built and read; checksums against published examples and a plain loop."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import (
    MAX_PAYLOAD,
    Endpoint,
    Flags,
    Segment,
    SkipCode,
    Skipped,
    build_ipv4_tcp,
    internet_checksum,
)
from pp1wire.capture.pcapng import LINKTYPE_RAW, CapturedPacket

CLIENT, SERVER = Endpoint(bytes([10, 0, 0, 1]), 40_000), Endpoint(bytes([10, 0, 0, 2]), 9_000)

u32 = st.integers(0, 2**32 - 1)
endpoints = st.builds(Endpoint, st.binary(min_size=4, max_size=4), st.integers(0, 65_535))


def sum_by_words(data: bytes) -> int:
    """RFC 1071, word by word."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def parse(data: bytes, original: int | None = None, link_type: int = LINKTYPE_RAW) -> Segment | Skipped:
    original = len(data) if original is None else original
    found = Layers().add(CapturedPacket(1, None, link_type, original, memoryview(data), 0))
    assert found is not None
    return found


def segment(data: bytes, original: int | None = None) -> Segment:
    found = parse(data, original)
    assert isinstance(found, Segment), found
    return found


def skipped(data: bytes, original: int | None = None, link_type: int = LINKTYPE_RAW) -> Skipped:
    found = parse(data, original, link_type)
    assert isinstance(found, Skipped), found
    return found


def build(payload: bytes = b"payload", options: bytes = b"") -> bytearray:
    return bytearray(build_ipv4_tcp(CLIENT, SERVER, 1, 2, Flags.ACK, payload, options=options))


def test_checksum_has_the_published_values() -> None:
    # RFC 1071 section 3, and an IPv4 header whose checksum is b861.
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2
    assert internet_checksum(bytes.fromhex("45000073000040004011 0000 c0a80001c0a800c7")) == 0xB861
    assert internet_checksum(bytes.fromhex("45000073000040004011 b861 c0a80001c0a800c7")) == 0


@given(st.one_of(st.binary(max_size=64), st.sampled_from([b"\xff\xff", b"\0" * 8, b"\xff\xfe\x00\x01", b"\xff"])))
def test_checksum_is_the_sum_by_words(data: bytes) -> None:
    assert internet_checksum(data) == 0xFFFF - sum_by_words(data)


@given(endpoints, endpoints, u32, u32, st.integers(0, 31), st.binary(max_size=40), st.integers(0, 10))
def test_what_is_built_is_read_and_its_checksums_hold(
    source: Endpoint, destination: Endpoint, sequence: int, acknowledgement: int, flags: int, payload: bytes, words: int
) -> None:
    packet = build_ipv4_tcp(source, destination, sequence, acknowledgement, flags, payload, options=b"\1\1\1\1" * words)
    found = segment(packet)
    assert found[:5] == (source, destination, sequence, acknowledgement, flags)
    assert (bytes(found.payload), found.length) == (payload, len(payload))
    assert sum_by_words(packet[:20]) == 0xFFFF
    assert sum_by_words(packet[12:20] + struct.pack(">HH", 6, len(packet) - 20) + packet[20:]) == 0xFFFF


def test_caps_reached_by_the_largest_packet() -> None:
    packet = build_ipv4_tcp(CLIENT, SERVER, 0, 0, 0, bytes(MAX_PAYLOAD))
    assert len(packet) == 65_535
    assert segment(packet).length == MAX_PAYLOAD
    with pytest.raises(ValueError, match="at most 65535 bytes, got 65536"):
        build_ipv4_tcp(CLIENT, SERVER, 0, 0, 0, bytes(MAX_PAYLOAD + 1))


@pytest.mark.parametrize("options", [b"abc", bytes(44)])
def test_options_that_do_not_fit_are_refused(options: bytes) -> None:
    with pytest.raises(ValueError, match="TCP options: expected a multiple of 4, at most 40 bytes"):
        build(options=options)


def test_an_address_that_is_not_ipv4_is_refused() -> None:
    with pytest.raises(ValueError, match="addresses: expected 4 bytes each, got 16 and 4"):
        build_ipv4_tcp(Endpoint(bytes(16), 1), SERVER, 0, 0, 0)


def test_endpoints_read_as_people_write_them() -> None:
    assert str(CLIENT) == "10.0.0.1:40000"
    assert str(Endpoint(bytes(15) + b"\1", 80)) == "[::1]:80"


def test_ip_options_and_padding_are_passed_over() -> None:
    packet = build()
    packet[0] = 0x46
    packet[2:4] = (len(packet) + 4).to_bytes(2, "big")
    packet[20:20] = b"\1\1\1\0"
    assert bytes(segment(bytes(packet) + b"link padding").payload) == b"payload"


def test_a_total_length_of_zero_means_the_whole_packet() -> None:
    packet = build()
    packet[2:4] = b"\0\0"
    assert bytes(segment(bytes(packet)).payload) == b"payload"


def test_honest_bad_checksums_are_normal() -> None:
    packet = build()
    packet[10:12] = packet[36:38] = b"\0\0"
    assert bytes(segment(bytes(packet)).payload) == b"payload"


def test_honest_snapshot_cut_keeps_what_was_captured() -> None:
    packet = bytes(build())
    found = segment(packet[:43], len(packet))
    assert (bytes(found.payload), found.length) == (b"pay", 7)
    inside_options = bytes(build(options=bytes(8)))[:44]
    assert segment(inside_options, 55)[5:] == (memoryview(b""), 7)


@pytest.mark.parametrize("length", range(40))
def test_honest_snapshot_cut_inside_the_headers(length: int) -> None:
    packet = bytes(build())
    assert skipped(packet[:length], len(packet)).code is SkipCode.CUT
    assert skipped(packet[:length]).code is SkipCode.MALFORMED


def changed(offset: int, new: bytes) -> bytes:
    packet = build()
    packet[offset : offset + len(new)] = new
    return bytes(packet)


SKIPPED = {
    "version": (changed(0, b"\x05"), SkipCode.MALFORMED, "IP version: expected 4 or 6, got 0"),
    "header length": (changed(0, b"\x44"), SkipCode.MALFORMED, "IPv4 header length: expected 20 to 47, got 16"),
    "header over total": (changed(2, b"\0\x13"), SkipCode.MALFORMED, "IPv4 header length: expected 20 to 19, got 20"),
    "total length": (changed(2, b"\0\x30"), SkipCode.MALFORMED, "IPv4 total length: expected at most 47, got 48"),
    "UDP": (changed(9, b"\x11"), SkipCode.NOT_TCP, "UDP"),
    "ICMP": (changed(9, b"\x01"), SkipCode.NOT_TCP, "IP protocol 1"),
    "TCP header short": (changed(32, b"\x40"), SkipCode.MALFORMED, "TCP header length: expected 20 to 27, got 16"),
    "TCP header long": (changed(32, b"\xf0"), SkipCode.MALFORMED, "TCP header length: expected 20 to 27, got 60"),
    "no room for TCP": (changed(2, b"\0\x27"), SkipCode.MALFORMED, "TCP header: expected at least 20 bytes, got 19"),
}


@pytest.mark.parametrize(("packet", "code", "message"), SKIPPED.values(), ids=SKIPPED)
def test_packets_without_a_segment_say_why(packet: bytes, code: SkipCode, message: str) -> None:
    found = skipped(packet)
    assert found.code is code
    assert message in found.message


@given(st.binary(max_size=80), st.integers(0, 2**32 - 1), st.sampled_from([LINKTYPE_RAW, 1]))
def test_one_family_of_results_for_any_bytes(tail: bytes, original: int, link_type: int) -> None:
    for data in (tail, b"\x45\0\0\0\0\0\0\0\0\6" + tail, b"\x60\0\0\0\0\0\0" + tail):
        found = Layers().add(CapturedPacket(1, None, link_type, original, memoryview(data), 0))
        assert found is None or isinstance(found, Segment | Skipped)
        if isinstance(found, Segment):
            assert len(found.payload) <= found.length
