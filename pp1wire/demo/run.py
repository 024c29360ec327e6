"""One run of the demo: start the worker, decode the requests, end the worker, judge the recording."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path

from pp1wire.audit.logit_writer import Spool
from pp1wire.capture.recorder import Recorder
from pp1wire.capture.validate import validate
from pp1wire.demo.faults import FaultyRelay
from pp1wire.demo.identities import smollm2, target_model, terms
from pp1wire.demo.logits import Logits, SpoolingTarget
from pp1wire.demo.prompts import SmolLM2Talk, SyntheticTalk
from pp1wire.demo.report import Leg, Report
from pp1wire.demo.settings import Settings
from pp1wire.demo.worker_handle import WorkerHandle
from pp1wire.errors import PP1Error
from pp1wire.net import Round, TargetModel, VerifierClient, connect, decode
from pp1wire.sampling import HostSampler, choice_root
from pp1wire.wire import Representation

__all__ = ["demo"]

Say = Callable[[str], None]

_STEP_SECONDS = {"synthetic": 5.0, "smollm2": 20.0}
_MODELS = {
    "synthetic": "draft and target are made up, at the deployment's vocabulary of 129,280; tokens are shown as ids",
    "smollm2": "target: SmolLM2-135M; draft: the same without one block, so this shows exactness, not speed; "
    "two processes load it now, about 10 s",
}
_INTERPRETED = "its kernels are interpreted on the CPU, which is slow; they run compiled on a CUDA device"
_LATE_STEP_SECONDS = {"synthetic": 1.0, "smollm2": 4.0}
# Times as many seconds for a step: torch warms up in both processes at once, and Triton may be interpreted.
_PATIENCE = {"numpy": 1, "torch": 4, "triton": 8}


def demo(settings: Settings, say: Say) -> Report:
    """Run the demo; what happens is told to `say`, a line at a time.

    Raises:
        PP1Error: it cannot start: a model or a backend is missing, the worker ended, the recording cannot be written.
    """
    try:
        return asyncio.run(_demo(settings, say))
    except* PP1Error as group:
        # Requests run side by side; the first one's error says enough.
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


async def _demo(settings: Settings, say: Say) -> Report:
    # Before anything starts, and here rather than in the worker, whose errors come from another process.
    if HostSampler(settings.backend).interpreted:
        say(f"backend triton: {_INTERPRETED}")
    legs: list[Leg] = []
    logits = None if settings.logits is None else Logits(settings.logits)
    try:
        return await _recorded(settings, legs, logits, say)
    finally:
        if logits is not None:
            logits.clean()


async def _recorded(settings: Settings, legs: list[Leg], logits: Logits | None, say: Say) -> Report:
    with Recorder.create(settings.capture) as recorder:
        try:
            for representation in settings.representations:
                legs.append(await _leg(settings, representation, recorder, logits, say))
        finally:
            if not recorder.packets:
                settings.capture.unlink(missing_ok=True)  # a run that never began leaves nothing behind
    report = Report(settings, legs, validate([settings.capture], observe=logits))
    if logits is not None:
        logits.write(settings)
    for line in report.lines():
        say(line)
    return report


async def _leg(
    settings: Settings, representation: Representation, recorder: Recorder, logits: Logits | None, say: Say
) -> Leg:
    """All requests with one representation, against a worker of its own."""
    shape = f"k={settings.support}" if representation is Representation.SPARSE else "every id"
    count = settings.request_count
    say(f"── {settings.model}, {representation.name.lower()} rows ({shape}), {count} request{'s' * (count > 1)}, "
        f"depth {settings.depth}, T = {settings.temperature:g}")  # fmt: skip
    say(f"   {_MODELS[settings.model]}")
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pp1wire-")))
        worker_socket = directory / "worker"
        worker = await stack.enter_async_context(
            WorkerHandle(settings, representation, worker_socket, None if logits is None else logits.new_spool())
        )
        # Both processes load the model at the same time.
        target = await asyncio.to_thread(target_model, settings.model, settings.temperature)
        if logits is not None:
            target = SpoolingTarget(target, stack.enter_context(closing(Spool(logits.new_spool()))))
        mine = await asyncio.to_thread(
            terms, settings.model, representation=representation, support=settings.support, depth=settings.depth
        )
        await worker.listening()
        step_seconds = _STEP_SECONDS[settings.model]
        if settings.fault == "late":
            step_seconds = _LATE_STEP_SECONDS[settings.model]
        step_seconds *= _PATIENCE[settings.backend]
        address = worker_socket
        if settings.fault is not None:
            address = directory / "relay"
            await stack.enter_async_context(
                FaultyRelay(
                    settings.fault,
                    listen=address,
                    worker=worker_socket,
                    after=settings.sound_proposals,
                    delay=1.5 * step_seconds,
                    kill=worker.kill,
                )
            )
        executor = stack.enter_context(ThreadPoolExecutor(1, "target"))
        talk = SmolLM2Talk(smollm2()) if settings.model == "smollm2" else SyntheticTalk()
        leg = Leg(representation)
        started = asyncio.get_running_loop().time()
        async with AsyncExitStack() as connections:
            clients = [
                await connections.enter_async_context(
                    connect(f"unix:{address}", mine, step_timeout=step_seconds, tap=recorder)
                )
                for _ in range(settings.sockets)
            ]
            async with asyncio.TaskGroup() as group:
                for number in range(settings.request_count):
                    lane = _Lane(
                        settings, number, clients[number % settings.sockets], target, talk, executor, say, logits
                    )
                    leg.lanes.append(lane.rounds)
                    group.create_task(lane.run())
            leg.seconds = asyncio.get_running_loop().time() - started
            leg.add_clients(clients)
        leg.worker = await worker.measurements()
    return leg


@dataclass(slots=True)
class _Lane:
    """One request after another, until its rounds are done."""

    settings: Settings
    number: int
    client: VerifierClient
    target: TargetModel
    talk: SmolLM2Talk | SyntheticTalk
    executor: ThreadPoolExecutor
    say: Say
    logits: Logits | None = None
    rounds: list[Round] = field(default_factory=list)

    async def run(self) -> None:
        left, turn = self.settings.round_count, 0
        # A request that is run once with each representation must not draw with the same randomness twice.
        (representation,) = self.client.terms.representations
        root = choice_root(self.settings.root_of(representation), self.number)
        while left:
            self.say(f"[{self.number + 1}] ▸ {self.talk.question(self.number, turn)}")
            if self.logits is not None:
                self.logits.add_root(choice_root(root, turn))
            request = decode(
                self.client,
                self.target,
                self.talk.prompt(self.number, turn),
                max_tokens=left * (self.settings.depth + 1),
                stop_ids=self.talk.stop_ids,
                depth=self.settings.depth,
                draft_temperature=self.settings.temperature,
                support=self.settings.support if representation is Representation.SPARSE else None,
                root_seed=choice_root(root, turn),
                executor=self.executor,
                backend=self.settings.backend,
            )
            async with aclosing(request):
                async for decided in request:
                    left -= 1
                    self.rounds.append(decided)
                    self.say(self._line(decided))
                    if not left:
                        break
            turn += 1

    def _line(self, decided: Round) -> str:
        if decided.fallback is None:
            what = f"{decided.accepted}/{len(decided.drafted)} +{decided.kind.name.lower()}"
        else:
            what = f"(target only: {decided.fallback})"
        return f"[{self.number + 1}] {what:<16} {self.talk.show(self.number, decided.tokens)}"
