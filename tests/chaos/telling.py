"""What both processes have in common: lines in and out, and a look at themselves."""

from __future__ import annotations

import asyncio
import json
import os
import resource
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


def limit_files(size):
    """What a full disk does to a file: so many bytes fit into it, and no more. None for no limit."""
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def recorder_of(path):
    """A recorder into `path`, or None without one; the package that it is of takes a while to import."""
    if path is None:
        return None
    from pp1wire.capture.recorder import Recorder

    return Recorder.create(path)


def balance(tally, role):
    """The equations that added-up counters break, once no round is open."""
    counters = Counters()
    for name, value in tally.items():
        setattr(counters, name, value)
    return counters.imbalance(role)
