"""Every kernel compiles ahead of time, and its PTX keeps the rules: nothing fused, nothing flushed, no rounded constant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pp1wire.sampling.cuda import aot, triton_kernels
from pp1wire.sampling.weights import COEFFICIENTS

KERNELS_PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"


def compiled(arch, *options):
    """In a process of its own: where kernels are interpreted they cannot be compiled."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    child = subprocess.run(
        [sys.executable, "-m", "pp1wire.sampling.cuda.aot", "--arch", str(arch), "--json", *options],
        capture_output=True, text=True, timeout=110, check=False, env=environment,
    )  # fmt: skip
    assert child.returncode == 0, child.stdout + child.stderr
    return {kernel["name"]: kernel for kernel in json.loads(child.stdout)}


@pytest.fixture(scope="module")
def hopper():
    return compiled(90)


def test_every_kernel_compiles_for_sm_90_by_the_rules(hopper):
    assert not [fault for kernel in hopper.values() for fault in kernel["faults"]]
    assert not [name for name, kernel in hopper.items() if kernel["spilled"]]
    # Per token: 17 products, 18 sums and differences to zero, one difference, one quotient.
    assert hopper["sparse_row (k=32)"]["fp64"] == {"mul.rn.f64": 17, "add.rn.f64": 18, "sub.rn.f64": 1, "div.rn.f64": 1}


def test_every_kernel_of_the_package_is_compiled(hopper):
    """A kernel added to a module without an entry in the list is found."""
    from triton.runtime.interpreter import InterpretedFunction

    from pp1wire.sampling.cuda.triton_kernels import checks, dense, sparse, verification

    helpers = {"read_counts"}
    own = {
        name
        for module in (checks, dense, sparse, verification)
        for name, value in vars(module).items()
        if isinstance(value, InterpretedFunction) and value.fn.__module__ == module.__name__
    }
    assert own - helpers == {name.split(" ")[0] for name in hopper}
    assert triton_kernels.__doc__


def test_kernels_compile_for_the_gb10():
    assert not [fault for kernel in compiled(121, "--lint-only").values() for fault in kernel["faults"]]


def test_docs_name_every_kernel_and_its_registers(hopper):
    page = KERNELS_PAGE.read_text(encoding="utf-8")
    for name, kernel in hopper.items():
        row = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        assert len(row) == 1, name
        assert f"| {kernel['registers']} | {kernel['spilled']} |" in row[0], (name, kernel["registers"])


PTX = """
    mul.rn.f64 %fd1, %fd2, %fd3;
    @%p1 add.rn.f64 %fd1, %fd2, %fd3;
    ld.global.f64 %fd1, [%rd1];
"""


def test_lint_finds_what_it_is_for():
    assert aot.lint(PTX) == ({"mul.rn.f64": 1, "add.rn.f64": 1}, ())
    for bad, fault in (
        ("fma.rn.f64 %fd1, %fd2, %fd3, %fd4;", "not allowed: fma.rn.f64"),
        ("add.ftz.f32 %f1, %f2, %f3;", "flushed: add.ftz.f32"),
        ("cvt.ftz.f32.f64 %f1, %fd1;", "flushed: cvt.ftz.f32.f64"),
        ("rcp.approx.ftz.f64 %fd1, %fd2;", "not allowed: rcp.approx.ftz.f64"),
        ("mul.rz.f64 %fd1, %fd2, %fd3;", "not allowed: mul.rz.f64"),
        ("ex2.approx.f64 %fd1, %fd2;", "not allowed: ex2.approx.f64"),
    ):
        assert fault in aot.lint(PTX + "    " + bad + "\n")[1]
    assert len(aot.lint_exponential("")) == len(COEFFICIENTS) - 3 + 2


def test_command_prints_a_table_and_fails_on_a_broken_rule(monkeypatch, capsys):
    good = aot.CompiledKernel("weigh", 90, 78, 0, 32, {"mul.rn.f64": 17}, ())
    bad = aot.CompiledKernel("draw", 90, 96, 8, 32, {}, ("flushed: add.ftz.f32",))
    for kernels, status in (([good], 0), ([good, bad], 1)):
        monkeypatch.setattr(aot, "compile_all", lambda arch, resources, kernels=kernels: kernels)
        assert aot.main([]) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert "draw" in last
    assert "8 B spilled" in last
    assert last.endswith("flushed: add.ftz.f32")
    assert aot.main(["--json"]) == 1
    assert [kernel["name"] for kernel in json.loads(capsys.readouterr().out)] == ["weigh", "draw"]
