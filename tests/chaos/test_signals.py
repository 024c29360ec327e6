"""SIGKILL and SIGSTOP of either end, in each state of a round: every request ends whole, and nobody holds on to what is gone.

The proxy between the two processes holds the frame that marks a state, so that the state is not a matter of luck.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

import pytest

from pp1wire.wire import MessageType
from tests.chaos.ends import SECONDS, End, free_port, until
from tests.chaos.judge import Judge
from tests.chaos.proxy import ChaosProxy, Gate

# What is held (or, "passed", has just gone by), and what makes the state last: a slow draft or a slow target.
STATES = {
    "hello": (lambda: Gate("down", MessageType.HELLO), {}, {}),
    "idle": (lambda: Gate("up", MessageType.STEP), {}, {}),
    "step_sent": (lambda: Gate("down", MessageType.REPLY, 16), {}, {}),
    "among_replies": (lambda: Gate("down", MessageType.REPLY, 18), {}, {}),
    "before_completion": (lambda: Gate("down", MessageType.COMPLETION, 4), {}, {}),
    "verifying": (lambda: Gate("down", MessageType.COMPLETION, 4, hold=False), {}, {"delay": 0.2}),
    "commit_in_flight": (lambda: Gate("up", MessageType.COMMIT, 3), {}, {}),
    "draining": (lambda: Gate("up", MessageType.STEP, 2, hold=False), {"delay": 0.15}, {}),
}


class Scene:
    """A worker, a proxy with a gate, and verifiers behind it."""

    def __init__(self, stack, folder, transport, state):
        gate, self._worker_options, self._verifier_options = STATES[state]
        self.gate, self.state = gate(), state
        self._stack, self._folder, self._transport = stack, folder, transport
        self.judges = []

    async def start(self):
        self._folder.mkdir()
        self._where = f"unix:{self._folder}/worker" if self._transport == "unix" else f"127.0.0.1:{free_port()}"
        listen = f"unix:{self._folder}/proxy" if self._transport == "unix" else "127.0.0.1:0"
        await self.start_worker(**self._worker_options)
        self.baseline = await self.worker.stats()
        self.proxy = await self._stack.enter_async_context(ChaosProxy(listen, self._where, gate=self.gate))
        self.verifier = await self.start_verifier()
        async with asyncio.timeout(SECONDS):
            await self.gate.reached.wait()
        if self.state == "draining":
            self.worker.signal(signal.SIGTERM)
            await self.worker.said("draining")

    async def start_worker(self, **special):
        options = {"address": self._where, "delay": 0.001} | special
        self.worker = await self._stack.enter_async_context(End("worker", self._folder / "worker.log", **options))
        await self.worker.said("listening")

    async def start_verifier(self):
        judge = Judge(tokens=24)
        self.judges.append(judge)
        # Slow enough that eight of them, and the judge of what they say, have room on two cores that others use, too.
        options = {"address": self.proxy.address, "delay": 0.05, "tokens": 24} | self._verifier_options
        end = End("verifier", self._folder / "verifier.log", judge.hear, first_seed=1000 * len(self.judges), **options)
        return await self._stack.enter_async_context(end)

    async def drafts_again(self, judge):
        """Wait for rounds that were verified from now on."""
        before = judge.verified
        await until(lambda: judge.verified > before + 3)

    async def finish(self, verifier, judge):
        """Let a verifier end: all its requests are whole, and its counters add up."""
        verifier.write("stop")
        ended = await verifier.said("ended")
        assert await verifier.ended() == 0
        assert verifier.is_gone()
        assert judge.wrong == []
        assert judge.running == 0
        assert judge.finished == judge.begun > 0
        assert judge.disagreements(ended) == []

    async def end_worker(self):
        """Nothing is left of any verifier, and the worker ends in order."""
        left = await self.worker.until(lambda stats: stats["connections"] == 0)
        assert (left["sessions"], left["states"], left["imbalance"]) == (0, 0, [])
        assert left["descriptors"] == self.baseline["descriptors"]
        self.worker.signal(signal.SIGTERM)
        ended = await self.worker.said("ended")
        assert ended
        assert await self.worker.ended() == 0
        assert self.worker.is_gone()

    async def drained_worker_is_replaced(self):
        assert await self.worker.ended() == 0
        await self.start_worker()


async def kill_worker(scene):
    scene.worker.signal(signal.SIGKILL)
    assert await scene.worker.ended() == -signal.SIGKILL
    assert scene.worker.is_gone()
    scene.gate.open.set()
    await scene.start_worker()
    await scene.drafts_again(scene.judges[0])
    await scene.finish(scene.verifier, scene.judges[0])


async def stop_worker(scene):
    (judge,) = scene.judges
    scene.worker.signal(signal.SIGSTOP)
    scene.gate.open.set()
    before = judge.rounds - judge.verified
    await until(lambda: judge.rounds - judge.verified > before + 2)  # requests go on without it
    scene.worker.signal(signal.SIGCONT)
    if scene.state == "draining":
        await scene.drained_worker_is_replaced()
    await scene.drafts_again(judge)
    await scene.finish(scene.verifier, judge)


async def kill_verifier(scene):
    scene.verifier.signal(signal.SIGKILL)
    assert await scene.verifier.ended() == -signal.SIGKILL
    assert scene.verifier.is_gone()
    scene.gate.open.set()
    if scene.state == "draining":
        await scene.drained_worker_is_replaced()
    else:
        freed = await scene.worker.until(lambda stats: stats["connections"] == 0)
        assert (freed["sessions"], freed["states"]) == (0, 0)
    first = scene.judges[0]
    assert first.wrong == []  # what it had committed is a right beginning
    assert first.begun - first.finished == first.running
    heir = await scene.start_verifier()
    await scene.drafts_again(scene.judges[1])
    await scene.finish(heir, scene.judges[1])


async def stop_verifier(scene):
    scene.verifier.signal(signal.SIGSTOP)
    scene.gate.open.set()
    if scene.state == "draining":
        await scene.drained_worker_is_replaced()
    other = await scene.start_verifier()
    await scene.drafts_again(scene.judges[1])
    await scene.finish(other, scene.judges[1])
    scene.verifier.signal(signal.SIGCONT)
    await scene.drafts_again(scene.judges[0])
    await scene.finish(scene.verifier, scene.judges[0])


@pytest.mark.parametrize(
    ("what", "transport"),
    [(kill_worker, "tcp"), (stop_worker, "unix"), (kill_verifier, "unix"), (stop_verifier, "tcp")],
)
def test_either_end_killed_or_halted_in_each_state(what, transport, tmp_path):
    async def one(state):
        async with AsyncExitStack() as stack:
            scene = Scene(stack, tmp_path / state, transport, state)
            await scene.start()
            await what(scene)
            await scene.end_worker()
        return state

    async def all_at_once():
        async with asyncio.timeout(110), asyncio.TaskGroup() as group:
            running = [group.create_task(one(state), name=state) for state in STATES]
        return {task.result() for task in running}

    assert asyncio.run(all_at_once()) == set(STATES)
