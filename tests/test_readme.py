"""The README's Python runs as it stands, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_there_are_the_two_snippets():
    assert len(SNIPPETS) == 2


def output_of(snippet):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippet], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("snippet", SNIPPETS, ids=["encode and decode", "serve and decode"])
def test_snippet_runs(snippet):
    printed = output_of(snippet)
    if "decode(client" in snippet:
        # It must show speculation at work: rounds with accepted drafts. Its seeds are new each time, and a text of twenty tokens
        # without one comes once in some hundred runs.
        accepted = re.compile(r"^[1-5] (BONUS|CORRECTION|NONE) ", flags=re.MULTILINE)
        assert accepted.search(printed) or any(accepted.search(output_of(snippet)) for _ in range(2)), printed


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name)
def test_links_of_every_page_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
