"""The room as a whole: light to import, strict under -O, one error family."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pp1wire.sampling as sampling
from pp1wire.errors import PP1Error

# Ranks talk through torch.distributed, imported inside the functions that need it: see the test of what an import brings.
EXTRA = {"rank_group": {"torch", "torch.distributed"}}
SOURCES = sorted(Path(sampling.__file__).parent.glob("*.py"))


def run(code, *flags):
    return subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_imports_are_numpy_the_standard_library_and_this_room(path):
    for name in imported(path):
        if name in EXTRA.get(path.stem, ()):
            continue
        top = name.split(".")[0]
        assert (
            top == "numpy" or top in sys.stdlib_module_names or name.startswith(("pp1wire.sampling", "pp1wire.errors"))
        )
        assert top not in {"random", "secrets", "os", "time", "socket", "asyncio"}


def test_import_brings_nothing_heavy():
    heavy = "import sys, pp1wire.sampling; print({'torch', 'triton', 'yaml', 'gguf', 'scipy'} & set(sys.modules))"
    assert run(heavy) == "set()"


def test_checks_hold_without_assertions():
    code = """
import numpy as np, pp1wire.sampling as s
whole = (np.array([0]), np.array([2**24]))
for bad in (
    lambda: s.dyadic_counts(np.array([np.nan], np.float32), 1.0),
    lambda: s.sample(np.array([0]), np.array([5]), 0),
    lambda: s.below(0, 1, 1, 1, 1, 1),
    lambda: s.verify_chain(np.ones((2, 2)), [whole], [0], s.Key(1, 1, 1, 1)),
    lambda: s.verify_chain(np.full((2, 2), 0.5), [whole], [1], s.Key(1, 1, 1, 1)),
):
    try:
        bad()
    except s.SamplingError:
        print("refused")
"""
    assert run(code, "-O", "-X", "dev", "-bb").split() == ["refused"] * 5


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_assert_statement_guards_anything(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]


def test_only_one_module_computes_philox():
    assert [path.name for path in SOURCES if "0xD2511F53" in path.read_text(encoding="utf-8")] == ["philox.py"]


def test_public_names_exist_and_errors_are_one_family():
    assert all(hasattr(sampling, name) for name in sampling.__all__)
    errors = (sampling.AllocationError, sampling.FlushToZeroError, sampling.ProposalRefused, sampling.TargetRefused)
    assert all(issubclass(error, sampling.SamplingError) for error in errors)
    assert issubclass(sampling.SamplingError, PP1Error)
    assert issubclass(sampling.SamplingError, ValueError)
    assert sampling.SEMANTIC_ID == "dyadic24-standard-v1"
    assert sampling.VERIFIER_ID == "standard-residual-v1"
    assert sampling.RNG_ABI == "philox4x32-10/pp1-v1"
