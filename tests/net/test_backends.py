"""The same seed gives the same transcript whatever draws the proposals and verifies them, arrays or tensors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pp1wire.net import LogitTarget, WorkerServer
from pp1wire.sampling import BackendUnavailable, HostSampler, SamplingError
from pp1wire.sampling.cuda.torch_backend import TorchBackend
from pp1wire.sampling.cuda.triton_backend import TritonBackend
from pp1wire.wire import Representation
from tests.net.toys import DraftToy, TargetToy, collect, history, pair, run, terms, tokens

ROOT = Path(__file__).resolve().parents[2]


class ProbabilityToy:
    """`TargetToy` by probabilities."""

    def __init__(self):
        self.toy = TargetToy()

    def open(self, capacity):
        return self

    def probabilities(self, prefix, drafted):
        weights = np.exp(self.toy.logits(prefix, drafted).astype(np.float64))
        return weights / weights.sum(axis=1, keepdims=True)


class Tensors:
    """A model whose answers are tensors, with a gradient as a module's are."""

    def __init__(self, model, dtype=torch.float32):
        self.model, self.dtype = model, dtype

    def open(self, capacity):
        return self

    def logits(self, prefix, drafted):
        return torch.from_numpy(self.model.logits(prefix, drafted)).to(self.dtype).requires_grad_()


class Rounded:
    """A model with the values of a lower precision, in float32 arrays."""

    def __init__(self, model):
        self.model = model

    def open(self, capacity):
        return self

    def logits(self, prefix, drafted):
        return torch.from_numpy(self.model.logits(prefix, drafted)).bfloat16().float().numpy()


class Awkward:
    """Arrays that torch does not take as they are: read-only, strided backwards, of the other byte order."""

    def __init__(self, model):
        self.model = model

    def open(self, capacity):
        return self

    def logits(self, prefix, drafted):
        row = self.model.logits(prefix, drafted)[..., ::-1].copy()[..., ::-1]
        if len(prefix) % 2:
            row = row.copy()
            row.flags.writeable = False
        return row


def transcript(worker, verifier, representation=Representation.SPARSE, *, model=None, target=None, max_tokens=24):
    async def main():
        options = {"backend": worker}
        async with pair(None, representation, model, options) as (server, client):
            rounds = await collect(client, target=target, max_tokens=max_tokens, backend=verifier)
            assert server.counters()["proposals"] == len(rounds)
            return history(rounds)

    return run(main(), limit=100)


@pytest.mark.parametrize("by_logits", [True, False])
@pytest.mark.parametrize("representation", list(Representation))
def test_same_seed_same_transcript_with_numpy_and_torch(representation, by_logits):
    target = TargetToy() if by_logits else ProbabilityToy()
    assert isinstance(target, LogitTarget) is by_logits
    base = transcript("numpy", "numpy", representation, target=target)
    assert len(base) >= 4
    assert any(accepted for _, _, accepted, *_ in base)
    assert all(fallback is None for fallback in (entry[5] for entry in base))
    for worker, verifier in (("torch", "torch"), ("torch", "numpy"), ("numpy", "torch")):
        assert transcript(worker, verifier, representation, target=target) == base


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_models_may_return_tensors(backend):
    base = transcript("numpy", "numpy")
    assert transcript(backend, backend, model=Tensors(DraftToy()), target=Tensors(TargetToy())) == base
    low = transcript("numpy", "numpy", model=Rounded(DraftToy()), target=Rounded(TargetToy()))
    half = torch.bfloat16
    assert transcript(backend, backend, model=Tensors(DraftToy(), half), target=Tensors(TargetToy(), half)) == low
    assert low != base


def test_arrays_that_torch_cannot_share_are_copied():
    awkward = transcript("torch", "torch", model=Awkward(DraftToy()), target=Awkward(TargetToy()))
    assert awkward == transcript("numpy", "numpy")


def test_target_only_rounds_are_the_same_too():
    class Fails:
        def open(self, capacity):
            raise RuntimeError("no weights")

    async def main(backend):
        async with pair(None, model=Fails(), server_options={"backend": backend}) as (_, client):
            return history(await collect(client, max_tokens=8, backend=backend))

    base = run(main("numpy"))
    assert {entry[1].name for entry in base} == {"TARGET_ONLY"}
    assert run(main("torch")) == base


@pytest.mark.parametrize(
    "bad", [np.full(16, np.nan, np.float32), np.zeros(16), np.zeros(3, np.float32), np.array(["x"] * 16)]
)
def test_unusable_draft_rows_cost_their_round_and_nothing_else(bad, caplog):
    class Bad:
        def open(self, capacity):
            return self

        def logits(self, prefix, drafted):
            return bad

    async def main():
        async with pair(None, model=Bad(), server_options={"backend": "torch"}) as (_, client):
            return await collect(client, max_tokens=3, backend="torch")

    rounds = run(main())
    assert len(tokens(rounds)) == 3
    assert all(r.fallback is not None for r in rounds)
    assert "draft model returned unusable logits" in caplog.text


@pytest.mark.parametrize("representation", list(Representation))
def test_same_seed_same_transcript_with_interpreted_triton(representation):
    assert HostSampler("triton").interpreted
    assert not HostSampler("torch").interpreted
    base = transcript("numpy", "numpy", representation, max_tokens=8)
    assert len(base) >= 2
    assert transcript("triton", "triton", representation, max_tokens=8) == base


@pytest.mark.parametrize(("backend", "kind"), [("torch", TorchBackend), ("triton", TritonBackend)])
def test_backend_that_was_named_is_the_one_at_work(backend, kind, monkeypatch):
    """Transcripts cannot tell: they are the same with each."""
    used = []
    for name in ("step", "verify"):
        method = getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *given, m=method, n=name: (used.append(n), m(*given))[1])
    transcript("numpy", "numpy", max_tokens=2)
    assert used == []
    transcript(backend, "numpy", max_tokens=2)
    assert set(used) == {"step"}
    used.clear()
    transcript("numpy", backend, max_tokens=2)
    assert set(used) == {"verify"}


def test_requests_side_by_side_draw_what_they_draw_alone_with_interpreted_triton():
    async def together(backend):
        async with pair(server_options={"backend": backend}) as (_, client):
            runs = [collect(client, (n, 5), root_seed=n, max_tokens=4, backend=backend) for n in range(3)]
            return [history(rounds) for rounds in await asyncio.gather(*runs)]

    assert run(together("triton"), limit=100) == run(together("numpy"))


def child(code):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=110,
        env=environment,
        cwd=ROOT,
    )


def test_unknown_backend_is_refused_before_anything_starts():
    with pytest.raises(SamplingError, match="backend: expected one of numpy, torch, triton, got 'cupy'"):
        WorkerServer("127.0.0.1:0", DraftToy(), terms(), backend="cupy")

    async def main():
        async with pair() as (_, client):
            with pytest.raises(SamplingError, match="got 'cupy'"):
                await collect(client, backend="cupy")
            return client.counters()["accepted"]

    assert not any(run(main()))


def test_triton_without_gpu_and_interpreter_is_refused_at_construction():
    done = child(
        "import torch; torch.cuda.is_available = lambda: False\n"
        "from pp1wire.net import WorkerServer\n"
        "from pp1wire.sampling import BackendUnavailable\n"
        "from tests.net.toys import DraftToy, terms\n"
        "try: WorkerServer('127.0.0.1:0', DraftToy(), terms(), backend='triton')\n"
        "except BackendUnavailable as error: print(error)"
    )
    assert issubclass(BackendUnavailable, SamplingError)
    assert done.stdout.strip() == (
        "backend 'triton': expected tensors on a CUDA device, got cpu; without a GPU use backend 'torch'"
    ), done.stderr
