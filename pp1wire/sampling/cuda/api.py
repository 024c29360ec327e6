"""The public names of `pp1wire.sampling` on tensors: tensors in and out, errors as the numpy backend words them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, SupportsFloat, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from pp1wire.sampling import chain as reference_chain
from pp1wire.sampling import draw, grid, verify, weights
from pp1wire.sampling.cuda import torch_math
from pp1wire.sampling.cuda.backend import DeviceBackend, key_tensor, make_backend
from pp1wire.sampling.cuda.plan import StepRows
from pp1wire.sampling.cuda.state import FINE, Outcome, raise_fault
from pp1wire.sampling.cuda.torch_backend import sum_bits
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.philox import proposal_tickets, unsigned
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.support import check_k

__all__ = ["DeviceSampler", "host"]

Row = tuple[Tensor, Tensor]
QRow = tuple[Tensor | None, Tensor]
_LONGEST_SPARSE = 4096  # beyond, looking a token up in a dense row is cheaper
_LOW_PRECISION = (torch.float16, torch.bfloat16)


def host(value: Any) -> Any:
    """A tensor as a numpy array on the host; anything else as it is."""
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


class DeviceSampler:
    """One backend, "torch" or "triton", on whatever device its tensors are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._backends: dict[torch.device, DeviceBackend] = {}

    def on(self, device: torch.device) -> DeviceBackend:
        """The backend for a device. Raises BackendUnavailable."""
        if device not in self._backends:
            self._backends[device] = make_backend(self.name, device)
        return self._backends[device]

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
        device, vocabulary = row.device, row.shape[0]
        k = min(k, vocabulary)

        def new(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        out = StepRows(
            new(1, k or vocabulary), new(1), new(1, dtype=torch.int64), new(1, k) if k else None, new(1) if k else None
        )
        backend = self.on(device)
        backend.step(row[None], None, torch.tensor([value], dtype=torch.float64, device=device), None, 0, out)
        raise_fault(int(out.faults[0]), "logits", vocabulary)
        backend.probe()
        empty = new(1, 0)
        return out.counts, empty if out.ids is None else out.ids, empty if out.entries is None else out.entries

    def counts_from_weights(self, given: Tensor, top_k: SupportsIndex | None = None) -> Row:
        """`pp1wire.sampling.counts_from_weights` of a tensor [V], float64 or float32."""
        if given.ndim != 1 or given.dtype not in (torch.float32, torch.float64) or not given.numel():
            self._explain(lambda: grid.probability_grid(_one_axis(host(given)), "weights", SamplingError))
        k = None if top_k is None else check_k(top_k)
        backend = self.on(given.device)
        given = given.contiguous()
        backend.probe()
        on_grid, _, faults = backend.probability_target(given[None])
        if int(faults[0]) != FINE:
            self._explain(lambda: grid.probability_grid(host(given), "weights", SamplingError))
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

    def logit_grid(self, logits: Tensor, name: str = "logits") -> Tensor:
        """`pp1wire.sampling.logit_grid` of a tensor [..., V]: int64 of the same shape."""
        return self._target(logits, name, probabilities=False)[0]

    def probability_grid(self, p: Tensor, name: str = "p") -> Tensor:
        """`pp1wire.sampling.probability_grid` of a tensor [..., V]: int64 of the same shape."""
        return self._target(p, name, probabilities=True)[0]

    def _target(self, target: Tensor, name: str, *, probabilities: bool) -> tuple[Tensor, Tensor, Tensor]:
        """(grid of the same shape, totals, faults all fine), or the numpy backend's error."""
        make = grid.probability_grid if probabilities else grid.logit_grid
        allowed = (torch.float32, torch.float64) if probabilities else (torch.float32, *_LOW_PRECISION)
        if target.ndim == 0 or target.dtype not in allowed or not 0 < target.shape[-1] <= weights.MAX_VOCABULARY:
            self._explain(lambda: make(host(target), name))
        if not probabilities:
            target = target.float()
        backend = self.on(target.device)
        rows = target.reshape(-1, target.shape[-1]).contiguous()
        backend.probe()
        on_grid, totals, faults = (backend.probability_target if probabilities else backend.logit_target)(rows)
        if bool((faults != FINE).any()):
            self._explain(lambda: make(host(target), name))
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
            self._explain(lambda: reference(host(target), rows, host(tokens), key))

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

    def _explain(self, call: Callable[[], object]) -> NoReturn:
        """The device found a fault: let the numpy backend say which, on the host's copy."""
        call()
        raise SamplingError(f"backend {self.name!r}: refused what the numpy backend accepts; please report this")


def _one_axis(array: Any) -> Any:
    if array.ndim != 1:
        raise SamplingError(f"weights: expected shape [V], got {array.shape}")
    return array


def _logits(logits: Tensor, axes: int, name: str, refuse: type[SamplingError]) -> Tensor:
    if not isinstance(logits, Tensor):
        raise refuse(f"{name}: expected a tensor, got {type(logits).__name__}")
    if logits.ndim != axes or not 0 < logits.numel() <= weights.MAX_VOCABULARY:
        raise refuse(f"{name}: expected shape [V] with 1 <= V <= 2^24, got {tuple(logits.shape)}")
    if logits.dtype != torch.float32 and logits.dtype not in _LOW_PRECISION:
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
