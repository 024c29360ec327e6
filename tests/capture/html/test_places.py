"""Every reject has its field's bytes: none is left unmarked, and none is marked a byte too far."""

from __future__ import annotations

import struct

import pytest

from pp1wire.capture.html.excerpts import excerpts_of
from pp1wire.capture.validate import validate
from pp1wire.capture.vectors import load_vectors
from pp1wire.wire import MessageType
from pp1wire.wire._schema_v2 import BODY_COLUMNS
from tests.capture.golden import SERVER, capture
from tests.wire.frames import offset_of

VECTORS = [v for v in load_vectors() if v.reject is not None and not v.whole]


def length_of(path: str) -> int | None:
    """Bytes of the field; None for a whole column."""
    columns = {f"{m.name.lower()}.{name}" for m in MessageType for name, _, _ in BODY_COLUMNS[m]}
    return None if path in columns else struct.calcsize(offset_of(path, None)[1])


@pytest.mark.parametrize("message", sorted({vector.message for vector in VECTORS}))
def test_the_field_of_every_vector_is_found_in_its_frame(tmp_path, message):
    vectors = [vector for vector in VECTORS if vector.message == message]
    assert vectors
    for vector in vectors:
        _, _, offset, path = vector.reject
        sent = [(one.sender, one.data) for one in vector.conversation] + [(vector.sender, vector.data)]
        file = tmp_path / "vector.pcapng"
        file.write_bytes(capture(sent))
        stream = b"".join(data for sender, data in sent if sender is vector.sender)
        findings = [f for f in validate([file], ports=[SERVER[1]]).findings if (f.offset, f.path) == (offset, path)]
        if not findings and len(stream) < 4:
            continue  # too little to be taken for PP1
        assert findings, vector.name
        excerpt = excerpts_of(findings[:1]).get(0)
        if path == "frame" and offset >= len(stream):
            continue  # what is wrong is that nothing stands there
        assert excerpt is not None, vector.name
        place = excerpt.place
        assert place.start == offset, vector.name
        if path == "frame":
            assert place.stop == offset + 1
            continue
        start = len(stream) - len(vector.data)
        if "[" not in path or "reply.q" not in path:
            length = length_of(path)
            end = start + 64 + int.from_bytes(vector.data[16:20], "little") if length is None else offset + length
            assert place.stop == end, vector.name
        else:
            assert place.stop == offset + 4, vector.name
        if place.frame is not None:
            # More than one frame may be in what is sent last.
            assert stream[place.frame : place.frame + 4] == b"PP1W" or path == "header.magic", vector.name
        shown = {one.offset + i: v for one in excerpt.ranges for i, v in enumerate(one.data)}
        assert all(shown[at] == stream[at] for at in shown if at < len(stream)), vector.name
        assert all(at in shown for at in range(place.start, min(place.start + 4, place.stop))), vector.name
