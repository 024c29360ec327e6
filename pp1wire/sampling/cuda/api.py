"""The public names of `pp1wire.sampling` on tensors: tensors in and out, errors as the numpy backend words them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from pp1wire.sampling import chain as reference_chain
from pp1wire.sampling import draw, grid, weights
from pp1wire.sampling.cuda import torch_math
from pp1wire.sampling.cuda.plan import StepRows
from pp1wire.sampling.cuda.state import FINE, raise_fault
from pp1wire.sampling.cuda.torch_backend import sum_bits
from pp1wire.sampling.cuda.verifier import LOW_PRECISION, DeviceVerifier, host
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.philox import proposal_tickets, unsigned
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.support import check_k

__all__ = ["DeviceSampler"]

Row = tuple[Tensor, Tensor]


class DeviceSampler(DeviceVerifier):
    """One backend, "torch" or "triton", on whatever device its tensors are."""

    def dyadic_counts(
        self, logits: Tensor, temperature: SupportsFloat, top_k: SupportsIndex | None = None
    ) -> tuple[Tensor, Tensor]:
        """`pp1wire.sampling.dyadic_counts` of a tensor [V]: (ids int32 rising, counts int32), the non-zero counts."""
        if top_k is None:
            counts = self.dyadic_counts_dense(logits, temperature)
            ids = counts.nonzero()[:, 0]
            return ids.to(torch.int32), counts[ids]
        rows, ids, entries = self._rows(logits, temperature, top_k)
        used = int(entries[0])
        return ids[0, :used], rows[0, :used]

    def dyadic_counts_dense(self, logits: Tensor, temperature: SupportsFloat) -> Tensor:
        """`pp1wire.sampling.dyadic_counts_dense` of a tensor [V]: int32 [V]."""
        return self._rows(logits, temperature, None)[0][0]

    def count_rows(
        self, logits: Tensor, temperatures: Sequence[SupportsFloat], top_k: SupportsIndex | None = None
    ) -> tuple[Tensor | None, Tensor]:
        """The counts of rows [n, V] at once: (None, int32 [n, V]), or with `top_k` (ids, counts) int32 [n, min(k, V)].

        Sparse rows have their entries first, ids rising, and zeros after them. Raises what `dyadic_counts` raises, for the
        first bad row.
        """
        if logits.ndim != 2 or len(temperatures) != logits.shape[0] or not logits.numel():
            raise SamplingError(
                f"logits: expected [n, V] and n temperatures, got {tuple(logits.shape)} and {len(temperatures)}"
            )
        values = [weights.check_temperature(t) for t in temperatures]
        k = None if top_k is None else check_k(top_k)
        _logits(logits[0], 1, "logits", SamplingError)
        out = self._step(logits.float().contiguous(), values, k)
        for i, word in enumerate(out.faults.tolist()):
            raise_fault(word, f"logits[{i}]", logits.shape[1])
        self.on(logits.device).probe()
        return out.ids, out.counts

    def _step(self, rows: Tensor, temperatures: list[float], top_k: int | None) -> StepRows:
        n, vocabulary = rows.shape
        k = min(top_k or 0, vocabulary)

        def new(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=rows.device)

        out = StepRows(
            new(n, k or vocabulary), new(n), new(n, dtype=torch.int64), new(n, k) if k else None, new(n) if k else None
        )
        values = torch.tensor(temperatures, dtype=torch.float64, device=rows.device)
        self.on(rows.device).step(rows, None, values, None, 0, out)
        return out

    def _rows(
        self, logits: Tensor, temperature: SupportsFloat, top_k: SupportsIndex | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(counts [1, m], ids [1, k], entries [1]) of one row, refused as the numpy backend refuses it."""
        value = weights.check_temperature(temperature)
        row = _logits(logits, 1, "logits", SamplingError)
        try:
            k = 0 if top_k is None else check_k(top_k)
        except SamplingError:
            weights.logit_row(host(row))  # what is wrong with the row comes first
            raise
        out = self._step(row[None], [value], k or None)
        raise_fault(int(out.faults[0]), "logits", row.shape[0])
        self.on(row.device).probe()
        empty = torch.zeros((1, 0), dtype=torch.int32, device=row.device)
        return out.counts, empty if out.ids is None else out.ids, empty if out.entries is None else out.entries

    def counts_from_weights(self, given: Tensor, top_k: SupportsIndex | None = None) -> Row:
        """`pp1wire.sampling.counts_from_weights` of a tensor [V], float64 or float32."""
        if given.ndim != 1 or given.dtype not in (torch.float32, torch.float64) or not given.numel():
            self.explain(lambda: grid.probability_grid(_one_axis(host(given)), "weights", SamplingError))
        k = None if top_k is None else check_k(top_k)
        backend = self.on(given.device)
        given = given.contiguous()
        backend.probe()
        on_grid, _, faults = backend.probability_target(given[None])
        if int(faults[0]) != FINE:
            self.explain(lambda: grid.probability_grid(host(given), "weights", SamplingError))
        ids = torch.arange(given.numel(), device=given.device)
        if k is not None:
            chosen = given.sort(descending=True, stable=True).indices[:k]
            ids = chosen[given[chosen] > 0].sort().values
        faults = torch.full((1,), FINE, dtype=torch.int64, device=given.device)
        counts, faults = torch_math.allocate(on_grid[:, ids].clone(), faults, sum_bits(ids.numel()))
        raise_fault(int(faults[0]), "weights", given.numel())
        kept = counts[0].nonzero()[:, 0]
        return ids[kept].to(torch.int32), counts[0, kept]

    def sample(self, ids: Tensor, counts: Tensor, ticket: SupportsIndex) -> int:
        """`pp1wire.sampling.sample` of tensors [n]."""
        number = torch.tensor([unsigned(ticket, 24, "ticket")], device=counts.device)
        _check_row(ids, counts)
        owner = self.on(counts.device).sample(ids[None].int(), counts[None].int().contiguous(), number)
        return int(owner[0])

    def draft_chain(
        self,
        logits: Tensor | Callable[[int, tuple[int, ...]], Tensor],
        temperature: SupportsFloat,
        key: Key,
        *,
        depth: int | None = None,
        bias: Callable[[int], Tensor] | None = None,
        previous: SupportsIndex | None = None,
        top_k: SupportsIndex | None = None,
    ) -> tuple[list[Row], Tensor]:
        """`pp1wire.sampling.draft_chain` with tensors: rows (ids, counts) and int32 tokens [depth].

        Every token is read back before the next row; `ChainSampler` draws without that.
        """
        fixed = reference_chain.fixed_depth(logits, depth)
        if bias is not None and previous is None:
            raise SamplingError("previous: expected the last committed token, since there is a bias, got None")
        last = 0 if previous is None else int(previous)
        key.span(fixed)
        tickets = proposal_tickets(key.seed, key.generation, key.round, key.position + np.arange(fixed, dtype=np.int64))
        rows: list[Row] = []
        tokens: list[int] = []
        for i in range(fixed):
            row = logits(i, tuple(tokens)) if callable(logits) else logits[i]
            if bias is not None:
                row = _biased(row, bias(last), i)
            rows.append(self.dyadic_counts(row, temperature, top_k))
            last = self.sample(*rows[-1], int(tickets[i]))
            tokens.append(last)
        return rows, torch.tensor(tokens, dtype=torch.int32)


def _one_axis(array: Any) -> Any:
    if array.ndim != 1:
        raise SamplingError(f"weights: expected shape [V], got {array.shape}")
    return array


def _logits(logits: Tensor, axes: int, name: str, refuse: type[SamplingError]) -> Tensor:
    if not isinstance(logits, Tensor):
        raise refuse(f"{name}: expected a tensor, got {type(logits).__name__}")
    if logits.ndim != axes or not 0 < logits.numel() <= weights.MAX_VOCABULARY:
        raise refuse(f"{name}: expected shape [V] with 1 <= V <= 2^24, got {tuple(logits.shape)}")
    if logits.dtype != torch.float32 and logits.dtype not in LOW_PRECISION:
        raise refuse(f"{name}: expected float32 (or float16, bfloat16), got {str(logits.dtype).removeprefix('torch.')}")
    return logits.float().contiguous()


def _biased(row: Tensor, bias: Tensor, i: int) -> Tensor:
    if row.dtype != torch.float32 or bias.dtype != torch.float32 or row.shape != bias.shape:
        raise SamplingError(
            f"logits[{i}]: expected float32 logits and bias of one shape, "
            f"got {row.dtype} {tuple(row.shape)} and {bias.dtype} {tuple(bias.shape)}"
        )
    return row + bias


def _check_row(ids: Tensor, counts: Tensor) -> None:
    """Refuse what `draw.check_row` refuses; the checks run where the tensors are."""
    fits = ids.ndim == 1 and ids.shape == counts.shape and ids.numel() > 0
    if fits and not ids.is_floating_point() and not counts.is_floating_point():
        good = (ids[:1] >= 0).all() & (ids[1:] > ids[:-1]).all() & (counts >= 0).all() & (counts <= 1 << 24).all()
        if bool(good & (counts.sum(dtype=torch.int64) == 1 << 24)):
            return
    draw.check_row(host(ids), host(counts))
