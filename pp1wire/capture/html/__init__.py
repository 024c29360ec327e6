"""The report of `pp1wire validate` as one self-contained HTML page (`docs/captures.md`)."""

from __future__ import annotations

from pp1wire.capture.html.render import render
from pp1wire.capture.html.writing import PageError, PageFile

__all__ = ["PageError", "PageFile", "render"]
