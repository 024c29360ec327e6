"""pcapng files, written and read. Files that the writer cannot make are laid out by hand here, in both byte orders."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.pcapng import (
    LINKTYPE_RAW,
    MAX_BLOCK,
    CapturedPacket,
    CaptureError,
    PcapngReader,
    PcapngWriter,
    Truncated,
)
from pp1wire.errors import PP1Error

SECTION, INTERFACE, OBSOLETE, SIMPLE, ENHANCED, STATISTICS = 0x0A0D0D0A, 1, 2, 3, 6, 5

packets = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=70)), max_size=6)


def block(mark: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(mark + "I", len(body) + 12)
    return struct.pack(mark + "I", kind) + length + body + length


def option(mark: str, code: int, value: bytes) -> bytes:
    return struct.pack(mark + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(mark: str, major: int = 1) -> bytes:
    return block(mark, SECTION, struct.pack(mark + "IHHq", 0x1A2B3C4D, major, 0, -1))


def interface(mark: str, link_type: int = 101, snap_length: int = 0, options: bytes = b"") -> bytes:
    return block(mark, INTERFACE, struct.pack(mark + "HHI", link_type, 0, snap_length) + options)


def enhanced(mark: str, data: bytes, ticks: int = 0, number: int = 0, original: int | None = None) -> bytes:
    original = len(data) if original is None else original
    return block(
        mark, ENHANCED, struct.pack(mark + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original) + data
    )


def write(items: list[tuple[int, bytes]]) -> bytes:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for time_ns, data in items:
        writer.write_packet(time_ns, data)
    assert (writer.packets, writer.size) == (len(items), len(file.getvalue()))
    return file.getvalue()


def read(data: bytes) -> list[CapturedPacket | Truncated]:
    return list(PcapngReader(io.BytesIO(data)))


class Dribble(io.RawIOBase):
    """A pipe that gives one byte a read, and counts what it is asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)
        self.asked = 0

    def read(self, size: int = -1, /) -> bytes:
        self.asked = max(self.asked, size)
        return self._data.read(1)


@given(packets)
def test_what_is_written_is_read(items: list[tuple[int, bytes]]) -> None:
    found = read(write(items))
    assert [(p.number, p.time_ns, p.link_type, p.original_length, bytes(p.data)) for p in found] == [
        (i, time_ns, LINKTYPE_RAW, len(data), data) for i, (time_ns, data) in enumerate(items, 1)
    ]


def test_the_written_bytes_are_these() -> None:
    assert (
        write([(0x0102030405060708, b"abcde")]).hex()
        == (
            "0a0d0d0a2c0000004d3c2b1a01000000ffffffffffffffff"  # section, length unknown
            "04000700707031776972650000000000" + "2c000000"
            "010000002000000065000000000000000900010009000000" + "0000000020000000"
            "060000002800000000000000" + "0403020108070605" + "0500000005000000" + "6162636465000000" + "28000000"
        )
    )


@given(packets)
@settings(max_examples=20)
def test_every_cut_keeps_the_whole_packets(items: list[tuple[int, bytes]]) -> None:
    data = write(items)
    whole = read(data)
    starts = [p.offset for p in whole] + [len(data)]
    head = len(write([]))
    for cut in range(len(data)):
        found = read(data[:cut])
        kept = sum(1 for end in starts[1:] if end <= cut)
        at_boundary = cut in starts or cut == head or cut == 44  # between the section header and the interface
        assert found[:kept] == whole[:kept]
        assert [type(item) for item in found[kept:]] == ([] if at_boundary else [Truncated])
        if not at_boundary:
            last = found[-1]
            assert isinstance(last, Truncated)
            assert last.code == "truncated"
            assert last.offset + last.available == cut
            assert last.available < last.needed
            assert str(last.offset) in last.message


@pytest.mark.parametrize("mark", ["<", ">"], ids=["little-endian", "big-endian"])
def test_honest_reading_of_every_block_and_time_resolution(mark: str) -> None:
    data = b"".join(
        (
            section(mark),
            interface(mark),  # 0: microseconds by default
            interface(mark, 1, 4, option(mark, 2, b"eth0") + option(mark, 9, b"\x09") + option(mark, 0, b"") + b"junk"),
            interface(mark, 113, 0, option(mark, 9, b"\x8a") + option(mark, 14, struct.pack(mark + "q", -5))),
            interface(mark, 276, 0, option(mark, 9, b"\x0c")),  # 3: picoseconds
            block(mark, STATISTICS, b"skipped!"),
            block(mark, 0x80001234, b"unknown"),
            enhanced(mark, b"abc", ticks=1_700_000_000_123_456),
            enhanced(mark, b"abcd", ticks=2**40 + 7, number=1, original=1500),
            enhanced(mark, b"x", ticks=3 * 1024 + 512, number=2),
            enhanced(mark, b"", ticks=1999, number=3),
            block(mark, SIMPLE, struct.pack(mark + "I", 6) + b"simple"),
            block(mark, OBSOLETE, struct.pack(mark + "HHIIII", 1, 9, 1, 2, 2, 60) + b"ok" + bytes(2)),
        )
    )
    found = read(data)
    assert [(*p[:4], bytes(p.data)) for p in found] == [
        (1, 1_700_000_000_123_456_000, 101, 3, b"abc"),
        (2, 2**40 + 7, 1, 1500, b"abcd"),
        (3, -5_000_000_000 + 3_500_000_000, 113, 1, b"x"),
        (4, 1, 276, 0, b""),
        (5, None, 101, 6, b"simple"),
        (6, 2**32 + 2, 1, 60, b"ok"),
    ]


def test_a_simple_packet_is_cut_at_the_snapshot_length() -> None:
    data = section("<") + interface("<", snap_length=4) + block("<", SIMPLE, struct.pack("<I", 100) + b"abcd")
    (packet,) = read(data)
    assert (packet.original_length, bytes(packet.data)) == (100, b"abcd")


def test_a_new_section_has_its_own_byte_order_and_interfaces() -> None:
    data = b"".join(
        (
            section("<"),
            interface("<", 101),
            enhanced("<", b"one"),
            section(">"),
            interface(">", 228),
            enhanced(">", b"two"),
        )
    )
    assert [(p.number, p.link_type, bytes(p.data)) for p in read(data)] == [(1, 101, b"one"), (2, 228, b"two")]
    with pytest.raises(CaptureError, match=r"interface: expected below 0, got 0"):
        read(section("<") + interface("<") + section(">") + enhanced(">", b"two"))


HEAD = section("<") + interface("<")
HOSTILE = {
    "pcap": (
        bytes.fromhex("d4c3b2a1020004000000000000000000"),
        0,
        "not a pcapng file: expected 0a0d0d0a, got d4c3b2a1",
    ),
    "text": (b"GET / HTTP/1.1\r\n\r\n", 0, "not a pcapng file"),
    "byte-order magic": (section("<")[:8] + b"\0\0\0\0" + section("<")[12:], 0, "byte-order magic"),
    "version": (section("<", major=2), 0, "pcapng version: expected 1.x, got 2.0"),
    "short section": (block("<", SECTION, struct.pack("<I", 0x1A2B3C4D)), 0, "section header: expected at least 28"),
    "length 8": (HEAD + struct.pack("<IIII", 9, 8, 8, 8), 48, "block length: expected a multiple of 4"),
    "length 13": (HEAD + struct.pack("<II", 9, 13) + bytes(9), 48, "block length: expected a multiple of 4"),
    "length over the cap": (HEAD + struct.pack("<III", 9, MAX_BLOCK + 4, 0), 48, f"at most {MAX_BLOCK}, got 16777220"),
    "trailer": (HEAD + enhanced("<", b"abcd")[:-4] + bytes(4), 48, "at the block's end: expected 36, got 0"),
    "short interface": (
        section("<") + block("<", INTERFACE, b"abcd"),
        28,
        "interface description: expected at least 20",
    ),
    "resolution": (section("<") + interface("<", options=option("<", 9, b"ab")), 28, "if_tsresol: expected 1 byte"),
    "offset": (
        section("<") + interface("<", options=option("<", 14, b"ab")),
        28,
        "if_tsoffset: expected 8 bytes, got 2",
    ),
    "option over the end": (
        section("<") + interface("<", options=b"\x02\0\xff\xff"),
        28,
        "option 2: expected at most 0",
    ),
    "unknown interface": (HEAD + enhanced("<", b"a", number=1), 48, "packet's interface: expected below 1, got 1"),
    "short packet": (HEAD + block("<", ENHANCED, bytes(16)), 48, "packet block: expected at least 32 bytes, got 28"),
    "captured length": (
        HEAD + block("<", ENHANCED, struct.pack("<IIIII", 0, 0, 0, 2**32 - 1, 4) + b"abcd"),
        48,
        "captured length: expected at most 4, got 4294967295",
    ),
    "short simple packet": (HEAD + block("<", SIMPLE, b""), 48, "simple packet block: expected at least 16 bytes"),
    "simple packet's length": (
        HEAD + block("<", SIMPLE, struct.pack("<I", 5) + b"abcd"),
        48,
        "simple packet: expected",
    ),
    "simple packet alone": (
        section("<") + block("<", SIMPLE, bytes(4)),
        28,
        "simple packet block: expected an interface",
    ),
}


@pytest.mark.parametrize(("data", "offset", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_at_the_block(data: bytes, offset: int, message: str) -> None:
    with pytest.raises(CaptureError) as caught:
        read(data)
    assert caught.value.offset == offset
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, PP1Error)


def test_packets_before_the_fault_are_yielded_first() -> None:
    reader = iter(PcapngReader(io.BytesIO(HEAD + enhanced("<", b"good") + struct.pack("<III", 9, 8, 0))))
    assert bytes(next(reader).data) == b"good"
    with pytest.raises(CaptureError, match="byte 84"):
        next(reader)


def test_caps_reached_by_the_longest_block() -> None:
    whole = HEAD + block("<", 99, bytes(MAX_BLOCK - 12)) + enhanced("<", b"after")
    (packet,) = read(whole)
    assert bytes(packet.data) == b"after"
    small = list(PcapngReader(io.BytesIO(HEAD + enhanced("<", bytes(32))), max_block=64))
    assert len(small) == 1
    with pytest.raises(CaptureError, match="at most 64, got 68"):
        list(PcapngReader(io.BytesIO(HEAD + enhanced("<", bytes(36))), max_block=64))


def test_early_refusal_asks_for_little_of_a_claimed_length() -> None:
    pipe = Dribble(HEAD + struct.pack("<III", 9, MAX_BLOCK, 0) + b"short")
    assert list(PcapngReader(pipe)) == [Truncated(48, MAX_BLOCK, 17)]
    assert pipe.asked <= 1 << 20


@given(packets, st.integers(0, 40))
def test_chunking_of_a_pipe_changes_nothing(items: list[tuple[int, bytes]], known: int) -> None:
    data = write(items)
    assert list(PcapngReader(Dribble(data[known:]), start=data[:known])) == read(data)


@given(st.data())
@settings(max_examples=300)
def test_one_family_of_errors_for_any_bytes(data: st.DataObject) -> None:
    valid = bytearray(
        HEAD + interface("<", options=option("<", 9, b"\x83")) + enhanced("<", b"abc") + section(">") + interface(">")
    )
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, len(valid) - 1), st.integers(0, 255)), max_size=4)):
        valid[place] = value
    tail = data.draw(st.binary(max_size=40))
    try:
        found = read(bytes(valid) + tail)
    except CaptureError:
        return
    assert all(isinstance(item, CapturedPacket) for item in found[:-1])


def test_own_bytes_are_not_those_of_later_packets() -> None:
    found = iter(PcapngReader(io.BytesIO(write([(0, b"first"), (1, b"other")]))))
    first = next(found)
    next(found)
    assert bytes(first.data) == b"first"
    assert first.data.readonly


# Writing


class Recording(io.RawIOBase):
    """A file on a disk with `room` bytes, which takes `most` bytes a write."""

    def __init__(self, room: int = 1 << 20, most: int = 1 << 20, prefix: bytes = b"") -> None:
        self.data = bytearray(prefix)
        self.room, self.most = room, most
        self.position = len(prefix)
        self.writes: list[int] = []
        self.flushes = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self.position = offset
        return offset

    def truncate(self, size: int | None = None, /) -> int:
        del self.data[self.position :]
        return self.position

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        taken = bytes(data[: min(self.most, self.room - len(self.data))])
        if not taken:
            raise OSError(28, "No space left on device")
        self.writes.append(len(taken))
        self.data += taken
        self.position += len(taken)
        return len(taken)

    def flush(self) -> None:
        self.flushes += 1


def test_nothing_half_written_each_block_is_one_write() -> None:
    file = Recording()
    writer = PcapngWriter(file)
    writer.write_packet(0, b"a" * 1000)
    writer.write_packet(0, b"")
    assert file.writes == [76, 1032, 32]
    assert file.flushes == 3


@pytest.mark.parametrize("prefix", [b"", b"something before"])
def test_nothing_half_written_when_the_disk_is_full(prefix: bytes) -> None:
    file = Recording(room=len(prefix) + 76 + 2 * 36 + 20, prefix=prefix)
    writer = PcapngWriter(file)
    for _ in range(2):
        writer.write_packet(0, b"whole")
    with pytest.raises(CaptureError, match="No space left on device") as caught:
        writer.write_packet(0, b"never")
    assert caught.value.offset == 76 + 2 * 40
    file.room = 1 << 20
    with pytest.raises(CaptureError, match="No space left on device"):
        writer.write_packet(0, b"later")
    assert bytes(file.data[: len(prefix)]) == prefix
    assert [bytes(p.data) for p in read(bytes(file.data[len(prefix) :]))] == [b"whole", b"whole"]


def test_short_writes_are_completed() -> None:
    file = Recording(most=7)
    writer = PcapngWriter(file)
    writer.write_packet(5, b"abcdefgh")
    assert bytes(file.data) == write([(5, b"abcdefgh")])


def test_a_file_that_takes_nothing_is_an_error() -> None:
    file = Recording()
    writer = PcapngWriter(file)
    file.write = lambda data, /: None  # type: ignore[assignment,method-assign,return-value]
    with pytest.raises(CaptureError, match="takes no more bytes"):
        writer.write_packet(0, b"x")


@pytest.mark.parametrize(("every", "flushes"), [(0, [1, 1, 1, 1]), (1, [2, 3, 4, 5]), (3, [1, 1, 2, 2])])
def test_flush_policy(every: int, flushes: list[int]) -> None:
    file = Recording()
    writer = PcapngWriter(file, flush_every=every)
    seen = []
    for _ in range(4):
        writer.write_packet(0, b"x")
        seen.append(file.flushes)
    assert seen == flushes


def test_a_closed_file_is_a_capture_error(tmp_path: Path) -> None:
    file = (tmp_path / "a.pcapng").open("wb")
    writer = PcapngWriter(file)
    file.close()
    with pytest.raises(CaptureError, match="cannot write"):
        writer.write_packet(0, b"x")
    with pytest.raises(CaptureError, match="cannot write"):
        writer.flush()


def test_a_pipe_needs_no_position() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as file:
        writer = PcapngWriter(file)
        writer.write_packet(0, b"x")
        assert os.read(reading, 1000) == write([(0, b"x")])
        os.close(reading)
        with pytest.raises(CaptureError, match=r"cannot write: .*Broken pipe"):
            writer.write_packet(0, b"y")


@pytest.mark.parametrize("time_ns", [-1, 2**64])
def test_a_time_that_does_not_fit_changes_nothing(time_ns: int) -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    with pytest.raises(CaptureError, match=r"packet time: expected 0 to 2\^64 - 1 ns"):
        writer.write_packet(time_ns, b"x")
    writer.write_packet(7, b"y")
    assert file.getvalue() == write([(7, b"y")])


def test_comments_are_options_that_readers_pass_over() -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    writer.write_packet(1, b"x", comment="näher \udcff")
    (packet,) = read(file.getvalue())
    assert bytes(packet.data) == b"x"
    assert option("<", 1, "näher ?".encode()) + option("<", 0, b"") in file.getvalue()
    with pytest.raises(CaptureError, match="comment: expected at most 65535 bytes, got 65536"):
        writer.write_packet(1, b"x", comment="c" * 65_536)


def test_caps_reached_more_interfaces_than_any_section_needs_are_refused() -> None:
    section = block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block("<", 1, struct.pack("<HHI", 101, 0, 0))
    assert list(PcapngReader(io.BytesIO(section + interface * 4096))) == []
    with pytest.raises(CaptureError, match="interfaces"):
        list(PcapngReader(io.BytesIO(section + interface * 4097)))
