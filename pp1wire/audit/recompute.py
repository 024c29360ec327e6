"""Recomputes one row of q and its token from draft logits, bit for bit, and finds the first difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp1wire.sampling import GRID_BITS, MASS, HostSampler, Key
from pp1wire.sampling.support import largest
from pp1wire.sampling.weights import integer_weights, logit_row
from pp1wire.wire import Step

__all__ = ["Difference", "compare_row"]

Row = tuple[npt.NDArray[Any], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a row is not what its logits make it.

    Attributes:
        id: token id; None where only the drawn token differs.
        expected, actual: counts out of 2^24, 0 for an id that is not in the row; or the tokens.
        weight: exp((logit − max)/T)·2^38 of that id, rounded to the integer that counts are made from; 0 outside the support.
        total: ΣU of those weights over the support.
        ids: how many ids differ.
    """

    id: int | None
    expected: int
    actual: int
    weight: int = 0
    total: int = 0
    ids: int = 0

    @property
    def message(self) -> str:
        """One line."""
        if self.id is None:
            return f"token: the logits and the ticket give {self.expected}, the row has {self.actual}"
        share = self.weight * MASS / self.total if self.total else 0.0
        more = f"; {self.ids} ids differ" if self.ids > 1 else ""
        return (
            f"id {self.id}: the logits give count {self.expected}, the row has {self.actual}; "
            f"its weight is {self.weight}·2^-{GRID_BITS}, {share:.6f} counts of 2^24 before rounding{more}"
        )


def compare_row(
    logits: npt.NDArray[Any], step: Step, index: int, row: Row, token: int, sampler: HostSampler
) -> Difference | None:
    """Row `index` of a round against its logits [V].

    Args:
        logits: float32, −inf for masked tokens.
        step: gives temperature, support and the ticket.
        index: within the round.
        row: (ids, counts) as sent, positive counts only.
        token: as sent.
        sampler: what recomputes.

    Raises:
        SamplingError: the logits are no law, or the backend fails.
    """
    key = Key(step.proposal_seed, step.generation, step.round, step.position + index)
    draft = sampler.draft_chain(lambda _, __: logits, step.temperature, key, depth=1, top_k=step.support or None)
    ids, counts = draft.rows[0]
    sent_ids, sent_counts = row
    if not (np.array_equal(ids, sent_ids) and np.array_equal(counts, sent_counts)):
        every = np.union1d(ids, sent_ids)
        expected, actual = _spread(every, ids, counts), _spread(every, sent_ids, sent_counts)
        places = np.flatnonzero(expected != actual)
        first = int(places[0])
        weight, total = _weight(logits, step, int(every[first]))
        return Difference(int(every[first]), int(expected[first]), int(actual[first]), weight, total, len(places))
    drawn = int(draft.tokens[0])
    return None if drawn == token else Difference(None, drawn, token)


def _spread(every: npt.NDArray[Any], ids: npt.NDArray[Any], counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    spread = np.zeros(len(every), np.int64)
    spread[np.searchsorted(every, ids)] = counts
    return spread


def _weight(logits: npt.NDArray[Any], step: Step, token: int) -> tuple[int, int]:
    """The integer weight of an id, and their sum over the support."""
    row, highest = logit_row(logits)
    support = largest(row, step.support) if step.support else np.arange(row.size)
    places, weights = integer_weights(row[support], highest, step.temperature)
    ids = support if places is None else support[places]
    return int(weights[ids == token].sum()), int(weights.sum())
