"""Ahead-of-time compilation of every kernel for a GPU that is not there, and the rules its PTX must keep.

    python -m pp1wire.sampling.cuda.aot [--arch 90] [--json]

prints one line a kernel: registers, spilled bytes, FP64 operations. It exits with status 1 if a kernel breaks a rule: FP64
arithmetic may only be mul.rn, add.rn, sub.rn and div.rn, nothing fused and nothing flushed, and the exponential's
coefficients must be there to the last bit. Run it in a process of its own, without Triton's interpreter.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pp1wire.sampling import weights
from pp1wire.sampling.cuda.triton_kernels import checks, dense, sparse, verification
from pp1wire.sampling.errors import BackendUnavailable

__all__ = ["CompiledKernel", "compile_all", "lint"]

_BLOCK, _BLOCKS, _BITS = 2048, 64, 43
_ALLOWED = {"mul.rn.f64", "add.rn.f64", "sub.rn.f64", "div.rn.f64"}
_MOVES = re.compile(r"^(ld|st|mov|cvt|selp|setp|shfl|bar)\b")
_FP64 = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\b", re.MULTILINE)
_COEFFICIENTS = tuple(c for c in weights.COEFFICIENTS if c not in (1.0, 0.5))

# Pointer types by parameter name; everything else that is not a constant is an int32 number.
_POINTERS = {
    "logits": "*fp32", "bias": "*fp32", "rows": "*fp32", "temperature": "*fp64", "q": "*fp32", "wire_q": "*fp32",
    "counts": "*i32", "ids": "*i32", "tokens": "*i32", "wire_token": "*i32", "histogram": "*i32", "ids_out": "*i32",
    "counts_out": "*i32", "entries_out": "*i32", "wire_ids": "*i32", "wire_entries": "*i32", "verdicts": "*i32",
    "p": "*fp64", "dense": "*i32",
    **dict.fromkeys(
        ("keys", "state", "weights", "tied", "sums", "tickets", "chosen", "grid", "totals", "faults", "laws", "outcome"),
        "*i64",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """What the compiler made of one kernel: per-thread registers, bytes spilled to local memory, broken rules."""

    name: str
    arch: int
    registers: int
    spilled: int
    shared: int
    fp64: dict[str, int]
    faults: tuple[str, ...]


def _variants() -> list[tuple[str, Any, dict[str, Any], dict[str, str]]]:
    """(name, kernel, constants, pointer types that differ) of everything that a backend launches."""
    block = {"BLOCK": _BLOCK}
    row = {"HAS_WIRE": True, "BLOCKS": _BLOCKS, **block}
    q32, rest_q = {"wire_q": "*i32"}, {"q": "*i32"}
    return [
        ("scan", dense.scan, {"HAS_BIAS": True, "HAS_KEYS": False, **block}, {}),
        ("scan (keys)", dense.scan, {"HAS_BIAS": True, "HAS_KEYS": True, **block}, {}),
        ("weigh", dense.weigh, block, {}),
        ("divide", dense.divide, block, {}),
        ("digit", dense.digit, block, {}),
        ("choose (first)", dense.choose, {"FIRST": True}, {}),
        ("choose", dense.choose, {"FIRST": False}, {}),
        ("ties", dense.ties, block, {}),
        ("finish", dense.finish, {"HAS_Q": True, "BLOCKS": _BLOCKS, **block}, {}),
        ("draw", dense.draw, {"GIVEN": False, **row}, {}),
        ("draw (given ticket)", dense.draw, {"GIVEN": True, **row, "HAS_WIRE": False}, {}),
        ("sparse_row (k=32)", sparse.sparse_row, {"HAS_WIRE": True, "BITS": _BITS, "WIDTH": 32}, {}),
        ("sparse_row (k=256)", sparse.sparse_row, {"HAS_WIRE": True, "BITS": 46, "WIDTH": 256}, {}),
        ("share", verification.share, block, {}),
        ("probabilities", verification.probabilities, block, {}),
        ("probabilities (FP32)", verification.probabilities, block, {"p": "*fp32"}),
        ("weigh_rows (sparse)", verification.weigh_rows, {"SPARSE": True, "STEPS": 1, "WIDTH": 32}, {}),
        ("weigh_rows (dense)", verification.weigh_rows, {"SPARSE": False, "STEPS": 64, "WIDTH": _BLOCK}, {}),
        ("judge (sparse)", verification.judge, {"SPARSE": True, "DEPTH": 5, "WIDTH": 32}, {}),
        ("judge (dense)", verification.judge, {"SPARSE": False, "DEPTH": 5, "WIDTH": 16}, {}),
        ("spread", verification.spread, {"DEPTH": 5, "WIDTH": 32}, {}),
        ("rest", verification.rest, {"DEPTH": 5, **block}, rest_q),
        ("pick", verification.pick, {"DEPTH": 5, "BLOCKS": _BLOCKS, **block}, {}),
        ("check_sparse", checks.check_sparse, {"HAS_KEYS": True, "WIDTH": 32}, q32),
        ("check_dense", checks.check_dense, block, q32),
        ("close_dense", checks.close_dense, {"HAS_KEYS": True}, {}),
    ]


def lint(ptx: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """(FP64 operations by name and how often, rules broken) of one kernel's PTX."""
    found: dict[str, int] = {}
    faults: list[str] = []
    for operation in _FP64.findall(ptx):
        if ".ftz" in operation:
            faults.append(f"flushed: {operation}")
        if operation.endswith(".f64") and not _MOVES.match(operation):
            found[operation] = found.get(operation, 0) + 1
    faults += [f"not allowed: {operation}" for operation in found if operation not in _ALLOWED]
    return found, tuple(dict.fromkeys(faults))


def lint_exponential(ptx: str) -> tuple[str, ...]:
    """Coefficients of the exponential that are missing from a kernel's PTX: they were rounded on the way."""
    bits = {c: struct.pack(">d", c).hex().upper() for c in (*_COEFFICIENTS, weights.LOG2_E, weights.LN2_HIGH)}
    negated = {c: struct.pack(">d", -c).hex().upper() for c in bits}
    return tuple(f"missing constant {c!r}" for c in bits if f"0d{bits[c]}" not in ptx and f"0d{negated[c]}" not in ptx)


def compile_all(arch: int, *, resources: bool = True) -> list[CompiledKernel]:
    """Compile every kernel for sm_<arch>; without `resources`, registers and spills are left at zero, which is quicker.

    Raises BackendUnavailable if this Triton does not know the architecture.
    """
    compiled = []
    for name, kernel, constants, types in _variants():
        names = kernel.arg_names
        signature = {p: "constexpr" if p in constants else types.get(p, _POINTERS.get(p, "i32")) for p in names}
        places = {(names.index(p),): value for p, value in constants.items()}
        source = ASTSource(kernel, signature, places)
        try:
            built = triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"enable_fp_fusion": False})
        except (RuntimeError, ValueError) as error:
            raise BackendUnavailable(
                f"sm_{arch}: Triton {triton.__version__} cannot compile {name}: {error}"
            ) from error
        ptx = built.asm["ptx"]
        fp64, faults = lint(ptx)
        if name.startswith(("weigh", "sparse_row")) and "rows" not in name:
            faults += lint_exponential(ptx)
        registers, spilled = _resources(ptx, arch) if resources else (0, 0)
        compiled.append(CompiledKernel(name, arch, registers, spilled, int(built.metadata.shared), fp64, faults))
    return compiled


def _resources(ptx: str, arch: int) -> tuple[int, int]:
    """(registers a thread, bytes of spill stores and loads) as ptxas reports them."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx, encoding="utf-8")
        target = re.search(r"^\.target\s+(sm_\w+)", ptx, re.MULTILINE)
        tool = triton.knobs.nvidia.ptxas_blackwell if arch >= 100 else triton.knobs.nvidia.ptxas
        command = [
            tool.path, "-v", "--fmad=false", f"--gpu-name={target[1] if target else f'sm_{arch}'}",
            str(source), "-o", str(Path(folder, "kernel.cubin")),
        ]  # fmt: skip
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.findall(r"Used (\d+) registers", report)
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    return max(map(int, registers), default=0), sum(int(a) + int(b) for a, b in spills)


def main(arguments: list[str] | None = None) -> int:
    """Compile, print a table or JSON, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pp1wire.sampling.cuda.aot", description="compile all kernels")
    parser.add_argument(
        "--arch", type=int, default=90, help="compute capability without the dot: 90 (H100), 121 (GB10)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--lint-only", action="store_true", help="leave registers and spills out")
    options = parser.parse_args(arguments)
    kernels = compile_all(options.arch, resources=not options.lint_only)
    if options.json:
        sys.stdout.write(json.dumps([asdict(kernel) for kernel in kernels]) + "\n")
    else:
        for kernel in kernels:
            operations = ", ".join(f"{count} {name}" for name, count in sorted(kernel.fp64.items())) or "-"
            sys.stdout.write(
                f"{kernel.name:22} {kernel.registers:4} registers {kernel.spilled:6} B spilled  {operations}"
                f"{''.join('  ' + fault for fault in kernel.faults)}\n"
            )
    return int(any(kernel.faults for kernel in kernels))


if __name__ == "__main__":
    sys.exit(main())
