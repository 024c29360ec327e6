"""Link layers: where the IP packet begins in a captured packet.

Source: the link-type registry of draft-ietf-opsawg-pcaplinktype (tcpdump's LINKTYPE_ list); IEEE 802.1Q and 802.1ad
(VLAN tags).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pp1wire.capture.packets import SkipCode, Skipped, short
from pp1wire.capture.pcapng import LINKTYPE_RAW

__all__ = ["LINK_TYPES", "ip_offset", "network_offset"]

_ETHERNET: Final = 1
_ETHERNET_BYTES: Final = 14
_VLAN_TAGS: Final = frozenset({0x8100, 0x88A8, 0x9100, 0x9200})
_IP_ETHERTYPES: Final = frozenset({0x0800, 0x86DD})
# What systems call IPv4 and IPv6 in a loopback header: AF_INET is 2 everywhere, AF_INET6 differs.
_IP_FAMILIES: Final = frozenset({2, 10, 23, 24, 26, 28, 30})


def network_offset(link_type: int, data: memoryview, original: int) -> int | Skipped:
    """Bytes before the IP packet.

    Args:
        link_type: of the capture's interface; those of `LINK_TYPES` are read.
        data: the captured bytes.
        original: the packet's length on the link; more than `len(data)` where it was cut.
    """
    find = _LINKS.get(link_type)
    if find is None:
        return Skipped(SkipCode.UNSUPPORTED, f"link type {link_type}: expected one of {list(LINK_TYPES)}")
    return find(data, original)


def ip_offset(link_type: int, data: memoryview, on_link: int) -> int | None:
    """`network_offset`, quickly where a packet is as most are; None where it says that the packet is skipped."""
    if link_type == LINKTYPE_RAW:
        return 0
    if link_type == _ETHERNET and len(data) > _ETHERNET_BYTES and (data[12] << 8 | data[13]) in _IP_ETHERTYPES:
        return _ETHERNET_BYTES
    found = network_offset(link_type, data, max(on_link, len(data)))
    return found if isinstance(found, int) else None


def _by_ethertype(what: str, header: int, at: int) -> Callable[[memoryview, int], int | Skipped]:
    """A link header of `header` bytes with an EtherType at `at`, and VLAN tags behind it."""

    def find(data: memoryview, original: int) -> int | Skipped:
        end = header
        if len(data) < end:
            return short(what, end, len(data), original)
        kind = data[at] << 8 | data[at + 1]
        while kind in _VLAN_TAGS:
            end += 4
            if len(data) < end:
                return short(what, end, len(data), original)
            kind = data[end - 2] << 8 | data[end - 1]
        if kind not in _IP_ETHERTYPES:
            return Skipped(SkipCode.NOT_TCP, f"EtherType {kind:#06x}")
        return end

    return find


def _loopback(data: memoryview, original: int) -> int | Skipped:
    """An address family as a number of 4 bytes, in the byte order of whoever captured."""
    if len(data) < 4:
        return short("loopback header", 4, len(data), original)
    families = {int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big")}
    if not families & _IP_FAMILIES:
        return Skipped(SkipCode.NOT_TCP, f"address family {min(families)}")
    return 4


def _raw(_data: memoryview, _original: int) -> int | Skipped:
    return 0


_LINKS: Final[dict[int, Callable[[memoryview, int], int | Skipped]]] = {
    0: _loopback,  # NULL: BSD loopback
    _ETHERNET: _by_ethertype("Ethernet header", _ETHERNET_BYTES, 12),
    12: _raw,  # what some systems write for RAW
    14: _raw,
    LINKTYPE_RAW: _raw,
    108: _loopback,  # LOOP: OpenBSD loopback
    113: _by_ethertype("Linux cooked header", 16, 14),
    228: _raw,  # IPv4
    229: _raw,  # IPv6
    276: _by_ethertype("Linux cooked header, version 2", 20, 0),
}

LINK_TYPES: Final = tuple(sorted(_LINKS))
"""The link types that are read."""
