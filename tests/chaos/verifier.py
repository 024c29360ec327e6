"""The verifier of the chaos tests, a process of its own: `python -m tests.chaos.verifier`.

Decodes requests, `--parallel` at a time, and tells each committed round on standard output as JSON; `stats` and `stop` (end when
all that runs is finished) come on standard input. It ends at once with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections import Counter
from contextlib import aclosing
from pathlib import Path

from pp1wire.net import ConnectError, client_tls, connect, decode
from pp1wire.protocol.tables import Role
from tests.chaos import models
from tests.chaos.telling import balance, commands, descriptors, limit_files, recorder_of, tell

PROMPT = (1, 2, 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--vocabulary", type=int, default=16)
    parser.add_argument("--representation", default="sparse")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--tls", type=Path)
    parser.add_argument("--requests", type=int, default=1 << 30)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--step-timeout", type=float, default=1.0)
    parser.add_argument("--hello-timeout", type=float, default=5.0)
    parser.add_argument("--record")
    parser.add_argument("--largest-file", type=int, help="bytes that this process may write into one file")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    return asyncio.run(Verifying(arguments).run())


class Verifying:
    """All requests of the process."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.target = models.Target(arguments.vocabulary, delay=arguments.delay)
        self.totals = Counter()
        self.reasons = Counter()
        self.numbers = iter(range(arguments.requests))
        self.stopping = False

    async def run(self):
        a = self.arguments
        tls = None
        if a.tls is not None:
            tls = client_tls(a.tls / "ca.pem", a.tls / "verifier.pem", a.tls / "verifier.key")
        recorder = recorder_of(a.record)
        limit_files(a.largest_file)
        self.client = connect(
            a.address, models.terms(a.vocabulary, a.representation), tls=tls, connect_timeout=a.hello_timeout,
            hello_timeout=a.hello_timeout, step_timeout=a.step_timeout, reconnect_delay=0.02, tap=recorder,
        )  # fmt: skip
        main = asyncio.current_task()
        listening = commands({"stats": lambda: tell({"stats": self.stats()}), "stop": self.stop}, main.cancel)
        tell({"started": True})
        await self.connect()
        tell({"connected": True})
        await asyncio.gather(*(self.requests() for _ in range(a.parallel)))
        await self.client.aclose()
        tell({"ended": self.stats()})
        listening.cancel()
        if recorder is not None:
            recorder.close()
        return 0

    async def connect(self):
        """As whoever starts a verifier does: again, until there is a worker."""
        while True:
            try:
                return await self.client.connect()
            except ConnectError as error:
                logging.getLogger("chaos").info("%s", error)
                await asyncio.sleep(0.02)

    def stop(self):
        self.stopping = True

    async def requests(self):
        for number in self.numbers:
            if self.stopping:
                return
            seed = self.arguments.first_seed + number
            tell({"request": seed})
            try:
                await self.request(seed)
            except Exception as error:  # noqa: BLE001 - that is what "lost" means, and it is to be told
                tell({"lost": seed, "why": f"{type(error).__name__}: {error}"})
            else:
                tell({"finished": seed})

    async def request(self, seed):
        rounds = decode(self.client, self.target, PROMPT, max_tokens=self.arguments.tokens, root_seed=seed)
        async with aclosing(rounds):
            async for r in rounds:
                self.totals.update(rounds=1, tokens=len(r.tokens), verified=r.fallback is None)
                self.reasons[r.fallback or "none"] += 1
                tell({
                    "round": seed, "tokens": r.tokens, "kind": r.kind.name, "accepted": r.accepted,
                    "drafted": r.drafted, "fallback": r.fallback, "generation": r.generation, "number": r.round,
                    "position": r.position, "finish": r.finish, "at": time.monotonic(),
                })  # fmt: skip

    def stats(self):
        return {
            "connected": self.client.is_connected,
            "descriptors": descriptors(),
            "totals": dict(self.totals),
            "reasons": dict(self.reasons),
            "events": self.client.events,
            "fallbacks": self.client.fallbacks,
            "counters": self.client.counters(),
            "imbalance": [] if self.client.is_connected else balance(self.client.counters(), Role.VERIFIER),
        }


if __name__ == "__main__":
    sys.exit(main())
