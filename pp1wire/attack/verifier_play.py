"""Playing one case against a verifier, and watching what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pp1wire.attack.answering import Answerer
from pp1wire.attack.case import Case
from pp1wire.attack.crafting import AttackError, changed, identity_of, numbered
from pp1wire.attack.outcomes import Observation, Outcome
from pp1wire.attack.proposals import completion_frame, law, row_frames
from pp1wire.wire import (
    Agreement,
    Completion,
    CompletionStatus,
    Representation,
    Step,
    encode,
)

__all__ = ["STATES", "Unfit", "play", "play_hello", "proposal", "valid_round"]


class Unfit(AttackError):
    """What the verifier asked for does not allow the case."""


STEP_NEEDS: Mapping[str, tuple[Callable[[Answerer, Step], bool], str]] = {
    "two rows": (lambda _, step: step.depth >= 2, "the verifier asked for one row"),
    "two entries": (lambda a, step: _entries(a, step) >= 2, "the verifier's STEP and vocabulary allow one entry"),
    "three entries": (lambda a, step: _entries(a, step) >= 3, "the verifier's STEP and vocabulary allow two entries"),
    "an unused entry": (lambda a, step: a.agreed.max_support > _entries(a, step), "every entry of a row is in use"),
    "a narrow STEP": (
        lambda a, step: 1 <= step.support < min(a.agreed.max_support, a.agreed.vocab_size - 1),
        "the verifier asks for as many candidates as were agreed",
    ),
    "a prefix": (lambda _, step: step.position >= 1, "the verifier's prefix is empty"),
}


def _entries(answerer: Answerer, step: Step) -> int:
    return len(law(answerer.agreed, step)[0])


# STEPs that a case waits for.


async def _any_step(answerer: Answerer) -> Step:
    return await answerer.asked()


async def _second_round(answerer: Answerer) -> Step:
    # One whose generation committed a proposal before, so that there is something to replay.
    def replayable(step: Step) -> bool:
        before = answerer.latest.get(step.session)
        return before is not None and identity_of(before[0])[:2] == (step.session, step.generation)

    return await answerer.asked(replayable)


async def _second_generation(answerer: Answerer) -> Step:
    return await answerer.asked(lambda step: step.generation >= 2, fail_others=True)


STATES = {"asked": _any_step, "second round": _second_round, "second generation": _second_generation}


async def play(answerer: Answerer, case: Case) -> Observation:
    """Wait for the STEP that the case needs, answer it with what is wrong, and tell what came of it.

    Raises:
        Gone, Silent, Broke: there was no such STEP.
        Unfit: the STEP does not allow the case; it was answered validly.
        AttackError: the bytes are not what the case says; nothing was sent.
    """
    step = await STATES[case.state](answerer)
    reason = next((why for name in case.needs for ok, why in _conditions(name) if not ok(answerer, step)), None)
    if reason is not None:
        await answerer.propose(step)
        raise Unfit(reason)
    frames = proposal(answerer, case, step)
    answerer.require_code(case, b"".join(frames))
    await answerer.send(frames)
    seen = await answerer.watch(step, answerer.timeout)
    return seen or Observation(Outcome.HUNG, f"neither reset nor committed, nor closed, for {answerer.timeout:g} s")


async def play_hello(answerer: Answerer, case: Case, representation: Representation) -> Observation:
    """Answer the offer with what is wrong."""
    answer = encode(answerer.answer(representation), None, 0)
    frame = _HELLOS[case.frame](answerer, answer)
    hostile = changed(frame, case.fields, answerer.facts, grow=case.grow, shrink=case.shrink)
    data = case.cut(hostile)
    answerer.require_code(case, data, end=case.ends)
    await answerer.channel.send(data)
    answerer.sequence += 1
    if case.ends and not answerer.channel.finish():
        return Observation(Outcome.CLOSED, "TLS has no half-closed connections: closed from here")
    heard = await answerer.hear(answerer.timeout)
    if heard is None:
        return Observation(Outcome.HUNG, f"silent for {answerer.timeout:g} s")
    return Observation(Outcome.ACCEPTED, "went on") if heard else Observation(Outcome.CLOSED)


async def valid_round(answerer: Answerer) -> Observation:
    """One round that must be committed. Raises Gone, Silent or Broke if there is none to answer."""
    step = await answerer.asked()
    await answerer.propose(step)
    seen = await answerer.watch(step, answerer.wait)
    return seen or Observation(Outcome.HUNG, f"a valid proposal was not committed for {answerer.wait:g} s")


def proposal(answerer: Answerer, case: Case, step: Step) -> list[bytes]:
    """The whole answer to `step`, with the case's one thing wrong, and the COMPLETION of the rows as they are sent."""
    facts, first = answerer.facts, answerer.sequence
    if case.frame in _INSTEAD:
        return [changed(_INSTEAD[case.frame](answerer, step), case.fields, facts)]
    wide = step.support + 1 if case.frame == "wide row" else None
    order = range(step.depth) if case.order is None else [i for i in case.order if i <= step.depth]
    made = row_frames(answerer, step, max(order, default=-1) + 1, wide)
    rows = [numbered(made[place], first + n) for n, place in enumerate(order)]
    if case.frame in ("rows", "proposal"):
        rows = [changed(row, case.fields, facts) for row in rows]
    elif case.frame == "row":
        rows[0] = changed(rows[0], case.fields, facts, grow=case.grow, shrink=case.shrink)
    end = completion_frame(answerer, step, rows)
    if case.frame == "completion":
        end = changed(end, case.fields, facts, grow=case.grow, shrink=case.shrink)
    elif case.frame == "proposal":
        end = changed(end, case.fields, facts)
    return [*rows, end]


def _conditions(name: str) -> list[tuple[Callable[[Answerer, Step], bool], str]]:
    return [STEP_NEEDS[name]] if name in STEP_NEEDS else []


def _early_completion(answerer: Answerer, _: bytes) -> bytes:
    none = Agreement(0, Representation.SPARSE, answerer.hello.vocab_size, answerer.hello.padded_vocab_size, 1, 1, 1, 1)
    message = Completion(
        session=1, slot=0, generation=1, round=1, position=0, context_version=0, reply_bytes=0, rows_checksum=bytes(16),
        status=CompletionStatus.CANCELLED, rows=0,
    )  # fmt: skip
    return encode(message, none, 0)


def _offer_again(answerer: Answerer, _: bytes) -> bytes:
    return encode(answerer.offered, None, 0)


_HELLOS: Mapping[str, Callable[[Answerer, bytes], bytes]] = {
    "hello": lambda _, answer: answer,
    "hello with the offer's nonce": lambda a, answer: changed(answer, {"nonce": a.offered.nonce}, a.facts),
    "offer": _offer_again,
    "completion without an agreement": _early_completion,
}
"""What can be sent instead of an answer."""

_INSTEAD: Mapping[str, Callable[[Answerer, Step], bytes]] = {
    "hello": lambda a, _: numbered(encode(a.hello, None, 0), a.sequence),
    "step": lambda a, step: encode(step, a.agreed, a.sequence),
}
"""What can be sent instead of a proposal."""
