"""Drafting and verification for whoever holds arrays or tensors: the same calls whatever the backend, numpy arrays out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import numpy as np
import numpy.typing as npt

from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.chain import Draft, draft_chain
from pp1wire.sampling.errors import SamplingError, TargetRefused
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.verify import (
    QRow,
    Verdict,
    target_only_token,
    target_only_token_logits,
    verify_chain,
    verify_chain_logits,
)

__all__ = ["HostSampler", "is_tensor"]


def is_tensor(value: object) -> bool:
    """Whether this is a torch tensor, judged without importing torch."""
    return hasattr(value, "detach")


class HostSampler:
    """One backend behind numpy arrays. Rows may be arrays or tensors; rows, tokens and verdicts of a call are numpy's.

    Tensors are worked on where they are, arrays on the CPU, and with compiled Triton on the GPU. The numpy backend copies
    tensors to the host.

    Args:
        backend: numpy, torch or triton; the last two need the extra `cuda`.

    Raises:
        SamplingError: an unknown backend.
        BackendUnavailable: its package is not installed, or Triton has neither a CUDA device nor its interpreter.
    """

    def __init__(self, backend: str = "numpy") -> None:
        self.backend = backend
        self._border: Any = None
        self.interpreted = False
        """Whether Triton's kernels are interpreted on the CPU, which is right but slow."""
        if backend != "numpy":
            sampler = device_sampler(backend)
            # By name, so that importing the core never imports torch.
            self._border = importlib.import_module("pp1wire.sampling.cuda.border").Border(sampler)
            self.interpreted = self._border.interpreted

    def draft_chain(
        self,
        logits: Callable[[int, tuple[int, ...]], Any],
        temperature: SupportsFloat,
        key: Key,
        *,
        depth: int,
        top_k: int | None = None,
    ) -> Draft:
        """`pp1wire.sampling.draft_chain`. Raises what it raises."""

        def row(i: int, drawn: tuple[int, ...]) -> Any:
            return self._taken(logits(i, drawn), f"logits[{i}]", SamplingError)

        draft = draft_chain(row, temperature, key, depth=depth, top_k=top_k, backend=self.backend)
        if self._border is None:
            return draft
        rows = tuple((_host(ids), _host(counts)) for ids, counts in draft.rows)
        return Draft(rows, _host(draft.tokens))

    def verify_chain(
        self, target: Any, q_rows: Sequence[QRow], tokens: npt.NDArray[Any], key: Key, *, logits: bool
    ) -> Verdict:
        """`pp1wire.sampling.verify_chain`, or with `logits` `verify_chain_logits`. Raises what they raise."""
        check, name = (verify_chain_logits, "logits") if logits else (verify_chain, "p")
        taken, rows = self._taken(target, name, TargetRefused), list(q_rows)
        if self._border is not None:
            rows, tokens = self._border.proposal(rows, tokens)
        return check(taken, rows, tokens, key, self.backend)

    def target_only_token(self, row: Any, key: Key, *, logits: bool) -> int:
        """`pp1wire.sampling.target_only_token`, or with `logits` `target_only_token_logits`. Raises what they raise."""
        draw, name = (target_only_token_logits, "logits") if logits else (target_only_token, "p")
        return draw(self._taken(row, name, TargetRefused), key, self.backend)

    def _taken(self, value: Any, name: str, refuse: type[SamplingError]) -> Any:
        """What the backend computes on: a tensor, or for numpy an array."""
        if self._border is not None:
            return self._border.tensor(value, name, refuse)
        return _host(value) if is_tensor(value) else value


def _host(tensor: Any) -> npt.NDArray[Any]:
    tensor = tensor.detach()
    if str(tensor.dtype) == "torch.bfloat16":
        tensor = tensor.float()  # numpy has no such type; the conversion is exact
    array: npt.NDArray[Any] = np.asarray(tensor.cpu().numpy())
    return array
