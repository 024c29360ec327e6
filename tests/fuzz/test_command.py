"""`python -m fuzz`: exit statuses, findings that are replayed by one command, and what it prints."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from fuzz import __main__ as command
from fuzz.engines import guided
from fuzz.engines.limit import limited
from fuzz.findings import harness_of, keep, smaller, what
from fuzz.harnesses import HARNESSES, one_frame
from fuzz.outcome import CODES, MESSAGES, Violation
from fuzz.script import pack, parse
from fuzz.seeds import seeds
from fuzz.tally import Tally
from pp1wire.wire import decode, messages


def test_a_run_prints_each_message_and_code_with_its_count(capsys):
    assert command.main(["--inputs", "120", "--harness", "one_frame", "--seed", "2"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"one_frame: {HARNESSES['one_frame'].invariant}"
    assert {line.split()[0] for line in out} >= {*MESSAGES, *CODES}
    assert out[-1].startswith("never reached: ")
    assert "DATA_BEFORE_AGREEMENT" in out[-1]


def test_the_seconds_are_split_over_all_harnesses(capsys):
    begin = time.monotonic()
    assert command.main(["--seconds", "1.2"]) == 0
    assert time.monotonic() - begin < 60
    inputs = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("inputs  "))
    assert all(int(number) > 5 for number in inputs.split()[1:])


def test_a_finding_is_kept_made_smaller_and_replayed_by_the_command_that_is_printed(monkeypatch, tmp_path, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(messages, "check_body_checksum", lambda frame: None)
        assert command.main(["--inputs", "400", "--harness", "one_frame", "--findings", str(tmp_path)]) == 1
        said = capsys.readouterr().err.splitlines()
        assert said[0].startswith("finding: one_frame: Violation: a ")
        path = said[-1].removeprefix("replay: python -m fuzz --replay ")
        assert [str(p) for p in tmp_path.glob("*/*")] == [path]
        assert command.main(["--replay", path]) == 1
        assert capsys.readouterr().err.splitlines() == said
    assert command.main(["--replay", path]) == 0
    assert capsys.readouterr().out == "one_frame: BODY_CHECKSUM_MISMATCH\n"


def test_a_session_is_made_smaller_by_whole_turns(monkeypatch):
    harness = HARNESSES["negotiated_session"]
    data = max(seeds(harness.name), key=lambda d: len(parse(d)[1]))

    def run(data):
        if sum(len(piece) > 64 and piece[6] == 2 for _, piece in parse(data)[1]) >= 2:
            raise Violation("two STEPs")
        return "nothing"

    broken = replace(harness, run=run)
    small = smaller(broken, data, what(broken, data))
    assert [piece[6] for _, piece in parse(small)[1]] == [2, 2]
    assert pack(*parse(small)) == small


@pytest.mark.parametrize("arguments", [["--harness", "none"], ["--seconds", "x"], ["--engine", "guess"], ["--no"]])
def test_wrong_usage_has_its_own_status(arguments, capsys):
    assert command.main(arguments) == 64


def test_a_file_that_cannot_be_replayed_is_wrong_usage(tmp_path, capsys):
    assert command.main(["--replay", str(tmp_path / "one_frame" / "none")]) == 64
    elsewhere = tmp_path / "input"
    elsewhere.write_bytes(b"\0")
    assert command.main(["--replay", str(elsewhere)]) == 64
    assert "a folder named after a harness, or --harness" in capsys.readouterr().err
    assert command.main(["--replay", str(elsewhere), "--harness", "one_frame"]) == 0
    assert harness_of(keep("capture", b"x", tmp_path)) is HARNESSES["capture"]


def test_an_engine_that_is_not_installed_is_named_with_its_extra(monkeypatch, capsys):
    monkeypatch.setattr(guided, "find_spec", lambda name: None)
    assert command.main(["--engine", "atheris"]) == 64
    assert capsys.readouterr().err == "the engine atheris needs the extra: pip install -e '.[fuzz]'\n"


def test_an_input_that_takes_too_long_is_a_finding():
    slow = replace(HARNESSES["one_frame"], run=lambda data: str(sum(iter(lambda: 1, 2))))
    error = what(limited(slow, 0.05), b"")
    assert isinstance(error, Violation)
    assert str(error) == "one input takes more than 0.05 s"
    assert limited(HARNESSES["one_frame"]).run(b"\0PP1W") == "TRUNCATED"


def test_a_report_goes_from_one_process_to_another(tmp_path):
    tally = Tally("capture", "atheris", seconds=2.0)
    tally.add(b"x", "HELLO STEP HELLO")
    tally.save(tmp_path / "report")
    read = Tally.load(tmp_path / "report")
    assert (read.harness, read.engine, read.inputs, read.rate) == ("capture", "atheris", 1, 0.5)
    assert read.reached == {"HELLO": 1, "STEP": 1}
    assert one_frame.decode is decode


@pytest.mark.parametrize("nothing", [["--seconds", "0"], ["--seconds", "-1"], ["--seconds", "nan"], ["--inputs", "0"]])
def test_fuzzing_nothing_is_wrong_usage(nothing, capsys):
    assert command.main(nothing) == 64
    assert "expected a number above 0" in capsys.readouterr().err
