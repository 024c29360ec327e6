"""The Triton backend: the kernels on an NVIDIA GPU, or interpreted on the CPU by tests.

Scratch memory is made for each step, so that threads and streams may share a backend. One that is told to keep it (a chain's own)
makes it at the first step of a shape, and no later step allocates any; torch.topk and sort take theirs from torch's pool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction

from pp1wire.sampling.cuda import torch_math
from pp1wire.sampling.cuda.plan import StepRows, WireRows
from pp1wire.sampling.cuda.state import CODE_SHIFT, FINE, Fault, Outcome, State
from pp1wire.sampling.cuda.torch_backend import sum_bits
from pp1wire.sampling.cuda.triton_kernels import checks, dense, sparse, verification
from pp1wire.sampling.environment import require_subnormals
from pp1wire.sampling.errors import BackendUnavailable, SamplingError
from pp1wire.sampling.grid import TOLERANCE
from pp1wire.sampling.weights import GRID

__all__ = ["MAX_SUPPORT", "TritonBackend", "interpreted"]

MAX_SUPPORT = 8192
"""A sparse row is one program's; larger supports are refused."""
_RADIX_BITS = 11
_BINS = 1 << _RADIX_BITS
_INTERPRETED_BLOCK = 16384  # an interpreted operation costs the same at any size
_COMPILED_BLOCK = 2048
_MOST_LANES = 1 << 20  # of one Triton tensor
_INTERPRETER = threading.Lock()  # it keeps what it works on in globals of triton's


def interpreted() -> bool:
    """Whether the kernels were made for Triton's interpreter, which is decided when they are imported."""
    return isinstance(dense.scan, InterpretedFunction)


def _power(n: int, least: int = 16) -> int:
    return max(least, 1 << (n - 1).bit_length())


@dataclass(frozen=True, slots=True)
class _Scratch:
    rows: Tensor
    weights: Tensor
    keys: Tensor
    histogram: Tensor
    tied: Tensor
    sums: Tensor
    state: Tensor


class TritonBackend:
    """The same steps as `TorchBackend`, in kernels. Raises BackendUnavailable without a GPU and without the interpreter."""

    name = "triton"

    def __init__(self, device: torch.device, block: int | None = None, *, keep: bool = False) -> None:
        self.device, self._keep = device, keep
        self.interpreted = interpreted()
        if not self.interpreted and device.type != "cuda":
            raise BackendUnavailable(
                f"backend 'triton': expected tensors on a CUDA device, got {device}; without a GPU use backend 'torch'"
            )
        if block is not None and (block < 16 or block & (block - 1)):
            raise SamplingError(f"block: expected a power of two >= 16, got {block}")
        self._block = block or (_INTERPRETED_BLOCK if self.interpreted else _COMPILED_BLOCK)
        self._scratch: dict[tuple[int, int, bool], _Scratch] = {}
        start = [0] * State.WIDTH
        start[State.FAULT], start[State.HIGHEST] = FINE, -(1 << 31)
        self._start = torch.tensor(start, dtype=torch.int64, device=device)
        self._none = torch.zeros(4, dtype=torch.int64, device=device)

    def probe(self) -> None:
        """Raise FlushToZeroError if this thread flushes subnormals (interpreted kernels run in it)."""
        require_subnormals(self.name)

    def _launch(self, kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
        if self.interpreted:
            # The interpreter computes with numpy; wrapping products and underflow are meant.
            with _INTERPRETER, np.errstate(all="ignore"):
                kernel[grid](*args, **constants)
        else:
            kernel[grid](*args, **constants, enable_fp_fusion=False)

    def _blocks(self, vocabulary: int) -> tuple[int, int, int]:
        """(block, number of blocks, that number as a power of two)."""
        block = min(self._block, _power(vocabulary))
        blocks = -(-vocabulary // block)
        if _power(blocks) > _MOST_LANES:
            raise SamplingError(f"vocabulary: {vocabulary} ids make too many blocks of {block}")
        return block, blocks, _power(blocks)

    def _memory(self, n: int, vocabulary: int, sparse_rows: bool) -> _Scratch:
        found = self._scratch.get((n, vocabulary, sparse_rows))
        if found is None:
            _, blocks, _ = self._blocks(vocabulary)
            passes = -(-sum_bits(vocabulary) // _RADIX_BITS)
            whole = (0, vocabulary) if sparse_rows else (n, vocabulary)

            def new(shape: tuple[int, ...], dtype: torch.dtype = torch.int64) -> Tensor:
                return torch.empty(shape, dtype=dtype, device=self.device)

            found = _Scratch(
                new(whole, torch.float32), new(whole), new((n, vocabulary) if sparse_rows else (0, vocabulary)),
                new((n, passes, _BINS), torch.int32), new((n, blocks)), new((n, blocks)), new((n, int(State.WIDTH))),
            )  # fmt: skip
            if self._keep:
                self._scratch[n, vocabulary, sparse_rows] = found
        return found

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
        n, vocabulary = logits.shape
        if logits.stride(1) != 1:
            raise SamplingError(f"logits: expected rows of contiguous tokens, got strides {logits.stride()}")
        memory = self._memory(n, vocabulary, out.ids is not None)
        block, blocks, _ = self._blocks(vocabulary)
        memory.state.copy_(self._start.expand_as(memory.state))
        self._launch(
            dense.scan, (n, blocks), logits, logits.stride(0), logits if bias is None else bias, memory.rows, memory.keys,
            memory.state, vocabulary, HAS_BIAS=bias is not None, HAS_KEYS=out.ids is not None, BLOCK=block,
        )  # fmt: skip
        if keys is None:
            keys = self._none.expand(n, 4).contiguous()
        if out.ids is None:
            self._dense(n, vocabulary, temperature, keys, offset, out, memory)
        else:
            self._sparse(n, vocabulary, temperature, keys, offset, out, memory)
        out.faults.copy_(memory.state[:, State.FAULT])

    def _dense(
        self, n: int, vocabulary: int, temperature: Tensor, keys: Tensor, offset: int, out: StepRows, memory: _Scratch
    ) -> None:
        block, blocks, lanes = self._blocks(vocabulary)
        state, weights, histogram = memory.state, memory.weights, memory.histogram
        passes = histogram.shape[1]
        every, one = (n, blocks), (n,)
        counts, stride = out.counts, out.counts.stride(0)
        histogram.zero_()
        self._launch(dense.weigh, every, memory.rows, temperature, weights, state, vocabulary, BLOCK=block)
        shift = (passes - 1) * _RADIX_BITS
        self._launch(
            dense.divide, every, weights, counts, stride, histogram, state, vocabulary, shift, passes, BLOCK=block
        )
        for step in range(passes):
            if step:
                below = shift - step * _RADIX_BITS
                self._launch(
                    dense.digit, every, weights, histogram, state, vocabulary, below, step, passes, BLOCK=block
                )
            self._launch(dense.choose, one, histogram, state, step, passes, FIRST=step == 0)
        self._launch(dense.ties, every, weights, memory.tied, state, vocabulary, blocks, BLOCK=block)
        wire = out.wire
        q = counts if wire is None else wire.q
        self._launch(
            dense.finish, every, weights, counts, stride, q, q.stride(0), memory.tied, memory.sums, state, vocabulary,
            blocks, HAS_Q=wire is not None, BLOCKS=lanes, BLOCK=block,
        )  # fmt: skip
        token = out.tokens if wire is None else wire.token
        self._launch(
            dense.draw, one, counts, stride, memory.sums, keys, offset, keys, out.tokens, out.tokens.stride(0), token,
            token.stride(0), state, vocabulary, blocks, HAS_WIRE=wire is not None, GIVEN=False, BLOCKS=lanes, BLOCK=block,
        )  # fmt: skip

    def _sparse(
        self, n: int, vocabulary: int, temperature: Tensor, keys: Tensor, offset: int, out: StepRows, memory: _Scratch
    ) -> None:
        ids, entries = out.ids, out.entries
        if ids is None or entries is None:
            raise SamplingError("out: expected ids and entries of sparse rows, got none")
        columns = ids.shape[1]
        support = min(columns, vocabulary)
        if columns > MAX_SUPPORT:
            raise SamplingError(f"top_k: expected at most {MAX_SUPPORT} with backend 'triton', got {columns}")
        chosen = torch_math.decode_keys(memory.keys.topk(support, dim=1, sorted=False).values)
        wire = out.wire
        if wire is None or wire.ids is None:
            wire = WireRows(out.tokens, entries, ids, temperature)
        wire_ids = ids if wire.ids is None else wire.ids
        self._launch(
            sparse.sparse_row, (n,), chosen, temperature, memory.state, ids, ids.stride(0), out.counts,
            out.counts.stride(0), entries, entries.stride(0), wire_ids, wire_ids.stride(0), wire.q, wire.q.stride(0),
            wire.entries, wire.token, wire.token.stride(0), keys, offset, out.tokens, out.tokens.stride(0), support,
            columns, HAS_WIRE=out.wire is not None, BITS=sum_bits(support), WIDTH=_power(columns),
        )  # fmt: skip

    def sample(self, ids: Tensor | None, counts: Tensor, tickets: Tensor) -> Tensor:
        """The owner of each ticket (int64 [n]): int64 [n]; counts int32 [n, m], ids int32 [n, m] or None if dense."""
        n, columns = counts.shape
        counts, tickets = counts.contiguous(), tickets.contiguous()
        block, blocks, lanes = self._blocks(columns)
        padded = torch.nn.functional.pad(counts, (0, blocks * block - columns)).view(n, blocks, block)
        sums = padded.sum(2, dtype=torch.int64)
        places = torch.zeros(n, dtype=torch.int32, device=self.device)
        state = self._start.expand(n, int(State.WIDTH)).clone()
        self._launch(
            dense.draw, (n,), counts, counts.stride(0), sums, tickets, 0, tickets, places, 1, places, 1, state, columns,
            blocks, HAS_WIRE=False, GIVEN=True, BLOCKS=lanes, BLOCK=block,
        )  # fmt: skip
        return places.long() if ids is None else ids.gather(1, places[:, None].long())[:, 0].long()

    def _target(
        self, n: int, vocabulary: int, fill: Callable[[Tensor, Tensor, Tensor], None]
    ) -> tuple[Tensor, Tensor, Tensor]:
        grid = torch.empty((n, vocabulary), dtype=torch.int64, device=self.device)
        totals = torch.zeros(n, dtype=torch.int64, device=self.device)
        state = self._start.expand(n, int(State.WIDTH)).clone()
        fill(grid, totals, state)
        faults = state[:, State.FAULT]
        wrong = (totals - GRID).abs() > TOLERANCE
        return grid, totals, torch.where(wrong & (faults == FINE), int(Fault.TOTAL) << CODE_SHIFT, faults)

    def logit_target(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(grid int64 [n, V], totals, faults int64 [n]) of FP32 target logits at T = 1."""
        n, vocabulary = logits.shape
        logits = logits.contiguous()
        block, blocks, _ = self._blocks(vocabulary)
        temperature = torch.ones(n, dtype=torch.float64, device=self.device)

        def fill(grid: Tensor, totals: Tensor, state: Tensor) -> None:
            rows, weights = torch.empty_like(logits), torch.empty_like(grid)
            self._launch(
                dense.scan, (n, blocks), logits, logits.stride(0), logits, rows, grid, state, vocabulary,
                HAS_BIAS=False, HAS_KEYS=False, BLOCK=block,
            )  # fmt: skip
            self._launch(dense.weigh, (n, blocks), rows, temperature, weights, state, vocabulary, BLOCK=block)
            self._launch(verification.share, (n, blocks), weights, grid, totals, state, vocabulary, BLOCK=block)

        return self._target(n, vocabulary, fill)

    def probability_target(self, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(grid, totals, faults) of FP32 or FP64 probabilities [n, V]."""
        n, vocabulary = p.shape
        p = p.contiguous()
        block, blocks, _ = self._blocks(vocabulary)

        def fill(grid: Tensor, totals: Tensor, state: Tensor) -> None:
            self._launch(verification.probabilities, (n, blocks), p, grid, totals, state, vocabulary, BLOCK=block)

        return self._target(n, vocabulary, fill)

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
        """Outcomes int64 [n, Outcome.WIDTH] of n chains; shapes as in `TorchBackend.verify`. Reads nothing back."""
        # Kernels take rows back to back; what lies otherwise (a view of the wire's rows, say) is copied.
        grid, totals, faults, counts = (x.contiguous() for x in (grid, totals, faults, counts))
        tokens, keys = tokens.contiguous(), keys.contiguous()
        ids = None if ids is None else ids.contiguous()
        n, depth = tokens.shape
        vocabulary, columns = grid.shape[2], counts.shape[2]
        block, blocks, lanes = self._blocks(vocabulary)
        looked = counts if ids is None else ids
        words = torch.full((n * depth,), FINE, dtype=torch.int64, device=self.device)
        outcome = torch.zeros((n, int(Outcome.WIDTH)), dtype=torch.int64, device=self.device)
        stride = min(self._block, _power(columns))
        self._launch(
            verification.weigh_rows, (n * depth,), looked, counts, words, depth, vocabulary, columns,
            SPARSE=ids is not None, STEPS=-(-columns // stride), WIDTH=stride,
        )  # fmt: skip
        width = _power(columns if ids is not None else 1)
        self._launch(
            verification.judge, (n,), grid, totals, faults, words, looked, counts, tokens, keys, outcome, vocabulary,
            columns, SPARSE=ids is not None, DEPTH=depth, WIDTH=width,
        )  # fmt: skip
        q, stride, depth_stride = counts, depth * columns, columns
        if ids is not None:
            q, stride, depth_stride = torch.zeros((n, vocabulary), dtype=torch.int32, device=self.device), vocabulary, 0
            self._launch(
                verification.spread, (n,), ids, counts, outcome, q, vocabulary, columns, DEPTH=depth, WIDTH=width
            )
        weights = torch.empty((n, vocabulary), dtype=torch.int64, device=self.device)
        sums = torch.empty((n, blocks), dtype=torch.int64, device=self.device)
        self._launch(
            verification.rest, (n, blocks), grid, q, stride, depth_stride, outcome, weights, sums, vocabulary, blocks,
            DEPTH=depth, BLOCK=block,
        )  # fmt: skip
        self._launch(
            verification.pick, (n,), weights, sums, keys, outcome, vocabulary, blocks,
            DEPTH=depth, BLOCKS=lanes, BLOCK=block,
        )  # fmt: skip
        return outcome

    def check(self, wire: WireRows, keys: Tensor | None, depth: int, vocabulary: int) -> tuple[Tensor, Tensor]:
        """(counts int32 [n, q entries], verdicts int32 [n]) of received rows; row i has key i // depth, position i % depth."""
        n, columns = wire.q.shape
        bits = wire.q.view(torch.int32)
        counts = torch.empty((n, columns), dtype=torch.int32, device=self.device)
        verdicts = torch.zeros(n, dtype=torch.int32, device=self.device)
        given = self._none if keys is None else keys
        known = keys is not None
        if wire.ids is not None:
            self._launch(
                checks.check_sparse, (n,), wire.ids, wire.ids.stride(0), bits, bits.stride(0), wire.entries, wire.token,
                wire.token.stride(0), counts, verdicts, given, depth, vocabulary, columns,
                HAS_KEYS=known, WIDTH=_power(columns),
            )  # fmt: skip
            return counts, verdicts
        block, blocks, _ = self._blocks(columns)
        sums = torch.zeros((n, 3), dtype=torch.int64, device=self.device)
        self._launch(
            checks.check_dense, (n, blocks), bits, bits.stride(0), wire.token, wire.token.stride(0), counts, sums,
            verdicts, vocabulary, columns, BLOCK=block,
        )  # fmt: skip
        self._launch(
            checks.close_dense, (n,), wire.entries, wire.token, wire.token.stride(0), sums, verdicts, given, depth,
            vocabulary, HAS_KEYS=known,
        )  # fmt: skip
        return counts, verdicts
