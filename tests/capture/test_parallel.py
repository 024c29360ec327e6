"""Several processes give the report of one, whatever becomes of them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from pp1wire.capture.findings import ExitStatus
from pp1wire.capture.parallel import add_result, validate_files
from pp1wire.capture.validate import Result, validate
from tests.capture.golden import capture, golden


@pytest.fixture
def files(tmp_path):
    good = capture(golden().sent)
    bad = capture(golden(fault=True).sent)
    contents = {"good": good, "bad": bad, "cut": good[:-7], "none": b"what?", "bad2": bad}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    return [str(tmp_path / name) for name in [*contents, "missing"]]


def text(result):
    return json.dumps(result.to_json())


@pytest.mark.parametrize("most", [0, 1, 1000])
def test_results_of_single_files_add_up_to_the_result_of_all(files, most) -> None:
    total = Result()
    for name in files:
        add_result(total, validate([name], max_findings=most), most)
    assert text(total) == text(validate(files, max_findings=most))


def test_jobs_give_the_report_of_one(files) -> None:
    told = []
    one = validate(files)
    assert one.status is ExitStatus.INVALID
    assert text(validate(files, jobs=2, progress=lambda *a: told.append(a))) == text(one)
    assert text(validate(files, jobs=7)) == text(one)
    assert not multiprocessing.active_children()


def test_a_killed_process_costs_the_file_in_hand(tmp_path, files) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def kill() -> None:
        with pipe.open("wb"):  # opens once the process reads it
            (child,) = multiprocessing.active_children()
            os.kill(child.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    result = validate_files([str(pipe), files[0]], 1)
    killer.join(10)
    assert [finding.message for finding in result.findings] == ["the process that judged it was ended by signal 9"]
    assert [file.status for file in result.files] == [ExitStatus.UNREADABLE, ExitStatus.VALID]
    assert not multiprocessing.active_children()


def test_negative_jobs_are_refused(files) -> None:
    with pytest.raises(ValueError, match="jobs: expected at least 0, got -1"):
        validate(files, jobs=-1)


def test_a_program_without_a_guard_is_told_so(tmp_path, files) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"from pp1wire.capture.validate import validate\nvalidate({files!r}, jobs=2)\n")
    ended = subprocess.run([sys.executable, "-O", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "JobsError: jobs: a process ended with exit status 1 before it could take a file" in ended.stderr


def test_an_interrupt_leaves_no_process(tmp_path) -> None:
    pipes = [tmp_path / "a", tmp_path / "b"]
    for pipe in pipes:
        os.mkfifo(pipe)
    command = [
        sys.executable,
        "-c",
        "import sys; from pp1wire.cli import main; sys.exit(main())",
        "validate",
        "--jobs",
        "2",
        *map(str, pipes),
    ]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    writers = [pipe.open("wb") for pipe in pipes]  # both processes have their file in hand
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(30) != 0
    for writer in writers:
        writer.close()
    for _ in range(100):
        try:
            os.killpg(run.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("a process was left")
