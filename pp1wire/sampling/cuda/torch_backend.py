"""The torch backend: runs wherever torch does, CPU or CUDA. Rows are [n, V], everything batched along n."""

from __future__ import annotations

import torch
from torch import Tensor

from pp1wire.sampling.allocate import MASS, MASS_BITS
from pp1wire.sampling.cuda import torch_math as arithmetic
from pp1wire.sampling.cuda.plan import StepRows, WireRows
from pp1wire.sampling.cuda.rules import Rule
from pp1wire.sampling.cuda.state import CODE_SHIFT, FINE, Fault, Outcome
from pp1wire.sampling.environment import require_subnormals
from pp1wire.sampling.errors import FlushToZeroError
from pp1wire.sampling.grid import TOLERANCE
from pp1wire.sampling.philox import Domain
from pp1wire.sampling.weights import GRID, GRID_BITS

__all__ = ["TorchBackend", "sum_bits"]

_GRAIN = 32_768  # torch gives a thread at least this many elements
_TWO = torch.tensor(2.0, dtype=torch.float64)
_INVERSE = 2.0**-MASS_BITS
_ONE_BITS = 0x3F800000


def sum_bits(entries: int) -> int:
    """Bits of the largest sum of `entries` weights, each at most 2^38; its remainders have no more."""
    return GRID_BITS + (entries - 1).bit_length()


class TorchBackend:
    """Steps, verification and row checks in torch operations; the drafting step never reads a value back."""

    name = "torch"

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._tiny = torch.empty(0, dtype=torch.float64)

    def probe(self) -> None:
        """Raise FlushToZeroError if this thread, or one of torch's pool on the CPU, flushes subnormal numbers."""
        require_subnormals(self.name)
        threads = torch.get_num_threads()
        if self.device.type != "cpu" or threads == 1:
            return
        # A pool thread keeps the flag that its creator had, whatever happened to the flag since. Large enough for torch to
        # give every thread a part; judged as bits, since a comparison of floats would itself flush.
        if self._tiny.numel() != threads * _GRAIN:
            self._tiny = torch.full((threads * _GRAIN,), 5e-324, dtype=torch.float64)
        doubled = torch.mul(self._tiny, _TWO).view(torch.int64)
        if int(doubled.count_nonzero()) != doubled.numel():
            raise FlushToZeroError(
                f"{self.name}: a thread of torch's pool flushes subnormal numbers to zero, so counts would differ between "
                "machines; expected flush-to-zero off before torch's first parallel operation"
            )

    def step(
        self,
        logits: Tensor,
        bias: Tensor | None,
        temperature: Tensor,
        keys: Tensor | None,
        offset: int,
        out: StepRows,
    ) -> None:
        """Counts of FP32 logits [n, V] (plus bias), and with keys (int64 [n, 4]) the token at `offset`, into `out`."""
        rows = logits if bias is None else logits + bias
        faults = arithmetic.scan_faults(rows)
        rows, highest = arithmetic.highest_logit(rows, faults)
        ids: Tensor | None = None
        if out.ids is not None:
            k = min(out.ids.shape[1], rows.shape[1])
            packed = arithmetic.decode_keys(arithmetic.support_keys(rows).topk(k, dim=1, sorted=False).values)
            ids = packed >> 32
            # The logit as it was, minus zero included: that makes no difference to its weight.
            rows = rows.gather(1, ids)
        weights = arithmetic.grid_exp(rows, highest, temperature[:, None])
        counts, faults = arithmetic.allocate(weights, faults, sum_bits(rows.shape[1]))
        out.faults.copy_(faults)
        if ids is not None:
            ids, counts = self._compact(ids, counts, out)
        out.counts.copy_(counts)
        if keys is not None:
            out.tokens.copy_(_owner(ids, counts, arithmetic.tickets(keys, offset)))
        if out.wire is not None:
            self._write(out.wire, out)

    def _compact(self, ids: Tensor, counts: Tensor, out: StepRows) -> tuple[Tensor, Tensor]:
        """Entries with a count first, in id order, and zeros after them, as wide as the output's columns."""
        used = counts > 0
        order = (~used).sort(dim=1, stable=True).indices
        counts = counts.gather(1, order)
        ids = ids.to(torch.int32).gather(1, order) * (counts > 0)
        spare = out.counts.shape[1] - counts.shape[1]
        if spare:
            counts, ids = (torch.nn.functional.pad(x, (0, spare)) for x in (counts, ids))
        if out.ids is not None and out.entries is not None:
            out.ids.copy_(ids)
            out.entries.copy_(used.sum(1))
        return ids, counts

    def _write(self, wire: WireRows, out: StepRows) -> None:
        wire.token.copy_(out.tokens)
        torch.mul(out.counts, _INVERSE, out=wire.q[:, : out.counts.shape[1]])
        if wire.ids is not None and out.ids is not None and out.entries is not None:
            wire.ids.copy_(out.ids)
            wire.entries.copy_(out.entries)

    def sample(self, ids: Tensor | None, counts: Tensor, tickets: Tensor) -> Tensor:
        """The owner of each ticket (int64 [n]): int64 [n]; counts int32 [n, m], ids int32 [n, m] or None if dense."""
        return _owner(ids, counts, tickets)

    def logit_target(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(grid int64 [n, V], totals, faults int64 [n]) of FP32 target logits at T = 1."""
        faults = arithmetic.scan_faults(logits)
        rows, highest = arithmetic.highest_logit(logits, faults)
        weights = arithmetic.grid_exp(rows, highest, torch.ones_like(highest))
        total = weights.sum(1, keepdim=True).clamp_(min=1).double()
        # Two exact conversions, one rounded division by a tensor, an exact scaling, half to even.
        grid = weights.double().div_(total).mul_(float(GRID)).round_().to(torch.int64)
        return self._with_totals(grid, faults)

    def probability_target(self, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(grid, totals, faults) of FP32 or FP64 probabilities [n, V]."""
        good = (p >= 0) & (p < 2)
        ids = torch.arange(p.shape[1], device=p.device)
        first = (int(Fault.VALUE) << CODE_SHIFT) + torch.where(good, (1 << MASS_BITS) + 1, ids).amin(1)
        faults = torch.where(good.all(1), FINE, first)
        grid = torch.where(good, p, 0).double().mul_(float(GRID)).round_().to(torch.int64)
        return self._with_totals(grid, faults)

    def _with_totals(self, grid: Tensor, faults: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        totals = grid.sum(1)
        wrong = (totals - GRID).abs() > TOLERANCE
        return grid, totals, torch.where(wrong & (faults == FINE), int(Fault.TOTAL) << CODE_SHIFT, faults)

    def verify(
        self,
        grid: Tensor,
        totals: Tensor,
        faults: Tensor,
        ids: Tensor | None,
        counts: Tensor,
        tokens: Tensor,
        keys: Tensor,
    ) -> Tensor:
        """Outcomes int64 [n, Outcome.WIDTH] of n chains.

        `grid` is int64 [n, depth + 1, V] with totals and faults [n, depth + 1]; q is int32 ids and counts [n, depth, m], or
        counts [n, depth, V] and no ids; tokens int32 [n, depth]; keys int64 [n, 4].
        """
        n, depth = tokens.shape
        vocabulary = grid.shape[2]
        wide = tokens.long()
        inside = (wide >= 0) & (wide < vocabulary)
        safe = torch.where(inside, wide, 0)
        if ids is None:
            q = counts.gather(2, safe[..., None])[..., 0].long()
        else:
            q = torch.where(ids == safe[..., None], counts, 0).sum(2, dtype=torch.int64)
        word = torch.minimum(faults.amin(1), self._proposal_faults(ids, counts, q, inside, vocabulary))
        positions = torch.arange(depth, device=grid.device)
        bound = (q * totals[:, :depth]).clamp_(min=1)
        draws = arithmetic.below(bound, keys[:, None].expand(n, depth, 4), positions, int(Domain.ACCEPTANCE))
        target = grid[:, :depth].gather(2, safe[..., None])[..., 0]
        accepted = (draws < (target << MASS_BITS)).long().cumprod(1).sum(1)
        bonus = accepted == depth
        chains = torch.arange(n, device=grid.device)
        row, cut = grid[chains, accepted], accepted.clamp(max=depth - 1)
        dense = (
            counts[chains, cut].long() if ids is None else _spread(ids[chains, cut], counts[chains, cut], vocabulary)
        )
        scale = torch.where(bonus, 0, totals[chains, accepted])
        left = ((row << MASS_BITS) - dense * scale[:, None]).clamp_(min=0)
        weights = torch.where(bonus[:, None], row, left)
        domains = torch.where(bonus, int(Domain.BONUS), int(Domain.CORRECTION))
        ticket = arithmetic.below(weights.sum(1).clamp_(min=1), keys, accepted, domains)
        outcome = torch.empty((n, Outcome.WIDTH), dtype=torch.int64, device=grid.device)
        columns = {
            Outcome.ACCEPTED: accepted,
            Outcome.TOKEN: (weights.cumsum(1) <= ticket[:, None]).sum(1),
            Outcome.BONUS: bonus,
            Outcome.FAULT: word,
            Outcome.SCALE: scale,
        }
        for column, values in columns.items():
            outcome[:, column] = values
        return outcome

    def _proposal_faults(
        self, ids: Tensor | None, counts: Tensor, q: Tensor, inside: Tensor, vocabulary: int
    ) -> Tensor:
        """The first fault of each proposal: a token outside, q without mass at it, a row that is no law."""
        law = (counts >= 0).all(2) & (counts.sum(2, dtype=torch.int64) == MASS)
        if ids is not None:
            before = torch.nn.functional.pad(ids[..., :-1], (1, 0), value=-1)
            law &= ((counts <= 0) | ((ids > before) & (ids >= 0) & (ids < vocabulary))).all(2)
        positions = torch.arange(q.shape[1], device=q.device)

        def word(fault: Fault, good: Tensor) -> Tensor:
            return torch.where(good, FINE, (int(fault) << CODE_SHIFT) + positions).amin(1)

        return torch.minimum(torch.minimum(word(Fault.TOKEN, inside), word(Fault.ZERO, q > 0)), word(Fault.MASS, law))

    def check(self, wire: WireRows, keys: Tensor | None, depth: int, vocabulary: int) -> tuple[Tensor, Tensor]:
        """(counts int32 [n, q entries], verdicts int32 [n]) of received rows; row i has key i // depth, position i % depth."""
        bits = wire.q.view(torch.int32)
        sane = (bits >= 0) & (bits <= _ONE_BITS)
        scaled = torch.where(sane, wire.q, 0.0).double().mul_(float(MASS))
        counts = scaled.to(torch.int32)
        exact = sane & (counts.double() == scaled)
        token = wire.token[:, None]
        lanes = torch.arange(counts.shape[1], device=counts.device)
        if wire.ids is None:
            ids, used = lanes[None], lanes[None] < vocabulary
            broken = {Rule.ORDER: wire.entries != vocabulary, Rule.BOUNDS: ((bits != 0) & ~used).any(1)}
        else:
            ids, used = wire.ids, lanes < wire.entries[:, None]
            before = torch.nn.functional.pad(ids[:, :-1], (1, 0), value=-1)
            order = used & ((counts == 0) | ((lanes > 0) & (ids <= before)))
            order |= ~used & ((ids != 0) | (bits != 0))
            fitting = (wire.entries > 0) & (wire.entries <= counts.shape[1])
            broken = {
                Rule.ORDER: order.any(1) | ~fitting,
                Rule.BOUNDS: (used & ((ids < 0) | (ids >= vocabulary))).any(1),
            }
        own = torch.where(used & (ids == token), counts, 0).sum(1, dtype=torch.int64)
        broken[Rule.VALUE] = ~exact.all(1)
        broken[Rule.MASS] = counts.sum(1, dtype=torch.int64) != MASS
        broken[Rule.TOKEN] = own == 0
        if keys is not None:
            earlier = torch.where(used & (ids < token), counts, 0).sum(1, dtype=torch.int64)
            rows = torch.arange(counts.shape[0], device=counts.device)
            ticket = arithmetic.tickets(keys[torch.div(rows, depth, rounding_mode="trunc")], rows % depth)
            broken[Rule.TICKET] = (earlier > ticket) | (ticket >= earlier + own)
        verdicts = torch.zeros_like(wire.token)
        for rule, bad in broken.items():
            verdicts = verdicts | torch.where(bad, int(rule), 0).to(torch.int32)
        return counts, verdicts


def _owner(ids: Tensor | None, counts: Tensor, tickets: Tensor) -> Tensor:
    place = (counts.cumsum(1) <= tickets[:, None]).sum(1).clamp_(max=counts.shape[1] - 1)
    return place if ids is None else ids.gather(1, place[:, None])[:, 0].long()


def _spread(ids: Tensor, counts: Tensor, vocabulary: int) -> Tensor:
    """Sparse rows [n, m] as int64 [n, V], by global id; an entry without a count goes nowhere."""
    safe = torch.where((counts > 0) & (ids >= 0) & (ids < vocabulary), ids, vocabulary).long()
    dense = torch.zeros((ids.shape[0], vocabulary + 1), dtype=torch.int64, device=ids.device)
    return dense.scatter_(1, safe, counts.long())[:, :vocabulary]
