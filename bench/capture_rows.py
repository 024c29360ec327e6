"""The rows of the table about judging captures. Captures are made in a temporary directory, up to 1 GB, and removed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import as_file, files
from pathlib import Path

from pp1wire.capture import validate
from pp1wire.capture.parallel import cores
from pp1wire.wire import Representation

from .captures import make
from .harness import QUICK, Outcome, Timing, race

_MEMORY = """
import re, resource, sys
from pp1wire.capture import validate
status = int(validate(sys.argv[1:]).status)
try:  # what a process may inherit from the one that started it is not in this figure, as it is in the other
    with open("/proc/self/status") as file:
        peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", file.read()).group(1)) * 1024
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(status, peak)
"""


def captures(seconds: float) -> Iterator[Outcome]:
    """All rows, each with the captures it needs."""
    quick = seconds < QUICK
    with tempfile.TemporaryDirectory(prefix="pp1wire-bench-") as folder:
        yield from _speeds(Path(folder), seconds, quick)
        yield _against_tshark(Path(folder), 200 if quick else 4_000, 1 if quick else 3)
        yield _two_jobs(Path(folder), 1_000 if quick else 160_000, 1 if quick else 3)
        yield _memory(Path(folder), 40 if quick else 2_000)


_SPARSE_SHAPES = {
    "as pp1wire.net sends them": {},
    "a row a packet": {"row_by_row": True},
    "1,460-byte segments on Ethernet": {"ethernet": True},
}
_DENSE_SHAPES = {"packets of up to 64 KiB": {}, "1,460-byte segments on Ethernet": {"ethernet": True}}


def _speeds(folder: Path, seconds: float, quick: bool) -> Iterator[Outcome]:
    for shape, options in _SPARSE_SHAPES.items():
        path, rows = _capture(folder, Representation.SPARSE, 4_000 if quick else 20_000, **options)
        times = race({"validate": _judging(path)}, seconds=seconds)
        name = f"validate, sparse rows of k=32, {shape}, one core"
        yield Outcome(name, "rows/s", rows / times["validate"].median, 100_000, False, times)
    for shape, options in _DENSE_SHAPES.items():
        path, rows = _capture(folder, Representation.DENSE, 40 if quick else 200, **options)
        size = path.stat().st_size / 1e6
        times = race({"validate": _judging(path)}, seconds=seconds)
        name = f"validate, dense rows, {shape}, one core"
        yield Outcome(name, "MB/s", size / times["validate"].median, 500, False, times, f"{rows} rows, {size:.0f} MB")


def _against_tshark(folder: Path, rows: int, turns: int) -> Outcome:
    name, unit = "validate, sparse rows", "× as fast as tshark with the dissector"
    if shutil.which("tshark") is None:
        return Outcome(f"{name}: not measured", unit, 0.0, None, False, note="tshark is not installed")
    path, _ = _capture(folder, Representation.SPARSE, rows, ethernet=True)
    with as_file(files("pp1wire.capture") / "pp1.lua") as script:
        command = ["tshark", "-n", "-X", f"lua_script:{script}", "-o", "pp1.port:9009", "-r", str(path), "-Y", "pp1"]

        def dissect() -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        times = {"validate": _few(_judging(path), turns), "tshark": _few(dissect, turns)}
    ratio = times["tshark"].median / times["validate"].median
    return Outcome(name, unit, ratio, 10.0, False, times, "tshark reads fields and checks only what its dissector can")


def _two_jobs(folder: Path, rows: int, turns: int) -> Outcome:
    path, _ = _capture(folder, Representation.SPARSE, rows)
    twice = [path, Path(shutil.copy(path, folder / "copy"))]

    def judging(jobs: int) -> Callable[[], None]:
        def judge() -> None:
            if (result := validate(twice, jobs=jobs)).status:
                raise RuntimeError(f"{path}: expected a valid capture, got {result.findings[:1]}")

        return judge

    times = {"one job": _few(judging(1), turns), "two jobs": _few(judging(2), turns)}
    twice[1].unlink()
    ratio = times["one job"].median / times["two jobs"].median
    goal = 1.7 if cores() > 1 else None
    note = f"two files of {path.stat().st_size / 1e6:.0f} MB on {cores()} cores, processes started each time"
    return Outcome("validate, two files with two jobs", "× as fast as with one", ratio, goal, False, times, note)


def _memory(folder: Path, rows: int) -> Outcome:
    path, _ = _capture(folder, Representation.DENSE, rows)
    size = path.stat().st_size
    start = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", _MEMORY, str(path)], check=True, capture_output=True, text=True)
    took = time.perf_counter() - start
    status, peak = (int(part) for part in run.stdout.split())
    if status:
        raise RuntimeError(f"{path}: expected a valid capture, got status {status}")
    times = {"validate": Timing(took, 0.0, took)}
    return Outcome(f"validate, {size / 1e6:.0f} MB of dense rows, peak memory", "MB", peak / 1e6, 100, True, times)


def _capture(folder: Path, representation: Representation, rows: int, **shape: bool) -> tuple[Path, int]:
    """A new capture in place of the one before; its path, and how many rows it has."""
    path = folder / "capture"
    with path.open("wb") as file:
        return path, make(file, representation, rows, **shape)


def _judging(path: Path) -> Callable[[], None]:
    def judge() -> None:
        if (result := validate([path])).status:
            raise RuntimeError(f"{path}: expected a valid capture, got {result.findings[:1]}")

    return judge


def _few(call: Callable[[], None], turns: int) -> Timing:
    """For calls of seconds: a few turns, and no other measurement beside them."""
    taken = []
    for _ in range(turns):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return Timing.of(taken)
