"""Who watches the judging sees every verdict in order, with the place and time of its frame."""

from __future__ import annotations

import io
from collections import Counter

import pytest

from pp1wire.capture.validate import Validator
from pp1wire.wire.reader import message_type_of
from tests.capture.golden import VERIFIER, WORKER, capture, golden

TALK = golden()


def watched(data: bytes):
    seen = []
    validator = Validator(observe=seen.append)
    validator.add(io.BytesIO(data), "capture")
    return seen, validator.result.summary


def frames_of(seen) -> Counter[str]:
    frames: Counter[str] = Counter()
    for one in seen:
        verdict = one.verdict
        if verdict.batch is None:
            frames[message_type_of(verdict.message).name.lower()] += 1
        else:
            frames["reply"] += verdict.stop - verdict.start
    return frames


def test_every_frame_is_seen_once_with_its_place():
    seen, summary = watched(capture(TALK.sent))
    assert frames_of(seen) == +summary.frames
    assert {(one.file, one.connection, one.uncertain) for one in seen} == {("capture", 1, False)}
    packets = [one.packet for one in seen]
    assert packets == sorted(packets)
    assert len(set(packets)) > 1
    assert all(one.time_ns is not None and one.direction is one.verdict.direction for one in seen)


@pytest.mark.parametrize("who", [VERIFIER, WORKER])
def test_a_raw_stream_is_seen_without_packets_and_times(who):
    seen, summary = watched(TALK.stream(who))
    assert frames_of(seen) == +summary.frames
    assert {(one.packet, one.time_ns, one.endpoints) for one in seen} == {(None, None, None)}
