"""The command: what it prints, how it ends, and that a failing seed is told as one command that replays it."""

from __future__ import annotations

import json
import shlex

import pytest

from fuzz.simulator.__main__ import main
from fuzz.simulator.violation import INVARIANTS
from pp1wire.protocol.slots import _Half


def test_good_seeds_are_reported_by_kind(capsys):
    assert main(["--seeds", "3:9"]) == 0
    said, wrong = capsys.readouterr()
    assert "6 seeds" in said
    assert f"all {len(INVARIANTS)} invariants held" in said
    assert "faults: " in said
    assert "delay" in said
    assert not wrong


def test_a_failing_seed_is_one_command_that_replays_it(capsys, monkeypatch):
    monkeypatch.setattr(_Half, "free", property(lambda self: not self.owned))
    assert main(["--seeds", "20"]) == 1
    said, wrong = capsys.readouterr()
    assert "BROKEN [slots]" in said
    (command,) = [line for line in wrong.splitlines() if line.startswith("python ")]
    program, *arguments = shlex.split(command)[1:]
    assert (program, *arguments[:1]) == ("-m", "fuzz.simulator")
    assert main(arguments[1:]) == 1
    trace = capsys.readouterr().out
    assert "BROKEN [slots]" in trace
    assert " bytes " in trace
    detail = next(line for line in said.splitlines() if "is held, but" in line)
    assert detail in trace
    monkeypatch.undo()
    assert main(arguments[1:]) == 0


def test_json_has_everything_and_nothing_else_is_on_standard_output(capsys):
    assert main(["--seeds", "4", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["seeds"] == 4
    assert data["failure"] is None
    assert data["rounds"] > 0
    assert main(["--seed", "4", "--json", "--trace"]) == 0
    said, trace = capsys.readouterr()
    assert json.loads(said)["digest"]
    assert len(trace.splitlines()) > 10


def test_several_processes_come_to_the_same(capsys):
    def sums(*options):
        assert main(["--seeds", "24", "--json", *options]) == 0
        data = json.loads(capsys.readouterr().out)
        return {name: data[name] for name in ("seeds", "rounds", "steps", "faults", "rejects", "discards", "stats")}

    assert sums("--jobs", "2") == sums()


def test_minutes_end_a_run_without_last_seed(capsys):
    assert main(["--minutes", "0.005"]) == 0
    assert " seeds" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong", [[], ["--seeds", "5:5"], ["--seeds", "x"], ["--seeds", "-3"], ["--jobs", "0", "--seeds", "1"]]
)
def test_wrong_usage_is_status_2(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err
