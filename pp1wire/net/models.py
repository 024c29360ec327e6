"""What users implement: the draft model of a worker and the target model of a verifier.

Both are asked with the tokens themselves, never with a history of events: a model may keep what it likes from call to call
(a key/value cache, say) as long as its answer is a function of the arguments. After a rejection or a reset the next call simply
has another prefix. One request's state is used by one thread at a time; those of different requests run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

__all__ = [
    "DraftModel",
    "DraftState",
    "LogitTarget",
    "ProbabilityTarget",
    "TargetModel",
    "TargetState",
    "Tokens",
]

Tokens: TypeAlias = npt.NDArray[np.int32]
"""Token ids, int32 [n], read-only."""


class DraftState(Protocol):
    """One request's draft."""

    def logits(self, prefix: Tokens, drafted: Sequence[int], /) -> Any:
        """Draft logits of the token that follows `prefix` and then `drafted`: float32 [V], −inf for masked tokens; an array or
        a torch tensor, whatever the backend.

        `drafted` grows by one token a call within a round, from none; the server draws the tokens and applies the temperature.
        Raise CapacityError if there is no room; anything else that is raised is a model error.
        """
        ...


class DraftModel(Protocol):
    """A draft model."""

    def open(self, capacity: int, /) -> DraftState:
        """State for a request of at most `capacity` tokens, drafted ones included. May raise as `DraftState.logits`."""
        ...


@runtime_checkable
class LogitTarget(Protocol):
    """One request's target, by logits."""

    def logits(self, prefix: Tokens, drafted: Tokens, /) -> Any:
        """Target logits, float32 [len(drafted) + 1, V], after all processors, penalties, grammar and temperature.

        Row i is of the token that follows `prefix` and the first i of `drafted`. An array or a torch tensor.
        """
        ...


@runtime_checkable
class ProbabilityTarget(Protocol):
    """One request's target, by probabilities."""

    def probabilities(self, prefix: Tokens, drafted: Tokens, /) -> Any:
        """Target probabilities, float64 or float32 [len(drafted) + 1, V]; rows as for `LogitTarget`."""
        ...


TargetState: TypeAlias = LogitTarget | ProbabilityTarget
"""Whichever of the two methods it has."""


class TargetModel(Protocol):
    """A target model."""

    def open(self, capacity: int, /) -> TargetState:
        """State for a request of at most `capacity` tokens, drafted ones included."""
        ...
