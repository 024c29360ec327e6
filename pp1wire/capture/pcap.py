"""pcap files, as tcpdump writes them: a streaming reader.

Source: "PCAP Capture File Format", draft-ietf-opsawg-pcap. A file is a header of 24 bytes and a row of records (time,
captured length, original length, packet); the magic number tells the byte order, and whether times are in micro- or
nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from pp1wire.capture._input import CaptureError, Input, Readable
from pp1wire.capture.pcapng import MAX_BLOCK, CapturedPacket, Truncated

__all__ = ["PCAP_MAGICS", "PcapReader"]


class _Format(NamedTuple):
    mark: str
    """Byte order, as `struct` has it."""
    nanoseconds: int
    """What a unit of a record's second time field is worth."""


PCAP_MAGICS: Final = {
    bytes.fromhex("d4c3b2a1"): _Format("<", 1000),
    bytes.fromhex("a1b2c3d4"): _Format(">", 1000),
    bytes.fromhex("4d3cb2a1"): _Format("<", 1),
    bytes.fromhex("a1b23c4d"): _Format(">", 1),
}
"""The first four bytes of every pcap file."""

_HEADER_BYTES, _RECORD_BYTES = 24, 16
_NANO = 1_000_000_000


class PcapReader:
    """Iterates over the packets of a pcap file, forwards only, one packet in memory at a time.

    Args:
        file: binary file or pipe.
        max_packet: longest accepted packet in bytes.
        start: bytes of the file that the caller has already read (to recognise its format).

    Iterating yields `CapturedPacket`s and, where the file ends inside a packet, one `Truncated` last. It raises
    `CaptureError` with the offset where the bytes are not pcap, once all packets before have been yielded.
    """

    def __init__(self, file: Readable, *, max_packet: int = MAX_BLOCK, start: bytes = b"") -> None:
        self._input = Input(file, start)
        self._max_packet = max_packet

    def __iter__(self) -> Iterator[CapturedPacket | Truncated]:
        header = self._input.read(_HEADER_BYTES)
        if not any(magic.startswith(header[:4]) for magic in PCAP_MAGICS):
            raise CaptureError(0, f"not a pcap file: expected {_magics()}, got {header[:4].hex()}")
        if len(header) < _HEADER_BYTES:
            yield Truncated(0, _HEADER_BYTES, len(header))
            return
        mark, unit = PCAP_MAGICS[header[:4]]
        major, minor, link_field = struct.unpack(mark + "4xHH12xI", header)
        if (major, minor) != (2, 4):
            raise CaptureError(4, f"pcap version: expected 2.4, got {major}.{minor}")
        # The upper half tells how long the frame check sequences are; they lie behind the IP packet.
        link_type = link_field & 0xFFFF
        record = struct.Struct(mark + "IIII")
        number = 0
        while True:
            for usual in self._usual_packets(record, unit, link_type, number):
                number += 1
                yield usual
            at = self._input.offset
            head = self._input.read(_RECORD_BYTES)
            if not head and not self._input.cut:
                return
            if len(head) < _RECORD_BYTES:
                yield Truncated(at, _RECORD_BYTES, len(head))
                return
            seconds, fraction, captured, original = record.unpack(head)
            if captured > self._max_packet:
                raise CaptureError(at, f"captured length: expected at most {self._max_packet}, got {captured}")
            data = self._input.read(captured)
            if len(data) < captured:
                yield Truncated(at, _RECORD_BYTES + captured, _RECORD_BYTES + len(data))
                return
            number += 1
            time_ns = seconds * _NANO + fraction * unit
            yield CapturedPacket(number, time_ns, link_type, original, memoryview(data), at)

    def _usual_packets(self, record: struct.Struct, unit: int, link_type: int, number: int) -> Iterator[CapturedPacket]:
        """The packets that come next, as long as they were read ahead whole and are as they should be.

        Args:
            number: of packets before them.
        """
        ahead, first = self._input.ahead
        before = self._input.offset - first
        begin, last = first, len(ahead) - _RECORD_BYTES
        while begin <= last:
            seconds, fraction, captured, original = record.unpack_from(ahead, begin)
            end = begin + _RECORD_BYTES + captured
            if captured > self._max_packet or end > len(ahead):
                break
            number += 1
            # A copy, so that who keeps a small packet does not keep all that was read with it.
            data = memoryview(ahead[begin + _RECORD_BYTES : end])
            time_ns = seconds * _NANO + fraction * unit
            yield tuple.__new__(CapturedPacket, (number, time_ns, link_type, original, data, before + begin))
            begin = end
        self._input.skip(begin - first)


def _magics() -> str:
    return ", ".join(magic.hex() for magic in PCAP_MAGICS)
