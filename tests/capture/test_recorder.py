"""Recording: what goes in comes out of the capture, as a conversation that Wireshark finds nothing wrong with."""

from __future__ import annotations

import io
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import MAX_PAYLOAD, Flags, Segment, internet_checksum
from pp1wire.capture.pcapng import CapturedPacket, CaptureError, PcapngReader
from pp1wire.capture.reassembly import Chunk, Direction, Ended, EndReason, Event, StreamFinding, stream_events
from pp1wire.capture.recorder import UNIX_SERVER_PORT, Recorder
from pp1wire.errors import LocalProtocolError

CLIENT, SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 9_009)
NOW = 1_800_000_000_000_000_000
UP, DOWN = Direction.TO_SERVER, Direction.TO_CLIENT
FIN, SYN, RST, PSH, ACK = Flags.FIN, Flags.SYN, Flags.RST, Flags.PSH, Flags.ACK


def packets_of(data: bytes) -> list[tuple[CapturedPacket, Segment]]:
    """Every packet and its segment, after a check of both checksums."""
    found = []
    for packet in PcapngReader(io.BytesIO(data)):
        assert isinstance(packet, CapturedPacket)
        segment = Layers().add(packet)
        assert isinstance(segment, Segment), segment
        assert internet_checksum(packet.data[:20]) == 0
        pseudo = bytes(packet.data[12:20]) + struct.pack(">HH", 6, len(packet.data) - 20)
        assert internet_checksum(pseudo + bytes(packet.data[20:])) == 0
        found.append((packet, segment))
    return found


def events_of(data: bytes) -> list[Event]:
    return list(stream_events(PcapngReader(io.BytesIO(data))))


def stream(events: list[Event], way: Direction, number: int = 1) -> bytes:
    chunks = [e for e in events if isinstance(e, Chunk) and e.direction is way and e.connection.number == number]
    return b"".join(bytes(chunk.data) for chunk in chunks)


def ends(events: list[Event]) -> list[tuple[Direction, EndReason]]:
    return [(e.direction, e.reason) for e in events if isinstance(e, Ended)]


def test_a_connection_is_these_packets() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    connection = recorder.open(CLIENT, SERVER, NOW, client_sequence=100, server_sequence=2**32 - 2)
    connection.client_sent(b"question", NOW + 1)
    connection.server_sent(b"answer", NOW + 2)
    connection.close(NOW + 3)
    seen = [
        (packet.time_ns - NOW, str(s.source), s.sequence, s.acknowledgement, s.flags, bytes(s.payload))
        for packet, s in packets_of(file.getvalue())
    ]
    client, server = "10.0.0.1:40000", "10.0.0.2:9009"
    assert seen == [
        (0, client, 100, 0, SYN, b""),
        (0, server, 2**32 - 2, 101, SYN | ACK, b""),
        (0, client, 101, 2**32 - 1, ACK, b""),
        (1, client, 101, 2**32 - 1, ACK | PSH, b"question"),
        (2, server, 2**32 - 1, 109, ACK | PSH, b"answer"),
        (3, client, 109, 5, FIN | ACK, b""),
        (3, server, 5, 110, ACK, b""),
        (3, server, 5, 110, FIN | ACK, b""),
        (3, client, 110, 6, ACK, b""),
    ]
    assert (recorder.packets, recorder.size) == (9, len(file.getvalue()))


writes = st.lists(
    st.tuples(st.integers(0, 2), st.booleans(), st.one_of(st.binary(max_size=30), st.just(bytes(70_000)))), max_size=12
)


@given(
    writes, st.integers(2**32 - 100_000, 2**32 - 1), st.lists(st.sampled_from(["close", "abort", "leave"]), min_size=3)
)
@settings(max_examples=60, deadline=None)
def test_recorded_streams_are_read_back_for_any_writes(
    items: list[tuple[int, bool, bytes]], sequence: int, farewells: list[str]
) -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    connections = [
        recorder.open((f"10.0.0.{i}", 40_000), SERVER, NOW, client_sequence=sequence - i, server_sequence=sequence + i)
        for i in range(3)
    ]
    sent = {(i, way): b"" for i in range(3) for way in (UP, DOWN)}
    for time_ns, (i, up, data) in enumerate(items, NOW):
        (connections[i].client_sent if up else connections[i].server_sent)(data, time_ns)
        sent[i, UP if up else DOWN] += data
    for connection, farewell in zip(connections, farewells, strict=False):
        if farewell != "leave":
            getattr(connection, farewell)(NOW)
    data = file.getvalue()
    packets_of(data)
    events = events_of(data)
    assert {(i, way): stream(events, way, i + 1) for i, way in sent} == sent
    assert [e for e in events if isinstance(e, StreamFinding)] == []
    reasons = {"close": EndReason.FIN, "abort": EndReason.RESET, "leave": EndReason.MISSING}
    for e in events:
        if isinstance(e, Ended):
            assert e.reason is reasons[farewells[e.connection.number - 1]]


@pytest.mark.parametrize("size", [1, MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 2 * MAX_PAYLOAD])
def test_caps_reached_by_segments(size: int) -> None:
    file = io.BytesIO()
    connection = Recorder(file).open(CLIENT, SERVER, NOW)
    connection.server_sent(bytes(size), NOW)
    data = [s for _, s in packets_of(file.getvalue()) if s.length]
    assert [s.length for s in data] == [MAX_PAYLOAD] * (size // MAX_PAYLOAD) + [size % MAX_PAYLOAD] * (
        size % MAX_PAYLOAD > 0
    )
    assert [bool(s.flags & PSH) for s in data] == [False] * (len(data) - 1) + [True]


def test_a_stream_without_answers_is_acknowledged() -> None:
    file = io.BytesIO()
    connection = Recorder(file).open(CLIENT, SERVER, NOW)
    for _ in range(50):
        connection.server_sent(bytes(100_000), NOW)
    behind = 0
    for _, segment in packets_of(file.getvalue())[3:]:
        behind = behind + segment.length if segment.source.port == 9_009 else 0
        assert behind < 2 << 20
    assert stream(events_of(file.getvalue()), DOWN) == bytes(5_000_000)


def test_half_closed_connections_go_on_the_other_way() -> None:
    file = io.BytesIO()
    connection = Recorder(file).open(CLIENT, SERVER, NOW)
    connection.client_sent(b"all", NOW)
    connection.client_closed(NOW)
    connection.client_closed(NOW)
    with pytest.raises(LocalProtocolError, match=r"the client of 10.0.0.1:40000 → 10.0.0.2:9009 has ended"):
        connection.client_sent(b"more", NOW)
    connection.server_sent(b"answer", NOW)
    connection.server_closed(NOW)
    size = len(file.getvalue())
    with pytest.raises(LocalProtocolError, match="the server of"):
        connection.server_sent(b"more", NOW)
    connection.close(NOW)
    connection.abort(NOW)
    assert len(file.getvalue()) == size
    events = events_of(file.getvalue())
    assert (stream(events, UP), stream(events, DOWN)) == (b"all", b"answer")
    assert ends(events) == [(UP, EndReason.FIN), (DOWN, EndReason.FIN)]


@pytest.mark.parametrize(("by", "first"), [("client", UP), ("server", DOWN)])
def test_aborted_connections_end_with_a_reset(by: str, first: Direction) -> None:
    file = io.BytesIO()
    connection = Recorder(file).open(CLIENT, SERVER, NOW)
    connection.client_sent(b"question", NOW)
    connection.abort(NOW, by)
    connection.abort(NOW, by)
    connection.close(NOW)
    for send in (connection.client_sent, connection.server_sent):
        with pytest.raises(LocalProtocolError, match="has ended"):
            send(b"late", NOW)
    assert sum(bool(s.flags & RST) for _, s in packets_of(file.getvalue())) == 1
    events = events_of(file.getvalue())
    assert ends(events)[0] == (first, EndReason.RESET)
    assert {reason for _, reason in ends(events)} == {EndReason.RESET}


def test_any_buffer_is_bytes() -> None:
    file = io.BytesIO()
    connection = Recorder(file).open(CLIENT, SERVER, NOW)
    for data in (
        bytearray(b"ab"),
        memoryview(b"cd"),
        memoryview(struct.pack("<2I", 1, 2)).cast("I"),
        memoryview(b"")[0:0],
    ):
        connection.client_sent(data, NOW)
    assert stream(events_of(file.getvalue()), UP) == b"abcd\1\0\0\0\2\0\0\0"


# Addresses


def test_ends_without_an_ipv4_address_get_placeholders() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    ends_of = [
        recorder.open("", "/run/pp1.sock", NOW),
        recorder.open(None, b"/run/pp1.sock", NOW),
        recorder.open(("fe80::1%eth0", 1234, 0, 2), ("::1", 9_009, 0, 0), NOW),
        recorder.open(("::ffff:10.0.0.9", 1234, 0, 0), ("example.net", 9_009), NOW),
        recorder.open("\0abstract", "/run/\udcff", NOW),
    ]
    assert [str(c) for c in ends_of] == [
        f"127.0.0.2:49152 → 127.0.0.3:{UNIX_SERVER_PORT}",
        f"127.0.0.2:49153 → 127.0.0.3:{UNIX_SERVER_PORT}",
        "127.0.0.4:1234 → 127.0.0.5:9009",
        "10.0.0.9:1234 → 127.0.0.6:9009",
        f"127.0.0.7:49156 → 127.0.0.8:{UNIX_SERVER_PORT}",
    ]
    for note in (
        "client unix socket without a name is shown as 127.0.0.2:49152; server unix:/run/pp1.sock is shown as 127.0.0.3:49",
        "client [fe80::1%eth0]:1234 is shown as 127.0.0.4:1234; server [::1]:9009 is shown as 127.0.0.5:9009",
        "server [example.net]:9009 is shown as 127.0.0.6:9009",
        "client unix:@abstract is shown as",
    ):
        assert note.encode() in file.getvalue()
    assert len({(s.source, s.destination) for _, s in packets_of(file.getvalue()) if s.flags == SYN}) == 5


def test_the_same_two_ends_twice() -> None:
    file = io.BytesIO()
    recorder = Recorder(file)
    for text in (b"one", b"two", b"three"):
        connection = recorder.open(CLIENT, SERVER, NOW)
        size = len(file.getvalue())
        with pytest.raises(LocalProtocolError, match="is being recorded already"):
            recorder.open(CLIENT, SERVER, NOW)
        assert len(file.getvalue()) == size
        connection.client_sent(text, NOW)
        connection.abort(NOW)
    events = events_of(file.getvalue())
    assert [stream(events, UP, number) for number in (1, 2, 3)] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"port of 10.0.0.1: expected 0 to 65535, got {port}"):
        Recorder(io.BytesIO()).open(("10.0.0.1", port), SERVER, NOW)


# Files


def test_a_created_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with Recorder.create(path) as recorder:
        connection = recorder.open(CLIENT, SERVER, NOW)
        connection.client_sent(b"question", NOW)
        assert len(path.read_bytes()) == recorder.size  # nothing waits in a buffer
    recorder.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    events = events_of(path.read_bytes())
    assert ends(events) == [(UP, EndReason.MISSING), (DOWN, EndReason.MISSING)]
    with pytest.raises(CaptureError, match="cannot write"):
        connection.client_sent(b"late", NOW)
    with Recorder.create(path):
        pass
    assert events_of(path.read_bytes()) == []


def test_a_given_file_stays_open() -> None:
    file = io.BytesIO()
    with Recorder(file, flush_every=0) as recorder:
        recorder.open(CLIENT, SERVER, NOW)
    assert not file.closed


def test_files_that_cannot_be_made_are_one_line_errors(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"cannot create .*missing/a.pcapng: No such file or directory"):
        Recorder.create(tmp_path / "missing" / "a.pcapng")
    with pytest.raises(CaptureError, match=r"cannot create .*: Is a directory"):
        Recorder.create(tmp_path)


def test_a_full_disk_is_a_one_line_error() -> None:
    with pytest.raises(CaptureError, match="No space left on device"):
        Recorder.create("/dev/full")


KILLED = """
import os, signal, sys
from pp1wire.capture.recorder import Recorder
connection = Recorder.create(sys.argv[1]).open(("10.0.0.1", 1), ("10.0.0.2", 2), 0)
for i in range(100):
    connection.client_sent(bytes([i]) * 1000, i)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_half_written_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "killed.pcapng"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, path], cwd=root, env=dict(os.environ, PYTHONPATH=str(root)), check=False
    )
    assert done.returncode == -signal.SIGKILL
    events = events_of(path.read_bytes())
    assert stream(events, UP) == b"".join(bytes([i]) * 1000 for i in range(100))
    assert [e for e in events if isinstance(e, StreamFinding)] == []


# Wireshark


@pytest.mark.system
def test_tshark_sees_ordinary_conversations(tmp_path: Path) -> None:
    tshark = shutil.which("tshark")
    assert tshark is not None, "tshark is not installed"
    path = tmp_path / "all.pcapng"
    up, down = bytes(range(256)) * 10, bytes(range(255, -1, -1)) * 20_000  # 5 MB: many segments
    with Recorder.create(path) as recorder:
        first = recorder.open(CLIENT, SERVER, NOW, client_sequence=2**32 - 300, server_sequence=2**32 - 70_000)
        second = recorder.open("", "/run/pp1.sock", NOW + 1)
        third = recorder.open(("::1", 50_000, 0, 0), ("::1", 9_009, 0, 0), NOW + 2)
        first.client_sent(up, NOW + 10)
        second.client_sent(b"over a unix socket", NOW + 11)
        first.server_sent(down, NOW + 12)
        first.client_closed(NOW + 13)
        first.server_sent(b"last words", NOW + 14)
        first.server_closed(NOW + 15)
        second.abort(NOW + 16, "server")
        third.close(NOW + 17)
        packets = recorder.packets

    def run(*arguments: str) -> str:
        command = [tshark, "-n", "-r", str(path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    bad = "tcp.analysis.flags || _ws.malformed || tcp.checksum.status==0 || ip.checksum.status==0"
    assert run(*checks, "-Y", bad) == ""
    good = "tcp.checksum.status==1 && ip.checksum.status==1"
    assert len(run(*checks, "-Y", good).splitlines()) == packets
    assert "unix:/run/pp1.sock is shown as 127.0.0.3:49151" in run("-T", "fields", "-e", "frame.comment")
    # Wireshark's own reassembly gives the same bytes ("follow" puts a tab before those of the server).
    followed = run("-q", "-z", "follow,tcp,raw,0").splitlines()[6:-1]
    assert bytes.fromhex("".join(line for line in followed if not line.startswith("\t"))) == up
    assert bytes.fromhex("".join(line[1:] for line in followed if line.startswith("\t"))) == down + b"last words"
    times = run("-T", "fields", "-e", "frame.time_epoch").split()
    assert times[0] == "1800000000.000000000"
    assert times[-1] == "1800000000.000000017"


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(CaptureError, match="cannot create"):
        Recorder.create(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Recorder.create(pipe) as recorder:
            recorder.open(("10.0.0.1", 1), ("10.0.0.2", 2), 0).close(0)
        assert os.read(reader, 4) == b"\n\r\r\n"
    finally:
        os.close(reader)


def test_a_pipe_whose_reader_sleeps_ends_the_recording_and_nothing_waits_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        recorder = Recorder.create(pipe)
        connection = recorder.open(("10.0.0.1", 1), ("10.0.0.2", 2), 0)
        for _ in range(40):
            connection.client_sent(bytes(1000), 0)
        with pytest.raises(CaptureError, match=r"the pipe is full, and nobody has read from it for 0\.5 s"):
            connection.client_sent(bytes(1_000_000), 0)
        with pytest.raises(CaptureError, match="the pipe is full"):
            recorder.open(("10.0.0.1", 2), ("10.0.0.2", 2), 0)
        recorder.close()
        written = b"".join(iter(lambda: os.read(reader, 65536), b""))
    finally:
        os.close(reader)
    # What was taken is there, up to the packet for which there was no room.
    sent = stream(events_of(written), UP)
    assert len(sent) == 40_000
    assert set(sent) == {0}


def test_a_pipe_whose_reader_is_slow_gets_everything(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    taken = []

    def read() -> None:
        with pipe.open("rb", buffering=0) as file:
            ready.set()
            while part := file.read(4096):
                taken.append(part)
                time.sleep(0.0005)

    ready = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    while True:
        try:
            recorder = Recorder.create(pipe)
            break
        except CaptureError:  # the reader has not opened its end yet
            time.sleep(0.005)
    assert ready.wait(10)
    data = bytes(range(256)) * 2000
    with recorder:
        connection = recorder.open(("10.0.0.1", 1), ("10.0.0.2", 2), 0)
        connection.client_sent(data, 0)
        connection.close(0)
    reader.join(10)
    assert stream(events_of(b"".join(taken)), UP) == data


def test_a_pipe_whose_reader_has_left_is_a_one_line_error(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with Recorder.create(pipe) as recorder:
        connection = recorder.open(("10.0.0.1", 1), ("10.0.0.2", 2), 0)
        os.close(reader)
        with pytest.raises(CaptureError, match=r"cannot write: .*Broken pipe"):
            connection.client_sent(b"x", 0)
