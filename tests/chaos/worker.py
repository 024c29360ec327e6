"""The worker of the chaos tests, a process of its own: `python -m tests.chaos.worker`.

Tells on standard output, a JSON object a line, when it listens, what `stats` on standard input asks for, and that it drains.
Ends with its standard input, and gracefully at SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import signal
import sys
from pathlib import Path

from pp1wire.net import WorkerServer, server_tls
from pp1wire.protocol.tables import Role
from tests.chaos import models
from tests.chaos.telling import balance, commands, descriptors, limit_files, recorder_of, tell


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--vocabulary", type=int, default=16)
    parser.add_argument("--representation", default="sparse")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--tls", type=Path)
    parser.add_argument("--certificate", default="worker", help="which of the files in the folder of --tls to show")
    parser.add_argument("--max-connections", type=int, default=16)
    parser.add_argument("--hello-timeout", type=float, default=5.0)
    parser.add_argument("--write-timeout", type=float, default=5.0)
    parser.add_argument("--grace", type=float, default=5.0)
    parser.add_argument("--descriptors", type=int, help="that this process may have more than it starts with")
    parser.add_argument("--record")
    parser.add_argument("--largest-file", type=int, help="bytes that this process may write into one file")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    asyncio.run(serve(arguments))


async def serve(arguments):
    model = models.Draft(arguments.vocabulary, arguments.delay)
    tls = None
    if arguments.tls is not None:
        own = arguments.tls / arguments.certificate
        tls = server_tls(own.with_suffix(".pem"), own.with_suffix(".key"), arguments.tls / "ca.pem")
    recorder = recorder_of(arguments.record)
    limit_files(arguments.largest_file)
    server = WorkerServer(
        arguments.address, model, models.terms(arguments.vocabulary, arguments.representation), tls=tls,
        max_connections=arguments.max_connections, hello_timeout=arguments.hello_timeout,
        write_timeout=arguments.write_timeout, grace=arguments.grace, tap=recorder,
    )  # fmt: skip
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    def stats():
        return {
            "connections": server.connections,
            "accepted": server.accepted_connections,
            "refused": server.refused_connections,
            "sessions": sum(len(c._sessions) for c in server._connections),
            "states": len(model.states),
            "descriptors": descriptors(),
            "counters": server.counters(),
            "imbalance": [] if server.connections else balance(server.counters(), Role.WORKER),
            "cpu": sum(os.times()[:2]),
        }

    listening = commands({"stats": lambda: tell({"stats": stats()})}, stop.set)
    async with server:
        if arguments.descriptors is not None:
            limit = descriptors() + arguments.descriptors
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        tell({"listening": str(server.address)})
        await stop.wait()
        tell({"draining": True})
    listening.cancel()
    if recorder is not None:
        recorder.close()
    tell({"ended": True, "imbalance": balance(server.counters(), Role.WORKER), "states": len(model.states)})


if __name__ == "__main__":
    sys.exit(main())
