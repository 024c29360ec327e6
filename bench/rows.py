"""The rows of the table: what is raced against what, and the goal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np

from pp1wire.sampling import cuda, dyadic_counts
from pp1wire.wire import FrameSplitter, decode_replies, encode_replies

from . import data
from .format_rows import formats
from .formats import msgspec_structs
from .formats.pp1 import validated
from .harness import QUICK, Outcome, Result, Timing, race
from .hostile_rows import hostile
from .round_trip import round_trip
from .steady_rows import steady

READ_BYTES = 1_448
SPARSE, DENSE = data.Shape(4, 32), data.Shape(4, 0)


def sparse_decode(seconds: float) -> Outcome:
    """Twenty rows to arrays: here with every rule, checksum and ticket, there without a check."""
    agreed, frames = data.shape_frames(SPARSE)
    packed = msgspec_structs.encode(decode_replies(frames, agreed))
    steps = data.steps()
    times = race(
        {
            "pp1wire": lambda: validated(frames, agreed, steps),
            "without tickets": lambda: decode_replies(frames, agreed),
            "msgspec": lambda: msgspec_structs.decode(packed),
        },
        seconds=seconds,
    )
    ratio = times["msgspec"].median / times["pp1wire"].median
    name = "sparse decode, 20 rows of k=32, every rule, checksum and ticket"
    return Outcome(name, "× as fast as msgspec unchecked", ratio, 2.0, False, times)


def sparse_encode(seconds: float) -> Outcome:
    """Twenty rows from arrays, judged and sealed; msgspec has its columns as bytes already."""
    agreed, frames = data.shape_frames(SPARSE)
    batch = decode_replies(frames, agreed)
    out = bytearray(len(frames))
    ready = msgspec_structs.ready(batch)
    times = race(
        {
            "pp1wire": lambda: encode_replies(batch, agreed, 1, out),
            "msgspec from ready bytes": lambda: msgspec_structs.encode_ready(ready),
            "msgspec from arrays": lambda: msgspec_structs.encode(batch),
        },
        seconds=seconds,
    )
    ratio = times["msgspec from ready bytes"].median / times["pp1wire"].median
    name = "sparse encode, 20 rows of k=32 from arrays, every rule checked"
    return Outcome(name, "× as fast as msgspec from ready bytes", ratio, 1.0, False, times)


def dense_decode(seconds: float) -> Outcome:
    agreed, frames = data.shape_frames(DENSE)
    steps, target = data.steps(), bytearray(len(frames))
    times = race(
        {
            "pp1wire": lambda: validated(frames, agreed, steps),
            "without tickets": lambda: decode_replies(frames, agreed),
            "memcpy": lambda: target.__setitem__(slice(None), frames),
        },
        seconds=seconds,
    )
    return _of_memcpy("dense decode, 10.34 MB, every rule, checksum and ticket", len(frames), times)


def dense_encode(seconds: float) -> Outcome:
    agreed, frames = data.shape_frames(DENSE)
    batch = decode_replies(frames, agreed)
    out, target = bytearray(len(frames)), bytearray(len(frames))
    times = race(
        {
            "pp1wire": lambda: encode_replies(batch, agreed, 1, out),
            "memcpy": lambda: target.__setitem__(slice(None), frames),
        },
        seconds=seconds,
    )
    return _of_memcpy("dense encode, 10.34 MB from counts into a slot, every rule checked", len(frames), times)


def _of_memcpy(name: str, size: int, times: dict[str, Timing]) -> Outcome:
    speeds = ", ".join(f"{who} {size / t.median / 1e9:.1f} GB/s" for who, t in times.items())
    return Outcome(name, "of memcpy", times["memcpy"].median / times["pp1wire"].median, 0.6, False, times, speeds)


def stream(seconds: float) -> Outcome:
    """Dense rows in reads of one TCP segment: twice the bytes must cost about twice the time."""
    agreed, frames = data.shape_frames(DENSE)

    def read(share: int) -> None:
        splitter = FrameSplitter(agreed)
        view = memoryview(frames)[: len(frames) * share // 4]
        for start in range(0, len(view), READ_BYTES):
            splitter.feed(view[start : start + READ_BYTES])

    times = race({"10.34 MB": lambda: read(4), "5.17 MB": lambda: read(2), "2.59 MB": lambda: read(1)}, seconds=seconds)
    ratio = times["10.34 MB"].median / times["5.17 MB"].median
    note = f"2.59 MB in reads of {READ_BYTES} B: {times['2.59 MB'].median * 1e3:.2f} ms of buffering"
    return Outcome("stream in reads of 1,448 B, twice the bytes", "× the time", ratio, 2.5, True, times, note)


def import_cost(seconds: float) -> Outcome:
    def importing(module: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)

    times = race(
        {name: importing(name) for name in ("pp1wire", "numpy", "sys")},
        seconds=seconds if seconds < QUICK else max(seconds, 3.0),
    )
    bare = times["sys"].median
    ratio = (times["pp1wire"].median - bare) / (times["numpy"].median - bare)
    return Outcome("import pp1wire", "× import numpy", ratio, 2.0, True, times)


def sampler(seconds: float) -> Iterator[Outcome]:
    """The exact sampler at the deployment's vocabulary; `torch_rows` has the goals against other samplers."""
    logits = np.random.default_rng(7).normal(0.0, 3.0, data.VOCAB).astype(np.float32)
    times = race(
        {"dense": lambda: dyadic_counts(logits, 1.0), "k=32": lambda: dyadic_counts(logits, 1.0, top_k=32)},
        seconds=seconds,
    )
    ratio = times["k=32"].median / times["dense"].median
    yield Outcome("exact counts, V = 129,280: sparse k=32", "× dense", ratio, None, True, times)


def all_rows(seconds: float) -> Iterator[Result]:
    """Everything, for about `seconds` a row; goals first."""
    for row in (sparse_decode, sparse_encode, dense_decode, dense_encode, stream, import_cost):
        yield row(seconds)
    yield from steady()
    yield from round_trip(seconds)
    yield from hostile(seconds)
    from .capture_rows import captures  # here, so that `python -m bench.captures` is loaded once
    from .growth import growth

    yield from captures(seconds)
    yield from sampler(seconds)
    cuda.load("torch")  # the rows below need the extra, and this says so
    from .torch_rows import torch_rows

    yield from torch_rows(seconds)
    yield from formats(seconds)
    yield from growth(seconds)
