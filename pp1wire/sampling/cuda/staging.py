"""Rows between the device and the host: preallocated buffers, pinned on CUDA, and the events that say when they are ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pp1wire.sampling.cuda.backend import key_tensor, make_backend
from pp1wire.sampling.cuda.chain import ChainSampler
from pp1wire.sampling.cuda.plan import RowLayout
from pp1wire.sampling.cuda.rules import Rule
from pp1wire.sampling.errors import ProposalRefused, SamplingError
from pp1wire.sampling.seeds import Key

__all__ = ["Inbox", "Outbox"]

Bytes = npt.NDArray[np.uint8]


def _host_buffer(shape: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.zeros(shape, dtype=torch.uint8, pin_memory=device.type == "cuda")


class _Event:
    """A point in the device's current stream; on the CPU everything has happened already."""

    def __init__(self, device: torch.device) -> None:
        new_event: Any = torch.cuda.Event
        self._event = new_event() if device.type == "cuda" else None
        self._device = device

    def record(self) -> None:
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(self._device))

    def done(self) -> bool:
        return self._event is None or bool(self._event.query())

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()


class Outbox:
    """The rows of a `ChainSampler` on the host: one copy, into memory that never moves.

    `host` is uint8 [requests, depth, stride]; each row holds what the kernels wrote, and zeros where headers and checksums go.
    """

    def __init__(self, sampler: ChainSampler) -> None:
        if sampler.frames is None:
            raise SamplingError("outbox: expected a plan with a layout, got one without")
        self._sampler, self._frames = sampler, sampler.frames
        self._host = _host_buffer(tuple(sampler.frames.shape), sampler.device)
        self._event = _Event(sampler.device)
        self.host: Bytes = self._host.numpy()

    def send(self) -> None:
        """Start the copy, behind the chain in the current stream."""
        self._host.copy_(self._frames, non_blocking=True)
        self._event.record()

    def ready(self) -> bool:
        """Whether the copy has finished."""
        return self._event.done()

    def wait(self) -> Bytes:
        """`host`, complete. Raises the chain's error if a row is faulty: then there is no proposal."""
        self._event.wait()
        self._sampler.finish()
        return self.host


class Inbox:
    """Received rows on the consumer's device, judged there before anybody may use them.

    One inbox holds one round: `receive`, then `wait` (or `ready` until true), then `release` when every consumer is done.
    `counts` is int32 [requests, depth, entries], on the device, valid between `wait` and `release`.
    """

    def __init__(
        self,
        layout: RowLayout,
        requests: int,
        depth: int,
        vocabulary: int,
        backend: str,
        device: torch.device | str = "cpu",
        block: int | None = None,
    ) -> None:
        """Raises SamplingError for a layout that cannot hold the vocabulary, BackendUnavailable."""
        if requests < 1 or depth < 1 or vocabulary < 1 or (not layout.id_entries and layout.q_entries < vocabulary):
            raise SamplingError(
                f"inbox: expected sizes >= 1 and q entries for {vocabulary} ids, got {requests}, {depth}, {layout.q_entries}"
            )
        self._device = torch.device(device)
        self._backend = make_backend(backend, self._device, block)
        self._shape, self._vocabulary = (requests, depth), vocabulary
        self._host = _host_buffer((requests * depth, layout.stride), self._device)
        self._frames = torch.zeros_like(self._host, device=self._device)
        self._wire = layout.views(self._frames)
        self._keys = torch.zeros((requests, 4), dtype=torch.int64, device=self._device)
        self._verdicts = torch.zeros(requests * depth, dtype=torch.int32, pin_memory=self._device.type == "cuda")
        self._event = _Event(self._device)
        self._held = False
        self.counts: Tensor | None = None

    @property
    def ids(self) -> Tensor | None:
        """int32 [requests, depth, k] on the device, or None if rows are dense."""
        return None if self._wire.ids is None else self._wire.ids.view(*self._shape, -1)

    @property
    def tokens(self) -> Tensor:
        """int32 [requests, depth] on the device."""
        return self._wire.token.view(self._shape)

    def receive(self, frames: bytes | bytearray | memoryview | Bytes, keys: Sequence[Key] | None = None) -> None:
        """Start the copy to the device and the checks, in the consumer's current stream; with the proposals' keys, tickets too.

        Raises SamplingError for another number of bytes or keys, and while a round is held: a consumer may still read it.
        """
        if self._held:
            raise SamplingError("inbox: expected release() of the round it holds before another is received")
        data = np.frombuffer(frames, np.uint8)
        if data.size != self._host.numel() or (keys is not None and len(keys) != self._shape[0]):
            raise SamplingError(
                f"inbox: expected {self._host.numel()} bytes and {self._shape[0]} keys, "
                f"got {data.size} and {'none' if keys is None else len(keys)}"
            )
        self._held = True
        self._host.numpy().reshape(-1)[:] = data
        self._frames.copy_(self._host, non_blocking=True)
        if keys is not None:
            self._keys.copy_(key_tensor(keys, torch.device("cpu")))
        counts, verdicts = self._backend.check(
            self._wire, self._keys if keys is not None else None, self._shape[1], self._vocabulary
        )
        self.counts = counts.view(*self._shape, -1)
        self._verdicts.copy_(verdicts, non_blocking=True)
        self._event.record()

    def ready(self) -> bool:
        """Whether copy and checks have finished; nothing may be read before."""
        return self._held and self._event.done()

    def wait(self) -> None:
        """q is ready when this returns. Raises ProposalRefused if any row breaks a rule: then the whole round is void."""
        if not self._held:
            raise SamplingError("inbox: expected receive() before wait()")
        self._event.wait()
        for row, verdict in enumerate(self._verdicts.tolist()):
            if verdict:
                request, position = divmod(row, self._shape[1])
                broken = ", ".join(str(rule.name).lower() for rule in Rule(verdict))
                raise ProposalRefused(
                    f"rows[{request}, {position}]: expected a canonical row of q, broken rules: {broken}"
                )

    def release(self) -> None:
        """The round is over for every consumer; the buffers may be overwritten."""
        self.counts, self._held = None, False
