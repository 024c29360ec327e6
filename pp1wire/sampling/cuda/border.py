"""From numpy arrays to tensors, for endpoints whose models and messages hold arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pp1wire.sampling.cuda.api import DeviceSampler
from pp1wire.sampling.errors import ProposalRefused, SamplingError

__all__ = ["Border"]

_CPU = torch.device("cpu")


class Border:
    """Arrays become tensors where the backend of `sampler` can work on them.

    Raises BackendUnavailable if Triton has neither a CUDA device nor its interpreter, FlushToZeroError if the device flushes.
    """

    def __init__(self, sampler: DeviceSampler) -> None:
        self.device, self.interpreted = _CPU, False
        if sampler.name == "triton":
            from pp1wire.sampling.cuda.triton_backend import interpreted

            self.interpreted = interpreted()
            if not self.interpreted and torch.cuda.is_available():
                self.device = torch.device("cuda")
        sampler.on(self.device)

    def tensor(self, value: Any, name: str, refuse: type[SamplingError]) -> Tensor:
        """A tensor as it is, without its gradient; anything else as an array. Raises `refuse` for what torch has no type for."""
        if isinstance(value, Tensor):
            return value.detach()
        array = np.asarray(value)
        try:
            # torch shares the memory of an array, and takes it only if it is writable, contiguous and of native byte order.
            native = np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
            return torch.from_numpy(native).to(self.device)
        except (TypeError, ValueError):
            raise refuse(f"{name}: expected numbers that torch has a type for, got {array.dtype}") from None

    def proposal(
        self, rows: Sequence[tuple[Any, Any]], tokens: npt.NDArray[Any]
    ) -> tuple[list[tuple[Tensor | None, Tensor]], Tensor]:
        """q's rows and the drafted tokens as tensors."""
        converted = [
            (
                None if ids is None else self.tensor(ids, f"q[{i}]", ProposalRefused),
                self.tensor(counts, f"q[{i}]", ProposalRefused),
            )
            for i, (ids, counts) in enumerate(rows)
        ]
        return converted, self.tensor(tokens, "tokens", ProposalRefused)
