"""Playing one case against a worker, and watching what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pp1wire.attack.asked_frames import FRAMES, STATES, new_session, step_behind
from pp1wire.attack.asking import Asker
from pp1wire.attack.case import Case
from pp1wire.attack.crafting import AttackError, changed, identity_of
from pp1wire.attack.outcomes import Observation, Outcome
from pp1wire.attack.talk import Heard
from pp1wire.errors import PP1Error
from pp1wire.protocol import agree, answer_to
from pp1wire.wire import (
    CompletionStatus,
    Frame,
    Hello,
    HelloStatus,
    MessageType,
    RejectCode,
    RemoteProtocolError,
    ResetReason,
    decode,
)
from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire.header import HEADER_BYTES

__all__ = ["Serves", "hear_reaction", "play", "valid_round", "watch"]

_GRACE = 0.05
Serves = Callable[[], Awaitable[None]]
"""Returns once the worker has served another connection in full; raises SetupError or ConnectError if it does not."""


async def play(asker: Asker, case: Case, worker: Hello, serves: Serves) -> Observation:
    """Bring the worker into the case's state, send what is wrong, and tell what came of it.

    Args:
        asker: a connection on which nothing was sent.
        case: with a frame, not with a script.
        worker: the worker's HELLO, as it was learned.
        serves: called before silence is held against the worker, so that a slow one is given its time.

    Raises:
        SetupError: the worker did not come into the state.
        AttackError: the bytes are not what the case says; nothing was sent.
    """
    await STATES[case.state](asker)
    frame = FRAMES[case.frame](asker)
    hostile = changed(frame, case.fields, asker.facts, grow=case.grow, shrink=case.shrink)
    _check_code(asker, case, hostile, worker)
    await asker.flush(case.cut(hostile))
    asker.sequence += 1
    if case.ends and not asker.channel.finish():
        return Observation(Outcome.CLOSED, "TLS has no half-closed connections: closed from here")
    if case.code is None:
        return await _control(asker, hostile)
    if case.state == "connected":
        return await _hello_outcome(asker, case, serves)
    return await watch(asker, hostile, serves)


async def valid_round(asker: Asker) -> None:
    """A short conversation: agree, open, a proposal of one token, a COMMIT, and the end. Raises SetupError."""
    await STATES["opened"](asker)
    asker.say(FRAMES["short-step"](asker))
    await asker.hear_proposal()
    asker.say(FRAMES["correction"](asker))
    asker.say(FRAMES["close"](asker))
    await asker.flush()


async def watch(asker: Asker, hostile: bytes, serves: Serves) -> Observation:
    """What a worker makes of `hostile`, the latest frame, for which it has to end the connection."""
    seen = await _patient_reaction(asker, serves)
    return seen or await _follow_up(asker, hostile, serves)


async def _patient_reaction(asker: Asker, serves: Serves) -> Observation | None:
    """As `_reaction`; another connection that was served before silence is told proves that the worker had the time."""
    seen = await _reaction(asker, asker.timeout)
    if seen is None:
        await serves()
        seen = await _reaction(asker, _GRACE)
    return seen


async def _reaction(asker: Asker, seconds: float) -> Observation | None:
    """The first thing that the worker does, besides the answers that are due; None for nothing."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        heard = await asker.hear(left)
        if heard is None:
            return None
        if not heard:
            return Observation(Outcome.CLOSED)
        for one in heard:
            if one.frame is None:
                return Observation(Outcome.BROKE, f"answered with what is no frame: {one.error}")
            if not asker.take_due(one):
                return _answer(one.frame)
    return None


def _answer(frame: Frame) -> Observation:
    message_type = frame.header.message_type
    if message_type is MessageType.COMPLETION:
        status = _status_of(frame)
        if status is not CompletionStatus.OK:
            return Observation(Outcome.DISCARDED, f"answered with COMPLETION({status.name.lower()}), and went on")
    return Observation(Outcome.ACCEPTED, f"answered with {message_type.name}")


def _status_of(frame: Frame) -> CompletionStatus:
    values = schema.COMPLETION_BODY_STRUCT.unpack_from(frame.data, HEADER_BYTES)
    specs = [spec.name for spec in schema.COMPLETION_BODY_FIELDS]
    try:
        return CompletionStatus(values[specs.index("status")])
    except ValueError:
        return CompletionStatus.INTERNAL


async def _follow_up(asker: Asker, hostile: bytes, serves: Serves) -> Observation:
    """The connection is still there: see whether the worker goes on, and as if what."""
    silence = f"silent for {asker.timeout:g} s"
    builds = hostile[6] in (MessageType.RESET, MessageType.COMMIT)
    following = _next_frame(asker, hostile)
    if following is None:
        return Observation(Outcome.HUNG, f"{silence}, and nothing can follow")
    asker.due.clear()
    await asker.flush(following)
    seen = await _patient_reaction(asker, serves)
    if seen is None:
        return Observation(Outcome.HUNG, f"{silence}, and did not answer a STEP behind it")
    if seen.outcome is Outcome.CLOSED:
        return Observation(Outcome.IGNORED, f"{silence}; closed at the next frame only")
    if builds:
        return Observation(Outcome.ACCEPTED, f"{silence}, and then answered a STEP that builds on it")
    return Observation(Outcome.IGNORED, f"{silence}, and then answered a STEP as if it had not come")


def _next_frame(asker: Asker, hostile: bytes) -> bytes | None:
    if asker.agreement is None:
        return None
    try:
        if _closes(hostile) or (asker.session is None and hostile[6] != MessageType.RESET):
            # Where one was closed, another can be opened.
            opening = changed(new_session(asker), {"header.slot": 0}, asker.facts)
            asker.sequence += 1
            return opening + step_behind(asker, opening)
        if hostile[6] in (MessageType.RESET, MessageType.COMMIT):
            return step_behind(asker, hostile)
        return FRAMES["step"](asker)
    except PP1Error:
        return None


def _closes(frame: bytes) -> bool:
    return frame[6] == MessageType.RESET and frame[HEADER_BYTES] == ResetReason.CLOSE


async def _control(asker: Asker, frame: bytes) -> Observation:
    """What follows a legal frame must be answered."""
    if frame[6] == MessageType.STEP:
        asker.due.add(identity_of(frame))
    else:
        following = step_behind(asker, frame)
        asker.require_legal(following)
        asker.due.add(identity_of(following))
        asker.sequence += 1
        await asker.flush(following)
        asker.session = asker.sessions.open[identity_of(frame)[0]]
    await asker.hear_proposal()
    return Observation(Outcome.ACCEPTED, "answered")


# HELLO.


async def hear_reaction(asker: Asker, serves: Serves) -> list[Heard] | None:
    """As `Talk.hear`; before silence is told, another connection has been served, so a slow worker has had the time."""
    heard = await asker.hear(asker.timeout)
    if heard is not None:
        return heard
    await serves()
    return await asker.hear(_GRACE)


async def _hello_outcome(asker: Asker, case: Case, serves: Serves) -> Observation:
    heard = await hear_reaction(asker, serves)
    if heard is None:
        return Observation(Outcome.HUNG, f"silent for {asker.timeout:g} s")
    if not heard:
        return Observation(Outcome.CLOSED)
    answer = _hello_in(heard[0].frame)
    if answer is None:
        return Observation(Outcome.BROKE, "answered with what is no HELLO")
    if answer.status is HelloStatus.ACCEPTED:
        return Observation(Outcome.ACCEPTED, "accepted the offer")
    reason = answer.refusal.name.lower()
    if await hear_reaction(asker, serves) is None:
        return Observation(Outcome.HUNG, f"refused for {reason}, but did not close the connection")
    expected = case.refusal
    if expected is not None and answer.refusal is not expected:
        return Observation(Outcome.REFUSED, f"for {reason} instead of {expected.name.lower()}", fits=False)
    return Observation(Outcome.REFUSED, f"for {reason}")


def _hello_in(frame: Frame | None) -> Hello | None:
    if frame is None:
        return None
    try:
        message = decode(frame.data, None)
    except RemoteProtocolError:
        return None
    return message if isinstance(message, Hello) else None


# The case's own claim, held against the judge before a byte is sent.


def _check_code(asker: Asker, case: Case, hostile: bytes, worker: Hello) -> None:
    if case.refusal is not None:
        _check_refusal(case, hostile, worker)
        return
    asker.require_code(case, case.cut(hostile), end=case.ends)


def _check_refusal(case: Case, hostile: bytes, worker: Hello) -> None:
    """An offer that is right by itself; what is wrong shows beside the worker's HELLO."""
    offer = decode(hostile, None)
    if not isinstance(offer, Hello):
        raise AttackError(f"{case.name}: not an offer")
    reason = answer_to(offer, worker).refusal
    code = _mismatch(offer, worker)
    if reason is not case.refusal or code is not case.code:
        raise AttackError(f"{case.name} cannot be played here: the offer deserves {reason.name.lower()}")


def _mismatch(offer: Hello, worker: Hello) -> RejectCode | None:
    try:
        agree(offer, worker)
    except RemoteProtocolError as error:
        return error.code
    return None
