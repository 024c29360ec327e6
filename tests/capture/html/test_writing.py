"""The page's file: whole or not there, its owner's alone, and never in place of a capture."""

from __future__ import annotations

import os
import stat

import pytest

from pp1wire.capture.html import PageError, PageFile


def test_a_page_replaces_what_was_there_and_only_its_owner_reads_it(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    path.chmod(0o644)
    old = os.umask(0)
    try:
        with PageFile(path) as file:
            assert path.read_text() == "before"
            file.write(b"page")
    finally:
        os.umask(old)
    assert path.read_bytes() == b"page"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_without_a_page_everything_is_as_it_was(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(KeyError), PageFile(path):
        raise KeyError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "report.html")
    with PageFile(tmp_path / "link") as file:
        file.write(b"page")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "report.html").read_bytes() == b"page"


def test_what_cannot_be_a_page_is_refused_at_once(tmp_path):
    capture = tmp_path / "run.pcapng"
    capture.write_text("packets")
    os.mkfifo(tmp_path / "pipe")
    for path, why in (
        (tmp_path, "it is a directory"),
        (tmp_path / "no" / "report.html", "No such file or directory"),
        (tmp_path / "pipe", "it is no ordinary file"),
        (tmp_path / "." / "run.pcapng", "it is one of the files to judge"),
    ):
        with pytest.raises(PageError, match=f"cannot write .*: {why}"):
            PageFile(path, ["-", "missing", capture])
    assert capture.read_text() == "packets"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    with PageFile(path) as file:
        monkeypatch.setattr(type(path), "replace", full)
        with pytest.raises(PageError, match=r"cannot write .*: No space left on device"):
            file.write(b"page")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_is_written_once(tmp_path):
    with PageFile(tmp_path / "report.html") as file:
        file.write(b"page")
        with pytest.raises(PageError, match="it has been written"):
            file.write(b"another")
