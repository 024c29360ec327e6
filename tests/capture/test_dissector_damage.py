"""The Wireshark dissector on captures that are cut, lack packets, hold them twice or in another order, or hold anything else."""

from __future__ import annotations

import itertools
import random
import subprocess

import pytest

from pp1wire.capture.recorder import Recorder
from pp1wire.wire.checksums import body_checksum, header_checksum
from pp1wire.wire.header import HEADER_BYTES
from tests.capture.golden import NOW, VERIFIER, capture
from tests.capture.test_dissector import DENSE, SPARSE, body_bytes, write
from tests.capture.test_validate import blocks
from tests.capture.wireshark import PORT, layers, severities, tshark

pytestmark = pytest.mark.system

FIELDS = ("tcp.stream", "_ws.expert.message", "pp1.header.sequence", "pp1.reply.entry", "_ws.lua.error")


def damaged(sent, damages, **options) -> bytes:
    """One file with a connection for each of `damages`, which are functions of the connection's list of packets."""
    parts: list[bytes] = []
    for number, damage in enumerate(damages):
        file = blocks(capture(sent, client=("10.0.0.1", 20_000 + number), **options))
        parts += file[:2] if number == 0 else []
        parts += damage(file[2:])
    return b"".join(parts)


def test_a_gap_does_not_look_like_a_fault(tmp_path) -> None:
    packets = len(blocks(capture(SPARSE.sent))) - 2
    losses = range(3, packets - 4)  # any packet with data

    def losing(lost):
        return lambda parts: parts[:lost] + parts[lost + 1 :]

    found = layers(write(tmp_path, damaged(SPARSE.sent, map(losing, losses))))
    assert severities(found) == {"warn", "note"}
    codes = [
        {code for layer in found if layer.stream == stream for code in layer.codes} for stream in range(len(losses))
    ]
    assert set.union(*codes) == {"sequence_mismatch", "mid_stream"}
    assert sum(not told for told in codes) == 2  # what is missing is told, but for the last packet of each direction
    assert min(sum(layer.stream == stream for layer in found) for stream in range(len(losses))) > 20


def test_frames_that_were_skipped_are_one_warning(tmp_path) -> None:
    # Two packets of the verifier follow one another, the second about what the first committed.
    skipped = next(i for i, (a, b) in enumerate(itertools.pairwise(SPARSE.sent[3:]), 3) if a[0] is b[0] is VERIFIER)
    found = layers(write(tmp_path, capture(SPARSE.sent[:skipped] + SPARSE.sent[skipped + 1 :])))
    assert [code for layer in found for code in layer.codes] == ["sequence_mismatch"]


def test_reordered_and_repeated_packets_break_nothing(tmp_path) -> None:
    rng = random.Random(5)

    def repeat(parts):
        for _ in range(4):
            at = rng.randrange(3, len(parts) - 4)
            parts.insert(at + rng.randrange(3), parts[at])
        return parts

    def swap(parts):
        for _ in range(4):
            at = rng.randrange(3, len(parts) - 5)
            parts[at], parts[at + 1] = parts[at + 1], parts[at]
        return parts

    for damage in (repeat, swap):
        path = write(tmp_path, damaged(SPARSE.sent, [damage] * 8, piece=90))
        found = layers(path, "-o", "tcp.reassemble_out_of_order:TRUE", passes=2)
        assert len(found) > 8 * 30
        assert damage is swap or severities(found) <= {"warn", "note"}  # what came twice was there once


def test_captures_cut_by_a_snapshot_length_show_what_is_there(tmp_path) -> None:
    path = write(tmp_path, capture(DENSE.sent))
    full = layers(path)
    for snap in (60, 104, 110, 300):
        cut = tmp_path / "cut.pcapng"
        subprocess.run(["editcap", "-s", str(snap), path, cut], check=True, timeout=30)
        found = layers(cut)
        assert severities(found) <= {"warn", "note"}
        assert {code for layer in found for code in layer.codes} <= {
            "cut",
            "undecoded",
            "sequence_mismatch",
            "mid_stream",
        }
        assert "cut" in str([layer.codes for layer in found])
        whole = [layer for layer in found if "cut" not in layer.codes and layer.all("pp1.header.sequence")]
        assert len(whole) < len(full)


@pytest.mark.parametrize("talk", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_any_bytes_break_nothing(talk, tmp_path) -> None:
    """Hundreds of connections, each with a few bytes changed: no Lua error, and what is wrong is never taken for right."""
    path = tmp_path / "mutated.pcapng"
    rng = random.Random(6)
    with Recorder.create(path) as recorder:
        for index in range(250):
            connection = recorder.open(("10.0.0.1", 20_000 + index), ("10.0.0.2", 9009), NOW)
            at = rng.randrange(len(talk.sent))
            for number, (who, data) in enumerate(talk.sent[: at + 3]):
                if number == at:
                    data = mutated(data, rng)
                (connection.client_sent if who is VERIFIER else connection.server_sent)(data, NOW)
            connection.close(NOW)
    fields = ("-Y", "tcp.len > 0", "-T", "fields", *itertools.chain(*(("-e", name) for name in FIELDS)))
    told = [line.split("\t") for line in tshark(path, *PORT, *fields).splitlines()]
    assert {error for *_, error in told} == {""}
    # Some changes are right messages, or end in a message that never comes.
    assert len({stream for stream, codes, *_ in told if codes}) > 200
    # A second pass, which follows every link, says what the first did.
    again = [line.split("\t") for line in tshark(path, *PORT, "-2", *fields).splitlines()]
    assert again == told


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to three bytes changed; half the time under right checksums, so that the change is looked at."""
    changed = bytearray(data)
    size = HEADER_BYTES + body_bytes(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(size)] ^= 1 << rng.randrange(8)
    if rng.random() < 0.5:
        frame = changed[:size]
        frame[48:56] = body_checksum(frame).to_bytes(8, "little")
        frame[56:64] = header_checksum(frame).to_bytes(8, "little")
        changed[:size] = frame
    return bytes(changed)
