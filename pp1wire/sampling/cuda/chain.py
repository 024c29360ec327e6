"""Drafting on the device: chains of fixed depth for several requests at once, drawn in order, without a read-back.

All shapes are fixed by a plan and all buffers made once. `run` only launches work, so on CUDA it can be captured in a graph
and replayed; faults are words beside the rows, read when the chain is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

import torch
from torch import Tensor

from pp1wire.sampling.cuda.backend import key_tensor, make_backend
from pp1wire.sampling.cuda.plan import RowLayout, StepRows, WireRows, check_buffer
from pp1wire.sampling.cuda.state import FINE, raise_fault
from pp1wire.sampling.errors import BackendUnavailable, SamplingError
from pp1wire.sampling.seeds import Key
from pp1wire.sampling.support import check_k
from pp1wire.sampling.weights import MAX_VOCABULARY, check_temperature

__all__ = ["BiasTable", "ChainPlan", "ChainSampler", "DeviceBias", "LowRankBias"]

DeviceBias = Callable[[Tensor], Tensor]
"""Markov bias on the device: int64 tokens [n] -> float32 [n, V], without a read-back."""
_MAX_DEPTH = 255


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """Shapes of a chain, fixed: requests, depth, vocabulary, support (None for all of it), and the wire's row if any.

    Raises SamplingError for sizes out of range, or a layout whose columns do not fit the rows: a sparse one must have
    `top_k` entries, a dense one at least the vocabulary.
    """

    requests: int
    depth: int
    vocabulary: int
    top_k: int | None = None
    layout: RowLayout | None = None

    def __post_init__(self) -> None:
        for name, value, most in (
            ("requests", self.requests, 1 << 16),
            ("depth", self.depth, _MAX_DEPTH),
            ("vocabulary", self.vocabulary, MAX_VOCABULARY),
        ):
            if not 1 <= value <= most:
                raise SamplingError(f"{name}: expected 1 to {most}, got {value}")
        if self.top_k is not None:
            check_k(self.top_k)
        if self.layout is not None:
            entries = (self.layout.id_entries, self.layout.q_entries)
            fits = (
                entries == (self.top_k, self.top_k) if self.top_k else not entries[0] and entries[1] >= self.vocabulary
            )
            if not fits:
                raise SamplingError(
                    f"layout: expected columns for {self.top_k or self.vocabulary} entries, got {entries[0]} ids, {entries[1]} q"
                )

    @property
    def columns(self) -> int:
        """Length of a row of counts."""
        return self.top_k or self.vocabulary


class BiasTable:
    """A Markov bias as a table float32 [V, V]: row x is added to the logits after token x."""

    def __init__(self, table: Tensor) -> None:
        if table.ndim != 2 or table.shape[0] != table.shape[1] or table.dtype != torch.float32:
            raise SamplingError(f"bias: expected float32 [V, V], got {table.dtype} {tuple(table.shape)}")
        self._table = table

    def __call__(self, tokens: Tensor) -> Tensor:
        """float32 [n, V] for int64 tokens [n]."""
        return self._table.index_select(0, tokens)


class LowRankBias:
    """A Markov bias of low rank, W1[x] · W2, as `pp1wire.sampling.LowRankBias`: w1 float32 [V, r], w2 float32 [r, V].

    The bits of the product are the machine's own. That changes the proposal, never the output law.
    """

    def __init__(self, w1: Tensor, w2: Tensor) -> None:
        if w1.ndim != 2 or w2.ndim != 2 or w1.shape[1] != w2.shape[0] or w1.shape[0] != w2.shape[1]:
            raise SamplingError(f"bias: expected w1 [V, r] and w2 [r, V], got {tuple(w1.shape)} and {tuple(w2.shape)}")
        if w1.dtype != torch.float32 or w2.dtype != torch.float32:
            raise SamplingError(f"bias: expected float32, got {w1.dtype} and {w2.dtype}")
        self._w1, self._w2 = w1, w2

    def __call__(self, tokens: Tensor) -> Tensor:
        """float32 [n, V] for int64 tokens [n]."""
        return self._w1.index_select(0, tokens) @ self._w2


class ChainSampler:
    """Draws chains of one plan, again and again, in buffers that never move.

    Inputs, to be filled through `load` or by the draft model itself: `logits` float32 [requests, depth, V]; `temperature`
    float64 [requests]; `keys` int64 [requests, 4]; `previous` int64 [requests], the last committed tokens.
    Outputs: `tokens` int32 [requests, depth]; `counts` int32 [requests, depth, k or V]; `ids` and `entries` if sparse;
    `frames` uint8 [requests, depth, stride] if the plan has a layout, with token, entry count, ids and q in place and zeros
    elsewhere.
    """

    def __init__(
        self,
        plan: ChainPlan,
        backend: str,
        device: torch.device | str = "cpu",
        bias: DeviceBias | None = None,
        block: int | None = None,
    ) -> None:
        """Raises BackendUnavailable without the package or device, SamplingError for a plan the backend cannot run."""
        self.plan, self._bias = plan, bias
        self.backend = make_backend(backend, torch.device(device), block, keep=True)
        # The device with its index, as every tensor on it reports it.
        self.device = torch.empty(0, device=device).device
        n, depth, columns = plan.requests, plan.depth, plan.columns
        self.logits = self._new((n, depth, plan.vocabulary), torch.float32)
        self.temperature = self._new((n,), torch.float64).fill_(1.0)
        self.keys = self._new((n, 4), torch.int64)
        self.previous = self._new((n,), torch.int64)
        self.tokens = self._new((n, depth))
        self.counts = self._new((n, depth, columns))
        self.faults = self._new((n, depth), torch.int64).fill_(FINE)
        self.ids = self._new((n, depth, columns)) if plan.top_k else None
        self.entries = self._new((n, depth)) if plan.top_k else None
        self.frames: Tensor | None = None
        self._wire: WireRows | None = None
        if plan.layout is not None:
            self.frames = self._new((n, depth, plan.layout.stride), torch.uint8)
            self._wire = plan.layout.views(self.frames)
            if plan.top_k is None:
                self._wire.entries.fill_(plan.vocabulary)
        self._graph: torch.cuda.CUDAGraph | None = None

    def _new(self, shape: tuple[int, ...], dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def load(
        self,
        temperatures: Sequence[SupportsFloat],
        keys: Sequence[Key],
        logits: Tensor | None = None,
        previous: Sequence[int] | None = None,
    ) -> None:
        """Fill the inputs. Raises SamplingError for anything that does not fit the plan; then nothing has changed."""
        plan = self.plan
        if len(temperatures) != plan.requests or len(keys) != plan.requests:
            raise SamplingError(
                f"inputs: expected {plan.requests} temperatures and keys, got {len(temperatures)} and {len(keys)}"
            )
        values = [check_temperature(t) for t in temperatures]
        for key in keys:
            key.span(plan.depth)
        if (self._bias is not None) != (previous is not None):
            raise SamplingError(
                f"previous: expected the last committed tokens if and only if there is a bias, got {previous}"
            )
        fits = previous is None or (
            len(previous) == plan.requests and all(0 <= token < plan.vocabulary for token in previous)
        )
        if not fits:
            raise SamplingError(f"previous: expected {plan.requests} tokens below {plan.vocabulary}, got {previous}")
        if logits is not None:
            check_buffer("logits", logits, (plan.requests, plan.depth, plan.vocabulary), torch.float32, self.device)
            self.logits.copy_(logits)
        if previous is not None:
            self.previous.copy_(torch.tensor(previous, dtype=torch.int64))
        self.temperature.copy_(torch.tensor(values, dtype=torch.float64))
        self.keys.copy_(key_tensor(keys, torch.device("cpu")))

    def run(self) -> None:
        """Draw all chains: depth steps, each for every request, in order. Only launches work; reads nothing back."""
        if self.device.type == "cpu":
            self.backend.probe()
        last = self.previous
        for i in range(self.plan.depth):
            bias = None
            if self._bias is not None:
                shape = (self.plan.requests, self.plan.vocabulary)
                bias = check_buffer("bias", self._bias(last), shape, torch.float32, self.device)
            self.backend.step(self.logits[:, i], bias, self.temperature, self.keys, i, self._out(i))
            last = self.tokens[:, i].long()

    def _out(self, i: int) -> StepRows:
        return StepRows(
            self.counts[:, i],
            self.tokens[:, i],
            self.faults[:, i],
            None if self.ids is None else self.ids[:, i],
            None if self.entries is None else self.entries[:, i],
            None if self._wire is None else self._wire.at(i),
        )

    def capture(self) -> None:
        """Capture `run` in a CUDA graph that `replay` launches. Raises BackendUnavailable without a CUDA device."""
        if self.device.type != "cuda":
            raise BackendUnavailable(f"graph: expected a plan on a CUDA device, got {self.device}")
        new_stream: Any = torch.cuda.Stream
        side = new_stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):  # compiles the kernels and warms torch's pool
                self.run()
        torch.cuda.current_stream(self.device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self.run()

    def replay(self) -> None:
        """Draw all chains by the captured graph, from whatever the inputs hold now. Raises SamplingError without one."""
        if self._graph is None:
            raise SamplingError("graph: expected capture() before replay()")
        self._graph.replay()

    def errors(self) -> list[SamplingError | None]:
        """For each request, the error of its first faulty row, or None. Waits for the device."""
        found: list[SamplingError | None] = []
        for request, words in enumerate(self.faults.tolist()):
            found.append(None)
            for i, word in enumerate(words):
                try:
                    raise_fault(word, f"logits[{request}, {i}]", self.plan.vocabulary)
                except SamplingError as error:
                    found[-1] = error
                    break
        return found

    def finish(self) -> None:
        """Wait, and raise the first error of any request; a faulty chain must not be sent."""
        for error in self.errors():
            if error is not None:
                raise error
