"""The script for a machine with a GPU runs from end to end here: interpreted, at small sizes; and it sees wrong bits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from bench import gpu_cases, gpu_check
from pp1wire.sampling.cuda import aot
from pp1wire.sampling.cuda.torch_backend import TorchBackend
from pp1wire.sampling.cuda.triton_backend import TritonBackend

ROOT = Path(__file__).parents[3]
KERNELS = {name.split(" ")[0] for name, *_ in aot._variants()}


def test_runs_end_to_end_and_covers_every_kernel(tmp_path, capsys):
    assert gpu_check.main(["--small", "--json", str(tmp_path / "out.json")]) == 0
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert set(result["kernels"]) == KERNELS
    assert all(kernel["bits"] for kernel in result["kernels"].values())
    assert all(row["bits"] in (True, None) for row in result["rows"])
    assert result["interpreted"] is not torch.cuda.is_available()
    for backend in ("torch", "triton"):
        for what in ("chain, k=32, 1 request", "chain, dense, 1 request", "verify, dense, 1 request"):
            (row,) = [row for row in result["rows"] if row["name"] == f"{backend}: {what}"]
            assert row["microseconds"] > 0
    assert "all bits are equal" in capsys.readouterr().out


def test_wrong_bits_are_found_and_get_no_time(monkeypatch, capsys):
    """A weight that is off by one in the last place, as a fused multiply-add would make it."""
    honest = TorchBackend.step

    def dishonest(self, logits, bias, temperature, keys, offset, out):
        honest(self, logits, bias, temperature, keys, offset, out)
        if out.ids is None and out.counts.shape[1] > 1:
            out.counts[:, 1] += 1
            out.counts[:, 0] -= 1

    monkeypatch.setattr(TorchBackend, "step", dishonest)
    check = gpu_check.Check(small=True)
    assert not gpu_cases.rows_agree(TorchBackend(torch.device("cpu")), check.sizes, sparse=False)
    assert gpu_cases.rows_agree(TorchBackend(torch.device("cpu")), check.sizes, sparse=True)
    check.row("a row", False, 12.5, floor_us=3.0)
    assert check.rows == [{"name": "a row", "bits": False, "microseconds": None}]
    assert "12.5" not in capsys.readouterr().out
    assert not check.good


def test_wrong_verdicts_are_found(monkeypatch):
    honest = TritonBackend.verify

    def dishonest(self, *arguments):
        outcome = honest(self, *arguments)
        outcome[0, 1] ^= 1
        return outcome

    monkeypatch.setattr(TritonBackend, "verify", dishonest)
    assert not gpu_cases.verdicts_agree(TritonBackend(torch.device("cpu")), gpu_cases.SMALL, sparse=True)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_docs_say_never_run_until_a_result_is_kept(name):
    """docs/kernels.md says "compiled, never run" of a kernel exactly as long as bench/results/ has no GPU's run of it."""
    runs = []
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if not result["interpreted"] and result["kernels"].get(name, {}).get("bits"):
            runs.append(path.name)
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(rf"\| {name}[ |]", line)]
    assert rows
    for row in rows:
        assert ("compiled, never run" in row) == (not runs), row
