"""What a case is: a state, a frame that would be right in it, one thing that is wrong with it, and what has to come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pp1wire.attack.crafting import Facts, Value
from pp1wire.attack.outcomes import Observation, Outcome
from pp1wire.wire import RefusalReason, RejectCode, Representation

__all__ = ["CLOSES", "NEEDS", "Case", "unmet"]

CLOSES = frozenset({Outcome.CLOSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case.

    Attributes:
        name: unique within its end.
        comment: what is wrong, in one sentence for people.
        code: the rule that is broken; the judge of this package must say so of the bytes before they are sent.
        expect: every outcome that is right.
        state: what is brought about first.
        frame: which legal frame, or part of a proposal, is changed.
        fields, grow, shrink: the change, as `crafting.changed` takes it.
        also: codes that the bytes may get instead, where it depends on the agreement.
        keep: how many bytes of the frame are sent, as a number, or below 1 as a share; None for all.
        extra: bytes that follow the frame.
        ends: whether the stream ends behind it.
        order: of a proposal's rows, by place; None for the right one. Numbers from the depth on are rows too many.
        refusal: the reason that a worker must give for refusing.
        representation: which one must be agreed; None for any.
        needs: conditions of `NEEDS`.
        script: how the case is played, if it is more than one changed frame.
    """

    name: str
    comment: str
    code: RejectCode | None
    expect: frozenset[Outcome] = CLOSES
    state: str = ""
    frame: str = ""
    fields: Mapping[str, Value] = field(default_factory=dict)
    grow: bytes = b""
    shrink: int = 0
    also: tuple[RejectCode, ...] = ()
    keep: float | None = None
    extra: bytes = b""
    ends: bool = False
    order: tuple[int, ...] | None = None
    refusal: RefusalReason | None = None
    representation: Representation | None = None
    needs: tuple[str, ...] = ()
    script: Callable[[Any], Awaitable[Observation]] | None = None

    def cut(self, frame: bytes) -> bytes:
        """The bytes of `frame` that are sent."""
        if self.keep is None:
            return frame + self.extra
        # A share of a frame is below 1, a number of bytes is not.
        return frame[: int(self.keep if self.keep >= 1 else self.keep * len(frame))]


NEEDS: Mapping[str, tuple[Callable[[Facts], bool], str]] = {
    "padding": (lambda f: f.hello.padded_vocab_size > f.hello.vocab_size, "the vocabulary has no padding"),
    "two ids": (lambda f: f.hello.vocab_size >= 2, "the vocabulary has one id"),
    "four ids": (lambda f: f.hello.vocab_size >= 4, "the vocabulary has fewer than four ids"),
    "two slots": (lambda f: f.agreed.max_slots >= 2, "one slot is agreed"),
    "slots to spare": (lambda f: f.agreed.max_slots < 4, "all slots that a frame can name are agreed"),
    "two deep": (lambda f: f.agreed.max_depth >= 2, "depth 1 is agreed"),
    "depth to spare": (lambda f: f.agreed.max_depth < 5, "the greatest depth of the protocol is agreed"),
    "three candidates": (
        lambda f: not f.agreed.id_entries or f.agreed.max_support >= 3,
        "fewer than three candidates are agreed",
    ),
    "room in a row": (lambda f: f.agreed.max_support >= 4, "fewer than four candidates are agreed"),
}
"""What a case needs of the connection: whether it is so, and what to say if it is not."""


def unmet(case: Case, facts: Facts) -> str | None:
    """Why `case` cannot be played on this connection; None if it can."""
    if case.representation is not None and facts.agreement is not None:
        agreed = facts.agreement.representation
        if agreed is not case.representation:
            return f"{agreed.name.lower()} rows are agreed"
    for name in case.needs:
        if name in NEEDS and not NEEDS[name][0](facts):
            return NEEDS[name][1]
    return None
