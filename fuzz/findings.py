"""Inputs that broke an invariant: kept in files, made smaller, and run again."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path
from typing import Final

from fuzz.harnesses import HARNESSES
from fuzz.mutation.captures import split_blocks
from fuzz.outcome import Harness
from fuzz.script import Record, pack, parse

__all__ = ["FINDINGS", "harness_of", "keep", "smaller", "told", "what"]

FINDINGS: Final = Path(__file__).parent / "findings"
"""`HARNESS/NAME`, as the corpus; not in the repository."""

_TRIES = 400


def what(harness: Harness, data: bytes) -> Exception | None:
    """What the harness raises for an input; None if its invariant holds."""
    try:
        harness.run(data)
    except Exception as error:
        return error
    return None


def keep(harness: str, data: bytes, directory: Path) -> Path:
    """Write an input to a file that `--replay` takes."""
    folder = directory / harness
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


def harness_of(path: Path) -> Harness | None:
    """The harness that a kept input belongs to, by its folder."""
    return HARNESSES.get(path.resolve().parent.name)


def told(harness: Harness, error: Exception, path: Path) -> list[str]:
    """A finding for people: what was broken, where, and the one command that shows it again."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return [
        f"finding: {harness.name}: {type(error).__name__}: {error}",
        f"raised in {frame.name}, {Path(frame.filename).name}:{frame.lineno}",
        f"invariant: {harness.invariant}",
        f"replay: python -m fuzz --replay {path}",
    ]


def smaller(harness: Harness, data: bytes, error: Exception) -> bytes:
    """An input with fewer parts that raises the same kind of error in the same place."""
    wanted, tries = _place(error), 0
    parts = _parts(harness.name, data)
    size = len(parts)
    while size >= 1:
        at = 0
        while at < len(parts) and tries < _TRIES:
            tries += 1
            fewer = parts[:at] + parts[at + size :]
            found = what(harness, _whole(harness.name, data, fewer))
            if found is not None and _place(found) == wanted:
                parts = fewer
            else:
                at += size
        size //= 2
    return _whole(harness.name, data, parts)


def _place(error: Exception) -> tuple[str, str, int | None]:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error).__name__, frame.filename, frame.lineno


def _parts(harness: str, data: bytes) -> list[bytes]:
    if harness == "negotiated_session":
        return [bytes([who]) + piece for who, piece in parse(data)[1]]
    if harness == "capture":
        return [bytes(block) for block in split_blocks(data)]
    return [data[i : i + 8] for i in range(1, len(data), 8)]


def _whole(harness: str, data: bytes, parts: list[bytes]) -> bytes:
    if harness == "negotiated_session":
        return pack(data[0] if data else 0, [Record(part[0], part[1:]) for part in parts])
    return (b"" if harness == "capture" else data[:1]) + b"".join(parts)
