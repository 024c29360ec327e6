"""Speeds as ratios: every row races this package against a peer, or against itself, in one interleaved run.

`pp1wire bench` prints the table. Add a row in `rows.py`, a format in `formats/`, an exchange in `contenders/`.
"""

from collections.abc import Iterator

from .environment import one_thread
from .harness import Result
from .report import as_data, lines

__all__ = ["as_data", "lines", "run"]


def run(seconds: float) -> Iterator[Result]:
    """All results, for about `seconds` a row, with one thread each."""
    from .rows import all_rows

    with one_thread():
        yield from all_rows(seconds)
