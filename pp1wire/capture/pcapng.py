"""pcapng files: a streaming writer and a streaming reader.

Source: "PCAP Now Generic (pcapng) Capture File Format", draft-ietf-opsawg-pcapng, sections 3 and 4. A file is a row
of blocks (type, length, body, length again); a section header fixes the byte order of all blocks up to the next one.

The writer hands each block to the file in one `write`, so that a file abandoned at any moment is whole up to its last
packet. The reader yields every whole packet before it says that the rest is cut: losing the tail of a capture must
never lose its head.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple

from pp1wire.capture._input import CaptureError, Input, Readable

__all__ = [
    "LINKTYPE_RAW",
    "MAX_BLOCK",
    "SECTION_HEADER",
    "CaptureError",
    "CapturedPacket",
    "PcapngReader",
    "PcapngWriter",
    "Readable",
    "Truncated",
]

LINKTYPE_RAW = 101
"""Packets begin with an IPv4 or IPv6 header (the IANA/tcpdump link-type registry)."""

_MAX_INTERFACES = 4096  # of a section; each stays in memory
MAX_BLOCK = 16 * 1024 * 1024
"""Longest block that the reader accepts, in bytes; what it holds of a file at once."""

SECTION_HEADER = b"\n\r\r\n"
"""The first four bytes of every pcapng file, in both byte orders."""

_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_IDB, _OBSOLETE_PB, _SPB, _EPB = 1, 2, 3, 6
_EPB_BYTES = 32  # of one without data and options
_OPT_COMMENT, _OPT_USERAPPL, _OPT_TSRESOL, _OPT_TSOFFSET = 1, 4, 9, 14
_NANO = 1_000_000_000


class CapturedPacket(NamedTuple):
    """One packet as it lies in the file."""

    number: int
    """Place in the file, from 1, as Wireshark counts."""
    time_ns: int | None
    """Nanoseconds since 1970-01-01 UTC; None in a simple packet block, which has no time."""
    link_type: int
    original_length: int
    """Bytes that the packet had on the link; more than `len(data)` where a snapshot length cut it."""
    data: memoryview
    """The captured bytes, owned by this packet: later reads do not change them."""
    offset: int
    """Where the packet's block begins in the file, in bytes."""


class Truncated(NamedTuple):
    """The file ends inside a block: always the last thing that a reader yields."""

    offset: int
    """Where the cut block begins in the file, in bytes."""
    needed: int
    """Bytes that were being waited for: the whole block, or its 12 leading bytes where not even its length is there."""
    available: int
    """Bytes of that block that are in the file."""
    code: Literal["truncated"] = "truncated"

    @property
    def message(self) -> str:
        """One line."""
        return f"the file ends inside the block at byte {self.offset}: {self.available} of {self.needed} bytes"


class _Order:
    """The structs of one byte order."""

    def __init__(self, mark: str) -> None:
        self.byteorder: Literal["little", "big"] = "little" if mark == "<" else "big"
        self.u32 = struct.Struct(mark + "I")
        self.head = struct.Struct(mark + "II")
        self.section = struct.Struct(mark + "HHq")
        self.interface = struct.Struct(mark + "HHI")
        self.whole_packet = struct.Struct(mark + "IIIIIII")
        self.packet = {_EPB: struct.Struct(mark + "IIIII"), _OBSOLETE_PB: struct.Struct(mark + "HxxIIII")}
        self.option = struct.Struct(mark + "HH")


_LITTLE, _BIG = _Order("<"), _Order(">")


class _Interface(NamedTuple):
    link_type: int
    snap_length: int
    ticks_a_second: int
    offset_ns: int

    def time_ns(self, ticks: int) -> int:
        """Nanoseconds since 1970."""
        if self.ticks_a_second != _NANO:
            ticks = ticks * _NANO // self.ticks_a_second
        return ticks + self.offset_ns


class PcapngReader:
    """Iterates over the packets of a pcapng file, forwards only, one block in memory at a time.

    Both byte orders, any number of sections and interfaces, `if_tsresol` (decimal and binary) and `if_tsoffset`,
    enhanced, simple and obsolete packet blocks; blocks and options of other types are passed over.

    Args:
        file: binary file or pipe.
        max_block: longest accepted block in bytes.
        start: bytes of the file that the caller has already read (to recognise its format).

    Iterating yields `CapturedPacket`s and, where the file ends inside a block, one `Truncated` last. It raises
    `CaptureError` with the block's offset where the bytes are not pcapng, once all packets before have been yielded.
    """

    def __init__(self, file: Readable, *, max_block: int = MAX_BLOCK, start: bytes = b"") -> None:
        self._input = Input(file, start)
        self._max_block = max_block
        self._order = _LITTLE
        self._interfaces: list[_Interface] = []

    def __iter__(self) -> Iterator[CapturedPacket | Truncated]:
        number = 0
        while True:
            for usual in self._usual_packets(number):
                number += 1
                yield usual
            at = self._input.offset
            head = self._input.read(12)
            if not head and at and not self._input.cut:
                return
            if at == 0 and not SECTION_HEADER.startswith(head[:4]):
                raise CaptureError(0, f"not a pcapng file: expected {SECTION_HEADER.hex()}, got {head[:4].hex()}")
            if len(head) < 12:
                yield Truncated(at, 12, len(head))
                return
            is_section = head[:4] == SECTION_HEADER
            if is_section:
                self._order = self._byte_order(at, head[8:12])
            order = self._order
            kind, length = order.head.unpack_from(head)
            if length < 12 or length % 4:
                raise CaptureError(at, f"block length: expected a multiple of 4, at least 12, got {length}")
            if length > self._max_block:
                raise CaptureError(at, f"block length: expected at most {self._max_block}, got {length}")
            block = head + self._input.read(length - 12)
            if len(block) < length:
                yield Truncated(at, length, len(block))
                return
            (trailer,) = order.u32.unpack_from(block, length - 4)
            if trailer != length:
                raise CaptureError(at, f"block length at the block's end: expected {length}, got {trailer}")
            if is_section:
                self._begin_section(at, block)
            elif kind == _IDB:
                if len(self._interfaces) >= _MAX_INTERFACES:
                    raise CaptureError(at, f"interfaces: expected at most {_MAX_INTERFACES} in a section")
                self._interfaces.append(self._interface(at, block))
            elif kind in (_EPB, _OBSOLETE_PB):
                number += 1
                yield self._packet(at, kind, block, number)
            elif kind == _SPB:
                number += 1
                yield self._simple_packet(at, block, number)

    def _usual_packets(self, number: int) -> Iterator[CapturedPacket]:
        """The enhanced packet blocks that come next, as long as they were read ahead whole and are as they should be.

        Args:
            number: of packets before them.
        """
        if not self._interfaces:
            return
        ahead, first = self._input.ahead
        before = self._input.offset - first
        unpack, trailer, interfaces = (
            self._order.whole_packet.unpack_from,
            self._order.u32.unpack_from,
            self._interfaces,
        )
        begin, size, interface_id, now = first, len(ahead), 0, interfaces[0]
        while size - begin >= _EPB_BYTES:
            kind, length, its_interface, high, low, captured, original = unpack(ahead, begin)
            end = begin + length
            if (
                kind != _EPB
                or not _EPB_BYTES <= length <= self._max_block
                or end > size
                or length & 3
                or captured > length - _EPB_BYTES
                or trailer(ahead, end - 4)[0] != length
            ):
                break
            if its_interface != interface_id:
                if its_interface >= len(interfaces):
                    break
                interface_id, now = its_interface, interfaces[its_interface]
            ticks = high << 32 | low
            time_ns = ticks + now.offset_ns if now.ticks_a_second == _NANO else now.time_ns(ticks)
            # A copy, so that who keeps a small packet does not keep all that was read with it.
            data = memoryview(ahead[begin + 28 : begin + 28 + captured])
            number += 1
            yield tuple.__new__(CapturedPacket, (number, time_ns, now.link_type, original, data, before + begin))
            begin = end
        self._input.skip(begin - first)

    @staticmethod
    def _byte_order(at: int, magic: bytes) -> _Order:
        for order in (_LITTLE, _BIG):
            if order.u32.unpack(magic)[0] == _BYTE_ORDER_MAGIC:
                return order
        raise CaptureError(at, f"byte-order magic: expected 1a2b3c4d in either order, got {magic.hex()}")

    def _begin_section(self, at: int, block: bytes) -> None:
        if len(block) < 28:
            raise CaptureError(at, f"section header: expected at least 28 bytes, got {len(block)}")
        major, minor, _length = self._order.section.unpack_from(block, 12)
        if major != 1:
            raise CaptureError(at, f"pcapng version: expected 1.x, got {major}.{minor}")
        self._interfaces = []

    def _interface(self, at: int, block: bytes) -> _Interface:
        if len(block) < 20:
            raise CaptureError(at, f"interface description: expected at least 20 bytes, got {len(block)}")
        link_type, _reserved, snap_length = self._order.interface.unpack_from(block, 8)
        ticks, offset_ns = 1_000_000, 0  # the format's defaults: microseconds since 1970
        for code, value in self._options(at, block, 16):
            if code == _OPT_TSRESOL:
                if len(value) != 1:
                    raise CaptureError(at, f"if_tsresol: expected 1 byte, got {len(value)}")
                power = value[0] & 0x7F
                ticks = 2**power if value[0] & 0x80 else 10**power
            elif code == _OPT_TSOFFSET:
                if len(value) != 8:
                    raise CaptureError(at, f"if_tsoffset: expected 8 bytes, got {len(value)}")
                offset_ns = int.from_bytes(value, self._order.byteorder, signed=True) * _NANO
        return _Interface(link_type, snap_length, ticks, offset_ns)

    def _options(self, at: int, block: bytes, position: int) -> Iterator[tuple[int, bytes]]:
        end = len(block) - 4
        while position < end:  # all lengths are multiples of 4, so that 4 bytes are there
            code, length = self._order.option.unpack_from(block, position)
            position += 4
            if length > end - position:
                raise CaptureError(at, f"option {code}: expected at most {end - position} bytes, got {length}")
            if code == 0:
                return
            yield code, block[position : position + length]
            position += length + (-length % 4)

    def _packet(self, at: int, kind: int, block: bytes, number: int) -> CapturedPacket:
        if len(block) < _EPB_BYTES:
            raise CaptureError(at, f"packet block: expected at least {_EPB_BYTES} bytes, got {len(block)}")
        interface_id, high, low, captured, original = self._order.packet[kind].unpack_from(block, 8)
        if interface_id >= len(self._interfaces):
            raise CaptureError(at, f"packet's interface: expected below {len(self._interfaces)}, got {interface_id}")
        if captured > len(block) - _EPB_BYTES:
            raise CaptureError(at, f"captured length: expected at most {len(block) - _EPB_BYTES}, got {captured}")
        interface = self._interfaces[interface_id]
        data = memoryview(block[28 : 28 + captured])  # a copy, without options of any length
        return CapturedPacket(number, interface.time_ns(high << 32 | low), interface.link_type, original, data, at)

    def _simple_packet(self, at: int, block: bytes, number: int) -> CapturedPacket:
        if len(block) < 16:
            raise CaptureError(at, f"simple packet block: expected at least 16 bytes, got {len(block)}")
        if not self._interfaces:
            raise CaptureError(at, "simple packet block: expected an interface description before it, got none")
        interface = self._interfaces[0]
        (original,) = self._order.u32.unpack_from(block, 8)
        captured = min(original, interface.snap_length or original)
        if captured > len(block) - 16:
            raise CaptureError(at, f"simple packet: expected at most {len(block) - 16} bytes, got {captured}")
        return CapturedPacket(number, None, interface.link_type, original, memoryview(block[12 : 12 + captured]), at)


class PcapngWriter:
    """Writes one section with one interface, little-endian, times in nanoseconds.

    Args:
        file: binary file or pipe open for writing. Unbuffered (`buffering=0`), a failed write (a full disk) is taken
            back, so that the file ends with a whole block; of a buffered one the operating system may keep a part,
            which readers report as truncated.
        link_type: of every packet.
        application: written into the section header.
        flush_every: flush after this many packets; 0 leaves it to the caller.

    Raises `CaptureError` where the file refuses bytes, and on every call after that.
    """

    def __init__(
        self, file: BinaryIO, *, link_type: int = LINKTYPE_RAW, application: str = "pp1wire", flush_every: int = 1
    ) -> None:
        self._file = file
        self._flush_every = flush_every
        self._failure: CaptureError | None = None
        self._origin: int | None = None
        with contextlib.suppress(OSError, ValueError):  # a pipe has no position, and needs none
            self._origin = file.tell()
        self.packets = 0
        """Packets written."""
        self.size = 0
        """Bytes of whole blocks written."""
        section = struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, -1) + _option(_OPT_USERAPPL, application.encode())
        # A snapshot length of 0 means "no limit".
        interface = struct.pack("<HHI", link_type, 0, 0) + _option(_OPT_TSRESOL, bytes([9]))
        self._write(_block(0x0A0D0D0A, section + _option(0, b"")) + _block(_IDB, interface + _option(0, b"")))
        self.flush()

    def write_packet(self, time_ns: int, packet: bytes, *, comment: str = "") -> None:
        """Append a whole packet, seen at `time_ns` (ns since 1970, 0 to 2^64 − 1); viewers show `comment` beside it."""
        if not 0 <= time_ns < 1 << 64:
            raise CaptureError(self.size, f"packet time: expected 0 to 2^64 - 1 ns, got {time_ns}")
        note = comment.encode("utf-8", "replace")
        if len(note) > 0xFFFF:
            raise CaptureError(self.size, f"packet comment: expected at most 65535 bytes, got {len(note)}")
        length = len(packet)
        fixed = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, length, length)
        options = _option(_OPT_COMMENT, note) + _option(0, b"") if note else b""
        self._write(_block(_EPB, b"".join((fixed, packet, bytes(-length % 4), options))))
        self.packets += 1
        if self._flush_every and self.packets % self._flush_every == 0:
            self.flush()

    def flush(self) -> None:
        """Hand everything written to the operating system."""
        try:
            self._file.flush()
        except (OSError, ValueError) as error:
            raise self._fail(error) from error

    def _write(self, block: bytes) -> None:
        if self._failure is not None:
            raise self._failure
        rest: bytes | memoryview = block
        try:
            # An unbuffered file may take a part only (a signal, a nearly full disk); the next call then takes the
            # rest or says why not.
            while written := self._file.write(rest):
                if written == len(rest):
                    self.size += len(block)
                    return
                rest = memoryview(rest)[written:]
            raise OSError("the file takes no more bytes")
        except (OSError, ValueError) as error:
            raise self._fail(error) from error

    def _fail(self, error: Exception) -> CaptureError:
        if self._origin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._file.seek(self._origin + self.size)
                self._file.truncate()
        self._failure = CaptureError(self.size, f"cannot write: {error}")
        return self._failure


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return b"".join((struct.pack("<II", kind, length), body, struct.pack("<I", length)))


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)
