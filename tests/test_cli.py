"""The command line as a user meets it: help, exit statuses, one-line errors, JSON for programs."""

from __future__ import annotations

import io
import json
import signal
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from types import SimpleNamespace

import pytest

from pp1wire.cli import main

COMMANDS = ("demo", "validate", "show", "plan", "record", "attack", "dissector", "vectors", "bench")


def pp1wire(*arguments):
    """Run a command in this process, which costs no start of an interpreter; what it printed, and its status."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(arguments, status or 0, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """A recording of a short demo, and what the demo said of it."""
    path = tmp_path_factory.mktemp("demo") / "demo.pcapng"
    result = pp1wire("demo", "--rounds", 2, "--requests", 2, "--capture", path, "--representation", "sparse", "--json")
    assert result.returncode == 0, result.stderr
    return path, json.loads(result.stdout)


def one_line(result, status, *named):
    assert result.returncode == status, result.stdout + result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    for word in named:
        assert word in lines[0]


def test_help_names_every_command_and_every_exit_status():
    text = pp1wire("--help").stdout
    for word in (*COMMANDS, "Exit status", "64"):
        assert word in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches(command):
    result = pp1wire(command, "--help")
    assert result.returncode == 0
    assert len(result.stdout) > 100


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_default_that_is_an_internal(command):
    text = " ".join(pp1wire(command, "--help").stdout.split())
    for internal in ("default: None", "default: []", "default: False", "None:", "SUPPRESS"):
        assert internal not in text


@pytest.mark.parametrize("command", ["validate", "show", "record", "plan"])
def test_help_ends_with_examples_that_can_be_copied(command):
    _, _, examples = pp1wire(command, "--help").stdout.partition("\nexamples:\n")
    lines = examples.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("    ") and f"pp1wire {command} " in line for line in lines)


def test_record_help_says_what_it_sees_of_tls():
    assert "ciphertext" in pp1wire("record", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "COMMAND"),
        (("fly",), "fly"),
        (("plan", "--vocab", "0"), "1 to 262144"),
        (("plan", "--vocab", "many"), "many"),
        (("plan", "--link", "nan"), "nan"),
        (("plan", "--wrong"), "--wrong"),
        (("demo", "--rounds", "0"), "--rounds"),
        (("demo", "-T", "0"), "temperature"),
        (("demo", "-T", "-1"), "temperature"),
        (("demo", "-T", "5e-324"), "temperature"),
        (("demo", "-T", "inf"), "temperature"),
        (("plan", "--link", "inf"), "link"),
        (("demo", "--depth", "6"), "1 to 5"),
        (("demo", "--requests", "5"), "1 to 4"),
        (("demo", "--fault", "fire"), "fire"),
        (("demo", "--seed", "18446744073709551616"), "--seed"),
        (("validate",), "FILE"),
        (("show", "a", "b"), "b"),
        (("record", "f", "--listen", "nowhere", "--to", "127.0.0.1:1"), "nowhere"),
        (("record", "f", "--listen", "127.0.0.1:99999", "--to", "127.0.0.1:1"), "99999"),
        (("record", "f"), "--listen"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_usage_is_one_line_that_names_it_and_the_help(arguments, named):
    one_line(pp1wire(*arguments), 64, named, "--help")


def test_plan_shows_the_table_and_says_what_does_not_fit():
    result = pp1wire("plan")
    assert result.returncode == 0
    for number in ("2,585,600", "10,342,400", "20,684,800", "1,292,800", "5,171,200", "0.517", "2.068", "0.259"):
        assert number in result.stdout
    assert pp1wire("plan", "--buffer", 20_684_799).returncode == 1
    assert pp1wire("plan", "--buffer", 20_684_800).returncode == 0
    data = json.loads(pp1wire("plan", "--json", "-k", 256).stdout)
    assert {layout["representation"]: layout["batch"] for layout in data["layouts"]} == {
        "dense": 10_342_400,
        "sparse": 40_960,
    }


def test_plan_reads_units_and_judges_only_what_it_was_given():
    for text, status in (("20MB", 1), ("20.7 MB", 0), ("20MiB", 0), ("0.02gb", 1), ("20201KiB", 0), ("1GiB", 0)):
        assert pp1wire("plan", "--buffer", text).returncode == status, text
    fits = {arguments: json.loads(pp1wire("plan", "--json", *arguments).stdout)["fits"]
            for arguments in ((), ("--buffer", "1GB"), ("--buffer", "1kB"))}  # fmt: skip
    assert list(fits.values()) == [None, True, False]
    for text in ("0", "0.5", "-1", "1e9", "20 M", "1.2.3", "GB", "", "5TB", "8589934592GiB"):
        one_line(pp1wire("plan", f"--buffer={text}"), 64, "--buffer", "GiB")


def test_plan_refuses_a_support_above_the_vocabulary():
    one_line(pp1wire("plan", "--vocab", 100, "-k", 101), 1, "support", "100", "101")


def test_plan_refuses_a_shape_that_no_agreement_can_have():
    one_line(pp1wire("plan", "--vocab", 100, "--padded-vocab", 99), 1, "padded_vocab_size", "100", "99")


def test_vectors_agree():
    result = pp1wire("vectors", "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0
    assert report["ok"] is True


def test_validate_and_show_what_the_demo_recorded(capture):
    path, demo = capture
    result = pp1wire("validate", path, "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0
    assert report["status"] == "valid"
    assert report == demo["validation"] | {"files": report["files"]}
    assert report["summary"]["frames"]["reply"] == 2 * 2 * 5
    shown = [json.loads(line) for line in pp1wire("show", path, "--json").stdout.splitlines()]
    assert [s["fields"]["message"] for s in shown if s["kind"] == "frame"][:2] == ["hello", "hello"]
    assert sum(s["kind"] == "frame" and s["fields"]["message"] == "reply" for s in shown) == 20


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda data: data[: len(data) * 2 // 3], 2),
        (lambda data: b"not a capture", 3),
        (lambda data: b"", 3),
        (lambda data: data[:-4] + b"\xff" * 4, 3),
    ],
    ids=["cut", "other bytes", "empty", "damaged"],
)
def test_validate_tells_incomplete_from_unreadable(capture, tmp_path, make, status):
    path = tmp_path / "changed.pcapng"
    path.write_bytes(make(capture[0].read_bytes()))
    result = pp1wire("validate", path)
    assert result.returncode == status, result.stdout
    assert result.stderr == ""


def test_validate_names_the_byte_of_a_changed_row(capture, tmp_path):
    data = bytearray(capture[0].read_bytes())
    row = data.rindex(b"PP1W\x02\x00\x03")
    data[row + 64 + 32 + 4] ^= 1  # the second support id of the last REPLY
    path = tmp_path / "changed.pcapng"
    path.write_bytes(data)
    result = pp1wire("validate", path, "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 1
    # What the real verifier did afterwards does not fit a discarded round, so more follows.
    finding = next(f for f in report["findings"] if f["severity"] == "invalid")
    assert finding["code"] == "body_checksum_mismatch"
    assert finding["scope"] == "proposal"
    assert finding["direction"] == "worker"
    assert finding["packet"] > 0


def test_missing_files_are_named():
    result = pp1wire("validate", "/nowhere/x.pcapng")
    assert result.returncode == 3
    assert "/nowhere/x.pcapng" in result.stdout
    one_line(pp1wire("show", "/nowhere/x.pcapng"), 3, "/nowhere/x.pcapng")
    one_line(pp1wire("validate", "--peer", "/nowhere/y", "/nowhere/x"), 3, "/nowhere/y")


def test_demo_refuses_a_capture_it_cannot_write(tmp_path):
    one_line(pp1wire("demo", "--capture", tmp_path / "no" / "x.pcapng"), 1, "capture", "directory")
    one_line(pp1wire("demo", "--capture", tmp_path), 1, "directory")


def test_record_names_a_busy_port(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        one_line(
            pp1wire("record", tmp_path / "x.pcapng", "--listen", f"127.0.0.1:{port}", "--to", "127.0.0.1:1"),
            1,
            str(port),
        )
    assert not (tmp_path / "x.pcapng").exists()


def test_record_names_a_target_that_cannot_be_reached(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
        to = f"127.0.0.1:{taken.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "pp1wire.cli", "record", str(tmp_path / "x"), "--listen", "127.0.0.1:0", "--to", to],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            port = int(process.stdout.readline().split(" → ")[0].rpartition(":")[2])
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", port), timeout=20) as client, suppress(ConnectionError):
                    assert client.recv(1) == b""
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, out) == (0, f"recorded 3 connections in {tmp_path / 'x'}\n")
    first, last = err.splitlines()
    assert first.startswith(f"pp1wire record: cannot connect to {to}: ")
    assert last == f"pp1wire record: 3 connections could not be passed on to {to}"


def test_bench_says_that_quick_figures_are_rough(monkeypatch):
    outcome = SimpleNamespace(met=None)
    about = {"loaded": False}
    room = SimpleNamespace(run=lambda seconds: [outcome], lines=lambda _: [], environment=lambda: about)
    monkeypatch.setattr("pp1wire.cli_bench._room", lambda module: room)
    assert "rough" in pp1wire("bench", "--quick").stdout.splitlines()[-1]
    assert "rough" not in pp1wire("bench").stdout


def test_bench_without_its_peer_says_what_to_install(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name="msgspec")

    monkeypatch.setattr("pp1wire.cli_bench.importlib.import_module", missing)
    one_line(pp1wire("bench"), 1, "the benchmarks need msgspec; run: pip install 'pp1wire[bench]'")


@pytest.mark.parametrize(
    ("met", "options", "status"), [(False, (), 0), (False, ("--check",), 1), (True, ("--check",), 0)]
)
def test_bench_fails_for_a_missed_goal_only_when_asked_to(monkeypatch, met, options, status):
    outcomes = [SimpleNamespace(met=None), SimpleNamespace(met=met)]
    about = {"loaded": True, "load_at_start": 3.0}
    room = SimpleNamespace(run=lambda seconds: outcomes, lines=lambda _: [], environment=lambda: about)
    monkeypatch.setattr("pp1wire.cli_bench._room", lambda module: room)
    result = pp1wire("bench", *options)
    assert result.returncode == status
    assert "the machine is busy (load 3.0)" in result.stdout


def test_output_into_a_closed_pipe_ends_quietly(capture):
    # Not the status of a verdict: nobody saw the end of one.
    command = f"{sys.executable} -m pp1wire.cli show --rows {capture[0]} | head -n 1; [ ${{PIPESTATUS[0]}} = 141 ]"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("HELLO")


@pytest.mark.parametrize("command", ["show", "validate"])
def test_closed_standard_input_is_unreadable_and_no_traceback(command):
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m pp1wire.cli {command} - <&-"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 3
    assert "the standard input is closed" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_no_colour_codes_when_nobody_looks(capture):
    for arguments in (("plan",), ("validate", capture[0]), ("show", capture[0]), ("vectors",)):
        assert "\x1b" not in pp1wire(*arguments).stdout
