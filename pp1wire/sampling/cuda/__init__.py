"""The exact sampler on torch tensors: a torch backend (CPU or CUDA) and a Triton backend. Extra `cuda`.

Importing this package imports neither torch nor triton; `load` and the names below do, and say what is missing. The counts,
tokens and verdicts are those of the numpy backend, bit for bit.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pp1wire.sampling.errors import BackendUnavailable

if TYPE_CHECKING:
    from pp1wire.sampling.cuda.api import DeviceSampler
    from pp1wire.sampling.cuda.chain import BiasTable, ChainPlan, ChainSampler, LowRankBias
    from pp1wire.sampling.cuda.plan import RowLayout
    from pp1wire.sampling.cuda.rules import Rule
    from pp1wire.sampling.cuda.staging import Inbox, Outbox

__all__ = [
    "BiasTable",
    "ChainPlan",
    "ChainSampler",
    "DeviceSampler",
    "Inbox",
    "LowRankBias",
    "Outbox",
    "RowLayout",
    "Rule",
    "load",
]

_HOMES = {
    "BiasTable": "chain",
    "ChainPlan": "chain",
    "ChainSampler": "chain",
    "DeviceSampler": "api",
    "Inbox": "staging",
    "LowRankBias": "chain",
    "Outbox": "staging",
    "RowLayout": "plan",
    "Rule": "rules",
}


def _require(package: str, backend: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise BackendUnavailable(
            f"backend {backend!r}: needs the package {package}, which is not installed ({error}); install pp1wire[cuda]"
        ) from None


@lru_cache(maxsize=2)
def load(backend: str) -> DeviceSampler:
    """The public names of `pp1wire.sampling` on tensors, for "torch" or "triton".

    Raises BackendUnavailable if torch or triton is not installed. A missing device is found at the first call.
    """
    _require("torch", backend)
    if backend == "triton":
        _require("triton", backend)
    from pp1wire.sampling.cuda.api import DeviceSampler

    return DeviceSampler(backend)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "Rule":
        _require("torch", "torch")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
