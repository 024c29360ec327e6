"""Cost as it grows: time and memory against k, vocabulary, requests, frames in flight and the size of a capture."""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pp1wire.capture import validate
from pp1wire.sampling import dyadic_counts
from pp1wire.wire import FrameReader, Representation, decode_replies, encode_replies

from . import captures, data
from .formats.pp1 import validated
from .harness import QUICK, Growth
from .hostile_rows import stream_of
from .steady_rows import peak


def growth(seconds: float) -> Iterator[Growth]:
    """All curves; few sizes when there is little time."""
    quick = seconds < QUICK
    budget = 0.02 if quick else seconds / 16
    yield from _support(_few([16, 32, 64, 128, 256, 512, 1024], quick), budget)
    yield from _vocabulary(_few([8_192, 16_384, 32_768, 65_536, 131_072, 262_144], quick), budget)
    yield from _requests(_few([1, 2, 3, 4], quick), budget)
    yield from _frames([250, 500, 1_000] if quick else [1_000, 2_000, 4_000, 8_000, 16_000, 32_000], budget)
    yield from _captures([200, 400] if quick else [5_000, 10_000, 20_000, 40_000, 80_000])


def _few(sizes: list[int], quick: bool) -> list[int]:
    return [sizes[0], sizes[len(sizes) // 2], sizes[-1]] if quick else sizes


def _support(sizes: list[int], budget: float) -> Iterator[Growth]:
    rounds = [(data.agreement(Representation.SPARSE, k), data.REQUESTS) for k in sizes]
    yield from _rounds("20 sparse rows against k", "k", "entries a row (k)", sizes, rounds, budget)


def _vocabulary(sizes: list[int], budget: float) -> Iterator[Growth]:
    rounds = [(data.agreement(Representation.DENSE, vocab=vocab), 1) for vocab in sizes]
    yield from _rounds("5 dense rows against the vocabulary", "vocabulary", "vocabulary (ids)", sizes, rounds, budget)
    rows = [np.random.default_rng(7).normal(0.0, 3.0, vocab).astype(np.float32) for vocab in sizes]
    series = {
        "exact counts": [_seconds(lambda row=row: dyadic_counts(row, 1.0), budget) for row in rows],
        "exact counts, k=32": [_seconds(lambda row=row: dyadic_counts(row, 1.0, 32), budget) for row in rows],
    }
    yield Growth("sampling a row against the vocabulary", "sampling-vocabulary", "vocabulary (ids)", "s", sizes, series)


def _requests(sizes: list[int], budget: float) -> Iterator[Growth]:
    agreed = data.agreement(Representation.SPARSE)
    rounds = [(agreed, number) for number in sizes]
    yield from _rounds("sparse rows of k=32 against requests", "requests", "requests a round", sizes, rounds, budget)


def _rounds(name: str, slug: str, label: str, sizes: list[int], rounds: list[tuple], budget: float) -> Iterator[Growth]:
    times: dict[str, list[float]] = {"decode, validated": [], "encode": []}
    memory: dict[str, list[float]] = {"decode, validated": [], "encode": []}
    for agreed, requests in rounds:
        frames, steps = data.round_frames(agreed, requests), data.steps(requests)
        batch, out = decode_replies(frames, agreed), bytearray(len(frames))
        calls: dict[str, Callable[[], object]] = {
            "decode, validated": lambda f=frames, a=agreed, s=steps: validated(f, a, s),
            "encode": lambda b=batch, a=agreed, o=out: encode_replies(b, a, 1, o),
        }
        for work, call in calls.items():
            times[work].append(_seconds(call, budget))
            memory[work].append(float(peak(call)))
    yield Growth(f"time of {name}", f"{slug}-time", label, "s", sizes, times)
    yield Growth(f"peak of new memory of {name}", f"{slug}-memory", label, "B", sizes, memory)


def _frames(sizes: list[int], budget: float) -> Iterator[Growth]:
    """Small frames that arrive in one piece, as when a slow reader has let them pile up."""
    agreed = data.agreement(Representation.SPARSE)
    times: list[float] = []
    memory: list[float] = []
    whole = stream_of("STEP", agreed, sizes[-1])
    for size in sizes:
        stream = whole[: len(whole) // sizes[-1] * size]
        times.append(_seconds(lambda s=stream: FrameReader(agreed, 0).feed(s), budget))
        memory.append(float(peak(lambda s=stream: FrameReader(agreed, 0).feed(s))))
    label = "frames in flight"
    yield Growth("time to read frames in one piece", "frames-time", label, "s", sizes, {"STEP": times})
    yield Growth("memory of frames in one piece, as messages", "frames-memory", label, "B", sizes, {"STEP": memory})


def _captures(sizes: list[int]) -> Iterator[Growth]:
    times: dict[str, list[float]] = {"a row a packet": [], "on Ethernet": []}
    memory: dict[str, list[float]] = {name: [] for name in times}
    with tempfile.TemporaryDirectory(prefix="pp1wire-bench-") as folder:
        for size in sizes:
            for name in times:
                path = Path(folder) / "capture"
                with path.open("wb") as file:
                    captures.make(file, Representation.SPARSE, size, ethernet=name == "on Ethernet")
                start = time.perf_counter()
                _judge(path)
                times[name].append(time.perf_counter() - start)
                if size <= sizes[0] * 4:  # tracing makes it slow, and it shows by then
                    memory[name].append(float(_peak_once(path)))
    label = "rows in the capture"
    yield Growth("time of validate against the capture", "capture-time", label, "s", sizes, times)
    traced = sizes[: len(next(iter(memory.values())))]
    yield Growth("peak of new memory of validate", "capture-memory", label, "B", traced, memory)


def _judge(path: Path) -> None:
    if (result := validate([path])).status:
        raise RuntimeError(f"{path}: expected a valid capture, got {result.findings[:1]}")


def _peak_once(path: Path) -> int:
    tracemalloc.start()
    try:
        _judge(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _seconds(call: Callable[[], object], budget: float) -> float:
    """The best turn: what is compared is how the code grows, not how busy the machine is."""
    call()
    best, end, turns = float("inf"), time.perf_counter() + budget, 0
    while turns < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        turns += 1
    return best
