"""The messages a verifier sends, built from the state of their session; whether they are legal is judged when they are sent."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol.session import Session
from pp1wire.wire import (
    Agreement,
    Commit,
    CommitKind,
    Representation,
    Reset,
    ResetReason,
    Step,
    SupportPolicy,
    prefix_digest,
)
from pp1wire.wire.columns import IdArray, frozen_ids

__all__ = [
    "check_not_last",
    "commit_message",
    "open_message",
    "reset_message",
    "step_message",
    "token_ids",
    "unsigned",
]

LAST_U32 = 2**32 - 1


def open_message(number: int, slot: int, generation: int, ids: IdArray) -> Reset:
    """RESET(open) of a new session."""
    return Reset(
        session=number,
        slot=slot,
        generation=generation,
        reason=ResetReason.OPEN,
        position=len(ids),
        prefix_digest=prefix_digest(ids),
        prefix_ids=ids,
    )


def reset_message(session: Session, reason: ResetReason, ids: IdArray) -> Reset:
    """The RESET that begins the session's next generation with prefix `ids`, or closes it (then without ids).

    Raises:
        LocalProtocolError: the generation is the last one.
    """
    check_not_last(session.generation, "generation")
    closes = reason is ResetReason.CLOSE
    return Reset(
        session=session.number,
        slot=session.slot,
        generation=session.generation + 1,
        reason=reason,
        position=session.position if closes else len(ids),
        prefix_digest=session.prefix.digest() if closes else prefix_digest(ids),
        prefix_ids=np.zeros(0, np.int32) if closes else ids,
    )


def step_message(
    session: Session,
    agreement: Agreement,
    *,
    depth: int,
    temperature: float,
    support: int,
    proposal_seed: int,
    context_version: int,
) -> Step:
    """The STEP of the session's next round.

    Raises:
        LocalProtocolError: the round is the last one, or committing the proposal whole could exceed max_prefix.
    """
    check_not_last(session.round, "round")
    longest = session.position + depth + 1
    if longest > agreement.max_prefix:
        raise LocalProtocolError(
            f"session {session.number}: committing {depth} drafted and one more token could reach position {longest}, "
            f"above the agreed {agreement.max_prefix}; ask for a smaller depth, or close it"
        )
    dense = agreement.representation is Representation.DENSE
    return Step(
        session=session.number,
        slot=session.slot,
        generation=session.generation,
        round=session.next_round,
        position=session.position,
        depth=depth,
        support_policy=SupportPolicy.FULL if dense else SupportPolicy.TOP_K,
        temperature=temperature,
        proposal_seed=proposal_seed,
        prefix_digest=session.prefix.digest(),
        support=support,
        context_version=context_version,
    )


def commit_message(session: Session, round_: int, accepted: int, kind: CommitKind, tokens: IdArray) -> Commit:
    """The COMMIT of round `round_` that appends `tokens`."""
    return Commit(
        session=session.number,
        slot=session.slot,
        generation=session.generation,
        round=round_,
        position=session.position,
        new_position=session.position + len(tokens),
        prefix_digest=session.prefix.digest(),
        new_digest=session.prefix.digest_after(tokens),
        accepted=accepted,
        kind=kind,
        tokens=tokens,
    )


def token_ids(values: npt.ArrayLike) -> IdArray:
    """Token ids as a read-only int32 [n]. Raises LocalProtocolError."""
    # An empty list is float64 to numpy, which would read as "not integers".
    return frozen_ids(values if np.size(values) else np.zeros(0, np.int32))


def unsigned(value: SupportsIndex, bits: int, name: str) -> int:
    """`value` as an int. Raises LocalProtocolError unless it is a whole number of so many bits, whatever its type."""
    try:
        number = operator.index(value)
    except TypeError:
        raise LocalProtocolError(f"{name}: expected a whole number, got {type(value).__name__}") from None
    if not 0 <= number < 1 << bits:
        raise LocalProtocolError(f"{name}: expected 0 <= {name} < 2^{bits}, got {number}")
    return number


def check_not_last(value: int, name: str) -> None:
    """Raise LocalProtocolError if the next generation or round would wrap."""
    if value >= LAST_U32:
        raise LocalProtocolError(f"{name}: {value} is the last of 32 bits, and it never wraps")
