"""The short way of packets that go on where their stream is: from a captured packet to its bytes in one step.

Most packets of a capture are whole TCP segments, in order, of a connection that is known and holds nothing back. What they make
known is one `Chunk`, or nothing (a bare acknowledgement). `Lane.take` does for them what the layers and
`Conversation.accept` would, at a fraction of the cost, and leaves every other packet to those, untouched.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pp1wire.capture._conversation import Conversation, Stream
from pp1wire.capture._pieces import Memory, owned
from pp1wire.capture.events import Chunk
from pp1wire.capture.links import ip_offset
from pp1wire.capture.packets import Endpoint
from pp1wire.capture.pcapng import CapturedPacket

__all__ = ["Key", "Lane"]

Key = tuple[Endpoint, Endpoint]
"""Of a connection: its ends, the lower one first."""

# Version, total length, fragment bits, protocol, ends, sequence, acknowledgement, TCP header length and flags.
_IPV4 = struct.Struct(">BxHxxHxBxx12sIIH").unpack_from
# Version, payload length, next header, ends, and as above.
_IPV6 = struct.Struct(">BxxxHBx36sIIH").unpack_from
_IPV4_BYTES, _IPV6_BYTES, _TCP_BYTES = 20, 40, 20
_TCP = 6
_MORE_OR_OFFSET = 0x3FFF
_OTHER_THAN_DATA, _ACK = 0x07, 0x10  # FIN, SYN and RST
_MASK, _HALF = 0xFFFFFFFF, 1 << 31


class _Way(NamedTuple):
    """One direction of a connection."""

    key: Key
    conversation: Conversation
    stream: Stream
    other: Stream


class Lane:
    """Shares a reassembler's `table` (least recently seen first) and `memory`."""

    def __init__(self, table: dict[Key, Conversation], memory: Memory) -> None:
        self._table = table
        self._memory = memory
        self._ways: dict[bytes, _Way] = {}  # by addresses and ports as packets have them
        self.latest: Conversation | None = None
        """The last one of `table`."""

    def open(self, key: Key, conversation: Conversation) -> None:
        """From now on packets of a connection that `is_calm` may go this way."""
        for stream, other in conversation.pairs:
            ends = _ends(stream.source, other.source)
            if ends not in self._ways:
                self._ways[ends] = _Way(key, conversation, stream, other)

    def close(self, conversation: Conversation) -> None:
        """The connection is forgotten."""
        for stream, other in conversation.pairs:
            self._ways.pop(_ends(stream.source, other.source), None)

    def take(self, packet: CapturedPacket) -> Chunk | bool:
        """What a packet that may go this way makes known, True for nothing; False for any other, with nothing done."""
        number, time_ns, link_type, on_link, data, _ = packet
        size = len(data)
        start = ip_offset(link_type, data, on_link)
        if start is None or size - start < _IPV4_BYTES + _TCP_BYTES:
            return False
        version, total, bits, protocol, ends, sequence, acknowledged, flags = _IPV4(data, start)
        header = _IPV4_BYTES
        if version != 0x45:
            if version >> 4 != 6 or size - start < _IPV6_BYTES + _TCP_BYTES:
                return False
            version, total, protocol, ends, sequence, acknowledged, flags = _IPV6(data, start)
            bits, header, total = 0, _IPV6_BYTES, total + _IPV6_BYTES
        way = self._ways.get(ends)
        tcp = flags >> 12 << 2
        header += tcp
        end = start + total
        if (
            way is None
            or protocol != _TCP
            or bits & _MORE_OR_OFFSET
            or flags & _OTHER_THAN_DATA
            or tcp < _TCP_BYTES
            or header > total
            or end > size
        ):
            return False
        key, conversation, stream, other = way
        connection, base, other_base = conversation.connection, stream.base, other.base
        if (
            not conversation.is_calm
            or connection is None
            or base is None
            or other_base is None
            or (sequence - base - stream.next) & _MASK
        ):
            return False
        if flags & _ACK:
            ahead = (acknowledged - other_base - other.next) & _MASK
            if 0 < ahead < _HALF:
                return False  # it shows that something of the other direction is missing, or yet to come
        if conversation is not self.latest:
            self._table[key] = self._table.pop(key)
            self.latest = conversation
        if header == total:
            return True
        payload = data[start + header : end]
        if size > 2 * (end - start - header) + 1024:
            payload = owned(payload)  # not to keep the padding of a small packet
        chunk = tuple.__new__(Chunk, (connection, stream.direction, stream.next, payload, number, time_ns))
        stream.next += total - header
        self._memory.remember(stream.recent, chunk)
        return chunk


def _ends(source: Endpoint, destination: Endpoint) -> bytes:
    ports = source.port.to_bytes(2, "big") + destination.port.to_bytes(2, "big")
    return source.address + destination.address + ports
