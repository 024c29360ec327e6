"""The page as a file: nothing to fetch, nothing to inject, the same for the same files, and never too large."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
from dataclasses import replace

import pytest

from pp1wire.capture.findings import Finding, Severity
from pp1wire.capture.html.findings_list import MAX_EXCERPTS, MAX_FINDINGS, chosen
from pp1wire.capture.html.markup import Html, element, join, text
from pp1wire.capture.html.plots import acceptance_table
from tests.capture.golden import capture, golden
from tests.capture.html.pages import Elements, captures, page_of
from tests.capture.html.planted import cases

HOSTILE = "<script>alert(1)</script>\"'&\x00\x1b[31m\n\u202e\udcff"


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return captures(tmp_path_factory.mktemp("captures"))


@pytest.fixture(scope="module")
def page(paths):
    return page_of(paths)


def test_text_is_never_markup():
    shown = text(HOSTILE)
    assert not set(shown) & set("<>\"'\x00\x1b\n\u202e\udcff")
    assert element("p", HOSTILE, title=HOSTILE) == f'<p title="{shown}">{shown}</p>'
    assert join(HOSTILE, None, [HOSTILE, Html("<br>")]) == f"{shown}{shown}<br>"


def test_the_page_may_fetch_nothing_and_names_nothing_to_fetch(page):
    elements = Elements(page)
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (held,) = re.findall(f"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(held).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert not re.search(rb"https?:|//[a-z]|@import|url\((?!#)|fetch|XMLHttpRequest|WebSocket|import\s*\(", held)
    for tag, attributes in elements.found:
        assert tag not in (
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "audio",
            "video",
            "source",
            "foreignobject",
        )
        assert not {"src", "srcset", "style", "action", "formaction", "ping", "xlink:href"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "#").startswith("#")


def test_links_lead_somewhere_and_names_are_unique(page):
    found = Elements(page).found
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in found:
        for name in ("href", "aria-labelledby"):
            assert name not in attributes or attributes[name].removeprefix("#") in ids
        assert "fill" not in attributes or attributes["fill"].removeprefix("url(#").removesuffix(")") in ids


def test_the_same_files_give_the_same_page(page, paths):
    assert page_of(paths) == page


def test_the_page_says_that_it_is_private(page):
    assert "holds user content" in " ".join(Elements(page).text)


def test_hostile_names_stay_names(page):
    elements = Elements(page)
    assert [tag for tag, _ in elements.found].count("script") == 1
    said = "".join(elements.text)
    assert "<script>alert(1)</script>.pcapng" in said
    assert "cut\\u202e.pcapng" in said


def test_bytes_of_the_standard_input_are_not_there_and_the_page_says_why(monkeypatch):
    class Input:
        buffer = io.BytesIO(capture(cases()[0].sent))

    monkeypatch.setattr(sys, "stdin", Input)
    said = " ".join(Elements(page_of(["-"])).text)
    assert "the standard input cannot be read twice" in said
    assert "^^^" not in said


def test_bytes_of_a_pipe_are_not_there_either(tmp_path):
    file = tmp_path / "run.pcapng"
    file.write_bytes(capture(cases()[0].sent))
    assert "^^^" in " ".join(Elements(page_of([file])).text)


def test_a_valid_capture_has_no_findings_and_says_so(tmp_path):
    file = tmp_path / "run.pcapng"
    file.write_bytes(capture(golden().sent))
    said = " ".join(Elements(page_of([file])).text)
    assert "nothing is wrong, and nothing is missing" in said


def test_the_worst_findings_are_kept_in_the_order_of_the_capture():
    note, bad = Finding(Severity.NOTE, "n", "", "f"), Finding(Severity.INVALID, "b", "", "f")
    findings = [replace(one, packet=number) for number, one in enumerate([note, bad, note, bad, note])]
    assert [finding.packet for finding in chosen(findings, 3)] == [0, 1, 3]
    assert chosen(findings, 9) == findings


def test_many_findings_and_rounds_make_no_large_page(tmp_path):
    file = tmp_path / "run.pcapng"
    file.write_bytes(capture(golden(fault=True).sent))
    page = page_of([file] * 400, max_findings=10_000)
    assert 1_000_000 < len(page) < 5_000_000
    elements = Elements(page)
    said = " ".join(elements.text)
    assert [attributes.get("class") for _, attributes in elements.found].count("finding") == MAX_FINDINGS
    assert [tag for tag, _ in elements.found].count("pre") == MAX_EXCERPTS
    assert "200 more findings are only counted" in said
    assert re.search(r"The first 600 of 3,[0-9]+ rounds", said)
    assert "No bytes: only 200 findings have theirs in the page" in said
    assert re.search(r"[0-9]+ more files", said) is None


def test_acceptance_is_told_of_what_was_reached() -> None:
    """A proposal that had no second position is no rejection of it."""
    table = str(acceptance_table([10, 3, 0, 0, 0], [10, 6, 4, 0, 0], [10, 4, 0, 0, 0]))
    cells = re.findall(r"<td class=\"?right\"?>([^<]*)</td>", table)
    assert cells == ["10", "10", "100.0 %", "100.0 %", "3", "6", "50.0 %", "75.0 %", "0", "4", "0.0 %", "0 of 0"]
