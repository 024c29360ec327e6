"""Pages of captures, as the command writes them."""

from __future__ import annotations

from html.parser import HTMLParser

from pp1wire.capture.html import render
from pp1wire.capture.rounds import Rounds
from pp1wire.capture.validate import validate
from tests.capture.golden import capture, golden
from tests.capture.html.planted import SPARSE, cases
from tests.capture.test_validate import blocks

VOID = {"meta", "input", "br"}


def page_of(paths, **options) -> bytes:
    rounds = Rounds()
    return render(validate(paths, observe=rounds, **options), rounds)


def captures(folder):
    """Files with a bit of everything: rounds of every outcome, wrong fields, a gap, and names that are markup."""
    whole = {case.name: capture(case.sent) for case in cases()}
    gap = blocks(capture(golden().sent, piece=256))
    files = {
        "<script>alert(1)</script>.pcapng": capture(golden(fault=True, rounds=12).sent),
        "q.pcapng": whole["row entry: q"],
        "completion.pcapng": whole["completion checksum"],
        "gap.pcapng": b"".join(block for number, block in enumerate(gap) if number != 30),
        "cut\u202e.pcapng": capture(SPARSE.sent)[:-9],
        "none.pcapng": b"nothing",
    }
    paths = [folder / name for name in files]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)  # a name of markup has a slash
        path.write_bytes(files[str(path.relative_to(folder))])
    return paths


class Elements(HTMLParser):
    """The elements of a page: (name, attributes), and whether every one is closed where it belongs."""

    def __init__(self, page: bytes):
        super().__init__()
        self.found, self.text, self._open = [], [], []
        self.feed(page.decode("utf-8"))
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        assert len(dict(attributes)) == len(attributes)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] not in ("script", "style"):
            self.text.append(data)
