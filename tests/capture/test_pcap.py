"""pcap files: both byte orders, both resolutions, every cut, and what is none."""

from __future__ import annotations

import io
import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.pcap import PcapReader
from pp1wire.capture.pcapng import MAX_BLOCK, CapturedPacket, CaptureError, PcapngReader, Truncated
from pp1wire.capture.sources import CountingFile
from tests.capture.packing import pcap
from tests.capture.test_pcapng import Dribble, write

FORMATS = [(mark, nano) for mark in "<>" for nano in (False, True)]
NAMES = [f"{'little' if mark == '<' else 'big'}-endian, {'nano' if nano else 'micro'}seconds" for mark, nano in FORMATS]

packets = st.lists(st.tuples(st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=70)), max_size=6)


def read(data: bytes) -> list[CapturedPacket | Truncated]:
    return list(PcapReader(io.BytesIO(data)))


@given(packets, st.sampled_from(FORMATS), st.integers(0, 0xFFFF))
def test_honest_every_byte_order_and_resolution_is_read(items, form, link_type) -> None:
    mark, nano = form
    found = read(pcap(items, mark=mark, nano=nano, link_field=link_type | 0x9000_0000))
    unit = 1 if nano else 1000
    assert [(p.number, p.time_ns, p.link_type, p.original_length, bytes(p.data)) for p in found] == [
        (i, time_ns // unit * unit, link_type, len(data), data) for i, (time_ns, data) in enumerate(items, 1)
    ]


@given(packets)
def test_honest_pcap_and_pcapng_of_the_same_packets_give_the_same(items) -> None:
    one, two = read(pcap(items, nano=True)), list(PcapngReader(io.BytesIO(write(items))))
    assert [p._replace(offset=0) for p in one] == [p._replace(offset=0) for p in two]


@pytest.mark.parametrize(("mark", "nano"), FORMATS, ids=NAMES)
def test_every_cut_keeps_the_whole_packets(mark, nano) -> None:
    data = pcap([(0, b"abc"), (1, b""), (2, b"defgh")], mark=mark, nano=nano)
    whole = read(data)
    bounds = [24, *(p.offset for p in whole[1:]), len(data)]
    assert [p.offset for p in whole] == [24, 43, 59]
    for cut in range(1, len(data)):
        found = read(data[:cut])
        kept = max(sum(bound <= cut for bound in bounds) - 1, 0)
        assert found[:kept] == whole[:kept]
        if cut in bounds:
            assert len(found) == kept
            continue
        (last,) = found[kept:]
        assert isinstance(last, Truncated)
        assert last.offset + last.available == cut
        assert last.available < last.needed


def test_honest_original_lengths_are_kept() -> None:
    (packet,) = read(pcap([(5, b"abc", 1500)]))
    assert (packet.original_length, bytes(packet.data)) == (1500, b"abc")


def test_a_pipe_that_dribbles_is_read_as_a_file_and_asked_for_no_more_than_is_read_ahead() -> None:
    data = pcap([(0, b"abc"), (1, bytes(2000))], link_field=1)
    pipe = Dribble(data)
    assert list(PcapReader(pipe)) == read(data)
    assert pipe.asked <= 1 << 18  # what is read ahead, whatever a length claims
    pipe = Dribble(data[4:])
    assert list(PcapReader(pipe, start=data[:4])) == read(data)


@pytest.mark.parametrize("mark", "<>", ids=["little-endian", "big-endian"])
def test_what_is_no_pcap_is_an_error_with_its_place(mark) -> None:
    good = pcap([(0, b"abc")], mark=mark)
    long = good[:32] + struct.pack(mark + "I", MAX_BLOCK + 1) + good[36:]
    for data, offset, message in [
        (b"\n\r\r\n" + bytes(20), 0, "not a pcap file: expected d4c3b2a1, a1b2c3d4, 4d3cb2a1, a1b23c4d, got 0a0d0d0a"),
        (pcap([], mark=mark, version=(2, 3)), 4, "pcap version: expected 2.4, got 2.3"),
        (pcap([], mark=mark, version=(3, 4)), 4, "pcap version: expected 2.4, got 3.4"),
        (long, 24, f"captured length: expected at most {MAX_BLOCK}, got {MAX_BLOCK + 1}"),
    ]:
        with pytest.raises(CaptureError) as caught:
            read(data)
        assert (caught.value.offset, caught.value.reason) == (offset, message)


def test_a_damaged_record_keeps_what_came_before() -> None:
    data = pcap([(0, b"abc"), (1, b"def")])
    reader = iter(PcapReader(io.BytesIO(data[:43] + b"\xff" * 16)))
    assert next(reader) == read(data)[0]
    with pytest.raises(CaptureError, match="byte 43: captured length"):
        next(reader)


def test_early_refusal_a_claimed_length_costs_nothing() -> None:
    data = pcap([(0, b"abc")])[:32] + struct.pack("<II", MAX_BLOCK, MAX_BLOCK) + b"abc"
    pipe = Dribble(data)
    assert list(PcapReader(pipe)) == [Truncated(24, 16 + MAX_BLOCK, 19)]
    assert pipe.asked <= 1 << 20


@given(st.sampled_from(FORMATS), st.binary(max_size=120))
@settings(max_examples=200)
def test_one_family_any_bytes_give_packets_or_a_capture_error(form, tail) -> None:
    for head in (b"", pcap([], mark=form[0], nano=form[1]), pcap([(0, b"abc")], mark=form[0], nano=form[1])):
        try:
            read(head + tail)
        except CaptureError:
            continue


def test_what_a_pipe_has_is_read_without_waiting_for_more() -> None:
    """A live capture is shown as it comes."""
    data = pcap([(0, b"abc"), (1, bytes(2000))], link_field=1)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, os.fdopen(writing, "wb", buffering=0) as end:
        end.write(data)
        packets = iter(PcapReader(CountingFile(pipe, "pipe")))
        assert [bytes(next(packets).data) for _ in range(2)] == [b"abc", bytes(2000)]
        end.write(pcap([(2, b"later")], link_field=1)[24:])
        assert bytes(next(packets).data) == b"later"
