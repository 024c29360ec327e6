"""The captures that speeds are measured on are what they say: valid to the last byte, with as many rows."""

from __future__ import annotations

import pytest

from bench.capture_rows import captures
from bench.captures import SEGMENT, make
from pp1wire.capture import validate
from pp1wire.capture.pcap import PcapReader
from pp1wire.wire import Representation


@pytest.mark.parametrize("ethernet", [False, True])
@pytest.mark.parametrize("representation", Representation)
def test_captures_made_for_benchmarks_are_valid(tmp_path, representation, ethernet) -> None:
    path = tmp_path / "made"
    with path.open("wb") as file:
        rows = make(file, representation, 30, ethernet=ethernet, connections=2)
    result = validate([path])
    assert result.findings == []
    assert result.status == 0
    assert result.summary.connections == 2
    assert rows >= 30
    assert result.summary.rows == rows


def test_captures_on_ethernet_have_segments_and_bare_acknowledgements(tmp_path) -> None:
    path = tmp_path / "made"
    with path.open("wb") as file:
        make(file, Representation.SPARSE, 20, ethernet=True)
    with path.open("rb") as file:
        sizes = [len(packet.data) - 54 for packet in PcapReader(file)]
    assert max(sizes) <= SEGMENT
    assert sizes.count(0) > len(sizes) / 3


def test_every_row_about_captures_is_measured_and_memory_is_bounded() -> None:
    outcomes = list(captures(0.05))
    assert len(outcomes) == 8
    assert all(outcome.ratio > 0 for outcome in outcomes if "not measured" not in outcome.name)
    (memory,) = (outcome for outcome in outcomes if "peak memory" in outcome.name)
    assert memory.met
