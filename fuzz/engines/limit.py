"""An input that takes too long is a finding, and no wait without end."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Final

from fuzz.outcome import Harness, Violation

__all__ = ["SECONDS", "limited"]

SECONDS: Final = 30.0
"""Real inputs take milliseconds; the rest is room for a busy machine."""


def limited(harness: Harness, seconds: float = SECONDS) -> Harness:
    """`harness` with a limit to each input; only in a program's main thread, as it takes the alarm signal."""

    def late(*_: object) -> None:
        raise Violation(f"one input takes more than {seconds:g} s")

    def run(data: bytes) -> str:
        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return harness.run(data)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    return replace(harness, run=run)
