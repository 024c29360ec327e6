"""Captures by URL: the report of the local file, and no secret of the URL in anything that is said."""

from __future__ import annotations

import builtins
import io
import json
import os
import subprocess
import sys

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from pp1wire import cli
from pp1wire.capture.findings import ExitStatus
from pp1wire.capture.html import render
from pp1wire.capture.parallel import validate_files
from pp1wire.capture.pcapng import CaptureError
from pp1wire.capture.remote import local_path, reason_of, shown_name
from pp1wire.capture.report import report_lines
from pp1wire.capture.rounds import Rounds
from pp1wire.capture.show import show
from pp1wire.capture.validate import read_hello, validate
from tests.capture.golden import VERIFIER, capture, golden

SECRET = "hunter2"  # noqa: S105 - what must not be told
URL = f"leaky://alice:{SECRET}@store/run.pcapng?signature={SECRET}&x=1"
SHOWN = "leaky://store/run.pcapng?…"
BAD = golden(fault=True)


class Leaky(MemoryFileSystem):
    """A store whose errors repeat what they were asked with."""

    protocol = "leaky"
    cachable = False
    content = b""
    fails_at: int | None = None

    @classmethod
    def _strip_protocol(cls, path):
        return path

    def _open(self, path, mode="rb", **options):
        if self.fails_at is None:
            return io.BytesIO(self.content)
        if self.fails_at == 0:
            raise RuntimeError(f"403 for {path}")
        return LeakyFile(self.content[: self.fails_at], path)


class LeakyFile(io.BytesIO):
    def __init__(self, data, path):
        super().__init__(data)
        self._path = path

    def read(self, size=-1):
        data = super().read(size)
        if not data:
            raise ConnectionError(f"signature={SECRET} has expired")
        return data


fsspec.register_implementation("leaky", Leaky, clobber=True)


@pytest.fixture
def leaky(monkeypatch):
    def keep(content, fails_at=None):
        monkeypatch.setattr(Leaky, "content", content)
        monkeypatch.setattr(Leaky, "fails_at", fails_at)

    return keep


def text(result):
    return json.dumps(result.to_json())


@pytest.mark.parametrize("content", [capture(golden().sent), capture(BAD.sent), capture(BAD.sent)[:-9], b"what?", b""])
def test_a_url_gives_the_report_of_the_local_file(tmp_path, content) -> None:
    local, remote = tmp_path / "run.pcapng", "memory://store/run.pcapng"
    local.write_bytes(content)
    fsspec.filesystem("memory").pipe("/store/run.pcapng", content)
    expected = text(validate([local])).replace(str(local), "NAME")
    assert text(validate([remote])).replace(remote, "NAME") == expected
    assert text(validate([f"file://{local}"])).replace(f"file://{local}", "NAME") == expected


def test_what_else_reads_captures_takes_urls(tmp_path, leaky) -> None:
    leaky(capture(BAD.sent))
    assert any(item.kind == "frame" for item in show(URL))
    content = b"".join(data for way, data in golden().sent if way is VERIFIER)
    leaky(content)
    (tmp_path / "verifier").write_bytes(content)
    assert read_hello(URL) == read_hello(tmp_path / "verifier")


def test_the_page_reads_a_url_again(leaky) -> None:
    leaky(capture(BAD.sent))
    rounds = Rounds()
    result = validate([URL], observe=rounds)
    page = render(result, rounds).decode()
    assert result.status is ExitStatus.INVALID
    assert "wrong: " in page  # what is heard at the marked bytes
    assert SECRET not in page
    assert "alice" not in page


def test_the_page_opens_nothing_for_two_urls_that_are_shown_alike(leaky) -> None:
    leaky(capture(BAD.sent))
    rounds = Rounds()
    page = render(validate([URL, f"{URL}&more"], observe=rounds), rounds).decode()
    assert "wrong: " not in page


@pytest.mark.parametrize("fails_at", [None, 0, 1, 200, 5000])
def test_no_secret_is_told(leaky, monkeypatch, capsys, fails_at) -> None:
    leaky(capture(BAD.sent), fails_at)
    monkeypatch.setattr("pp1wire.capture.sources._TELL_EVERY", 100)
    told = []
    result = validate([URL, URL], progress=lambda *a: told.append(a))
    assert {file.name for file in result.files} == {SHOWN}
    everything = [text(result), repr(result), repr(told), *report_lines(result)]
    assert cli.main(["validate", "--json", URL]) == result.status
    assert cli.main(["validate", URL, "--peer", URL]) == 3
    assert cli.main(["show", URL]) == (0 if fails_at is None else 3)
    everything += capsys.readouterr()
    assert not [said for said in everything if SECRET in said or "alice" in said]
    if fails_at is not None:
        (finding, _) = [f for f in result.findings if f.code == "unreadable"]
        assert finding.offset == (fails_at or None)
        told_reason = {0: f"cannot open: RuntimeError: 403 for {SHOWN}"}.get(fails_at, "cannot read: ConnectionError")
        assert finding.message == told_reason


def test_no_secret_is_told_of_a_lost_process_or_by_an_exception(leaky) -> None:
    leaky(b"", 0)
    result = validate_files([URL, URL], 1)  # the store is of this process alone
    assert {file.name for file in result.files} == {SHOWN}
    assert SECRET not in text(result)
    with pytest.raises(CaptureError) as caught:
        list(show(URL))
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__


def test_a_store_whose_package_is_missing_is_told() -> None:
    (finding,) = validate(["nothing-like-this://x/y"]).findings
    assert finding.message.startswith("cannot open: ")
    assert "nothing-like-this" in finding.message
    (finding,) = validate(["memory://store/gone"]).findings
    assert finding.message == "cannot open: No such file or directory"


def test_without_fsspec_the_extra_is_named(monkeypatch) -> None:
    original = builtins.__import__

    def without(name, *arguments, **named):
        if name.startswith("fsspec"):
            raise ImportError(name)
        return original(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    (finding,) = validate(["memory://store/run.pcapng"]).findings
    assert finding.message == "cannot open: a URL needs fsspec; install pp1wire[remote]"


def test_local_files_need_no_fsspec(tmp_path) -> None:
    (tmp_path / "run").write_bytes(capture(golden().sent))
    validates = f"from pp1wire.capture import validate; validate([{str(tmp_path / 'run')!r}])"
    program = f"import sys; {validates}; print('fsspec' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("run.pcapng", "run.pcapng"),
        ("./s3://bucket/run?x", "./s3://bucket/run?x"),
        ("s3://bucket/run.pcapng", "s3://bucket/run.pcapng"),
        ("https://user:pw@host:8080/run?sig=1#x", "https://host:8080/run?…"),
        ("https://host/run#token", "https://host/run#…"),
        ("https://token@host/run", "https://host/run"),
        ("s3://key:se/c?r#et@bucket/run", "s3://bucket/run"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("https://[::1]:8080/run?sig=1", "https://[::1]:8080/run?…"),
        ("zip://run.pcapng::https://u:p@host/runs.zip?sig=1", "zip://run.pcapng::https://host/runs.zip?…"),
    ],
)
def test_names_are_shown_without_secrets(name, shown) -> None:
    assert shown_name(name) == shown
    assert shown_name(shown) == shown


@given(st.text(), st.text(min_size=1), st.text())
def test_no_user_password_or_query_is_shown(user, password, query) -> None:
    user = user.translate(dict.fromkeys(map(ord, "/[")))
    shown = shown_name(f"https://{user}:~{password}~pw@host/run?{query}~q")
    assert "~" not in shown


def test_file_urls_name_local_paths(tmp_path, capsys) -> None:
    assert local_path("file:///a/b") == "/a/b"
    assert local_path("a/b") == "a/b"
    (tmp_path / "run").write_bytes(capture(golden().sent))
    with pytest.raises(SystemExit) as ended:
        cli.main(["validate", f"file://{tmp_path / 'run'}", "--html", str(tmp_path / "run")])
    assert ended.value.code == 64
    assert "it is one of the files to judge" in capsys.readouterr().err


def test_reasons_are_one_short_line() -> None:
    assert reason_of(RuntimeError("a\nb" + "c" * 1000), "s3://b/x") == "RuntimeError: a b" + "c" * 197 + "…"
    assert reason_of(PermissionError(13, os.strerror(13)), "s3://b/x") == "PermissionError: Permission denied"
    assert (
        reason_of(RuntimeError("at https://u:p@h/x?sig=1 failed"), "s3://b/x")
        == "RuntimeError: at https://h/x?… failed"
    )
