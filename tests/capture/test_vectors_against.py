"""`pp1wire vectors --against`: a whole decoder passes, each wrong answer is told, and no decoder can hang or mislead the run."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pp1wire import cli
from pp1wire.capture import decoder as decoder_module
from pp1wire.capture.decoder import Decoder, DecoderError
from pp1wire.capture.vectors import Vector, load_vectors
from pp1wire.capture.vectors_against import ExpectedFailuresError, question, read_expected_failures, run_against

ALL = load_vectors()
BY_NAME = {v.name: v for v in ALL}
FULL = [sys.executable, str(Path(__file__).parent / "full_decoder.py")]
FEW = [BY_NAME[n] for n in ("frames/magic", "hello/offer", "step/sparse", "reply/sparse-ticket", "reply/dense-first")]


def program(text: str) -> list[str]:
    """A decoder in few lines; `-S -E` starts it in a hundredth of a second."""
    head = "import json, os, sys, time\ndef say(text): print(text, flush=True)\n"
    return [sys.executable, "-S", "-E", "-c", head + text]


def answering(answers: dict[str, Any], rest: str = "") -> list[str]:
    """A decoder that gives these answers by name."""
    return program(
        f"answers = {answers!r}\n"
        "for line in sys.stdin:\n"
        "    name = line.split(' ', 1)[0]\n"
        f"    say(json.dumps({{'name': name, **answers[name]}}))\n{rest}"
    )


def right(vector: Vector, **changes: Any) -> dict[str, Any]:
    if vector.reject is not None:
        return {"reject": vector.reject[0], **changes}
    return {"message": vector.message, "fields": {**(vector.fields or {}), **changes}}


def test_a_whole_decoder_passes_all_vectors() -> None:
    told: list[tuple[int, int]] = []
    report = run_against(FULL, progress=lambda done, total: told.append((done, total)))
    assert told == [(i + 1, len(ALL)) for i in range(len(ALL))]
    assert report.ok
    assert report.failed == ()
    assert len(report.results) == len(ALL)
    assert all(passed == total for passed, total in report.codes.values())
    assert report.lines() == [
        f"reject codes: {len(report.codes)} of {len(report.codes)} told in each of their vectors",
        f"{len(ALL)} of {len(ALL)} vectors agree; 0 fail, 0 of them as expected",
    ]


def test_a_question_is_the_conversation_and_what_comes_next() -> None:
    vector = BY_NAME["reply/dense-first"]
    name, mode, ids, q, *frames = question(vector).split(" ")
    assert (name, mode, ids, q) == ("reply/dense-first", "stream", "0", "16")
    assert [f.partition(":")[0] for f in frames] == ["verifier", "worker", "verifier", "verifier", "worker"]
    assert bytes.fromhex(frames[-1].partition(":")[2]) == vector.data
    assert question(BY_NAME["hello/answer-sparse"]).split(" ")[2:4] == ["0", "0"]
    assert question(BY_NAME["reply/sparse-first"]).split(" ")[2:4] == ["4", "4"]
    assert question(BY_NAME["frames/extra-data"]).split(" ")[1] == "frame"
    assert {len(question(v).split("\n")) for v in ALL} == {1}


@pytest.mark.parametrize(
    ("name", "answer", "problem"),
    [
        ("frames/magic", {"reject": "truncated"}, "expected reject bad_magic, got 'truncated'"),
        ("frames/magic", {"reject": "bad_magic", "offset": 1}, "expected offset 0, got 1"),
        ("frames/magic", {"reject": "bad_magic", "path": "frame"}, "expected path header.magic, got 'frame'"),
        ("frames/magic", {"reject": "bad_magic", "scope": "stale"}, "expected scope connection, got 'stale'"),
        ("frames/magic", {"message": "hello", "fields": {}}, "expected reject bad_magic, got a valid 'hello'"),
        ("hello/offer", {"reject": "bad_magic"}, "expected no reject, got 'bad_magic'"),
        ("hello/offer", {"message": "step", "fields": {}}, "expected a message hello, got 'step'"),
        ("hello/offer", {"message": "hello", "fields": {}}, "hello.role: expected 'offer', got nothing"),
    ],
)  # fmt: skip
def test_a_wrong_answer_is_told(name: str, answer: dict[str, Any], problem: str) -> None:
    report = run_against(answering({name: answer}), vectors=[BY_NAME[name]])
    assert [r.problem for r in report.failed] == [problem]
    assert not report.ok
    assert report.lines()[0] == f"{name}: {problem} ({BY_NAME[name].comment})"


def test_fields_may_be_spelt_in_other_ways() -> None:
    """What JSON cannot say everywhere has another spelling: 64 bits in digits, floats by bits, enumerations by number."""
    step, row = BY_NAME["step/sparse"], BY_NAME["reply/sparse-first"]
    changes = {
        "proposal_seed": str(0x0123456789ABCDEF), "position": "3", "temperature": "0x3fe3333333333333", "support_policy": 2,
        "more": None,
    }  # fmt: skip
    answers = {step.name: right(step, **changes), row.name: right(row, q=["0x3f000000", 0.25, "0x3E800000"])}
    assert run_against(answering(answers), vectors=[step, row]).ok


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"proposal_seed": 0x0123456789ABCDF0}, "81985529216486896"), ({"temperature": 0.6000000000000001}, "0.6000000000000001"),
        ({"temperature": "0x3fe3333333333334"}, "'0x3fe3333333333334'"), ({"temperature": "0.6"}, "'0.6'"),
        ({"temperature": "0xwxyz333333333333"}, "'0xwxyz333333333333'"), ({"support_policy": 1}, "1"),
        ({"support_policy": True}, "True"), ({"depth": True}, "True"), ({"depth": "2.0"}, "'2.0'"), ({"depth": "²"}, "'²'"),
        ({"depth": [2]}, "[2]"), ({"prefix_digest": None}, "None"), ({"temperature": 10**400}, "1" + "0" * 199 + "…"),
        ({"temperature": False}, "False"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_another_value_is_no_spelling_of_the_same(change: dict[str, Any], shown: str) -> None:
    step = BY_NAME["step/sparse"]
    report = run_against(answering({step.name: right(step, **change)}), vectors=[step])
    (name,) = change
    expected = f"step.{name}: expected {step.fields[name]!r}, got {shown}"
    assert [r.problem for r in report.failed] == [expected]


@pytest.mark.parametrize(
    "q", [[0.5, 0.25], [0.5, 0.25, 0.25, 0.0], [0.5, 0.25, 0.25000001], 0.5, "0.5", [[0.5], 0.25, 0.25]]
)
def test_another_column_is_told(q: Any) -> None:
    row = BY_NAME["reply/sparse-first"]
    assert len(run_against(answering({row.name: right(row, q=q)}), vectors=[row]).failed) == 1


def test_expected_failures_are_exact(tmp_path: Path) -> None:
    answers = {v.name: right(v) for v in FEW} | {"frames/magic": {"reject": "truncated"}}
    known = tmp_path / "known.txt"
    known.write_text("# what it misses\n\nframes/magic  # and why\n")
    expected = read_expected_failures([known])
    assert run_against(answering(answers), vectors=FEW, expected=expected).ok
    report = run_against(answering(answers), vectors=FEW, expected=[*expected, "step/sparse", "step/none"])
    assert not report.ok
    assert (report.unexpected, report.passed_unexpectedly, report.unknown) == ((), ("step/sparse",), ("step/none",))
    assert report.lines()[:2] == [
        "step/sparse: passed, but it is listed as an expected failure",
        "step/none: listed as an expected failure, but there is no such vector",
    ]
    assert report.lines()[-1] == "4 of 5 vectors agree; 1 fail, 1 of them as expected"
    assert json.loads(json.dumps(report.to_json())) == {
        "ok": False,
        "vectors": 5,
        "failed": [
            {"vector": "frames/magic", "problem": "expected reject bad_magic, got 'truncated'", "expected": True}
        ],
        "passed_unexpectedly": ["step/sparse"],
        "unknown_expected": ["step/none"],
        "codes": {"bad_magic": {"passed": 0, "vectors": 1}, "ticket_mismatch": {"passed": 1, "vectors": 1}},
    }
    assert not run_against(answering(answers), vectors=FEW, expected=["step/none"]).ok


def test_a_list_of_expected_failures_is_a_list_of_names(tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    for text, message in (
        ("a/b c/d\n", r"line 1: expected one name of a vector, got 'a/b c/d'"), ("a/b\n\na/b\n", r"line 3: a/b stands twice"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(ExpectedFailuresError, match=message):
            read_expected_failures([file])
    file.write_text("a/b\n")
    with pytest.raises(ExpectedFailuresError, match="stands twice"):
        read_expected_failures([file, file])
    file.write_bytes(b"\xff\n")
    with pytest.raises(ExpectedFailuresError, match="expected text in UTF-8"):
        read_expected_failures([file])
    with pytest.raises(FileNotFoundError):
        read_expected_failures([tmp_path / "none"])


READ = "line = sys.stdin.readline(); name = line.split(' ', 1)[0]\n"
GOOD = "say(json.dumps({'name': name, 'reject': 'bad_magic'}))\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print('no model', file=sys.stderr); sys.exit(7)", r"ended with status 7 before its answer; its .* ends:\nno model"),
        (READ + "os.kill(os.getpid(), 11)", "ended by signal SIGSEGV before its answer"),
        (READ + "os.close(1); time.sleep(60)", "ended its output before its answer"),
        (READ + "time.sleep(60)", r"gave no answer \(does it flush each line\?\) in 0\.5 s"),
        (READ + "print('half', end='', flush=True); time.sleep(60)", "gave no answer"),
        (READ + "print('x' * 3000, file=sys.stderr, flush=True); time.sleep(60)", r"standard error ends:\nx{1999}$"),
        (READ + "say('hello')", "expected one line of JSON, got 'hello'"),
        (READ + "say('[1]')", r"expected a JSON object, got '\[1\]'"),
        (READ + "say('[' * 100000)", "expected one line of JSON"),
        (READ + "say('NaN')", "expected one line of JSON, got 'NaN'"),
        (READ + "say('{}')", "expected an answer with this name"),
        (READ + "say(json.dumps({'name': 'step/sparse', 'reject': 'x'}))", "expected an answer with this name"),
        (READ + "say(json.dumps({'name': name}))", "expected either a reject or fields"),
        (READ + "say(json.dumps({'name': name, 'reject': 'x', 'fields': {}}))", "expected either a reject or fields"),
        (READ + "say(json.dumps({'name': name, 'fields': {}}))", "expected fields as an object, beside their message"),
        (READ + "say(json.dumps({'name': name, 'message': 'hello', 'fields': []}))", "expected fields as an object"),
        (READ + "sys.stdout.buffer.write(b'\\xff\\n')", "answered .* which is not UTF-8"),
        (READ + "os.write(1, b'x' * 3_000_000)", "answered with more than 1048576 bytes"),
        (READ + GOOD + "say('again'); time.sleep(60)", r"said 'again' (without being asked|after the last answer)"),
        (READ + GOOD + "sys.exit(3)", "ended with status 3 after the last answer"),
        (READ + GOOD + "time.sleep(60)", r"did not end after its input in 0\.5 s"),
        (READ + GOOD + "os.close(1); os.close(2); time.sleep(60)", r"did not end after its input in 0\.5 s"),
    ],
    ids=range(22),
)  # fmt: skip
def test_what_a_decoder_does_wrong_is_one_clear_error_and_nothing_stays(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = []

    class Known(subprocess.Popen):
        def __init__(self, *args, **options) -> None:
            super().__init__(*args, **options)
            children.append(self)

    monkeypatch.setattr(subprocess, "Popen", Known)
    started = time.monotonic()
    with pytest.raises(DecoderError, match=message) as caught:
        run_against(program(text), vectors=[BY_NAME["frames/magic"]], seconds=0.5)
    assert str(caught.value).splitlines()[0].startswith(("frames/magic: ", sys.executable))
    assert time.monotonic() - started < 10
    [child] = children
    assert child.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)


def test_one_that_does_not_read_is_not_waited_for() -> None:
    """A line may be longer than a pipe holds."""
    with (
        Decoder(program("time.sleep(60)"), 0.5) as decoder,
        pytest.raises(DecoderError, match="did not read its input in"),
    ):
        decoder.ask("x" * 1_000_000)


def test_one_that_answers_too_early_is_out_of_step() -> None:
    with Decoder(program("say('early'); time.sleep(60)"), 5) as decoder:
        with pytest.raises(DecoderError, match="answered 'early' before it had read the line"):
            decoder.ask("x" * 1_000_000)


def test_a_long_line_and_a_long_answer_pass() -> None:
    echo = program("for line in sys.stdin: say(line.rstrip('\\n')[::-1])")
    with Decoder(echo, 10) as decoder:
        assert decoder.ask("ab" * 300_000) == "ba" * 300_000
        assert decoder.ask("c") == "c"
        decoder.finish()


def test_much_on_standard_error_does_not_block() -> None:
    chatty = program("for line in sys.stdin:\n    print('x' * 300000, file=sys.stderr, flush=True)\n    say('y')")
    with Decoder(chatty, 10) as decoder:
        assert [decoder.ask("a"), decoder.ask("b")] == ["y", "y"]
        decoder.finish()


def test_what_a_decoder_started_ends_with_it() -> None:
    """As under npx, what hangs may be a child of the child."""
    starts = "import subprocess; p = subprocess.Popen(['sleep', '60']); say(str(p.pid)); p.wait()"
    with Decoder(program(starts), 5) as decoder:
        pid = int(decoder.ask("x"))
        assert alive(pid)
    ended = time.monotonic() + 5
    while alive(pid):
        assert time.monotonic() < ended, "the grandchild is still there"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def test_a_program_that_cannot_be_started() -> None:
    with pytest.raises(DecoderError, match=r"/nonexistent/decoder: cannot be started: .*No such file"):
        run_against(["/nonexistent/decoder"], vectors=[])
    with pytest.raises(DecoderError, match="cannot be started"):
        Decoder(["\0"], 1)


def test_no_group_is_killed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a group that is gone may belong to another later."""
    killed: list[int] = []
    real: Callable[[int, int], None] = os.killpg
    monkeypatch.setattr(decoder_module.os, "killpg", lambda group, sign: (killed.append(group), real(group, sign)))
    with pytest.raises(DecoderError), Decoder(program("time.sleep(60)"), 0.1) as decoder:
        decoder.ask("x")
    assert len(killed) == 1


def vectors_command(*arguments: str) -> int:
    try:
        return cli.main(["vectors", *arguments])
    except SystemExit as ended:
        return int(ended.code or 0)


def test_the_command_line_tells_each_outcome_by_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.txt"
    known.write_text("frames/magic\n")
    full = shlex.join(FULL)
    assert vectors_command("--against", full, "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert vectors_command("--against", full, "--expected-failures", str(known)) == 1
    assert "frames/magic: passed, but it is listed as an expected failure" in capsys.readouterr().out
    assert vectors_command("--against", "false") == 3
    error = capsys.readouterr().err
    assert error.startswith("pp1wire vectors: ")
    assert "false ended with status 1 before its answer" in error
    assert vectors_command("--against", "true", "--expected-failures", str(tmp_path / "none")) == 1
    assert "No such file" in capsys.readouterr().err
    for wrong in (
        ("--expected-failures", str(known)), ("--against", ""), ("--against", "'"), ("--against", "true", "--timeout", "0"),
    ):  # fmt: skip
        assert vectors_command(*wrong) == 64
        assert capsys.readouterr().err.startswith("pp1wire vectors: ")
