"""transformers' `_speculative_sampling` with laws and coins of our choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from types import ModuleType
from typing import Any
from unittest import mock

import numpy.typing as npt
import torch
from torch import Tensor

from tests.peers.cases import TICKS, Chain


class Logits:
    """Stands for logits: its softmax is the given law, exactly."""

    def __init__(self, law: Tensor) -> None:
        self._law = law
        self.shape = law.shape

    def softmax(self, dim: int) -> Tensor:
        return self._law


class TorchWithCoins:
    """torch, but for its two sources of randomness. Without `last`, the final draw is torch's own."""

    def __init__(self, coins: Sequence[float], last: int | None) -> None:
        self._coins = coins
        if last is not None:
            self.multinomial = lambda weights, num_samples: torch.tensor([[_first_above(weights[0].tolist(), last)]])

    def rand_like(self, like: Tensor) -> Tensor:
        return torch.tensor(self._coins, dtype=like.dtype).reshape(like.shape)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _first_above(weights: list[float], last: int) -> int:
    """The first id whose running weight exceeds (2·last + 1)/2^25 of the total. The doubles are added as exact integers."""
    whole = [int(math.ldexp(weight, 120)) for weight in weights]
    border = (2 * last + 1) * sum(whole)
    return next(token for token, running in enumerate(accumulate(whole)) if running * 2 * TICKS > border)


def speculative_sampling(
    generation: ModuleType,
    p: npt.ArrayLike,
    q: npt.ArrayLike,
    tokens: Sequence[int],
    coins: Sequence[float],
    last: int | None,
) -> list[int]:
    """The tokens that come out: p [depth + 1, V] and q [depth, V] in FP64, coins for acceptance, a tick for the last draw."""
    laws = [torch.tensor(law, dtype=torch.float64)[None] for law in (q, p)]
    ids = torch.tensor([list(tokens)])
    with mock.patch.object(generation, "torch", TorchWithCoins(coins, last)):
        emitted, matches = generation._speculative_sampling(ids, Logits(laws[0]), len(tokens), Logits(laws[1]))
    assert emitted.shape == (1, int(matches) + 1)
    return emitted[0].tolist()


def transformers_tokens(generation: ModuleType, chain: Chain) -> list[int]:
    """The tokens of a valid chain."""
    coins = [(2 * tick + 1) / (2 * TICKS) for tick in chain.ticks]
    return speculative_sampling(
        generation, chain.target / TICKS, chain.draft / TICKS, chain.tokens.tolist(), coins, chain.last
    )
