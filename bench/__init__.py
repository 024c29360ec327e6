"""Speeds as ratios: every row races this package against a peer, or against itself, in one interleaved run.

`pp1wire bench` prints the table; add a row in `rows.py`, a peer in `peers.py`.
"""

from .report import as_data, lines
from .rows import all_rows as run

__all__ = ["as_data", "lines", "run"]
