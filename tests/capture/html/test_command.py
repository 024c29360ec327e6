"""`pp1wire validate --html`: the page beside the usual report, or nothing at all."""

from __future__ import annotations

import json
import stat

import pytest

from pp1wire.cli import main
from tests.capture.golden import capture, golden
from tests.capture.html.pages import Elements
from tests.capture.html.planted import cases


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run.pcapng"
    path.write_bytes(capture(golden().sent))
    return path


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_the_page_changes_nothing_of_the_report(run, tmp_path, capsys, options):
    assert main(["validate", str(run), *options]) == 0
    alone = capsys.readouterr().out
    page = tmp_path / "report.html"
    assert main(["validate", str(run), *options, "--html", str(page)]) == 0
    assert capsys.readouterr().out == alone
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    said = " ".join(Elements(page.read_bytes()).text)
    assert "✓ valid" in said
    assert "All 8 rounds" in said


def test_the_exit_status_is_that_of_the_capture(tmp_path):
    path, page = tmp_path / "run.pcapng", tmp_path / "report.html"
    path.write_bytes(capture(cases()[0].sent))
    assert main(["validate", str(path), "--html", str(page)]) == 1
    assert "✗ invalid" in " ".join(Elements(page.read_bytes()).text)


def test_a_page_that_cannot_be_written_is_wrong_usage_and_nothing_is_read(run, tmp_path, capsys):
    for target in (tmp_path, tmp_path / "no" / "report.html", run):
        with pytest.raises(SystemExit) as end:
            main(["validate", str(run), "--html", str(target)])
        assert end.value.code == 64
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("pp1wire validate: argument --html: cannot write ")
        assert printed.err.count("\n") == 1
    assert run.read_bytes() == capture(golden().sent)


def test_totals_of_the_page_are_those_of_the_report(tmp_path, capsys):
    path, page = tmp_path / "run.pcapng", tmp_path / "report.html"
    path.write_bytes(capture(golden(fault=True, rounds=12).sent))
    main(["validate", str(path), "--json", "--html", str(page)])
    summary = json.loads(capsys.readouterr().out)["summary"]
    said = "\n".join(Elements(page.read_bytes()).text)
    assert f"All {summary['rounds']} rounds" in said
    assert f"{summary['tokens']}" in said
    assert "body_checksum_mismatch" in summary["discards"]
