"""What late answers, networks and strangers do to a verifier. Scripts, where one changed proposal is not enough."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from pp1wire.attack.answering import Answerer, Gone
from pp1wire.attack.case import CLOSES, Case
from pp1wire.attack.crafting import AttackError, Fields, changed, numbered, plus
from pp1wire.attack.outcomes import Observation, Outcome
from pp1wire.attack.proposals import completion_frame, row_frames
from pp1wire.attack.verifier_play import STATES
from pp1wire.wire import RejectCode, Step
from pp1wire.wire._schema_v2 import MAX_DISCARDS_IN_A_ROW

__all__ = ["VerifierScene", "verifier_faults"]

C = RejectCode
_COMMITS = frozenset({Outcome.ACCEPTED})
_GOES_ON = frozenset({Outcome.IGNORED})
_COMMITS_OR_DISCARDS = frozenset({Outcome.ACCEPTED, Outcome.DISCARDED})
_FLOOD = 500
_BYTEWISE = 300
_LONGEST_STALL = 0.5  # seconds: below any deadline that a verifier is likely to have


@dataclass(frozen=True, slots=True)
class VerifierScene:
    """What a script has."""

    case: Case
    answerer: Answerer
    seed: int
    settle: float
    """Seconds that the verifier is given to show that it took what it had to drop."""


Script = Callable[[VerifierScene], Awaitable[Observation]]


def verifier_faults() -> Iterator[Case]:
    """The cases."""

    def stale(name: str, comment: str, code: RejectCode, state: str, script: Script) -> Case:
        return Case(name=f"stale/{name}", comment=comment, code=code, state=state, expect=_GOES_ON, script=script)

    def fault(
        name: str, comment: str, script: Script, code: RejectCode | None = None, expect: frozenset[Outcome] = CLOSES,
        state: str = "asked",
    ) -> Case:  # fmt: skip
        return Case(name=f"fault/{name}", comment=comment, code=code, state=state, expect=expect, script=script)

    yield from (
        stale("older-generation", "A whole proposal of a generation that a RESET ended.", C.STALE_GENERATION,
              "second generation", _relabelled({"header.generation": plus(-1)})),
        stale("older-round", "A whole proposal of a round that was committed.", C.STALE_ROUND, "second round",
              _relabelled({"header.round": plus(-1)})),
        stale("closed-session", "A whole proposal of a session that was closed.", C.STALE_SESSION, "second session",
              _of_closed_session),
        stale("replayed-proposal", "The proposal before, byte for byte.", C.STALE_ROUND, "second round", _replayed),
        stale("duplicate-row", "A row once more, behind the COMPLETION.", C.STALE_ROUND, "asked", _behind(0, 1)),
        stale("duplicate-completion", "The COMPLETION twice.", C.STALE_ROUND, "asked", _behind(-1, 1)),
        stale("answered-twice", "The whole proposal twice.", C.STALE_ROUND, "asked", _twice),
        stale("flood", f"The COMPLETION {_FLOOD} times.", C.STALE_ROUND, "asked", _behind(-1, _FLOOD)),
        Case(name="fresh/too-many-discards", code=C.TOO_MANY_DISCARDS, state="asked", script=_too_many_discards,
             comment=f"{MAX_DISCARDS_IN_A_ROW} rounds in a row are wrong: each costs its round, the last the connection."),
        fault("garbage-first", "Random bytes instead of an answer.", _garbage_first, C.BAD_MAGIC, state="offered"),
        fault("garbage-later", "Random bytes instead of a proposal.", _garbage_later, C.BAD_MAGIC),
        fault("cut-row-header", "The stream ends inside a row's header.", _cut(0, 32), C.TRUNCATED),
        fault("cut-row-body", "The stream ends inside a row.", _cut(0, -4), C.TRUNCATED),
        fault("cut-completion", "The stream ends inside the COMPLETION.", _cut(-1, 70), C.TRUNCATED),
        fault("half-closed", "The worker ends its half instead of answering.", _half_closed),
        fault("vanished", "The connection breaks while a STEP is open.", _vanished),
        fault("one-byte-at-a-time", f"A proposal, its first {_BYTEWISE} bytes one by one.", _bytewise, expect=_COMMITS),
        fault("stalled-row", "Half a row, a pause, and the rest.", _stalled, expect=_COMMITS_OR_DISCARDS),
    )  # fmt: skip


# Answers that come too late.


def _valid(answerer: Answerer, step: Step) -> list[bytes]:
    frames = row_frames(answerer, step)
    return [*frames, completion_frame(answerer, step, frames)]


async def _dropped(scene: VerifierScene, step: Step, late: list[bytes]) -> Observation:
    """Send what has to be dropped; then the valid answer, which has to be committed."""
    answerer = scene.answerer
    answerer.require_code(scene.case, b"".join(late))
    await answerer.send(late)
    seen = await answerer.watch(step, scene.settle)
    if seen is not None:
        return seen
    await answerer.propose(step)
    return _went_on(await answerer.watch(step, answerer.wait), answerer)


def _went_on(seen: Observation | None, answerer: Answerer) -> Observation:
    if seen is None:
        return Observation(Outcome.HUNG, f"a valid proposal was not committed for {answerer.wait:g} s")
    if seen.outcome is Outcome.ACCEPTED and seen.fits:
        return Observation(Outcome.IGNORED, seen.detail)
    return seen


def _relabelled(fields: Fields) -> Script:
    """What answers the open round in every respect but its name."""

    async def script(scene: VerifierScene) -> Observation:
        answerer = scene.answerer
        step = await STATES[scene.case.state](answerer)
        rows = [changed(row, fields, answerer.facts) for row in row_frames(answerer, step)]
        end = changed(completion_frame(answerer, step, rows), fields, answerer.facts)
        return await _dropped(scene, step, [*rows, end])

    return script


async def _of_closed_session(scene: VerifierScene) -> Observation:
    answerer = scene.answerer

    def closed() -> list[int]:
        return [number for number in answerer.latest if number not in answerer.sessions.open]

    step = await answerer.asked(lambda _: bool(closed()))
    fields: Fields = {"header.session": closed()[-1]}
    rows = [changed(row, fields, answerer.facts) for row in row_frames(answerer, step)]
    end = changed(completion_frame(answerer, step, rows), fields, answerer.facts)
    return await _dropped(scene, step, [*rows, end])


async def _replayed(scene: VerifierScene) -> Observation:
    answerer = scene.answerer
    step = await STATES[scene.case.state](answerer)
    late = [numbered(frame, answerer.sequence + n) for n, frame in enumerate(answerer.latest[step.session])]
    return await _dropped(scene, step, late)


def _behind(place: int, times: int) -> Script:
    """A valid proposal, and one of its frames so many times behind it."""

    async def script(scene: VerifierScene) -> Observation:
        frames = await _asked(scene)
        return await _with_more(scene, frames, [frames[place]] * times)

    return script


async def _twice(scene: VerifierScene) -> Observation:
    frames = await _asked(scene)
    return await _with_more(scene, frames, frames)


async def _asked(scene: VerifierScene) -> list[bytes]:
    scene.answerer.held = await scene.answerer.asked()
    return _valid(scene.answerer, scene.answerer.held)


async def _with_more(scene: VerifierScene, frames: list[bytes], more: list[bytes]) -> Observation:
    answerer, step = scene.answerer, scene.answerer.held
    if step is None:
        raise AttackError("no round is open")
    answerer.require_legal(b"".join(frames))
    late = [numbered(frame, answerer.sequence + len(frames) + n) for n, frame in enumerate(more)]
    answerer.require_code(scene.case, b"".join(late))
    answerer.latest[step.session] = frames
    await answerer.send([*frames, *late])
    return _went_on(await answerer.watch(step, answerer.wait), answerer)


async def _too_many_discards(scene: VerifierScene) -> Observation:
    answerer = scene.answerer
    for number in range(2 * MAX_DISCARDS_IN_A_ROW):
        try:
            step = await answerer.asked()
        except Gone:
            if not number:
                raise
            return Observation(Outcome.CLOSED, f"after {number} of {MAX_DISCARDS_IN_A_ROW}", fits=False)
        rows = row_frames(answerer, step)
        rows[0] = changed(rows[0], {"header.body_checksum": 1}, answerer.facts)
        frames = [*rows, completion_frame(answerer, step, rows)]
        codes = answerer.judged(b"".join(frames))
        await answerer.send(frames)
        seen = await answerer.watch(step, answerer.timeout, hold_others=True)
        if codes[:1] == [C.TOO_MANY_DISCARDS]:
            return seen or Observation(Outcome.HUNG, f"did not close the connection for {answerer.timeout:g} s")
        if seen is None or seen.outcome is not Outcome.DISCARDED:
            outcome = Outcome.HUNG if seen is None else seen.outcome
            return Observation(outcome, f"after {number + 1} of {MAX_DISCARDS_IN_A_ROW}", fits=False)
    raise AttackError(f"{scene.case.name}: valid rounds came between")


# Networks and strangers.


def _garbage(scene: VerifierScene) -> bytes:
    return b"\xff" + hashlib.shake_256(f"pp1wire garbage {scene.seed}".encode()).digest(4095)


async def _garbage_first(scene: VerifierScene) -> Observation:
    scene.answerer.require_code(scene.case, _garbage(scene))
    await scene.answerer.channel.send(_garbage(scene))
    heard = await scene.answerer.hear(scene.answerer.timeout)
    if heard is None:
        return Observation(Outcome.HUNG, f"silent for {scene.answerer.timeout:g} s")
    return Observation(Outcome.ACCEPTED, "went on") if heard else Observation(Outcome.CLOSED)


async def _garbage_later(scene: VerifierScene) -> Observation:
    step = await scene.answerer.asked()
    scene.answerer.require_code(scene.case, _garbage(scene))
    await scene.answerer.channel.send(_garbage(scene))
    return await _reaction(scene, step)


async def _reaction(scene: VerifierScene, step: Step) -> Observation:
    seen = await scene.answerer.watch(step, scene.answerer.timeout)
    return seen or Observation(Outcome.HUNG, f"neither reset nor closed for {scene.answerer.timeout:g} s")


def _cut(place: int, keep: int) -> Script:
    """A valid proposal up to inside the frame at `place`, of which `keep` bytes are left."""

    async def script(scene: VerifierScene) -> Observation:
        answerer = scene.answerer
        step = await answerer.asked()
        frames = _valid(answerer, step)
        place_ = place % len(frames)
        data = b"".join(frames[:place_]) + frames[place_][:keep]
        answerer.require_code(scene.case, data, end=True)
        await answerer.channel.send(data)
        return await _ended(scene, step)

    return script


async def _half_closed(scene: VerifierScene) -> Observation:
    return await _ended(scene, await scene.answerer.asked())


async def _ended(scene: VerifierScene, step: Step) -> Observation:
    if not scene.answerer.channel.finish():
        return Observation(Outcome.CLOSED, "TLS has no half-closed connections: closed from here")
    return await _reaction(scene, step)


async def _vanished(scene: VerifierScene) -> Observation:
    await scene.answerer.asked()
    await scene.answerer.channel.close()
    scene.answerer.channel.closed = True
    return Observation(Outcome.CLOSED, "closed from here")


async def _bytewise(scene: VerifierScene) -> Observation:
    answerer = scene.answerer
    step = await answerer.asked()
    frames = _valid(answerer, step)
    data = b"".join(frames)
    answerer.require_legal(data)
    answerer.sequence += len(frames)
    await answerer.channel.send_bytewise(data[:_BYTEWISE])
    await answerer.channel.send(data[_BYTEWISE:])
    return await _reaction(scene, step)


async def _stalled(scene: VerifierScene) -> Observation:
    answerer = scene.answerer
    step = await answerer.asked()
    frames = _valid(answerer, step)
    data, half = b"".join(frames), len(frames[0]) // 2
    answerer.require_legal(data)
    answerer.sequence += len(frames)
    await answerer.channel.send(data[:half])
    await asyncio.sleep(min(answerer.timeout / 4, _LONGEST_STALL))
    await answerer.channel.send(data[half:])
    return await _reaction(scene, step)
