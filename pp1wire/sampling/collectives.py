"""Rank programs: what one shard of a vocabulary computes, and where it must hear from the others.

A rank program is a generator. It yields a `Collective` whenever all ranks have to combine integers, is sent the
combined int64 array, and returns its result. Only three combinations exist, and none depends on the order of ranks:
element-wise sum, element-wise maximum, and the merge of unique keys. So every way of running them gives the same bits.
Here they run in one process; a distributed backend maps each to one call.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.weights import Int64

__all__ = ["Collective", "Combine", "Program", "run_ranks", "together"]

Result = TypeVar("Result")


class Combine(enum.Enum):
    """How the arrays of all ranks become one."""

    SUM = "sum"
    MAX = "max"
    MERGE = "merge"
    """All arrays joined and sorted; keys are unique, so the order of ranks is lost."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One rank's part of a combination: int64, of the same shape on every rank."""

    combine: Combine
    values: Int64


Program = Generator[Collective, Int64, Result]


def run_ranks(programs: Sequence[Program[Result]]) -> list[Result]:
    """Run one program a rank in lockstep, in this process; their results in rank order.

    An error of any rank is raised. Raises SamplingError if ranks ask for different combinations, or end at different
    times: in a cluster that would hang.
    """
    requests, results = _advance(programs, [None] * len(programs))
    while requests:
        _require_one(requests, len(programs), "ranks")
        requests, results = _advance(programs, [_combine(requests)] * len(programs))
    return results


def together(programs: Sequence[Program[Result]]) -> Program[list[Result]]:
    """Programs of one rank as one, their sums or maxima joined, so that n rows cost the exchanges of one.

    Raises SamplingError if they ask for different combinations or for a merge, which cannot be taken apart again.
    """
    requests, results = _advance(programs, [None] * len(programs))
    while requests:
        _require_one(requests, len(programs), "together")
        how = requests[0].combine
        if how is Combine.MERGE:
            raise SamplingError("together: expected sums or maxima, got a merge")
        combined = yield Collective(how, np.stack([part.values for part in requests]))
        requests, results = _advance(programs, list(combined))
    return results


def _require_one(requests: Sequence[Collective], programs: int, name: str) -> None:
    if len(requests) != programs or len({(part.combine, part.values.shape) for part in requests}) != 1:
        asked = ", ".join(f"{part.combine.value}{part.values.shape}" for part in requests)
        raise SamplingError(f"{name}: expected one combination from all {programs} ranks, got {asked}")


def _advance(
    programs: Sequence[Program[Result]], answers: Sequence[Int64 | None]
) -> tuple[list[Collective], list[Result]]:
    requests: list[Collective] = []
    results: list[Result] = []
    for program, answer in zip(programs, answers, strict=True):
        try:
            requests.append(next(program) if answer is None else program.send(answer.copy()))
        except StopIteration as end:
            results.append(end.value)
    return requests, results


def _combine(parts: Sequence[Collective]) -> Int64:
    values = np.stack([part.values for part in parts])
    how = parts[0].combine
    if how is Combine.MERGE:
        return np.sort(values, axis=None)
    combined: Int64 = values.sum(axis=0) if how is Combine.SUM else values.max(axis=0)
    return combined
