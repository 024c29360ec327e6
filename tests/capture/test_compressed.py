"""gzip and zstd files: the same as unpacked, every cut told, and never more in memory than a bound."""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
import tracemalloc
import zlib

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture import compressed
from pp1wire.capture._input import CaptureError, CutError
from pp1wire.capture.compressed import MAX_WINDOW, Unpacked
from pp1wire.capture.findings import ExitStatus
from pp1wire.capture.pcapng import CapturedPacket, Truncated
from pp1wire.capture.show import show_file
from pp1wire.capture.sources import CountingFile, Kind, open_source
from pp1wire.capture.validate import Validator
from tests.capture.golden import NOW, VERIFIER, WORKER, capture, golden
from tests.capture.packing import pcap


def pack_zstd(data: bytes) -> bytes:
    """As the zstd program does, with a checksum; in small blocks, as a block comes out whole or not at all."""
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
    parts = [packer.compress(data[at : at + 500], packer.FLUSH_BLOCK) for at in range(0, len(data), 500)]
    return b"".join(parts) + packer.flush()


PACK = {"gzip": gzip.compress, "zstd": pack_zstd}
TALK = golden()
kinds = pytest.mark.parametrize("kind", PACK)


def unpack(data: bytes, kind: str, size: int = 1 << 20) -> bytes:
    file, found = Unpacked(io.BytesIO(data), b"", kind), []
    while part := file.read(size):
        assert len(part) <= size
        found.append(part)
    return b"".join(found)


def until_error(file: Unpacked, size: int) -> tuple[bytes, CaptureError]:
    found = b""
    try:
        while part := file.read(size):
            found += part
    except CaptureError as error:
        return found, error
    raise AssertionError("no error")


def source(data: bytes):
    return open_source(CountingFile(io.BytesIO(data), "capture"), "capture")


def judged(data: bytes):
    validator = Validator()
    validator.add(io.BytesIO(data), "capture")
    return validator.result


@kinds
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 400), st.binary(max_size=4))
@settings(max_examples=60, deadline=None)
def test_members_behind_each_other_are_one_file(kind, members, size, start) -> None:
    members = [member * 50 for member in members]
    assert unpack(b"".join(map(PACK[kind], members)), kind, size) == b"".join(members)


def test_zero_padding_behind_gzip_and_skippable_frames_of_zstd_are_passed_over() -> None:
    assert unpack(gzip.compress(b"abc") + bytes(1000) + gzip.compress(b"def") + bytes(70_000), "gzip") == b"abcdef"
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    assert unpack(zstd.compress(b"abc") + skippable + zstd.compress(b"def"), "zstd") == b"abcdef"


@kinds
def test_every_cut_gives_what_is_there_and_says_so(kind) -> None:
    content = random.Random(5).randbytes(300) + bytes(2000)
    data = PACK[kind](content)
    for cut in range(1, len(data)):
        file = Unpacked(io.BytesIO(data[:cut]), b"", kind)
        found, error = until_error(file, 100)
        assert isinstance(error, CutError)
        assert (error.offset, error.reason) == (cut, f"the {kind} file ends too early")
        assert content.startswith(found)
        with pytest.raises(CutError):
            file.read(1)
    # What comes before the checksum at the end is all there.
    assert found == content


@kinds
@pytest.mark.parametrize("form", ["pcapng", "pcap"])
def test_every_cut_of_a_compressed_capture_keeps_whole_packets_and_tells_one_truncated(kind, form) -> None:
    items = [(n, random.Random(n).randbytes(30)) for n in range(5)]
    plain = pcap(items, nano=True) if form == "pcap" else capture(TALK.sent[:3])
    data = PACK[kind](plain)
    whole = list(source(plain).packets())
    assert list(source(data).packets()) == whole
    for cut in range(1, len(data)):
        try:
            opened = source(data[:cut])
        except CaptureError:
            continue  # not even the first bytes are there
        assert opened.kind == form
        *found, last = opened.packets()
        assert isinstance(last, Truncated)
        assert found == whole[: len(found)]
        assert last.offset == (found[-1].offset + size_of(found[-1], form) if found else last.offset)


def size_of(packet: CapturedPacket, form: str) -> int:
    return len(packet.data) + 16 if form == "pcap" else (len(packet.data) + 3) // 4 * 4 + 32


@kinds
def test_same_judge_whatever_the_file_is_packed_in(kind) -> None:
    for plain in (capture(TALK.sent), TALK.stream(VERIFIER), TALK.stream(WORKER)):
        one, two = judged(plain).to_json(), judged(PACK[kind](plain)).to_json()
        assert two["files"][0]["bytes"] == len(PACK[kind](plain))
        one["files"][0]["bytes"] = two["files"][0]["bytes"]
        assert one == two


@kinds
def test_honest_a_cut_compressed_stream_is_incomplete_and_its_last_frame_no_fault(kind) -> None:
    data = PACK[kind](TALK.stream(VERIFIER))
    result = judged(data[:-9])
    assert result.status is ExitStatus.INCOMPLETE
    (cut,) = [f for f in result.findings if f.code == "truncated"]
    assert cut.message == f"the {kind} file ends too early"
    *shown, last = show_file(io.BytesIO(data[:-9]), "capture")
    assert (last.kind, last.message) == ("truncated", cut.message)
    assert shown[0].kind == "frame"


@kinds
def test_damage_is_an_error_behind_what_was_read(kind) -> None:
    content = random.Random(5).randbytes(200_000)
    data = bytearray(PACK[kind](content))
    data[150_000] ^= 0x55
    found, error = until_error(Unpacked(io.BytesIO(data), b"", kind), 1000)
    assert not isinstance(error, CutError)
    assert error.reason.startswith(f"cannot unpack {kind}: ")
    # Both tell at the end, where the checksum stands.
    assert found[:140_000] == content[:140_000]
    assert len(found) >= len(content) - 1000
    for tail in (b"junk that is no member", b"\1"):
        with pytest.raises(CaptureError):
            unpack(PACK[kind](b"abc") + tail, kind)


@kinds
def test_caps_reached_a_bomb_costs_no_memory(kind) -> None:
    size = 1 << 28
    if kind == "gzip":
        packer = zlib.compressobj(9, wbits=31)
        data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    else:
        data = zstd.compress(bytes(size))
    assert size / len(data) > 1000
    file, total = Unpacked(io.BytesIO(data), b"", kind), 0
    tracemalloc.start()
    while part := file.read(1 << 20):
        total += len(part)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == size
    assert peak < 1 << 20
    # A capture that claims a long packet gets no further than the reader's own bound.
    head = pcap([])[:24] + bytes(8) + b"\xff\xff\xff\xff" * 2
    assert judged(PACK[kind](head + bytes(1 << 26))).status is ExitStatus.UNREADABLE


@pytest.mark.parametrize(("log", "fits"), [(MAX_WINDOW.bit_length() - 1, True), (MAX_WINDOW.bit_length(), False)])
def test_caps_reached_the_largest_zstd_window(log, fits) -> None:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: log})
    data = packer.compress(b"abc") + packer.flush()
    if fits:
        assert unpack(data, "zstd") == b"abc"
    else:
        with pytest.raises(CaptureError, match=r"cannot unpack zstd: .* too much memory"):
            unpack(data, "zstd")


@kinds
def test_a_compressed_file_inside_a_compressed_file_is_refused(kind) -> None:
    for inner in PACK:
        result = judged(PACK[kind](PACK[inner](capture(TALK.sent))))
        assert result.status is ExitStatus.UNREADABLE
        assert f"got {inner} inside a compressed file; unpack it first" in result.findings[0].message


def test_without_the_extra_zstd_files_are_refused_and_the_extra_named(monkeypatch) -> None:
    for module in ("backports", "backports.zstd", "compression", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    result = judged(zstd.compress(capture(TALK.sent)))
    assert result.status is ExitStatus.UNREADABLE
    assert result.findings[0].message == "zstd: install pp1wire[zstd], or unpack it first"
    assert judged(gzip.compress(capture(TALK.sent))).status is ExitStatus.VALID


WRITER = """
import sys, time
data, out = sys.stdin.buffer.read(), sys.stdout.buffer
for at in range(0, len(data), 997):
    out.write(data[at : at + 997])
    out.flush()
"""


@pytest.mark.parametrize("pack", [None, *PACK])
@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_a_pipe_is_judged_as_the_file(pack, form, tmp_path) -> None:
    """As `tcpdump -w - | pp1wire validate -`: nothing is sought, and reads are as short as the pipe likes."""
    plain = capture(TALK.sent)
    if form == "pcap":
        plain = pcap([(p.time_ns, bytes(p.data)) for p in source(plain).packets()], nano=True)
    data = plain if pack is None else PACK[pack](plain)
    writer = subprocess.Popen([sys.executable, "-c", WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    reader = subprocess.Popen(
        [sys.executable, "-m", "pp1wire.cli", "validate", "--json", "-"], stdin=writer.stdout, stdout=subprocess.PIPE
    )
    writer.stdout.close()
    writer.communicate(data, timeout=60)
    out, _ = reader.communicate(timeout=60)
    assert reader.returncode == 0
    assert writer.returncode == 0
    (tmp_path / "file").write_bytes(data)
    same = subprocess.run(
        [sys.executable, "-m", "pp1wire.cli", "validate", "--json", str(tmp_path / "file")],
        capture_output=True,
        timeout=60,
    )
    assert same.stdout.replace(str(tmp_path / "file").encode(), b"-") == out


def test_kinds_are_told_by_the_content() -> None:
    assert [source(PACK["gzip"](d)).kind for d in (capture(TALK.sent), pcap([]), TALK.stream(WORKER))] == [
        Kind.PCAPNG, Kind.PCAP, Kind.STREAM,
    ]  # fmt: skip
    assert NOW > 0
    assert compressed.COMPRESSED.keys() == PACK.keys()
