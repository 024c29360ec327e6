"""What both processes have in common: lines in and out, and a look at themselves."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress

from pp1wire.protocol import Counters


def tell(what):
    """One JSON line for the parent, if it is still there."""
    with suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def commands(known, at_end):
    """A task that calls `known[line]` for each line on standard input, and `at_end` at its end."""

    async def read():
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            known[line.decode().strip()]()
        at_end()

    return asyncio.get_running_loop().create_task(read())


def descriptors():
    """Open descriptors of this process, without the one that looks."""
    return len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208


def balance(tally, role):
    """The equations that added-up counters break, once no round is open."""
    counters = Counters()
    for name, value in tally.items():
        setattr(counters, name, value)
    return counters.imbalance(role)
