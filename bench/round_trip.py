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

from . import data
from .contenders import MODULES, echo, grpc_protobuf, pp1, pp1_asyncio, zmq_json, zmq_json_full
from .harness import Outcome, Timing

ROWS = data.REQUESTS * data.DEPTH
_FEWEST, _MOST = 20, pp1.AHEAD - 20
_START_SECONDS = 30.0


def round_trip(seconds: float) -> Iterator[Outcome]:
    """This package against the bound and against what others send, by the median trip."""
    turns = measure(seconds)
    times = {name: Timing.of(own) for name, own in turns.items()}
    ours = times[pp1.NAME].median
    worst = ", ".join(f"{name} {sorted(own)[-1 - len(own) // 100] * 1e6:.0f} µs" for name, own in turns.items())
    title = "round trip on loopback, sparse k=32, 4 requests"
    for other, goal in ((echo, 1.5), (zmq_json, 0.5), (zmq_json_full, 0.5), (grpc_protobuf, 0.5)):
        shown = {pp1.NAME: times[pp1.NAME], other.NAME: times[other.NAME]}
        note = f"p99: {worst}" if other is echo else ""
        yield Outcome(title, f"× {other.NAME}", ours / times[other.NAME].median, goal, True, shown, note)
    net = times[pp1_asyncio.NAME]
    shown = {pp1_asyncio.NAME: net, echo.NAME: times[echo.NAME]}
    note = "the same worker; asyncio's part is what is between this row and the first"
    yield Outcome(f"{title}, asyncio client", f"× {echo.NAME}", net.median / times[echo.NAME].median, None, True, shown, note)


def measure(seconds: float) -> dict[str, list[float]]:
    """Seconds of every trip, by contender."""
    with ExitStack() as stack:
        clients = {name: stack.enter_context(_running(name)) for name in MODULES}
        turns: dict[str, list[float]] = {name: [] for name in clients}
        for client in clients.values():
            _trip(client)
        end = time.perf_counter() + seconds
        done = 0
        while done < _FEWEST or (time.perf_counter() < end and done < _MOST):
            for name, client in clients.items():
                turns[name].append(_trip(client))
            done += 1
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
def _running(name: str) -> Iterator[Any]:
    """A contender's client, connected to its other end in a new process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(name, there), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(_START_SECONDS):
            raise RuntimeError(f"{name}: expected an address in {_START_SECONDS:g} s")
        client = MODULES[name].Client(here.recv())
        try:
            yield client
        finally:
            client.close()
    finally:
        here.close()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(name: str, there: Connection) -> None:
    MODULES[name].serve(there.send)
