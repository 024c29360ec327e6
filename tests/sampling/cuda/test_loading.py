"""What is missing is named, with the extra that brings it; the core imports neither torch nor triton."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton

from pp1wire.sampling import BackendUnavailable, SamplingError, cuda
from pp1wire.sampling.backends import device_sampler
from pp1wire.sampling.cuda.backend import make_backend

SOURCES = sorted(Path(cuda.__file__).parent.rglob("*.py"))


def run(code, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | variables
    child = subprocess.run(
        [sys.executable, "-O", "-c", code], capture_output=True, text=True, timeout=100, check=True, env=environment
    )
    return child.stdout.strip()


def test_torch_and_triton_are_the_pinned_ones():
    """A CI without them fails here; nothing in this folder is skipped."""
    assert torch.__version__.split("+")[0] == "2.13.0"
    assert triton.__version__ == "3.6.0"


def test_import_brings_neither_torch_nor_triton():
    code = "import sys, pp1wire.sampling.cuda; print(sorted({'torch', 'triton'} & set(sys.modules)))"
    assert run(code) == "[]"


HIDE = """
import sys
class Hide:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
import numpy as np, pp1wire.sampling as s
try:
    s.dyadic_counts(np.zeros(2, np.float32), 1.0, backend="{backend}")
except s.BackendUnavailable as error:
    print(error)
"""


def hidden(package, backend, after=""):
    return run(HIDE.format(hidden={package}, backend=backend) + after).splitlines()


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_missing_torch_names_the_extra(backend):
    (message,) = hidden("torch", backend)
    assert message.startswith(f"backend '{backend}': needs the package torch, which is not installed")
    assert message.endswith("install pp1wire[cuda]")


def test_missing_triton_names_the_extra_and_the_torch_backend_works():
    use = "import torch\nprint(s.dyadic_counts(torch.zeros(2), 1.0, backend='torch')[1].tolist())"
    message, counts = hidden("triton", "triton", use)
    assert message.startswith("backend 'triton': needs the package triton, which is not installed")
    assert message.endswith("install pp1wire[cuda]")
    assert counts == "[8388608, 8388608]"


def test_triton_without_gpu_and_without_interpreter_says_so():
    code = (
        "import torch, pp1wire.sampling as s\n"
        "try: s.dyadic_counts(torch.zeros(2), 1.0, backend='triton')\n"
        "except s.BackendUnavailable as error: print(error)"
    )
    assert run(code) == (
        "backend 'triton': expected tensors on a CUDA device, got cpu; without a GPU use backend 'torch'"
    )


def test_missing_device_is_named():
    if torch.cuda.is_available():
        assert make_backend("torch", torch.device("cuda")).device.type == "cuda"
        return
    with pytest.raises(BackendUnavailable, match="backend 'torch': device cuda was asked for"):
        make_backend("torch", torch.device("cuda"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_assert_guards_anything_and_no_environment_is_read(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not names & {"os", "time", "socket", "random", "pickle"}


def test_philox_is_written_once_for_torch_and_taken_from_triton():
    assert [path.name for path in SOURCES if "0xD2511F53" in path.read_text(encoding="utf-8")] == ["torch_math.py"]


def test_unknown_names_are_refused():
    with pytest.raises(SamplingError, match="expected one of numpy, torch, triton, got 'cupy'"):
        device_sampler("cupy")
    with pytest.raises(SamplingError, match="backend: expected torch or triton, got 'numpy'"):
        make_backend("numpy", torch.device("cpu"))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        cuda.Nothing  # noqa: B018
    assert all(hasattr(cuda, name) for name in cuda.__all__)
