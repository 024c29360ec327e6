"""`pp1wire attack` as a user meets it: exit statuses, reports for people and programs, interruption."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from pp1wire.attack import Report, Target, attack_worker
from pp1wire.cli import main
from pp1wire.protocol.verifier_messages import VerifierMessages
from tests.attack.ends import PADDED, decoding, settings
from tests.net.toys import serving, terms

KEYS = {"case", "code", "expected", "observed", "verdict", "detail"}


@contextmanager
def in_thread(make):
    """An asynchronous context manager, entered in a loop of its own; yields what it yields."""
    ready, result = threading.Event(), {}

    def work():
        async def stay():
            result["stop"], result["loop"] = asyncio.Event(), asyncio.get_running_loop()
            async with make() as result["value"]:
                ready.set()
                await result["stop"].wait()

        asyncio.run(stay())

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(10)
    try:
        yield result["value"]
    finally:
        result["loop"].call_soon_threadsafe(result["stop"].set)
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def worker():
    with in_thread(lambda: serving(own=terms(**PADDED))) as server:
        yield str(server.address)


def attack(capsys, *arguments):
    """The exit status, and what was printed on both streams."""
    try:
        status = main(["attack", *map(str, arguments)])
    except SystemExit as end:
        status = end.code
    return (status, *capsys.readouterr())


def test_a_worker_that_is_right_is_status_0_and_a_table(capsys, worker):
    status, out, err = attack(
        capsys, "worker", worker, "--only", "step/depth-0", "--only", "valid/round", "--rate", 1000
    )
    assert status == 0, err
    lines = out.splitlines()
    assert lines[0].split() == ["case", "code", "expected", "observed", "verdict", "detail"]
    assert lines[1].split()[:5] == ["valid/round", "-", "accepted", "accepted", "right"]
    assert lines[2].split(maxsplit=5) == [
        "step/depth-0", "value_out_of_bounds", "closed", "closed", "right", "code not visible",
    ]  # fmt: skip
    assert lines[-1] == "2 cases: 2 right, 0 wrong"
    assert err == ""


def test_a_worker_that_is_wrong_is_status_1_and_named(capsys, worker, monkeypatch):
    class Careless(VerifierMessages):
        def _check_step(self, place, session, step):
            self._check_prefix(place, session, step.position, step.prefix_digest)

    monkeypatch.setattr("pp1wire.protocol.endpoint.VerifierMessages", Careless)
    arguments = ("worker", worker, "--only", "step", "--rate", 1000, "--timeout", 0.5)
    status, out, _ = attack(capsys, *arguments)
    assert status == 1
    assert f"The worker at {worker} is wrong in:" in out
    assert "  step/seed-changed: accepted instead of closed (answered with REPLY)" in out
    status, out, _ = attack(capsys, *arguments, "--json")
    report = json.loads(out)
    assert status == 1
    assert (report["target"], report["address"], report["ok"], report["complete"]) == ("worker", worker, False, True)
    assert report["counts"]["wrong"] == 2
    assert all(set(case) == KEYS for case in report["cases"])
    assert [c["case"] for c in report["cases"] if c["verdict"] == "wrong"] == [
        "step/seed-changed",
        "step/context-changed",
    ]


def test_terms_of_a_report_can_be_given(capsys, worker, tmp_path):
    _, out, _ = attack(capsys, "worker", worker, "--only", "valid/round", "--json")
    file = tmp_path / "terms.json"
    file.write_text(json.dumps(json.loads(out)["terms"]))
    assert attack(capsys, "worker", worker, "--only", "valid/round", "--terms", file)[0] == 0
    file.write_text(json.dumps(json.loads(out)["terms"] | {"target_sha256": "00" * 32}))
    status, out, err = attack(capsys, "worker", worker, "--only", "valid/round", "--terms", file)
    assert (status, out) == (3, "")
    assert "refused the offer for target" in err


def test_a_verifier_that_is_right_is_status_0(capsys, tmp_path):
    address = f"unix:{tmp_path}/v"

    def victim():
        return starting(decoding(terms(**PADDED)), address)

    with in_thread(victim):
        status, out, err = attack(
            capsys, "verifier", "--listen", address, "--only", "sparse-row/ticket", "--only", "hello/magic", "--json"
        )
    assert status == 0, out
    assert err.splitlines() == [
        f"pp1wire attack: listening at {address}; point a verifier here, and let it connect again whenever it is refused"
    ]
    assert [(c["case"], c["observed"]) for c in json.loads(out)["cases"]] == [
        ("hello/magic", "closed"), ("sparse-row/ticket", "discarded"),
    ]  # fmt: skip
    assert not (tmp_path / "v").exists()


class starting:  # noqa: N801 - used as a function
    def __init__(self, victim, address):
        self.victim, self.address = victim, address

    async def __aenter__(self):
        (await self.victim.__aenter__())(self.address)

    async def __aexit__(self, *error):
        return await self.victim.__aexit__(*error)


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def test_nobody_to_attack_is_status_3(capsys, port):
    for arguments, said in (
        (("worker", f"127.0.0.1:{port}"), "nobody listens there"),
        (("verifier", "--listen", "127.0.0.1:0", "--wait", 0.2), "no verifier connected for 0.2 s"),
        (("worker", f"127.0.0.1:{port}", "--terms", "/nowhere.json"), "/nowhere.json: No such file"),
        (
            ("worker", f"127.0.0.1:{port}", "--tls-ca", "/no", "--tls-cert", "/no", "--tls-key", "/no"),
            "TLS certificate: no such file: /no",
        ),
    ):
        status, out, err = attack(capsys, *arguments)
        assert (status, out) == (3, ""), arguments
        assert said in err.splitlines()[-1]


def test_an_endpoint_that_is_no_worker_is_status_3(capsys):
    async def answer(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    def make():
        return listening(answer)

    with in_thread(make) as address:
        status, _, err = attack(capsys, "worker", address)
    assert status == 3
    assert "bad_magic" in err


class listening:  # noqa: N801 - used as a function
    def __init__(self, answer):
        self.answer = answer

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        return f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_):
        self.server.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("worker",), "the worker's address is missing"),
        (("verifier",), "--listen is missing"),
        (("worker", "192.0.2.1:7411"), "192.0.2.1:7411 is not a loopback address (192.0.2.1)"),
        (("verifier", "--listen", "0.0.0.0:0"), "say so with --i-own-this-endpoint"),
        (("worker", "127.0.0.1:1", "--only", "nothing"), "no case, group or reject code is called 'nothing'"),
        (("worker", "127.0.0.1:1", "--tls-ca", "x"), "--tls-ca, --tls-cert and --tls-key belong together"),
        (("worker", "127.0.0.1"), "host:port"),
        (("client", "127.0.0.1:1"), "invalid choice"),
        (("worker", "127.0.0.1:1", "--rate", "0"), "a number from 0.1"),
    ],
)
def test_wrong_usage_is_status_64_in_one_line(capsys, arguments, said):
    status, out, err = attack(capsys, *arguments)
    assert (status, out) == (64, "")
    (line,) = err.splitlines()
    assert said in line


@pytest.mark.parametrize("target", list(Target))
def test_the_catalogue_is_listed_without_an_endpoint(capsys, target):
    status, out, _ = attack(capsys, target, "--list", "--json")
    listed = json.loads(out)
    assert status == 0
    assert len(listed["cases"]) > 190
    assert {"case", "code", "expected", "comment"} == set(listed["cases"][0])
    assert "extra_data" in listed["not_applicable"]
    status, out, _ = attack(capsys, target, "--list", "--only", "fault")
    assert status == 0
    assert out.splitlines()[1].startswith("fault/")
    assert f"Codes that no {target} can give: extra_data" in out


def test_too_little_time_is_status_2(capsys, worker):
    status, out, _ = attack(capsys, "worker", worker, "--only", "step", "--max-seconds", 1, "--rate", 4)
    assert status == 2
    assert "not run" in out
    assert "the time was up" in out
    assert out.splitlines()[-1].endswith("not complete")


def test_an_interrupted_attack_prints_what_it_has():
    with in_thread(lambda: serving(own=terms(**PADDED))) as server:
        command = [
            sys.executable, "-m", "pp1wire.cli", "attack", "worker", str(server.address), "--only", "step", "--rate", "5",
            "--json",
        ]  # fmt: skip
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            # A shell's background jobs ignore the interrupt, and what they start does, too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        end = time.monotonic() + 30
        # Four connections to learn the terms, and two a case.
        while server.accepted_connections < 10 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    report = json.loads(out)
    assert process.returncode == 130, err
    assert 0 < len(report["cases"]) < 33
    assert (report["complete"], report["ok"]) == (False, True)
    assert "Traceback" not in err


def test_a_worker_in_a_process_of_its_own_passes_and_is_named_when_it_is_killed(capsys, tmp_path):
    """The demo's worker, with its full vocabulary."""
    address = f"unix:{tmp_path}/w"
    command = [
        sys.executable, "-m", "pp1wire.demo.worker_process", "--model", "synthetic", "--representation", "sparse",
        "--support", "32", "--depth", "5", "--socket", f"{tmp_path}/w", "--backend", "numpy",
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert "listening" in process.stdout.readline()
            only = ("valid", "commit/digest", "fault/cut-step-body")
            status, out, err = attack(capsys, "worker", address, *(f"--only={name}" for name in only), "--rate", 1000)
            assert status == 0, out + err
            report = Report(Target.WORKER, address, 0)

            def tell(where):
                if where.startswith("5/"):
                    process.kill()
                    process.wait()

            asyncio.run(attack_worker(settings(address, wait=0.3, only=("step",)), report, None, tell))
        finally:
            process.kill()
    verdicts = [str(result.verdict) for result in report.results]
    assert verdicts == ["right"] * 4 + ["wrong"] + ["not run"] * (len(verdicts) - 5)
    assert report.results[4].observed == "died"
