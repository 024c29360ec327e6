"""Link layers: each header is stripped, and where it is cut, that is told."""

from __future__ import annotations

import pytest

from pp1wire.capture.packets import SkipCode
from tests.capture.packing import CLIENT, ipv6, segment, skipped, tcp4, tcp_part

FOUR, SIX = b"\x08\x00", b"\x86\xdd"
LINKS = {
    "Ethernet": (1, bytes(12) + FOUR),
    "VLAN": (1, bytes(12) + b"\x81\x00\x00\x07" + FOUR),
    "two VLANs": (1, bytes(12) + b"\x88\xa8\x00\x07\x81\x00\x00\x08" + FOUR),
    "four VLANs": (1, bytes(12) + b"\x91\x00\x00\x07\x92\x00\x00\x08\x81\x00\x00\x01\x81\x00\x00\x02" + FOUR),
    "BSD loopback": (0, b"\x02\0\0\0"),
    "BSD loopback of a big-endian machine": (0, b"\0\0\0\x02"),
    "OpenBSD loopback": (108, b"\0\0\0\x02"),
    "Linux cooked": (113, bytes(14) + FOUR),
    "Linux cooked with a VLAN": (113, bytes(14) + b"\x81\x00\x00\x07" + FOUR),
    "Linux cooked 2": (276, FOUR + bytes(18)),
    "Linux cooked 2 with a VLAN": (276, b"\x81\x00" + bytes(18) + b"\x00\x07" + FOUR),
    "raw": (101, b""),
    "raw, as BSD numbers it": (12, b""),
    "raw, as OpenBSD numbers it": (14, b""),
    "raw IPv4": (228, b""),
}
LINKS6 = {
    "Ethernet": (1, bytes(12) + SIX),
    "VLAN": (1, bytes(12) + b"\x81\x00\x00\x07" + SIX),
    "Linux cooked": (113, bytes(14) + SIX),
    "Linux cooked 2": (276, SIX + bytes(18)),
    "raw": (101, b""),
    "raw IPv6": (229, b""),
    **{f"loopback, family {n}": (0, n.to_bytes(4, "little")) for n in (10, 24, 28, 30)},
}


@pytest.mark.parametrize("name", LINKS)
def test_honest_the_links_of_usual_captures_are_read_and_their_cuts_told(name) -> None:
    link_type, header = LINKS[name]
    data = header + tcp4() + bytes(4)
    found = segment(data, link_type=link_type)
    assert (bytes(found.payload), found.length, found.source) == (b"payload", 7, CLIENT)
    for cut in range(len(header)):
        assert skipped(data[:cut], original=len(data), link_type=link_type).code is SkipCode.CUT
        assert skipped(data[:cut], link_type=link_type).code is SkipCode.MALFORMED


@pytest.mark.parametrize("name", LINKS6)
def test_honest_ipv6_is_read_behind_every_link(name) -> None:
    link_type, header = LINKS6[name]
    found = segment(header + ipv6(tcp_part()) + bytes(4), link_type=link_type)
    assert (bytes(found.payload), found.length) == (b"payload", 7)


@pytest.mark.parametrize("name", ["Ethernet", "VLAN", "four VLANs", "Linux cooked", "Linux cooked with a VLAN"])
def test_other_ethertypes_are_no_tcp(name) -> None:
    link_type, header = LINKS[name]
    for kind in (b"\x08\x06", b"\x00\x40", b"\x88\xcc"):
        found = skipped(header[:-2] + kind + tcp4(), link_type=link_type)
        assert found == (SkipCode.NOT_TCP, f"EtherType 0x{kind.hex()}")


def test_another_address_family_on_a_loopback_is_no_tcp() -> None:
    assert skipped(b"\x07\0\0\0" + tcp4(), link_type=0) == (SkipCode.NOT_TCP, "address family 7")


def test_an_unknown_link_type_is_unsupported() -> None:
    found = skipped(tcp4(), link_type=147)
    assert found.code is SkipCode.UNSUPPORTED
    assert "link type 147: expected one of [0, 1, 12, 14, 101, 108, 113, 228, 229, 276]" in found.message
