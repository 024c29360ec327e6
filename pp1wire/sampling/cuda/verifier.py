"""Verification on tensors: grids, verdicts and target-only tokens, with the numpy backend's errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from pp1wire.sampling import grid, verify, weights
from pp1wire.sampling.batch import BatchVerdict, verify_batch
from pp1wire.sampling.cuda import torch_math
from pp1wire.sampling.cuda.backend import DeviceBackend, key_tensor, make_backend
from pp1wire.sampling.cuda.state import FINE, Outcome
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.philox import Domain
from pp1wire.sampling.seeds import Key

__all__ = ["LOW_PRECISION", "DeviceVerifier", "host"]

QRow = tuple[Tensor | None, Tensor]
_LONGEST_SPARSE = 4096  # beyond, looking a token up in a dense row is cheaper
LOW_PRECISION = (torch.float16, torch.bfloat16)


def host(value: Any) -> Any:
    """A tensor as a numpy array on the host; anything else as it is."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


class DeviceVerifier:
    """The verifier's functions of one backend, "torch" or "triton", on whatever device its tensors are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._backends: dict[torch.device, DeviceBackend] = {}

    def on(self, device: torch.device) -> DeviceBackend:
        """The backend for a device. Raises BackendUnavailable."""
        if device not in self._backends:
            self._backends[device] = make_backend(self.name, device)
        return self._backends[device]

    def explain(self, call: Callable[[], object]) -> NoReturn:
        """The device found a fault: let the numpy backend say which, on the host's copy."""
        call()
        raise SamplingError(f"backend {self.name!r}: refused what the numpy backend accepts; please report this")

    def logit_grid(self, logits: Tensor, name: str = "logits") -> Tensor:
        """`pp1wire.sampling.logit_grid` of a tensor [..., V]: int64 of the same shape."""
        return self._target(logits, name, probabilities=False)[0]

    def probability_grid(self, p: Tensor, name: str = "p") -> Tensor:
        """`pp1wire.sampling.probability_grid` of a tensor [..., V]: int64 of the same shape."""
        return self._target(p, name, probabilities=True)[0]

    def _target(self, target: Tensor, name: str, *, probabilities: bool) -> tuple[Tensor, Tensor, Tensor]:
        """(grid of the same shape, totals, faults all fine), or the numpy backend's error."""
        make = grid.probability_grid if probabilities else grid.logit_grid
        allowed = (torch.float32, torch.float64) if probabilities else (torch.float32, *LOW_PRECISION)
        if target.ndim == 0 or target.dtype not in allowed or not 0 < target.shape[-1] <= weights.MAX_VOCABULARY:
            self.explain(lambda: make(host(target), name))
        if not probabilities:
            target = target.float()
        backend = self.on(target.device)
        rows = target.reshape(-1, target.shape[-1]).contiguous()
        backend.probe()
        on_grid, totals, faults = (backend.probability_target if probabilities else backend.logit_target)(rows)
        if bool((faults != FINE).any()):
            self.explain(lambda: make(host(target), name))
        shape = target.shape[:-1]
        return on_grid.view(target.shape), totals.view(shape), faults.view(shape)

    def verify_chain(
        self, p: Tensor, q_rows: Sequence[QRow], tokens: Sequence[int] | Tensor, key: Key
    ) -> verify.Verdict:
        """`pp1wire.sampling.verify_chain` with tensors for p and q's rows."""
        return self._verify(p, q_rows, tokens, key, "p", verify.verify_chain)

    def verify_chain_logits(
        self, logits: Tensor, q_rows: Sequence[QRow], tokens: Sequence[int] | Tensor, key: Key
    ) -> verify.Verdict:
        """`pp1wire.sampling.verify_chain_logits` with tensors for the logits and q's rows."""
        return self._verify(logits, q_rows, tokens, key, "logits", verify.verify_chain_logits)

    def verify_batch(
        self,
        on_grid: Tensor,
        counts: Tensor,
        tokens: Tensor,
        seed: Any,
        generation: Any,
        round_: Any,
        position: Any,
    ) -> BatchVerdict:
        """`pp1wire.sampling.verify_batch` with tensors for grid, counts and tokens; the verdict's arrays are tensors."""

        def refuse() -> NoReturn:
            self.explain(
                lambda: verify_batch(
                    host(on_grid),
                    host(counts),
                    host(tokens),
                    host(seed),
                    host(generation),
                    host(round_),
                    host(position),
                )
            )

        n, depth = tokens.shape if tokens.ndim == 2 else (0, 0)
        shapes = (n, depth + 1, on_grid.shape[-1]), (n, depth, on_grid.shape[-1])
        if depth < 1 or (tuple(on_grid.shape), tuple(counts.shape)) != shapes:
            refuse()
        parts = [np.broadcast_to(np.asarray(host(x)), (n,)) for x in (seed, generation, round_, position)]
        keys = [Key(*(int(part[i]) for part in parts)) for i in range(n)]
        for key in keys:
            key.span(depth)
        fine = torch.full((n, depth + 1), FINE, dtype=torch.int64, device=on_grid.device)
        outcome = self.on(on_grid.device).verify(
            on_grid, on_grid.sum(2), fine, None, counts.to(torch.int32), tokens.to(torch.int32),
            key_tensor(keys, on_grid.device),
        )  # fmt: skip
        if bool((outcome[:, Outcome.FAULT] != FINE).any()):
            refuse()
        columns: Any = (outcome[:, Outcome.ACCEPTED], outcome[:, Outcome.TOKEN], outcome[:, Outcome.BONUS] != 0)
        return BatchVerdict(*columns)

    def target_only_token(self, p_row: Tensor, key: Key) -> int:
        """`pp1wire.sampling.target_only_token` of a tensor [V]."""
        return self._target_only(p_row, key, "p", verify.target_only_token)

    def target_only_token_logits(self, logits: Tensor, key: Key) -> int:
        """`pp1wire.sampling.target_only_token_logits` of a tensor [V]."""
        return self._target_only(logits, key, "logits", verify.target_only_token_logits)

    def _target_only(self, row: Tensor, key: Key, name: str, reference: Callable[..., int]) -> int:
        if row.ndim != 1:
            self.explain(lambda: reference(host(row), key))
        on_grid, totals, _ = self._target(row, name, probabilities=name == "p")
        keys = key_tensor([key], row.device)
        ticket = torch_math.below(totals.view(1), keys, 0, int(Domain.TARGET_ONLY))
        return int((on_grid.cumsum(0) <= ticket).sum())

    def _verify(
        self,
        target: Tensor,
        q_rows: Sequence[QRow],
        tokens: Sequence[int] | Tensor,
        key: Key,
        name: str,
        reference: Callable[..., verify.Verdict],
    ) -> verify.Verdict:
        def refuse() -> NoReturn:
            rows = [(host(ids), host(counts)) for ids, counts in q_rows]
            self.explain(lambda: reference(host(target), rows, host(tokens), key))

        drawn = torch.as_tensor(tokens)
        if target.ndim != 2 or drawn.ndim != 1 or drawn.is_floating_point() or not _rows_fit(q_rows, drawn, target):
            refuse()
        on_grid, totals, faults = self._target(target, name, probabilities=name == "p")
        key.span(drawn.numel())
        ids, counts = _stack(q_rows, target)
        outcome = self.on(target.device).verify(
            on_grid[None], totals[None], faults[None], ids, counts,
            drawn.to(torch.int32)[None].to(target.device), key_tensor([key], target.device),
        )[0].tolist()  # fmt: skip
        if outcome[Outcome.FAULT] < FINE:
            refuse()
        kind = verify.VerdictKind.BONUS if outcome[Outcome.BONUS] else verify.VerdictKind.CORRECTION
        return verify.Verdict(outcome[Outcome.ACCEPTED], outcome[Outcome.TOKEN], kind)


def _rows_fit(q_rows: Sequence[QRow], drawn: Tensor, target: Tensor) -> bool:
    depth, vocabulary = target.shape[0] - 1, target.shape[1]
    if depth < 1 or len(q_rows) != depth or drawn.numel() != depth:
        return False
    for ids, counts in q_rows:
        if counts.is_floating_point() or counts.ndim != 1 or not counts.numel():
            return False
        if counts.numel() != vocabulary if ids is None else ids.is_floating_point() or ids.shape != counts.shape:
            return False
        if bool((counts < 0).any() | (counts > 1 << 24).any()):
            return False
        if ids is not None and not bool((ids[:1] >= 0).all() & (ids[1:] > ids[:-1]).all() & (ids[-1] < vocabulary)):
            return False
    return True


def _stack(q_rows: Sequence[QRow], target: Tensor) -> tuple[Tensor | None, Tensor]:
    """Rows of any lengths as one batch of one chain: int32 [1, depth, longest], or dense if any row is."""
    depth, vocabulary, device = len(q_rows), target.shape[1], target.device
    longest = max(counts.numel() for _, counts in q_rows)
    dense = longest > _LONGEST_SPARSE or any(ids is None for ids, _ in q_rows)
    width = vocabulary if dense else longest
    all_counts = torch.zeros((1, depth, width), dtype=torch.int32, device=device)
    all_ids = torch.zeros_like(all_counts)
    for i, (ids, counts) in enumerate(q_rows):
        if dense:
            all_counts[0, i, slice(None) if ids is None else ids.long()] = counts.to(device, torch.int32)
        elif ids is not None:
            all_ids[0, i, : ids.numel()] = ids.to(device, torch.int32)
            all_counts[0, i, : counts.numel()] = counts.to(device, torch.int32)
    return (None if dense else all_ids), all_counts
