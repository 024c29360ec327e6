"""The demo's draft worker, a process of its own: `python -m pp1wire.demo.worker_process`.

It prints one JSON line when it listens, serves until its standard input closes (so it never outlives its parent) or SIGTERM,
and prints what it measured as another JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pp1wire.audit.logit_writer import Spool
from pp1wire.demo.identities import draft_model, terms
from pp1wire.demo.logits import SpoolingDraft
from pp1wire.errors import PP1Error
from pp1wire.net import WorkerServer
from pp1wire.wire import Representation

__all__ = ["main"]


def main() -> int:
    """Serve the draft model named by the arguments; exit status 1 and one line on standard error when that fails."""
    parser = argparse.ArgumentParser(prog="pp1wire.demo.worker_process", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--representation", required=True)
    parser.add_argument("--support", type=int, required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--spool", type=Path, default=None, help="where draft logits are written down")
    arguments = parser.parse_args()
    try:
        asyncio.run(_serve(arguments))
    except PP1Error as error:
        sys.stderr.write(f"draft worker: {error}\n")
        return 1
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    representation = Representation[arguments.representation.upper()]
    model = draft_model(arguments.model)
    if arguments.spool is not None:
        model = SpoolingDraft(model, Spool(arguments.spool))
    mine = terms(arguments.model, representation=representation, support=arguments.support, depth=arguments.depth)
    address = f"unix:{arguments.socket}"
    async with WorkerServer(address, model, mine, threads=1, backend=arguments.backend) as server:
        _tell({"listening": str(server.address)})
        await _parent_is_done()
        _tell({"stages": server.stages.as_dict(), "counters": server.counters()})


async def _parent_is_done() -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, done.set)
    # The terminal's interrupt reaches parent and child alike; the parent decides when the child ends.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_reader(sys.stdin.fileno(), done.set)
    await done.wait()
    loop.remove_reader(sys.stdin.fileno())


def _tell(what: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the parent is gone, and the end of standard input says so, too
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
