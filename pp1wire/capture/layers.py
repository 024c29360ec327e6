"""From captured packets to TCP segments and RoCEv2 packets: link layer, IP and its fragments, TCP and UDP."""

from __future__ import annotations

from pp1wire.capture.events import PacketFinding
from pp1wire.capture.fragments import Fragments
from pp1wire.capture.ip import TCP, UDP, Fragment, parse_extensions, parse_ip
from pp1wire.capture.links import network_offset
from pp1wire.capture.packets import Segment, SkipCode, Skipped, parse_tcp, usual_segment
from pp1wire.capture.pcapng import CapturedPacket
from pp1wire.capture.rocev2 import CmMessage, RocePacket, parse_rocev2

__all__ = ["Layers"]


class Layers:
    """Takes the packets of a capture in order.

    Args:
        fragments: puts IP datagrams together; a new one with its default bounds unless given.
    """

    def __init__(self, fragments: Fragments | None = None) -> None:
        self._fragments = Fragments() if fragments is None else fragments

    def add(self, packet: CapturedPacket) -> Segment | RocePacket | CmMessage | Skipped | None:
        """What a packet, or the datagram that it completes, holds; None for other fragments.

        Padding behind the IP packet is dropped.
        """
        original = max(packet.original_length, len(packet.data))
        start = network_offset(packet.link_type, packet.data, original)
        if isinstance(start, Skipped):
            return start
        usual = usual_segment(packet.data, start, original)
        if usual is not None:
            return usual
        found = parse_ip(packet.data[start:], original - start)
        if isinstance(found, Fragment):
            whole = self._fragments.add(found, packet.number, packet.time_ns)
            if whole is None or isinstance(whole, Skipped):
                return whole
            found = parse_extensions(whole)
            if isinstance(found, Fragment):
                return Skipped(SkipCode.MALFORMED, "an IP fragment inside a fragmented datagram")
        if isinstance(found, Skipped):
            return found
        if found.protocol == TCP:
            return parse_tcp(found.source, found.destination, found.payload, found.length)
        if found.protocol == UDP:
            return parse_rocev2(found.source, found.destination, found.payload, found.length)
        return Skipped(SkipCode.NOT_TCP, f"IP protocol {found.protocol}")

    def take_lost(self) -> list[PacketFinding]:
        """Datagrams that were given up since the last call."""
        return self._fragments.take_lost()

    def finish(self) -> list[PacketFinding]:
        """The capture is over: what fragments were held for is told."""
        return self._fragments.finish()
