"""What is marked is what was damaged: a test plants one wrong field in a capture and compares bytes and offsets."""

from __future__ import annotations

import gzip
import io
import os
import struct
from html.parser import HTMLParser

import pytest

from pp1wire.capture.html.excerpts import excerpts_of
from pp1wire.capture.html.hex_view import hex_view
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.validate import validate
from tests.capture.golden import CLIENT, NOW, SERVER, VERIFIER, WORKER, capture, golden
from tests.capture.html.planted import cases
from tests.capture.test_validate import blocks

CASES = cases()


class Marks(HTMLParser):
    """The text of each `mark` in a hex view, without what only a screen reader hears, and the lines that hold them."""

    def __init__(self, page):
        super().__init__()
        self.found, self.heard, self.lines, self.line = [], [], [""], None
        self._open, self.letters = [], 0
        self.feed(str(page))

    def handle_starttag(self, tag, attributes):
        self._open.append("heard" if ("class", "heard") in attributes else tag)
        if tag == "mark":
            self.found.append("")

    def handle_endtag(self, tag):
        self._open.pop()

    def handle_data(self, data):
        if "heard" in self._open:
            self.heard.append(data)
        elif "pre" in self._open:
            if "mark" in self._open:
                self.found[-1] += data
                self.line = len(self.lines) - 1 if self.line is None else self.line
            self.letters += "b" in self._open
            self.lines[-1] += data.replace("\n", "")
            self.lines += [""] * data.count("\n")


def judged(path, **options):
    findings = validate([path], **options).findings
    return findings, excerpts_of(findings)


def check(case, findings, excerpts):
    index = next(i for i, f in enumerate(findings) if f.offset == case.at and f.path == case.path)
    finding, excerpt = findings[index], excerpts[index]
    assert (excerpt.place.start, excerpt.place.stop) == (case.at, case.at + len(case.data))
    shown = {one.offset + i: value for one in excerpt.ranges for i, value in enumerate(one.data)}
    assert bytes(shown[case.at + i] for i in range(len(case.data))) == case.data
    marks = Marks(hex_view(finding, excerpt))
    assert bytes.fromhex(" ".join(marks.found)) == case.data
    assert marks.heard == [f"wrong: {case.path} "] * len(marks.found)
    # The first marked byte stands where its line's offset says.
    line = marks.lines[marks.line]
    start = int(line.split()[0])
    cells = line[line.index("+") + 7 :]
    column = 3 * (case.at - start) + (case.at - start >= 8)
    assert cells[column : column + len(marks.found[0])] == marks.found[0]
    # The line below points at the same bytes, and the text beside them shows as many.
    caret = marks.lines[marks.line + 1]
    assert caret.index("^") == line.index("+") + 7 + column
    assert caret.count("^") == len(marks.found[0])
    assert case.path in caret
    assert marks.letters == len(case.data)
    return finding, excerpt


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("piece", [None, 7])
def test_exactly_the_damaged_bytes_are_marked(tmp_path, case, piece):
    path = tmp_path / "capture.pcapng"
    path.write_bytes(capture(case.sent, piece=piece))
    check(case, *judged(path))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_exactly_the_damaged_bytes_of_a_raw_stream_are_marked(tmp_path, case):
    ways = {who: tmp_path / f"{who}.bin" for who in (VERIFIER, WORKER)}
    for who, path in ways.items():
        path.write_bytes(gzip.compress(b"".join(data for sender, data in case.sent if sender is who)))
    peer = tmp_path / "peer.bin"
    other = WORKER if case.who is VERIFIER else VERIFIER
    peer.write_bytes(b"".join(data for sender, data in case.sent if sender is other))
    findings, excerpts = judged(ways[case.who], peer=peer)
    if case.name in ("slot", "token", "completion checksum"):  # needs the other direction to be noticed
        assert not any(finding.path == case.path for finding in findings)
    else:
        check(case, findings, excerpts)


def swapped(sent, *, packets):
    """A capture that begins behind the handshake, with the verifier at the lower port: which end is which is a guess."""
    file = io.BytesIO()
    connection = Recorder(file).open(SERVER, CLIENT, NOW)
    for index, (sender, data) in enumerate(sent):
        (connection.client_sent if sender is VERIFIER else connection.server_sent)(data, NOW + index)
    connection.close(NOW + len(sent))
    parts = blocks(file.getvalue())
    return b"".join(part for number, part in enumerate(parts) if number < 2 or number - 1 > packets)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_of_a_connection_without_its_beginning_the_right_direction_is_shown(tmp_path, case):
    path = tmp_path / "capture.pcapng"
    path.write_bytes(swapped(case.sent, packets=3))
    findings, excerpts = judged(path)
    finding, _ = check(case, findings, excerpts)
    assert finding.direction == str(case.who)


def test_a_row_without_its_checksum_is_marked_at_the_checksum(tmp_path):
    path = tmp_path / "capture.pcapng"
    path.write_bytes(capture(golden(fault=True).sent))
    findings, excerpts = judged(path)
    assert findings[0].path == "header.body_checksum"
    place = excerpts[0].place
    assert (place.start - place.frame, place.stop - place.start) == (48, 8)


def test_a_whole_column_is_marked_to_the_end_of_its_frame(tmp_path):
    from tests.capture.html.planted import SPARSE, plant

    case = plant("mass", SPARSE, WORKER, 3, "reply.q[0]", lambda _: 0.5)
    path = tmp_path / "capture.pcapng"
    path.write_bytes(capture(case.sent))
    findings, excerpts = judged(path)
    index = next(i for i, f in enumerate(findings) if f.path == "reply.q")
    place = excerpts[index].place
    row = b"".join(data for sender, data in case.sent if sender is WORKER)[place.frame :]
    assert (place.start, place.stop) == (case.at, place.frame + 64 + struct.unpack_from("<I", row, 16)[0])


def test_gaps_are_shown_as_missing_and_never_filled(tmp_path):
    path = tmp_path / "capture.pcapng"
    data = capture(golden().sent, piece=64)
    parts = blocks(data)
    path.write_bytes(b"".join(part for number, part in enumerate(parts) if number != 30))
    findings, excerpts = judged(path)
    index = next(i for i, f in enumerate(findings) if f.code == "gap")
    shown = {one.offset + i: value for one in excerpts[index].ranges for i, value in enumerate(one.data)}
    start, length = findings[index].offset, findings[index].length
    assert [shown[start + i] for i in range(length)] == [None] * length
    assert shown[start - 1] is not None
    assert shown[start + length] is not None
    assert "··" in str(hex_view(findings[index], excerpts[index]))


def test_what_cannot_be_read_twice_has_no_excerpt(tmp_path):
    path = tmp_path / "capture.pcapng"
    path.write_bytes(capture(CASES[0].sent))
    findings = validate([path]).findings
    assert excerpts_of(findings)
    path.unlink()
    assert excerpts_of(findings) == {}
    os.mkfifo(path)  # opening it would wait for a writer
    assert excerpts_of(findings) == {}
    path.unlink()
    path.write_bytes(b"something else")
    assert excerpts_of(findings) == {}
