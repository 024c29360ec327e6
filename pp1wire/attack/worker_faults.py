"""What networks and strangers do to a worker: cuts, stalls, floods and foreign bytes.

Scripts, where one changed frame is not enough.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from pp1wire.attack.asked_frames import FRAMES, STATES
from pp1wire.attack.asking import Asker, SetupError
from pp1wire.attack.case import CLOSES, Case
from pp1wire.attack.crafting import AttackError
from pp1wire.attack.outcomes import Observation, Outcome
from pp1wire.attack.worker_play import Serves, hear_reaction, watch
from pp1wire.wire import RejectCode

__all__ = ["WorkerScene", "worker_faults"]

C = RejectCode
_SERVES = frozenset({Outcome.ACCEPTED})
_WAITS_OR_CLOSES = frozenset({Outcome.ACCEPTED, Outcome.CLOSED})
_RESETS = 2_000
_ABANDONED = 40
_SILENT = 5
_LONGEST_STALL = 0.5  # seconds: below any deadline that a worker is likely to have

_HTTP = b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n"
_TLS = bytes.fromhex("16030100710100006d0303") + bytes(102)


@dataclass(frozen=True, slots=True)
class WorkerScene:
    """What a script has."""

    case: Case
    asker: Asker
    serves: Serves
    another: Callable[[], Awaitable[Asker]]
    """A further connection."""


def worker_faults() -> Iterator[Case]:
    """The cases."""
    for name, state, frame in (
        ("reset", "agreed", "open"),
        ("step", "opened", "step"),
        ("commit", "proposed", "correction"),
    ):
        for where, keep in (("header", 32), ("body", 0.75)):
            yield Case(
                name=f"fault/cut-{name}-{where}", comment=f"The stream ends inside a {name.upper()}.", code=C.TRUNCATED,
                state=state, frame=frame, keep=keep, ends=True,
            )  # fmt: skip
    yield from (
        _script("garbage-first", "Random bytes instead of a HELLO.", _foreign(_garbage), code=C.BAD_MAGIC),
        _script("http", "A request of HTTP.", _foreign(lambda _: _HTTP), code=C.BAD_MAGIC),
        _script("tls-hello", "A TLS handshake, spoken inside whatever was agreed.", _foreign(lambda _: _TLS),
                code=C.BAD_MAGIC),
        _script("garbage-later", "Random bytes behind the HELLOs.", _garbage_later, code=C.BAD_MAGIC),
        _script("replayed-connection", "The bytes of another connection, from its first on.", _replayed,
                code=C.AGREEMENT_MISMATCH),
        _script("half-closed-idle", "The verifier ends its half while nothing is asked.", _half_closed("opened")),
        _script("half-closed-asked", "The verifier ends its half while a STEP is open.", _half_closed("asked")),
        _script("vanished-asked", "The connection breaks while a STEP is open; others must be served.", _vanished),
        _script("one-byte-at-a-time", "A whole round, byte by byte.", _bytewise, expect=_SERVES),
        _script("stalled-hello", "Half a HELLO, then silence; others must be served meanwhile.", _stalled("connected", "hello"),
                expect=_WAITS_OR_CLOSES),
        _script("stalled-step", "Half a STEP, then silence; others must be served meanwhile.", _stalled("opened", "step"),
                expect=_WAITS_OR_CLOSES),
        _script("flood-of-resets", f"{_RESETS:,} RESETs in one write, then a STEP.", _flood_of_resets, expect=_SERVES),
        _script("abandoned-rounds", f"{_ABANDONED} STEPs, each cancelled at once, then one more.", _abandoned_rounds,
                expect=_SERVES),
        _script("silent-connections", f"{_SILENT} connections that say nothing; others must be served.", _silent_connections,
                expect=_SERVES),
    )  # fmt: skip


Script = Callable[[WorkerScene], Awaitable[Observation]]


def _script(
    name: str, comment: str, script: Script, *, code: RejectCode | None = None, expect: frozenset[Outcome] = CLOSES
) -> Case:
    return Case(name=f"fault/{name}", comment=comment, code=code, expect=expect, script=script)


def _garbage(asker: Asker) -> bytes:
    data = hashlib.shake_256(f"pp1wire garbage {asker.seed}".encode()).digest(4096)
    return b"\xff" + data[1:]  # whatever the seed, not the magic


def _foreign(make: Callable[[Asker], bytes]) -> Script:
    async def script(scene: WorkerScene) -> Observation:
        return await _closes(scene, scene.asker, make(scene.asker))

    return script


async def _garbage_later(scene: WorkerScene) -> Observation:
    await STATES["opened"](scene.asker)
    return await _closes(scene, scene.asker, _garbage(scene.asker))


async def _replayed(scene: WorkerScene) -> Observation:
    first = scene.asker
    await STATES["opened"](first)
    await first.channel.close()
    await scene.serves()  # so that a worker which takes one connection at a time has noticed
    second = await scene.another()
    try:
        second.hello = first.hello
        await second.agree()
        return await _closes(scene, second, first.said["open"])
    finally:
        await second.channel.close()


async def _closes(scene: WorkerScene, asker: Asker, data: bytes) -> Observation:
    """Bytes of a known code that must end the connection before anything is answered."""
    asker.require_code(scene.case, data)
    await asker.flush(data)
    heard = await hear_reaction(asker, scene.serves)
    if heard is None:
        return Observation(Outcome.HUNG, f"silent for {asker.timeout:g} s")
    return Observation(Outcome.ACCEPTED, "answered") if heard else Observation(Outcome.CLOSED)


def _half_closed(state: str) -> Script:
    async def script(scene: WorkerScene) -> Observation:
        asker = scene.asker
        await STATES[state](asker)
        await asker.flush()
        if not asker.channel.finish():
            return Observation(Outcome.CLOSED, "TLS has no half-closed connections: closed from here")
        return await watch(asker, asker.said["open"], scene.serves)

    return script


async def _vanished(scene: WorkerScene) -> Observation:
    await STATES["asked"](scene.asker)
    await scene.asker.flush()
    await scene.asker.channel.close()
    await scene.serves()
    return Observation(Outcome.CLOSED, "closed from here; others are served")


async def _bytewise(scene: WorkerScene) -> Observation:
    asker = scene.asker
    offer = FRAMES["hello"](asker)
    asker.require_legal(offer)
    asker.sequence += 1
    await asker.channel.send_bytewise(offer)
    await asker.hear_hello()
    asker.say(FRAMES["open"](asker), "open")
    asker.say(FRAMES["step"](asker), "step")
    await asker.flush_bytewise()
    await asker.hear_proposal()
    return Observation(Outcome.ACCEPTED, "answered")


def _stalled(state: str, name: str) -> Script:
    async def script(scene: WorkerScene) -> Observation:
        asker = scene.asker
        await STATES[state](asker)
        frame = FRAMES[name](asker)
        await asker.flush(frame[: len(frame) // 2])
        # It may wait, or lose its patience; what it may not do is let others wait.
        await _others_are_served(scene)
        await asyncio.sleep(min(asker.timeout / 4, _LONGEST_STALL))
        asker.require_legal(frame)
        await asker.channel.send(frame[len(frame) // 2 :])
        return _went_on(asker, await asker.hear(asker.wait))

    return script


async def _others_are_served(scene: WorkerScene) -> None:
    try:
        await scene.serves()
    except SetupError as error:
        if error.outcome in (Outcome.REFUSED, Outcome.CLOSED):
            raise AttackError("the worker takes no more connections at once") from None
        raise


def _went_on(asker: Asker, heard: object) -> Observation:
    if heard is None:
        return Observation(Outcome.HUNG, f"the frame was finished, and nothing came for {asker.wait:g} s")
    return Observation(Outcome.ACCEPTED, "answered once the frame was whole") if heard else Observation(Outcome.CLOSED)


async def _flood_of_resets(scene: WorkerScene) -> Observation:
    asker = scene.asker
    await STATES["opened"](asker)
    for _ in range(_RESETS):
        asker.say(FRAMES["cancel"](asker))
    return await _answered(asker)


async def _abandoned_rounds(scene: WorkerScene) -> Observation:
    asker = scene.asker
    await STATES["opened"](asker)
    for _ in range(_ABANDONED):
        asker.say(FRAMES["step"](asker))
        asker.say(FRAMES["cancel"](asker))
    return await _answered(asker)


async def _answered(asker: Asker) -> Observation:
    asker.say(FRAMES["step"](asker), "step")
    await asker.hear_proposal()
    return Observation(Outcome.ACCEPTED, "answered")


async def _silent_connections(scene: WorkerScene) -> Observation:
    silent = [await scene.another() for _ in range(_SILENT)]
    try:
        await _others_are_served(scene)
    finally:
        for asker in silent:
            await asker.channel.close()
    return Observation(Outcome.ACCEPTED, "others are served")
