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


@pytest.mark.parametrize("snippet", SNIPPETS, ids=["encode and decode", "serve and decode"])
def test_snippet_runs(snippet):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", snippet], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    if "decode(client" in snippet:
        # It must show speculation at work: rounds with accepted drafts.
        assert re.search(r"^[1-5] (BONUS|CORRECTION|NONE) ", result.stdout, flags=re.MULTILINE), result.stdout


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name)
def test_links_of_every_page_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
