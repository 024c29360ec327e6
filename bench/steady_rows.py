"""What a round allocates in the steady state, by tracemalloc: nothing may grow with the bytes of its rows.

A verifier copies rows once, into slots that are there before, and a worker fills bytes that are; so what is compared is the peak
of new memory while one call judges a round, receives it into its slots, or fills it, in small rounds and in large ones.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

from pp1wire.protocol import Draft, ProposalReady
from pp1wire.sampling import sample
from pp1wire.wire import CommitKind, decode_replies, encode_replies

from . import data, ends
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
        for work in ("judge", "receive", "fill"):
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
        "receive": _receiving(shape),
    }


def _receiving(shape: data.Shape) -> int:
    """Peak bytes of new memory while a verifier takes a round's bytes, until the rows lie in their slots: the second round's."""
    support = shape.support or ends.SUPPORT
    verifier, worker = ends.verifier(shape.representation, support), ends.worker(shape.representation, support)
    verifier.start(0.0)
    worker.receive(verifier.data_to_send())
    verifier.receive(worker.data_to_send(), 0.0)
    sessions = [verifier.open([1, 2, 3], seed) for seed in range(shape.requests)]
    rows, new = data.shape_rows(shape), 0
    for _ in range(2):
        for session in sessions:
            verifier.step(session, 0.0)
        for event in worker.receive(verifier.data_to_send()):
            if isinstance(event, Draft):
                own = rows[event.step.slot * data.DEPTH :][: data.DEPTH]
                tokens = [sample(*row, ticket) for row, ticket in zip(own, event.tickets().tolist(), strict=True)]
                worker.reply(event.step, tokens, own)
        sent = worker.data_to_send()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            events = verifier.receive(sent, 0.0)
            new = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        if sum(isinstance(event, ProposalReady) for event in events) != shape.requests:
            raise RuntimeError(f"expected {shape.requests} proposals, got {events}")
        for session in sessions:
            verifier.commit(session, 0, CommitKind.CORRECTION, [7])
    return new


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
