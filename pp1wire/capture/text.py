"""Text for terminals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["printable", "time_text"]

_NANO: Final = 1_000_000_000


def printable(text: str) -> str:
    """`text` on one line, with whatever a terminal might act on escaped: names and bytes come from strangers."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def time_text(time_ns: int) -> str:
    """A time in nanoseconds since 1970 as UTC, to the nanosecond; as seconds where no calendar reaches."""
    seconds, nanos = divmod(time_ns, _NANO)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z"
    except (ValueError, OverflowError, OSError):
        return f"{seconds}.{nanos:09d}s"
