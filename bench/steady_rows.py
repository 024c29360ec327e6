"""What a round allocates in the steady state, by tracemalloc: nothing may grow with the bytes of its rows.

A worker encodes into its outgoing bytes, and a verifier copies rows once, into their slots, which are there before; so what is
compared is the peak of new memory while one call judges or fills a round, in small rounds and in large ones.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

from pp1wire.wire import decode_replies, encode_replies

from . import data
from .formats.pp1 import validated
from .harness import Outcome

GOAL = 0.01
"""Bytes that a further byte of rows may cost: tables of a round's rows, which have a few numbers each."""
_SHAPES = {
    "sparse, k = 32 and 256": (data.Shape(4, 32), data.Shape(4, 256)),
    "dense, 1 and 4 requests": (data.Shape(1, 0), data.Shape(4, 0)),
}


def steady() -> Iterator[Outcome]:
    """Judging and filling, sparse and dense."""
    for name, shapes in _SHAPES.items():
        small, large = (_peaks(shape) for shape in shapes)
        for work in ("judge", "fill"):
            grown = (large[work] - small[work]) / (large["bytes"] - small["bytes"])
            note = f"{small[work]:,} B at {small['bytes']:,} B of rows, {large[work]:,} B at {large['bytes']:,} B"
            title = f"steady state, {name}: peak of new memory to {work} a round"
            yield Outcome(title, "B a further byte of rows", max(grown, 0.0), GOAL, True, {}, note)


def _peaks(shape: data.Shape) -> dict[str, int]:
    agreed, frames = data.shape_frames(shape)
    batch, out, steps = decode_replies(frames, agreed), bytearray(len(frames)), data.steps(shape.requests)
    return {
        "bytes": len(frames),
        "judge": peak(lambda: validated(frames, agreed, steps)),
        "fill": peak(lambda: encode_replies(batch, agreed, 1, out)),
    }


def peak(call: Callable[[], object]) -> int:
    """Peak bytes of new memory during a call that was made before, its result included."""
    call()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
