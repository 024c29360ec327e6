"""docs/deployment.md: its code runs, and its tables say what the package does."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from pp1wire.capture.validate import validate
from pp1wire.net import Terms, VerifierClient, WorkerServer
from pp1wire.protocol import Counters
from pp1wire.wire import RejectCode
from pp1wire.wire._schema_v2 import MAX_DEPTH, MAX_PREFIX, MAX_SLOTS, MAX_VOCAB
from tests.net.toys import terms

PAGE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")
PROGRAMS = {
    code.split("\n", 1)[0].removeprefix("# "): code
    for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
}
(OPENSSL,) = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)


def with_trustme(folder):
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for name, issued in (
        ("worker", ca.issue_cert("localhost", "127.0.0.1")),
        ("verifier", ca.issue_cert("any.subject.example")),
    ):
        (folder / f"{name}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(folder / f"{name}.key")


def with_openssl(folder):
    subprocess.run(["sh", "-c", OPENSSL], cwd=folder, check=True, capture_output=True, timeout=60)


def write_programs(folder, port):
    for model in ("draft", "target"):
        (folder / model).mkdir()
        (folder / model / "weights").write_bytes(model.encode())
    for name, code in PROGRAMS.items():
        (folder / name).write_text(code.replace("7411", str(port)), encoding="utf-8")


def program(folder, name):
    result = subprocess.run(
        [sys.executable, "-W", "error", name], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result


@contextmanager
def served(folder):
    """serve.py, from "serving" until SIGTERM; it must end by itself, in good order."""
    worker = subprocess.Popen(
        [sys.executable, "-W", "error", "serve.py"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        line = worker.stderr.readline()
        assert "INFO serving at 127.0.0.1:" in line, line + worker.stderr.read()
        yield
        worker.send_signal(signal.SIGTERM)
        _, rest = worker.communicate(timeout=30)
        assert worker.returncode == 0, rest
        assert "INFO ended serving at 127.0.0.1:" in rest
    finally:
        worker.kill()
        worker.communicate()


def check_decoding(folder):
    *lines, last = program(folder, "verify.py").stdout.splitlines()
    assert any(re.match(r"[1-5] (BONUS|CORRECTION|NONE) ", line) for line in lines)
    assert lines[-1].split()[-1] in ("stop", "length")
    assert not any("completion" in line or "connect" in line for line in lines)
    counters = json.loads(last)
    assert counters["proposals"] == len(lines)
    assert counters["accepted"][0] > 0


def test_the_programs_are_all_there():
    assert sorted(PROGRAMS) == ["identities.py", "record.py", "serve.py", "verify.py"]


def test_a_worker_is_served_decoded_from_recorded_and_drained_as_the_page_shows(tmp_path, unused_tcp_port):
    write_programs(tmp_path, unused_tcp_port)
    with_trustme(tmp_path)
    with served(tmp_path):
        check_decoding(tmp_path)
        program(tmp_path, "record.py")
    assert validate([str(tmp_path / "run.pcapng")]).status == 0


@pytest.mark.system
def test_certificates_made_as_the_page_shows_serve(tmp_path, unused_tcp_port):
    write_programs(tmp_path, unused_tcp_port)
    with_openssl(tmp_path)
    with served(tmp_path):
        check_decoding(tmp_path)


def test_the_digest_of_files_depends_on_names_and_contents_alone(tmp_path):
    code = PROGRAMS["identities.py"].split("TERMS =")[0]
    names = {}
    exec(compile(code, "deployment.md", "exec"), names)  # noqa: S102 - our own text
    for folder in ("one/sub", "other/sub"):
        (tmp_path / folder).mkdir(parents=True)
    for name, content in (("b", b"2"), ("a", b"1"), ("sub/c", b"")):
        (tmp_path / "one" / name).write_bytes(content)
    shutil.copytree(tmp_path / "one", tmp_path / "other", dirs_exist_ok=True)
    one = names["files_sha256"](tmp_path / "one")
    rows = [(b"a", b"1"), (b"b", b"2"), (b"sub/c", b"")]
    stream = b"".join(name + b"\0" + hashlib.sha256(data).hexdigest().encode() + b"\n" for name, data in rows)
    assert one == hashlib.sha256(stream).digest() == names["files_sha256"](tmp_path / "other")
    (tmp_path / "other" / "b").rename(tmp_path / "other" / "d")
    assert names["files_sha256"](tmp_path / "other") != one


def rows(heading):
    """The cells of the tables under a heading."""
    section = PAGE.split(f"{heading}\n", 1)[1].split("\n##", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_fallback_is_in_the_table():
    told = {name for first, *_ in rows("### When there is no draft") for name in re.findall(r"`(\w+)`", first)}
    discards = set(Counters().discards) - {code.name.lower() for code in RejectCode}
    client = VerifierClient("127.0.0.1:1", terms())
    # A wait that the caller cancels gives no round, and what a verifier discarded it tells by its own reason.
    assert told == {"None", *client.fallbacks, *discards} - {"cancelled", "verifier_discarded"}


def test_every_field_of_terms_is_in_the_tables_with_its_default():
    table = {first.strip("`"): cells for first, *cells in rows("## What both ends must agree on")}
    parameters = inspect.signature(Terms).parameters
    assert set(table) == set(parameters)
    most = {"max_slots": MAX_SLOTS, "max_depth": MAX_DEPTH, "max_support": MAX_VOCAB, "max_prefix": MAX_PREFIX}
    for name, limit in most.items():
        assert table[name][:2] == [f"{parameters[name].default:,}", f"{limit:,}"]
    assert f"1 to {MAX_VOCAB:,}" in table["vocab_size"][0]


def test_every_timeout_has_the_default_that_the_table_says():
    table = rows("### Timeouts")
    split = [first for first, *_ in table].index("`hello_timeout`", 2)
    for cls, part in ((VerifierClient, table[:split]), (WorkerServer, table[split:])):
        parameters = inspect.signature(cls).parameters
        for first, default, *_ in part:
            assert float(default) == parameters[first.strip("`")].default
    assert inspect.signature(WorkerServer).parameters["max_connections"].default == 16
    assert inspect.signature(WorkerServer).parameters["threads"].default == 4
