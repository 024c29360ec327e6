"""What a verifier may send, by name: states that a worker is brought into, and the frame that is legal next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pp1wire.attack.asking import PROMPT_IDS, Asker
from pp1wire.attack.crafting import changed, header_of, ids_of
from pp1wire.protocol.compose import commit_message, open_message, reset_message, step_message
from pp1wire.protocol.tables import SessionState
from pp1wire.wire import (
    Agreement,
    CommitKind,
    Completion,
    CompletionStatus,
    MessageType,
    Reply,
    Representation,
    ResetReason,
    Step,
    SupportPolicy,
    encode,
    prefix_digest,
)

__all__ = ["FRAMES", "STATES", "new_session", "step_behind"]

LAST_U32 = 2**32 - 1


def _opening(asker: Asker, number: int = 1, slot: int = 0, generation: int = 1, length: int = PROMPT_IDS) -> bytes:
    return asker.encoded(open_message(number, slot, generation, asker.prompt(length)))


def new_session(asker: Asker) -> bytes:
    """RESET(open) of the next session, in the next slot that there is."""
    return _opening(asker, asker.sessions.last + 1, _free_slot(asker))


def _free_slot(asker: Asker) -> int:
    slots = asker.sessions.slots
    return next((slot for slot in reversed(range(len(slots))) if slots[slot] is None), 0)


def _reset(reason: ResetReason) -> Callable[[Asker], bytes]:
    def frame(asker: Asker) -> bytes:
        session = asker.open_session
        return asker.encoded(reset_message(session, reason, session.prefix.ids()))

    return frame


def _step(asker: Asker, depth: int | None = None) -> bytes:
    session = asker.session
    if session is None:
        return asker.encoded(_step_template(asker, ()))
    return asker.encoded(
        step_message(
            session, asker.agreed, depth=depth or asker.agreed.max_depth, temperature=1.0, support=_support(asker),
            proposal_seed=asker.seed, context_version=0,
        )
    )  # fmt: skip


def _step_template(asker: Asker, ids: npt.ArrayLike) -> Step:
    return Step(
        session=1, slot=0, generation=1, round=1, position=0, depth=1, support_policy=_policy(asker), temperature=1.0,
        proposal_seed=asker.seed, prefix_digest=prefix_digest(ids), support=_support(asker), context_version=0,
    )  # fmt: skip


def step_behind(asker: Asker, frame: bytes) -> bytes:
    """The STEP that would come next if the worker had taken `frame`, a RESET or a COMMIT, as it is."""
    header, ids = header_of(frame), ids_of(frame)
    following = header["round"] + 1
    if frame[6] == MessageType.COMMIT:
        ids = np.concatenate([asker.open_session.prefix.ids(), ids])
    else:
        following = 1
    fields = {f"header.{name}": header[name] for name in ("session", "slot", "generation")}
    fields |= {"header.round": following, "position": len(ids)}
    return changed(asker.encoded(_step_template(asker, ids)), fields, asker.facts)


def _policy(asker: Asker) -> SupportPolicy:
    return SupportPolicy.FULL if asker.agreed.representation is Representation.DENSE else SupportPolicy.TOP_K


def _support(asker: Asker) -> int:
    return 0 if asker.agreed.representation is Representation.DENSE else asker.agreed.max_support


def _commit(
    kind: CommitKind, accepted: Callable[[int], int], extra: int, *, other: bool = False
) -> Callable[[Asker], bytes]:
    """A COMMIT of the open round, or of a fresh one. `accepted` is told the depth; `extra` ids follow the accepted ones."""

    def frame(asker: Asker) -> bytes:
        session = asker.open_session
        is_open = session.state in (SessionState.DRAFTING, SessionState.READY)
        depth = session.latest.step.depth if is_open else 0
        drafted = session.latest.tokens if is_open else []
        count = accepted(depth)
        tokens = [*drafted[:count], *[0] * (count - len(drafted[:count])), *[0] * extra]
        if other:
            tokens[0] = (tokens[0] + 1) % asker.hello.vocab_size
        round_ = session.round if is_open else session.next_round
        return asker.encoded(commit_message(session, round_, count, kind, np.array(tokens, np.int32)))

    return frame


def _again(name: str) -> Callable[[Asker], bytes]:
    """The latest frame of that name once more, numbered as the next one."""

    def frame(asker: Asker) -> bytes:
        return changed(asker.said[name], {"header.sequence": asker.sequence}, asker.facts)

    return frame


def _reply(asker: Asker) -> bytes:
    step = asker.open_session.latest.step
    vocabulary, dense = asker.hello.vocab_size, asker.agreed.representation is Representation.DENSE
    q = np.zeros(vocabulary if dense else 1, np.float32)
    q[0] = 1.0
    return asker.encoded(
        Reply(
            session=step.session, slot=step.slot, generation=step.generation, round=step.round, position=step.position,
            token=0, ids=np.zeros(0 if dense else 1, np.int32), q=q,
        )
    )  # fmt: skip


def _completion(asker: Asker) -> bytes:
    step = asker.open_session.latest.step
    return asker.encoded(
        Completion(
            session=step.session, slot=step.slot, generation=step.generation, round=step.round, position=step.position,
            context_version=0, reply_bytes=0, rows_checksum=bytes(16), status=CompletionStatus.CANCELLED, rows=0,
        )
    )  # fmt: skip


def _unagreed(asker: Asker) -> bytes:
    """A RESET as one could send it that knows no agreement."""
    hello = asker.hello
    none = Agreement(0, Representation.SPARSE, hello.vocab_size, hello.padded_vocab_size, 1, 1, 1, hello.max_prefix)
    return encode(open_message(1, 0, 1, asker.prompt()), none, asker.sequence)


FRAMES: Mapping[str, Callable[[Asker], bytes]] = {
    "hello": lambda asker: encode(asker.hello, None, 0),
    "hello-again": lambda asker: changed(encode(asker.hello, None, 0), {"header.sequence": asker.sequence}, asker.facts),
    "open": _opening,
    "open-full": lambda asker: _opening(asker, length=asker.agreed.max_prefix),
    "open-second": new_session,
    "open-unagreed": _unagreed,
    "fault": _reset(ResetReason.FAULT),
    "cancel": _reset(ResetReason.CANCEL),
    "close": _reset(ResetReason.CLOSE),
    "step": _step,
    "short-step": lambda asker: _step(asker, 1),
    "step-again": _again("step"),
    "correction": _commit(CommitKind.CORRECTION, lambda _: 0, 1),
    "end": _commit(CommitKind.NONE, lambda _: 1, 0),
    "target-only": _commit(CommitKind.TARGET_ONLY, lambda _: 0, 1),
    "correction-of-none": _commit(CommitKind.CORRECTION, lambda depth: depth, 1),
    "early-bonus": _commit(CommitKind.BONUS, lambda depth: depth - 1, 1),
    "over-depth": _commit(CommitKind.CORRECTION, lambda depth: depth + 1, 1),
    "other-tokens": _commit(CommitKind.BONUS, lambda depth: depth, 1, other=True),
    "guess": _commit(CommitKind.BONUS, lambda depth: depth, 1),
    "commit-again": _again("correction"),
    "reply": _reply,
    "completion": _completion,
}  # fmt: skip


def _then(*names: str) -> Callable[[Asker], Awaitable[None]]:
    """Agree, then say these frames; `!` waits for the proposal that is due."""

    async def bring(asker: Asker) -> None:
        await asker.agree()
        for name in names:
            if name == "!":
                await asker.hear_proposal()
            else:
                asker.say(FRAMES[name](asker), name)

    return bring


async def _nothing(_: Asker) -> None:
    return


def _opened(**how: int) -> Callable[[Asker], Awaitable[None]]:
    async def bring(asker: Asker) -> None:
        await asker.agree()
        asker.say(_opening(asker, **how))

    return bring


_ROUND: Sequence[str] = ("open", "step", "!")

STATES: Mapping[str, Callable[[Asker], Awaitable[None]]] = {
    "connected": _nothing,
    "agreed": _then(),
    "opened": _then("open"),
    "opened at the last": _opened(generation=LAST_U32),
    "opened as the fifth": _opened(number=5),
    "opened in full": _then("open-full"),
    "asked": _then("open", "step"),
    "proposed": _then(*_ROUND),
    "committed": _then(*_ROUND, "correction"),
    "stopped": _then(*_ROUND, "end"),
    "cancelled": _then("open", "cancel"),
    "abandoned": _then("open", "step", "cancel"),
    "closed": _then("open", "close"),
}
