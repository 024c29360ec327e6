"""Where the results of one step go: views of preallocated buffers, and the offsets of a wire's row.

The layout of the wire is an argument here, since the sampler knows no messages: `RowLayout` says where in a row of fixed
length the token, the entry count, the ids and q lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from pp1wire.sampling.errors import SamplingError

__all__ = ["RowLayout", "StepRows", "WireRows", "check_buffer"]

_WORD = 4


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Byte offsets inside a row of `stride` bytes, all multiples of four; dense rows have `id_entries` 0.

    Raises SamplingError for fields that overlap, leave the row, or are not aligned.
    """

    stride: int
    token_at: int
    entries_at: int
    ids_at: int
    q_at: int
    id_entries: int
    q_entries: int

    def __post_init__(self) -> None:
        fields = (
            ("token", self.token_at, _WORD),
            ("entries", self.entries_at, _WORD),
            ("ids", self.ids_at, _WORD * self.id_entries),
            ("q", self.q_at, _WORD * self.q_entries),
        )
        if self.q_entries < 1 or self.id_entries not in (0, self.q_entries):
            raise SamplingError(
                f"layout: expected q entries >= 1 and as many ids or none, got {self.q_entries} and {self.id_entries}"
            )
        if self.stride % _WORD or any(at % _WORD for _, at, _ in fields):
            raise SamplingError(f"layout: expected multiples of 4 bytes, got stride {self.stride} and {fields}")
        taken = sorted((at, at + size, name) for name, at, size in fields if size)
        for (_, end, name), (start, _, other) in pairwise(taken):
            if start < end:
                raise SamplingError(f"layout: {name} ends at byte {end}, after {other} begins at {start}")
        if taken[0][0] < 0 or taken[-1][1] > self.stride:
            raise SamplingError(f"layout: expected fields inside {self.stride} bytes, got {taken}")

    def views(self, frames: Tensor) -> WireRows:
        """The fields of all rows of `frames` (uint8 [..., stride], contiguous): views of it. Raises SamplingError."""
        if frames.dtype != torch.uint8 or frames.shape[-1] != self.stride or not frames.is_contiguous():
            raise SamplingError(
                f"frames: expected contiguous uint8 [..., {self.stride}], got {frames.dtype} {tuple(frames.shape)}"
            )
        if frames.data_ptr() % _WORD:
            raise SamplingError("frames: expected memory aligned to 4 bytes")
        words = frames.view(torch.int32)
        ids, q = self.ids_at // _WORD, self.q_at // _WORD
        return WireRows(
            words[..., self.token_at // _WORD],
            words[..., self.entries_at // _WORD],
            words[..., ids : ids + self.id_entries] if self.id_entries else None,
            frames.view(torch.float32)[..., q : q + self.q_entries],
        )


@dataclass(frozen=True, slots=True)
class WireRows:
    """Fields of rows as views of one buffer: int32 [...], int32 [...], int32 [..., k] or None if dense, float32 [..., n]."""

    token: Tensor
    entries: Tensor
    ids: Tensor | None
    q: Tensor

    def at(self, position: int) -> WireRows:
        """The rows at one position of every request, of rows [requests, depth]."""
        ids = None if self.ids is None else self.ids[:, position]
        return WireRows(self.token[:, position], self.entries[:, position], ids, self.q[:, position])


@dataclass(frozen=True, slots=True)
class StepRows:
    """What one step writes for n rows: int32 counts [n, V or k], int32 tokens [n], int64 faults [n]; if sparse, int32 ids
    [n, k] and entries [n]; and the wire's rows. The last axis is contiguous."""

    counts: Tensor
    tokens: Tensor
    faults: Tensor
    ids: Tensor | None = None
    entries: Tensor | None = None
    wire: WireRows | None = None


def check_buffer(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The tensor, refused unless shape, dtype, device and contiguity are those of the plan. Raises SamplingError."""
    if tuple(tensor.shape) != shape or tensor.dtype != dtype or tensor.device != device:
        raise SamplingError(
            f"{name}: expected {dtype} {shape} on {device}, got {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
        )
    if not tensor.is_contiguous():
        raise SamplingError(f"{name}: expected a contiguous tensor, got strides {tensor.stride()}")
    return tensor
