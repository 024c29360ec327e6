"""Which code computes: numpy here, or torch and Triton in `pp1wire.sampling.cuda`, loaded at the first call that names them."""

from __future__ import annotations

import importlib
from typing import Any

from pp1wire.sampling.errors import SamplingError

__all__ = ["BACKENDS", "device_sampler"]

BACKENDS = ("numpy", "torch", "triton")


def device_sampler(backend: str) -> Any:
    """The public functions on tensors (`pp1wire.sampling.cuda.api.DeviceSampler`), for "torch" or "triton".

    Typed Any because its types are torch's. Raises SamplingError for an unknown name, BackendUnavailable if the package that
    it needs is not installed.
    """
    if backend not in BACKENDS[1:]:
        raise SamplingError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}")
    # By name, so that importing the core never imports torch.
    return importlib.import_module("pp1wire.sampling.cuda").load(backend)
