"""Forks real processes as ranks. Run as a program: a scenario a line on stdin, its results a line on stdout, as JSON.

torch is imported once and every rank is a fork of this process, so that a scenario of four ranks starts in milliseconds.
No scenario outlives its limit: what is left then is killed, and the server itself ends with its input.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from pp1wire.sampling.distributed import RankGroup, connect_store, serve_store


def rank_main(rank: int, ask: dict[str, Any], answer: int) -> None:
    """One rank: joins, runs the scenario's function, and writes what it returned."""
    torch.set_num_threads(1)
    make = serve_store if rank == 0 and ask["store"] == "in rank 0" else connect_store
    store = make("127.0.0.1", ask["port"])
    group = RankGroup(store, rank, ask["ranks"], timeout=ask["timeout"], address="127.0.0.1", join_timeout=20)
    function = getattr(importlib.import_module(ask["module"]), ask["function"])
    result = function(group, **ask["arguments"])
    os.write(answer, json.dumps({"result": result}).encode())
    os.close(answer)
    # Where the store lives in rank 0, it must not end before the others have read their decisions.
    time.sleep(ask["limit"])


def fork_rank(rank: int, ask: dict[str, Any]) -> tuple[int, int]:
    """(process id, where its answer can be read)."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        rank_main(rank, ask, writing)
        code = 0
    except BaseException:  # noqa: BLE001 - a fork must never return into its parent's code
        os.write(writing, json.dumps({"error": traceback.format_exc()}).encode())
    finally:
        os._exit(code)


def fork_store(ask: dict[str, Any]) -> int:
    """The process id of a store that is in none of the ranks, as under torchrun."""
    pid = os.fork()
    if not pid:
        store = serve_store("127.0.0.1", ask["port"])
        time.sleep(2 * ask["limit"])
        os._exit(int(store is None))
    return pid


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped this process."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def run(ask: dict[str, Any]) -> dict[str, Any]:
    """Start the ranks, wake those that stopped themselves after `resume` seconds, and collect what they say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ask["port"] = free.getsockname()[1]
    started = time.monotonic()
    store = fork_store(ask) if ask["store"] == "outside" else None
    ranks = [fork_rank(rank, ask) for rank in range(ask["ranks"])]
    answers: list[bytes] = [b""] * len(ranks)
    waiting = {reading: rank for rank, (_, reading) in enumerate(ranks)}
    stopped_since: dict[int, float] = {}
    while waiting and time.monotonic() - started < ask["limit"]:
        for reading in select.select(list(waiting), [], [], 0.02)[0]:
            data = os.read(reading, 1 << 20)
            answers[waiting[reading]] += data
            if not data:
                del waiting[reading]
        for pid, _ in ranks:
            now = time.monotonic()
            if is_stopped(pid) and now - stopped_since.setdefault(pid, now) > ask["resume"]:
                os.kill(pid, signal.SIGCONT)
    late = list(waiting.values())  # those that have answered are only asleep
    for pid, reading in ranks:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
    if store is not None:
        os.kill(store, signal.SIGKILL)
        os.waitpid(store, 0)
    return {"answers": [json.loads(answer) if answer else None for answer in answers], "late": late}


def main() -> None:
    """Serve until the input ends. The arguments are modules to import now, once, and not in every rank."""
    for module in sys.argv[1:]:
        importlib.import_module(module)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
