"""The harnesses, one module each; the first sentence of each is its invariant."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from fuzz.harnesses import capture, negotiated_session, one_frame, stream_in_chunks
from fuzz.outcome import Harness

__all__ = ["HARNESSES"]


def _harness(module: ModuleType) -> Harness:
    invariant = (module.__doc__ or "").removeprefix("Invariant: ").split("\n\n")[0]
    return Harness(module.__name__.rpartition(".")[2], " ".join(invariant.split()), module.run)


HARNESSES: Final = {h.name: h for h in map(_harness, (one_frame, stream_in_chunks, negotiated_session, capture))}
