"""What both device backends can do, and how one is made for a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from pp1wire.sampling.cuda.plan import StepRows, WireRows
from pp1wire.sampling.cuda.torch_backend import TorchBackend
from pp1wire.sampling.errors import BackendUnavailable, FlushToZeroError, SamplingError
from pp1wire.sampling.seeds import Key

__all__ = ["DeviceBackend", "key_tensor", "make_backend"]

Target = tuple[Tensor, Tensor, Tensor]


class DeviceBackend(Protocol):
    """Shapes are in `TorchBackend`; everything is batched along the first axis."""

    name: str
    device: torch.device

    def probe(self) -> None:
        """Raise FlushToZeroError if subnormal numbers are flushed."""

    def step(
        self, logits: Tensor, bias: Tensor | None, temperature: Tensor, keys: Tensor | None, offset: int, out: StepRows
    ) -> None:
        """Counts of one row a request, and its token."""

    def sample(self, ids: Tensor | None, counts: Tensor, tickets: Tensor) -> Tensor:
        """The owners of given tickets."""

    def logit_target(self, logits: Tensor) -> Target:
        """Target logits on the grid."""

    def probability_target(self, p: Tensor) -> Target:
        """Target probabilities on the grid."""

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
        """Outcomes of whole chains."""

    def check(self, wire: WireRows, keys: Tensor | None, depth: int, vocabulary: int) -> tuple[Tensor, Tensor]:
        """Counts and verdicts of received rows."""


def make_backend(name: str, device: torch.device, block: int | None = None, *, keep: bool = False) -> DeviceBackend:
    """A backend for tensors on `device`; `block` overrides how many ids a Triton program takes.

    With `keep` the scratch memory of a shape is made once, for one user at a time.

    Raises SamplingError for another name, BackendUnavailable if triton or the device is missing, FlushToZeroError if the
    device flushes subnormal numbers.
    """
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise BackendUnavailable(f"backend {name!r}: device {device} was asked for, and torch finds no CUDA device")
        _probe_device(name, device)
    if name == "torch":
        return TorchBackend(device)
    if name != "triton":
        raise SamplingError(f"backend: expected torch or triton, got {name!r}")
    try:
        from pp1wire.sampling.cuda.triton_backend import TritonBackend
    except ImportError as error:
        raise BackendUnavailable(
            f"backend 'triton': needs the package triton, which is not installed ({error}); install pp1wire[cuda]"
        ) from None
    return TritonBackend(device, block, keep=keep)


def _probe_device(name: str, device: torch.device) -> None:
    tiny = torch.tensor([2.0**-149], dtype=torch.float32, device=device).double()
    small = torch.tensor([5e-324, 2.0**-1022], dtype=torch.float64, device=device)
    two = torch.tensor([2.0, 0.5], dtype=torch.float64, device=device)
    bits = torch.cat([tiny, small * two]).view(torch.int64)
    if not bool((bits != 0).all()):
        raise FlushToZeroError(f"{name}: {device} flushes subnormal numbers to zero; expected flush-to-zero off")


def key_tensor(keys: Sequence[Key], device: torch.device) -> Tensor:
    """Keys as int64 [n, 4]: seed (its 64 bits as a signed number), generation, round, position of the first token."""
    rows = [[key.seed - ((key.seed >> 63) << 64), key.generation, key.round, key.position] for key in keys]
    return torch.tensor(rows, dtype=torch.int64, device=device).reshape(len(rows), 4)
