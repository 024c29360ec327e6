"""SGLang's `chain_speculative_sampling_triton`, interpreted on the CPU, with laws and coins of our choice."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import numpy.typing as npt
import torch

from tests.peers.cases import TICKS, Chain


def chain_sampling(
    kernels: ModuleType,
    p: npt.ArrayLike,
    q: npt.ArrayLike,
    tokens: npt.ArrayLike,
    coins: npt.ArrayLike,
    last: npt.ArrayLike,
    dtype: torch.dtype = torch.float64,
) -> list[list[int]]:
    """The tokens that come out of n chains: p [n, depth + 1, V], q [n, depth, V], tokens and coins [n, depth], last [n]."""
    target, draft, uniform, final = (torch.tensor(np.asarray(array), dtype=dtype) for array in (p, q, coins, last))
    drafted = torch.tensor(np.asarray(tokens))
    n, slots = drafted.shape[0], drafted.shape[1] + 1
    candidates = torch.zeros(
        (n, slots), dtype=torch.int64
    )  # slot 0 is the last committed token, which is not looked at
    candidates[:, 1:] = drafted
    places = torch.arange(n * slots).reshape(n, slots)
    predicts = torch.full((n * slots,), -7, dtype=torch.int32)
    accept_index = torch.full((n, slots), -1, dtype=torch.int32)
    accepted = torch.zeros(n, dtype=torch.int32)
    unused = torch.full((n, slots), -1)
    kernels.chain_speculative_sampling_triton(
        predicts,
        accept_index,
        accepted,
        candidates,
        places,
        unused,
        unused,
        uniform,
        final,
        target,
        draft,
        1.0,
        1.0,
        True,
    )
    return [predicts[accept_index[i, : int(accepted[i]) + 1].long()].tolist() for i in range(n)]


def sglang_tokens(kernels: ModuleType, chains: Sequence[Chain], dtype: torch.dtype = torch.float64) -> list[list[int]]:
    """The tokens of valid chains of one depth and vocabulary, in one launch."""
    return chain_sampling(
        kernels,
        np.stack([chain.target for chain in chains]) / TICKS,
        np.stack([chain.draft for chain in chains]) / TICKS,
        np.stack([chain.tokens for chain in chains]),
        (2 * np.array([chain.ticks for chain in chains]) + 1) / (2 * TICKS),
        (2 * np.array([chain.last for chain in chains]) + 1) / (2 * TICKS),
        dtype,
    )
