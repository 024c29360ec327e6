"""A worker and a verifier that go on for a long time behind a proxy, whatever is done to them."""

from __future__ import annotations

import asyncio
import signal
import time

from tests.chaos.ends import End, free_port, until
from tests.chaos.judge import Judge
from tests.chaos.plan import Plan
from tests.chaos.proxy import ChaosProxy

TOKENS = 60


class Pair:
    """Two processes, and what became of those that were there before them.

    Args:
        name: of the pair.
        stack: takes what must be ended.
        folder: of sockets and logs.
        transport: tcp, unix, or tls (over TCP).
        certificates: the folder of their files, for tls.
        vocabulary, representation: of the rows.
        plan: of the proxy's faults.
    """

    def __init__(self, name, stack, folder, transport, certificates, vocabulary, representation, plan):
        self.name, self.transport = name, transport
        self._stack, self._folder, self._plan = stack, folder, plan
        self._shape = {"vocabulary": vocabulary, "representation": representation}
        self._common = self._shape | {"tls": certificates if transport == "tls" else None, "hello_timeout": 1.0}
        self._where = f"unix:{folder}/{name}-worker" if transport == "unix" else f"127.0.0.1:{free_port()}"
        self.judges = []
        self.abandoned = 0
        """Requests whose verifier was killed while they ran."""

    async def start(self):
        listen = f"unix:{self._folder}/{self.name}-proxy" if self.transport == "unix" else "127.0.0.1:0"
        await self.start_worker()
        self.proxy = await self._stack.enter_async_context(ChaosProxy(listen, self._where, self._plan))
        self.proxy.calm = True
        await self.start_verifier()
        await self.drafts_again()

    async def start_worker(self):
        log = self._folder / f"{self.name}-worker.log"
        end = End("worker", log, address=self._where, delay=0.001, **self._common)
        self.worker = await self._stack.enter_async_context(end)
        await self.worker.said("listening")

    async def start_verifier(self):
        self.judges.append(Judge(**self._shape, tokens=TOKENS))
        end = End(
            "verifier", self._folder / f"{self.name}-verifier.log", self.judges[-1].hear, address=self.proxy.address,
            delay=0.01, tokens=TOKENS, step_timeout=0.5, first_seed=len(self.judges) << 32, **self._common,
        )  # fmt: skip
        self.verifier = await self._stack.enter_async_context(end)

    def total(self, what):
        """Of all verifiers that there were."""
        return sum(getattr(judge, what) for judge in self.judges)

    async def drafts_again(self):
        """Seconds until the next round with a proposal."""
        start, before, judge = time.monotonic(), self.judges[-1].verified, self.judges[-1]
        await until(lambda: judge.verified > before)
        return time.monotonic() - start

    async def kill(self, end):
        """SIGKILL and another process in its place; seconds from the signal to the next round with a proposal."""
        start = time.monotonic()
        old = getattr(self, end)
        old.signal(signal.SIGKILL)
        assert await old.ended() == -signal.SIGKILL
        assert old.is_gone()
        if end == "verifier":
            self.abandoned += self.judges[-1].forget_running()
            await self.start_verifier()
        else:
            await self.start_worker()
        await self.drafts_again()
        return time.monotonic() - start

    async def halt(self, end, seconds):
        """SIGSTOP, and SIGCONT after so many seconds; seconds from there to the next round with a proposal."""
        halted = getattr(self, end)
        halted.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        halted.signal(signal.SIGCONT)
        return await self.drafts_again()

    async def finish(self):
        """End both, in order; a line for all that is not as it must be."""
        judge = self.judges[-1]
        self.verifier.write("stop")
        ended = await self.verifier.said("ended")
        wrong = [f"{self.name} verifier: {line}" for line in judge.disagreements(ended)]
        left = await self.worker.until(lambda stats: stats["connections"] == 0)
        if left["sessions"] or left["states"]:
            wrong.append(f"{self.name} worker: holds {left['sessions']} sessions and {left['states']} states of nobody")
        wrong += [f"{self.name} worker: {line}" for line in left["imbalance"]]
        self.worker.signal(signal.SIGTERM)
        for end in (self.verifier, self.worker):
            status = await end.ended()
            if status or not end.is_gone():
                wrong.append(f"{self.name}: exit status {status}, process {'gone' if end.is_gone() else 'left behind'}")
        wrong += [f"{self.name}: {line}" for judge in self.judges for line in judge.wrong]
        return wrong


def plans(seed):
    """For rows of 16 ids and for dense ones of 512, whose bytes come faster."""
    return Plan(seed, every=20_000), Plan(seed + 1, every=20_000), Plan(seed + 2, every=200_000)
