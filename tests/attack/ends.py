"""Endpoints to attack, in this process, and the attacks on them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, asynccontextmanager

import numpy as np

from pp1wire.attack import Report, Settings, Target, Verdict, attack_verifier, attack_worker
from pp1wire.net import ConnectError, connect, decode, parse_address
from pp1wire.net.tally import add
from pp1wire.wire import FrameSplitter, RejectCode, Representation
from tests.net.toys import DraftToy, TargetToy, V, serving, terms


class Patient(FrameSplitter):
    """Waits for a body that is too long instead of refusing its length."""

    waits = False

    def take(self, view):
        if self.waits:
            return [], len(view)
        frames, used = super().take(view)
        if self.error is not None and self.error.code is RejectCode.OVERSIZED_BODY:
            self.error, self.waits = None, True
        return frames, used


class Flat:
    """A draft or target that takes every one of V tokens for equally likely."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def open(self, capacity):
        return self

    def logits(self, prefix, drafted):
        shape = (len(drafted) + 1, self.vocabulary) if isinstance(drafted, np.ndarray) else self.vocabulary
        return np.zeros(shape, np.float32)


BOTH = tuple(Representation)
PADDED = {"representations": BOTH, "padded_vocab_size": 20}


def settings(address, **changes):
    """Quick: what reacts at all reacts at once, and nothing has to be spared."""
    values = {"address": parse_address(address), "rate": 1e6, "timeout": 5.0, "settle": 0.1, "wait": 10.0}
    return Settings(**(values | changes))


async def worker_report(own=None, given=None, address="127.0.0.1:0", server=None, counted=None, **changes):
    """The report of an attack on a worker of ours; what the worker counted goes into `counted`."""
    own = own or terms(**PADDED)
    model = DraftToy() if own.vocab_size == V else Flat(own.vocab_size)
    async with serving(address, model, own, **(server or {})) as served:
        report = Report(Target.WORKER, str(served.address), 0)
        await attack_worker(settings(served.address, **changes), report, given, lambda _: None)
    if counted is not None:
        counted.update(served.counters())
    return report


@asynccontextmanager
async def decoding(own, *, requests=1, support=4, counted=None, **options):
    """A verifier of ours that never gives up; yields what starts it at an address. What it counted goes into `counted`."""
    tasks, tallies = [], []

    async def one(client, seed):
        narrow = support if client.agreement is not None and client.agreement.id_entries else None
        target = TargetToy() if own.vocab_size == V else Flat(own.vocab_size)
        rounds = decode(client, target, [1, 2, 3], max_tokens=40, support=narrow, root_seed=seed)
        async with aclosing(rounds):
            async for _ in rounds:
                if not client.is_connected:
                    return

    async def run(address):
        while True:
            client = connect(address, own, reconnect_attempts=0, **options)
            try:
                async with client:
                    while client.is_connected:
                        await asyncio.gather(*(one(client, seed) for seed in range(requests)))
            except ConnectError:
                pass
            finally:
                tallies.append(client.counters())
            await asyncio.sleep(0.001)

    def start(address):
        tasks.append(asyncio.get_running_loop().create_task(run(address)))

    try:
        yield start
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if counted is not None:
            counted.update(add(*tallies))


async def verifier_report(own=None, address="127.0.0.1:0", victim=None, **changes):
    """The report of an attack on a verifier of ours."""
    report = Report(Target.VERIFIER, address, 0)
    async with decoding(own or terms(**PADDED), **(victim or {})) as start:
        await attack_verifier(settings(address, **changes), report, lambda _: None, start)
    return report


def run(coroutine, limit=90):
    """asyncio.run with a limit; tasks left over, and errors in callbacks, fail the test."""

    async def main():
        faults = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        async with asyncio.timeout(limit):
            result = await coroutine
        for _ in range(5):
            await asyncio.sleep(0.01)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        assert not faults, faults
        return result

    # Hundreds of rejects are what these tests are for; each would be a line.
    logging.disable(logging.WARNING)
    try:
        return asyncio.run(main())
    finally:
        logging.disable(logging.NOTSET)


def wrong(report):
    """case → observed, of what was wrong."""
    return {r.case: r.observed for r in report.wrong}


def skipped(report):
    """case → why, of what was skipped."""
    return {r.case: r.detail for r in report.results if r.verdict is Verdict.SKIPPED}
