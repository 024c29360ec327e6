"""One round trip on loopback: four requests asked for, until the arrays of all twenty rows are there.

Every contender's other end is a process of its own. They take turns trip by trip, so that what belongs to a round and is not
timed (this package's COMMITs, for one) happens during the others' turns, as it would during a target model's pass.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

from . import contenders, data
from .harness import QUICK, Outcome, Timing

ROWS = data.REQUESTS * data.DEPTH
GOALS = {"echo": 1.5, "zmq_json_full": 0.5, "zmq_json": 0.5, "grpc_protobuf": 0.5}
_MOST = 380
_START_SECONDS = 30.0


def round_trip(seconds: float) -> Iterator[Outcome]:
    """This package against the bound and against what others send, by the median trip."""
    turns = measure(seconds, fewest=10 if seconds < QUICK else 100)
    times = {name: Timing.of(own) for name, own in turns.items()}
    names = {name: contenders.module(name).NAME for name in turns}
    ours = times["pp1"]
    title = "round trip on loopback, sparse k=32, 4 requests"
    slowest = ", ".join(
        f"{names[name]} {sorted(own)[-1 - len(own) // 100] * 1e6:.0f} µs" for name, own in turns.items()
    )
    for other, goal in GOALS.items():
        shown = {names["pp1"]: ours, names[other]: times[other]}
        note = f"{len(turns[other])} trips each; p99: {slowest}" if other == "echo" else ""
        yield Outcome(title, f"× {names[other]}", ours.median / times[other].median, goal, True, shown, note)
    net, bound = times["pp1_asyncio"], times["echo"]
    shown = {names["pp1_asyncio"]: net, names["echo"]: bound}
    note = "the same worker; what is between this row and the first is asyncio's"
    yield Outcome(f"{title}, asyncio", f"× {names['echo']}", net.median / bound.median, None, True, shown, note)


def measure(seconds: float, fewest: int) -> dict[str, list[float]]:
    """Seconds of every trip, by contender, after a few that nobody counts."""
    with ExitStack() as stack:
        started = {name: stack.enter_context(_process(name)) for name in contenders.NAMES}
        clients = {name: stack.enter_context(_client(name, address)) for name, address in started.items()}
        turns: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(5):
            for client in clients.values():
                _trip(client)
        end = time.perf_counter() + seconds
        while len(turns["pp1"]) < fewest or (time.perf_counter() < end and len(turns["pp1"]) < _MOST):
            for name, client in clients.items():
                turns[name].append(_trip(client))
        return turns


def _trip(client: Any) -> float:
    start = time.perf_counter()
    rows = client.trip()
    took = time.perf_counter() - start
    if rows != ROWS:
        raise RuntimeError(f"expected {ROWS} rows, got {rows}")
    client.settle()
    return took


@contextmanager
def _process(name: str) -> Iterator[Connection]:
    """A contender's other end, starting; it will say where it listens."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(name, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


@contextmanager
def _client(name: str, address: Connection) -> Iterator[Any]:
    if not address.poll(_START_SECONDS):
        raise RuntimeError(f"{name}: expected an address in {_START_SECONDS:g} s")
    client = contenders.module(name).Client(address.recv())
    try:
        yield client
    finally:
        client.close()


def _serve(name: str, there: Connection) -> None:
    contenders.module(name).serve(there.send)
