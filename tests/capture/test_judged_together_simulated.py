"""Captures of the simulator's connections, with all their faults: judged in batches and one by one, the report is the same."""

from __future__ import annotations

import io

import pytest

from fuzz.simulator.network import Pipe
from fuzz.simulator.world import run
from pp1wire.capture import _batch
from pp1wire.capture.connection_judge import ConnectionJudge
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.validate import Validator
from tests.capture.golden import NOW, SERVER


def recorded(seed: int) -> bytes:
    """What a capture beside the simulated network would hold."""
    file = io.BytesIO()
    recorder = Recorder(file)
    connections = {}
    with pytest.MonkeyPatch.context() as patch:
        read, end = Pipe._read, Pipe._end

        def connection(pipe):
            number = pipe._name.split()[1]
            now = NOW + int(pipe._world.clock.now * 1e9)
            if number not in connections:
                connections[number] = recorder.open(("10.0.0.1", 20_000 + len(connections)), SERVER, now)
            return connections[number], "to worker" in pipe._name, now

        def note(pipe):
            if pipe._waiting:
                one, to_worker, now = connection(pipe)
                (one.client_sent if to_worker else one.server_sent)(pipe._waiting, now)
            read(pipe)

        def note_end(pipe):
            if not pipe.over:
                note(pipe)
                one, to_worker, now = connection(pipe)
                (one.client_closed if to_worker else one.server_closed)(now)
            end(pipe)

        patch.setattr(Pipe, "_read", note)
        patch.setattr(Pipe, "_end", note_end)
        run(seed)
    return file.getvalue()


def report(data: bytes, *, together: bool):
    with pytest.MonkeyPatch.context() as patch:
        if not together:
            patch.setattr(ConnectionJudge, "_goes_well", lambda _: False)
        validator = Validator()
        validator.add(io.BytesIO(data), "capture")
    return validator.result.to_json()


@pytest.mark.parametrize("seed", range(48))
def test_the_same_report_of_simulated_connections(seed, monkeypatch):
    data = recorded(seed)
    expected = report(data, together=False)
    assert report(data, together=True) == expected
    monkeypatch.setattr(_batch, "_MAX_BATCH", 3_000)
    assert report(data, together=True) == expected


def test_they_hold_what_there_is_to_judge():
    """Else nothing would be compared."""
    seen, totals = set(), {"rounds": 0, "discards": 0, "stale": 0, "target_only": 0}
    for seed in range(48):
        found = report(recorded(seed), together=True)
        seen |= {finding["code"] for finding in found["findings"]}
        for name in totals:
            value = found["summary"][name]
            totals[name] += value if isinstance(value, int) else sum(value.values())
    assert min(totals.values()) > 10
    assert len(seen) > 10
