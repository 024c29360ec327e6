"""Ranks as threads of this process, over real process groups: fast, and seen by the coverage measurement.

What needs real processes (a rank that is stopped or killed) is in `tests/rank_processes.py`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from pp1wire.sampling.rank_group import RankGroup

LIMIT = 30.0


def on_threads(ranks: int, body: Callable[[RankGroup], Any], *, store: Any = None, **options: Any) -> list[Any]:
    """What `body` returned, or the exception it raised, on each rank; an error if a rank does not end."""
    shared = dist.HashStore() if store is None else store
    results: list[Any] = [None] * ranks
    options = {"timeout": 10.0, "address": "127.0.0.1"} | options

    def run(rank: int) -> None:
        try:
            with RankGroup(shared, rank, ranks, **options) as group:
                results[rank] = body(group)
        except Exception as error:  # noqa: BLE001 - for the test to look at
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + LIMIT
    for thread in threads:
        thread.join(deadline - time.monotonic())
    assert not any(thread.is_alive() for thread in threads), f"a rank did not end in {LIMIT} s"
    return results


def values_on(ranks: int, body: Callable[[RankGroup], Any], **options: Any) -> list[Any]:
    """`on_threads` for what must not fail."""
    results = on_threads(ranks, body, **options)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
