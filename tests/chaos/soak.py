"""Minutes of faults on real sockets: `python -m tests.chaos.soak --seconds 300`.

Three pairs of processes decode all the time through proxies that cut, halve, stall, corrupt and throttle their connections: one
over TCP, whose worker is killed and halted again and again; one over Unix sockets, whose verifier is; and one over TLS with dense
rows, whose processes live through all of it. Every committed token is drawn again and compared. What is measured, and the bounds
that make the exit status 1, are in `docs/soak.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import numpy as np

from tests.chaos.certificates import Certificates
from tests.chaos.ends import until
from tests.chaos.pair import Pair, plans
from tests.chaos.plan import KINDS

TOLERANCE, SHORT_TOLERANCE, SHORT = 4 << 20, 8 << 20, 120
"""Bytes by which a process may have grown over the whole run, by the line fitted to what was measured after warm-up; and over
a run of fewer than so many seconds, in which caches still fill. `docs/soak.md` says why."""

WARM_UP = 0.3
"""Of the run: threads, caches and pools come to be in it."""

SIGNALS = {
    "kill worker": "sigkill_worker",
    "kill verifier": "sigkill_verifier",
    "halt worker": "sigstop_worker",
    "halt verifier": "sigstop_verifier",
}


class Soak:
    """One run.

    Args:
        seconds: of faults; starting, calming down and ending come on top.
        seed: of every fault.
        say: told a line of progress now and then.
    """

    def __init__(self, seconds, seed, say):
        self.seconds, self.seed, self.say = seconds, seed, say
        self.recovery = defaultdict(list)
        self.memory = defaultdict(list)
        self.descriptors = {}
        self.broken = []

    async def run(self):
        """The report: numbers, and a line in `broken` for each bound that was not kept."""
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
            certificates = Certificates(folder / "tls").folder
            tcp, unix, tls = plans(self.seed)
            self.pairs = [
                Pair("tcp", stack, folder, "tcp", certificates, 16, "sparse", tcp),
                Pair("unix", stack, folder, "unix", certificates, 16, "sparse", unix),
                Pair("tls", stack, folder, "tls", certificates, 512, "dense", tls),
            ]
            await asyncio.gather(*(pair.start() for pair in self.pairs))
            # Those that live as long as the run.
            self.ends = {"tcp verifier": self.pairs[0].verifier, "unix worker": self.pairs[1].worker}
            self.ends |= {"tls verifier": self.pairs[2].verifier, "tls worker": self.pairs[2].worker}
            at_start = await self._descriptors()
            self.start = time.monotonic()
            await self._storm()
            self.took = time.monotonic() - self.start
            self.say("calm: every pair has to draft again, and to end in order")
            await self._calm(at_start)
            for wrong in await asyncio.gather(*(pair.finish() for pair in self.pairs)):
                self.broken += wrong
        return self._report()

    async def _storm(self):
        for pair in self.pairs:
            pair.proxy.calm = False
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for task in (self._signals(over), self._measure(over)):
                group.create_task(task)
            await asyncio.sleep(self.seconds)
            # On a machine that is busy, a short run takes longer until it has seen everything.
            with suppress(TimeoutError):
                await until(self._had_everything)
            over.set()

    def _had_everything(self):
        return set(self.recovery) == set(SIGNALS) and all(self._faults().values())

    def _faults(self):
        total = Counter(dict.fromkeys(KINDS, 0))
        for pair in self.pairs:
            total.update(pair.proxy.faults)
        return total

    async def _signals(self, over):
        """Kill and halt, one after another, each when the last one is over it."""
        rng = random.Random(self.seed)
        order = itertools.cycle(rng.sample(list(SIGNALS), len(SIGNALS)))
        longest = min(3.0, self.seconds / 20)
        while not over.is_set():
            await asyncio.sleep(rng.uniform(0.1, longest))
            how, end = (action := next(order)).split()
            pair = self.pairs[0 if end == "worker" else 1]
            try:
                took = await (pair.kill(end) if how == "kill" else pair.halt(end, rng.uniform(0.2, 1.5)))
            except TimeoutError:
                self.broken.append(f"{action}: no round was drafted any more")
                return
            self.recovery[action].append(took)

    async def _measure(self, over):
        last = time.monotonic()
        every = 5 if self.seconds < 60 else 15
        while not over.is_set():
            await asyncio.sleep(0.5)
            now = time.monotonic()
            for name, end in self.ends.items():
                self.memory[name].append((now - self.start, end.memory()))
            if now - last >= every:
                last = now
                total = {what: sum(p.total(what) for p in self.pairs) for what in ("rounds", "verified", "finished")}
                signals = sum(len(times) for times in self.recovery.values())
                self.say(
                    f"{now - self.start:4.0f} s: {total['rounds']} rounds ({total['verified']} drafted), "
                    f"{total['finished']} requests finished, {self._faults().total()} faults, {signals} kills and halts"
                )

    async def _calm(self, at_start):
        for pair in self.pairs:
            pair.proxy.calm = True
        await asyncio.gather(*(pair.drafts_again() for pair in self.pairs))
        at_end = await self._descriptors(at_start)
        self.descriptors = {name: {"start": at_start[name], "end": at_end[name]} for name in at_start}
        for name, counts in self.descriptors.items():
            if counts["start"] != counts["end"]:
                self.broken.append(f"{name}: {counts['end']} descriptors, {counts['start']} at the start")

    async def _descriptors(self, wanted=None):
        """Of each end with one connection; those that are being closed get a while to be gone."""
        last = {}

        def settled():
            nonlocal last
            last = {name: end.descriptors() for name, end in self.ends.items()}
            return wanted is None or last == wanted

        with suppress(TimeoutError):
            await until(settled, seconds=20)
        return last

    def _report(self):
        pairs = self.pairs
        requests = {what: sum(pair.total(what) for pair in pairs) for what in ("begun", "finished")}
        requests["ended_with_their_verifier"] = sum(pair.abandoned for pair in pairs)
        requests["lost"] = requests["begun"] - requests["finished"] - requests["ended_with_their_verifier"]
        if requests["lost"]:
            self.broken.append(f"{requests['lost']} requests were lost")
        memory = {name: self._growth(name) for name in self.ends}
        return {
            "seconds": round(self.took, 1),
            "seed": self.seed,
            "rounds": sum(pair.total("rounds") for pair in pairs),
            "drafted_rounds": sum(pair.total("verified") for pair in pairs),
            "connections": sum(pair.proxy.connections for pair in pairs),
            "requests": requests,
            "faults": dict(self._faults()) | {SIGNALS[action]: len(times) for action, times in self.recovery.items()},
            "memory": memory,
            "descriptors": self.descriptors,
            "recovery": {
                action: {"median_s": round(statistics.median(times), 2), "worst_s": round(max(times), 2)}
                for action, times in self.recovery.items()
            },
            "broken": self.broken,
        }

    def _growth(self, name):
        """The line fitted to a process's memory after warm-up."""
        warm = [(at, size) for at, size in self.memory[name] if at >= WARM_UP * self.took]
        slope = float(np.polyfit(*np.array(warm, float).T, 1)[0])
        grown = slope * self.took
        if grown > (TOLERANCE if self.took >= SHORT else SHORT_TOLERANCE):
            self.broken.append(f"{name}: grows by {slope:.0f} bytes a second, {grown / 2**20:.1f} MiB over the run")
        return {"end_bytes": warm[-1][1], "bytes_per_s": round(slope), "mib_per_run": round(grown / 2**20, 2)}


def soak(seconds, seed=1, say=lambda line: None):
    """Run it; the report as a dictionary, with `broken` empty if every bound was kept."""
    return asyncio.run(Soak(seconds, seed, say).run())


def lines(report):
    """The report for people."""
    requests = report["requests"]
    yield f"{report['seconds']} s, seed {report['seed']}: {report['rounds']} rounds, {report['drafted_rounds']} of them drafted"
    yield f"{report['connections']} connections"
    yield "faults: " + ", ".join(f"{kind} {number}" for kind, number in report["faults"].items())
    yield (
        f"requests: {requests['begun']} begun, {requests['finished']} finished whole, "
        f"{requests['ended_with_their_verifier']} ended with their killed verifier, {requests['lost']} lost"
    )
    for name, grown in report["memory"].items():
        held = report["descriptors"][name]
        yield (
            f"{name}: {grown['end_bytes'] / 2**20:.1f} MiB, slope {grown['bytes_per_s']} bytes/s "
            f"({grown['mib_per_run']:+.2f} MiB over the run); descriptors {held['start']} -> {held['end']}"
        )
    for action, took in report["recovery"].items():
        yield f"drafts again after {action}: median {took['median_s']} s, worst {took['worst_s']} s"
    for line in report["broken"]:
        yield f"BROKEN: {line}"
    yield "a bound is broken" if report["broken"] else "every bound was kept"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--json", action="store_true", help="the report as one JSON object; progress goes to standard error"
    )
    arguments = parser.parse_args()
    report = soak(arguments.seconds, arguments.seed, lambda line: print(line, file=sys.stderr, flush=True))
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        print("\n".join(lines(report)))
    return 1 if report["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
