"""Which packets of a capture are for which of the processes that share it.

All of them read the whole file. Of each plain TCP segment one look at addresses and ports tells whose it is; everything
else (fragments, extension headers, what cannot be read) is looked at by all, since what comes of it is not known before.
RoCEv2 is the first one's. So the connections that a process follows are the very ones that a process alone would see.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final

from pp1wire.capture._conversation import Conversation
from pp1wire.capture.events import Event, PacketFinding, StreamEvent
from pp1wire.capture.links import ip_offset
from pp1wire.capture.packets import Segment
from pp1wire.capture.pcapng import CapturedPacket, Truncated
from pp1wire.capture.reassembly import Reassembler, stream_events
from pp1wire.capture.roce import RoceReassembler

__all__ = ["Share"]

# Version, length, fragment bits, protocol, ends, TCP header length and flags.
_IPV4 = struct.Struct(">BxHxxHxBxx12sxxxxxxxxH").unpack_from
_IPV6 = struct.Struct(">BxxxHBx36sxxxxxxxxH").unpack_from
_IPV4_BYTES, _IPV6_BYTES, _TCP_BYTES = 20, 40, 20
_TCP, _UDP = 6, 17
_MORE_OR_OFFSET = 0x3FFF

_NOT_OWN: Final = 0
"""Number of all connections that are the first one's."""
_AT_END: Final = 1 << 62  # behind every packet
_ROCE_AT_END: Final = 1 << 63
_DEALT: Final = 4096
"""Connections that are dealt out in turn, as that is fairest to a few; the others go by a checksum of their ends."""


class Share:
    """One process's part of the packets of a file. Every process deals connections out alike, as each sees them in one order.

    Args:
        index: of this process, from 0.
        count: of processes.
    """

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        self._count = count
        self._own: dict[bytes, bool] = {}  # by ends, both ways
        self.known_at = array("Q")
        """When each of its connections became known, in the order of their numbers; comparable with those of other shares."""
        self._now = 0

    def events(self, packets: Iterable[CapturedPacket | Truncated], **bounds: int) -> Iterator[Event]:
        """As `stream_events` with a `Reassembler` of these bounds, of this part alone.

        What concerns no connection is the first one's.
        """
        reassembler = _SharedReassembler(self, **bounds)
        roce = RoceReassembler(numbers=reassembler.numbers if self.index == 0 else repeat(_NOT_OWN))
        for event in stream_events(self._packets(packets), reassembler, roce):
            if self.index == 0 or not _is_first_ones(event):
                yield event

    def owns(self, ends: bytes) -> bool:
        """Whether the connection between these ends (both addresses, then both ports) is its own."""
        own = self._own.get(ends)
        if own is None:
            half, ports = (len(ends) - 4) // 2, len(ends) - 4
            back = ends[half:ports] + ends[:half] + ends[ports + 2 :] + ends[ports : ports + 2]
            if len(self._own) < 2 * _DEALT:
                own = len(self._own) // 2 % self._count == self.index
                self._own[ends] = self._own[back] = own
            else:
                own = zlib.crc32(min(ends, back)) % self._count == self.index
        return own

    def settles(self, packet: int) -> None:
        """The next number is for a connection whose last packet is this one, if the capture is over."""
        if self._now >= _AT_END:
            self._now = _AT_END + packet

    def tcp_is_over(self) -> None:
        """Further numbers are for RoCEv2."""
        self._now = _ROCE_AT_END

    def numbers(self) -> Iterator[int]:
        """Of its connections, as they become known."""
        while True:
            self.known_at.append(self._now)
            yield len(self.known_at)

    def _packets(self, packets: Iterable[CapturedPacket | Truncated]) -> Iterator[CapturedPacket | Truncated]:
        own, owns, takes_udp = self._own, self.owns, self.index == 0
        try:
            for item in packets:
                if isinstance(item, CapturedPacket):
                    ends = _ends_of(item)
                    if ends is not None and not own.get(ends) and not (owns(ends) if ends else takes_udp):
                        continue
                    self._now = item.number
                yield item
        finally:
            self._now = _AT_END


class _SharedReassembler(Reassembler):
    """Follows the connections of a share alone."""

    def __init__(self, share: Share, **bounds: int) -> None:
        super().__init__(**bounds)
        self._share = share
        self.numbers = share.numbers()

    def add(self, packet: int, time_ns: int | None, segment: Segment) -> list[StreamEvent]:
        source, destination = segment.source, segment.destination
        ports = source.port.to_bytes(2, "big") + destination.port.to_bytes(2, "big")
        if not self._share.owns(source.address + destination.address + ports):
            return []
        return super().add(packet, time_ns, segment)

    def finish(self) -> list[StreamEvent]:
        events = super().finish()
        self._share.tcp_is_over()
        return events

    def _settle(self, conversation: Conversation) -> None:
        self._share.settles(conversation.latest_packet)
        super()._settle(conversation)


def _ends_of(packet: CapturedPacket) -> bytes | None:
    """Both addresses and both ports of a plain TCP segment; b"" for plain UDP; None for what has to be looked at in full.

    Plain: whole, no fragment, no IP options or extension headers, lengths that agree. `Layers` reads it without a finding.
    """
    _, _, link_type, on_link, data, _ = packet
    size = len(data)
    start = ip_offset(link_type, data, on_link)
    if start is None or size - start < _IPV4_BYTES + _TCP_BYTES:
        return None
    version, total, bits, protocol, ends, flags = _IPV4(data, start)
    header = _IPV4_BYTES
    if version != 0x45:
        if version >> 4 != 6 or size - start < _IPV6_BYTES + _TCP_BYTES:
            return None
        version, total, protocol, ends, flags = _IPV6(data, start)
        bits, header, total = 0, _IPV6_BYTES, total + _IPV6_BYTES
    if bits & _MORE_OR_OFFSET or start + total > size:
        return None
    if protocol != _TCP:
        return b"" if protocol == _UDP else None
    tcp = flags >> 12 << 2
    return ends if tcp >= _TCP_BYTES and header + tcp <= total else None


def _is_first_ones(event: Event) -> bool:
    return isinstance(event, (PacketFinding, Truncated)) or event.connection.number == _NOT_OWN
