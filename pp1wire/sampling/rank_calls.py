"""Running one rank program on every rank: compare the calls first, then answer its collectives with the group's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, TypeVar

from pp1wire.sampling.collectives import Program
from pp1wire.sampling.environment import require_subnormals
from pp1wire.sampling.errors import AllocationError, FlushToZeroError, ProposalRefused, SamplingError, TargetRefused
from pp1wire.sampling.rank_group import RankGroup, RanksLost

__all__ = ["Prepared", "compare_calls", "run_call"]

Result = TypeVar("Result")
Prepared = tuple[tuple[object, ...], Program[Result]]
"""The arguments that all ranks must share, and this rank's program."""

_CALL: Final = -1  # first word of a call; votes of RankGroup.agree begin with a positive number
_KINDS: Final[tuple[type[SamplingError], ...]] = (
    SamplingError, ProposalRefused, TargetRefused, AllocationError, FlushToZeroError,
)  # fmt: skip


def run_call(group: RankGroup, call: str, prepare: Callable[[], Prepared[Result]]) -> Result:
    """The result of this rank's program, run on all ranks.

    What `prepare`, or the program before its first collective, refuses is raised on every rank. Raises RanksLost.
    """
    fault: SamplingError | None = None
    arguments: tuple[object, ...] = ()
    try:
        try:
            require_subnormals()  # here, since further on it would end this rank alone
            arguments, program = prepare()
            part = next(program)
        except SamplingError as error:
            fault = error
        compare_calls(group, call, arguments, fault)
        while True:
            part = program.send(group.combine(part))
    except StopIteration as end:
        result: Result = end.value
        return result
    except (SamplingError, RanksLost):  # the others know it: it was compared, or is a check of combined values
        raise
    except BaseException:
        group.abandon()
        raise


def compare_calls(group: RankGroup, call: str, arguments: object, fault: SamplingError | None) -> None:
    """Raise on every rank if one has a fault, and of that one's kind, or if they were called differently."""
    digest = hashlib.blake2b(repr((call, arguments)).encode(), digest_size=8).digest()
    kind = 0 if fault is None else 1 + next((i for i, k in enumerate(_KINDS) if type(fault) is k), 0)
    words = group.words(_CALL, kind, int.from_bytes(digest, "little", signed=True))
    if fault is not None:
        raise fault
    if len(set(words[:, 0].tolist())) == 1 and words[:, 1].any():
        rank = int(words[:, 1].argmax())
        raise _KINDS[int(words[rank, 1]) - 1](f"{call}: rank {rank} refused its own part")
    if len({(row[0], row[2]) for row in words.tolist()}) > 1:
        raise SamplingError(f"{call}: expected one and the same call on all {group.ranks} ranks, got different ones")
