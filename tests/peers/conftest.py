"""The peers, as installed by `make test-peers`. One that is missing fails its tests: they are not skipped."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from types import ModuleType
from typing import NoReturn

import pytest


def _missing(peer: str, error: Exception) -> NoReturn:
    pytest.fail(f"{peer} is not installed ({error}); run: make test-peers", pytrace=False)


@pytest.fixture(scope="session")
def generation() -> ModuleType:
    """transformers' module of `_speculative_sampling`. Imported here, as its import takes seconds."""
    try:
        return importlib.import_module("transformers.generation.utils")
    except ImportError as error:
        _missing("transformers", error)


@pytest.fixture(scope="session")
def reject_sampling() -> ModuleType:
    """SGLang's module of `chain_speculative_sampling_triton`, by its path: the package itself needs a GPU stack."""
    try:
        installed = importlib.metadata.distribution("sglang")
    except importlib.metadata.PackageNotFoundError as error:
        _missing("sglang", error)
    path = installed.locate_file("sglang/kernels/ops/speculative/reject_sampling.py")
    spec = importlib.util.spec_from_file_location("sglang_reject_sampling", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
