"""Chains on the device: the tokens and rows of `draft_chain`, and the payload that the wire's encoder would write."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pp1wire.sampling import BackendUnavailable, Key, SamplingError, draft_chain
from pp1wire.sampling import LowRankBias as NumpyLowRankBias
from pp1wire.sampling.cuda import BiasTable, ChainPlan, ChainSampler, LowRankBias, RowLayout
from pp1wire.sampling.cuda.backend import make_backend

from .wire_rows import agreement, fields, frames, layout

BOTH = ("torch", "triton")
KEYS = (Key(1, 1, 1, 10), Key(2**64 - 1, 2, 9, 2**32 - 100))
V, DEPTH = 90, 3
TEMPERATURES = (0.7, 1.3)


def inputs():
    rng = np.random.default_rng(11)
    logits = rng.normal(0, 2, (2, DEPTH, V)).astype(np.float32)
    logits[:, :, ::5] = -np.inf
    return logits, rng.normal(0, 2, (V, V)).astype(np.float32)


def expected(top_k, biased=True):
    logits, table = inputs()
    return [
        draft_chain(
            logits[i], TEMPERATURES[i], KEYS[i], top_k=top_k,
            bias=(lambda token: table[token]) if biased else None, previous=4 + i if biased else None,
        )
        for i in range(2)
    ]  # fmt: skip


def sampler(backend, top_k=None, agreed=None, biased=True):
    logits, table = inputs()
    plan = ChainPlan(2, DEPTH, V, top_k, layout(agreed) if agreed else None)
    made = ChainSampler(
        plan,
        backend,
        bias=BiasTable(torch.from_numpy(table)) if biased else None,
        block=64 if backend == "triton" else None,
    )
    made.load(TEMPERATURES, KEYS, torch.from_numpy(logits), [4, 5] if biased else None)
    return made


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(("top_k", "padded"), [(8, None), (None, None), (None, 100)])
def test_chains_equal_numpy_and_the_payload_equals_the_encoders(backend, top_k, padded):
    agreed = agreement(V, top_k, padded)
    made = sampler(backend, top_k, agreed)
    made.run()
    made.finish()
    for i, draft in enumerate(expected(top_k)):
        assert made.tokens[i].tolist() == draft.tokens.tolist()
        for j, (ids, counts) in enumerate(draft.rows):
            got = made.counts[i, j].numpy()
            assert np.array_equal(got[got > 0], counts)
            if top_k:
                assert made.entries[i, j] == ids.size
                assert np.array_equal(made.ids[i, j, : ids.size].numpy(), ids)
        sealed = fields(agreed, frames(agreed, draft.tokens.tolist(), draft.rows))
        own = fields(agreed, made.frames[i].numpy().copy())
        for name in ("token", "entry_count", "ids", "q"):
            assert own[name].tobytes() == sealed[name].tobytes(), name
        for name in own.dtype.names:
            if name not in ("token", "entry_count", "ids", "q"):
                assert not any(own[name].tobytes()), name


@pytest.mark.parametrize("backend", BOTH)
def test_buffers_are_used_again_and_leave_nothing_behind(backend):
    """The second round is narrower: what the first one wrote is gone."""
    agreed = agreement(V, 8)
    made = sampler(backend, 8, agreed, biased=False)
    made.run()
    at = made.frames.data_ptr()
    peaked = torch.full((2, DEPTH, V), -math.inf)
    peaked[:, :, 7] = 1.0
    made.load(TEMPERATURES, KEYS, peaked)
    made.run()
    made.finish()
    assert made.frames.data_ptr() == at
    rows = fields(agreed, made.frames.reshape(-1, made.frames.shape[-1]).numpy())
    assert rows["entry_count"].tolist() == [1] * 6
    assert rows["ids"].tolist() == [[7] + [0] * 7] * 6
    assert rows["q"].tolist() == [[1.0] + [0.0] * 7] * 6
    assert rows["token"].tolist() == [7] * 6


def test_a_chains_scratch_is_made_once_and_a_shared_backend_keeps_none():
    made = sampler("triton", 8, biased=False)
    for _ in range(2):
        made.run()
        (scratch,) = made.backend._scratch.values()
        assert scratch.keys.shape == (2, V)
    shared = make_backend("triton", torch.device("cpu"))
    shared.step(made.logits[:, 0], None, made.temperature, made.keys, 0, made._out(0))
    assert not shared._scratch
    with pytest.raises(SamplingError, match="rows of contiguous tokens"):
        shared.step(made.logits[:, 0].T, None, made.temperature, made.keys, 0, made._out(0))


@pytest.mark.parametrize("backend", BOTH)
def test_chain_runs_without_reading_back(backend, monkeypatch):
    """What a CUDA graph would refuse: nothing in `run` turns a tensor into a Python value."""
    made = sampler(backend, 8)
    monkeypatch.setattr(made.backend, "probe", lambda: None)  # of the CPU's threads alone
    if backend == "triton":
        monkeypatch.setattr(made.backend, "_launch", lambda *args, **kwargs: None)  # the interpreter itself reads

    def refuse(*_):
        raise AssertionError("a chain read a value back")

    for name in ("item", "tolist", "__bool__", "__int__", "__index__", "__float__", "numpy", "cpu", "nonzero"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    made.run()


@pytest.mark.parametrize("backend", BOTH)
def test_one_request_with_a_fault_does_not_touch_the_other(backend):
    made = sampler(backend, 8, biased=False)
    made.logits[0, 1, 3] = math.nan
    made.run()
    first, second = made.errors()
    assert str(first) == "logits[0, 1]: NaN at id 3"
    assert second is None
    assert made.tokens[1].tolist() == expected(8, biased=False)[1].tokens.tolist()
    with pytest.raises(SamplingError, match="NaN at id 3"):
        made.finish()


@pytest.mark.parametrize("backend", BOTH)
def test_draft_chain_with_tensors_equals_numpy(backend):
    logits, table = inputs()
    reference = draft_chain(logits[0], 0.8, KEYS[0], bias=lambda token: table[token], previous=3, top_k=8)
    tensor_table = torch.from_numpy(table)
    rows = torch.from_numpy(logits[0])
    for given in (rows, lambda i, drawn: rows[i]):
        draft = draft_chain(
            given,
            0.8,
            KEYS[0],
            depth=DEPTH,
            bias=lambda token: tensor_table[token],
            previous=3,
            top_k=8,
            backend=backend,
        )
        assert draft.tokens.tolist() == reference.tokens.tolist()
        for (ids, counts), (want_ids, want_counts) in zip(draft.rows, reference.rows, strict=True):
            assert np.array_equal(ids.numpy(), want_ids)
            assert np.array_equal(counts.numpy(), want_counts)
    with pytest.raises(SamplingError, match="previous: expected the last committed token"):
        draft_chain(rows, 0.8, KEYS[0], bias=lambda token: tensor_table[token], backend=backend)
    with pytest.raises(SamplingError, match="expected float32 logits and bias of one shape"):
        draft_chain(rows, 0.8, KEYS[0], bias=lambda token: tensor_table[token, :5], previous=1, backend=backend)


def test_low_rank_bias_of_rank_one_equals_numpy():
    """Of rank one, so that no order of summation can matter."""
    rng = np.random.default_rng(3)
    w1, w2 = rng.normal(0, 1, (V, 1)).astype(np.float32), rng.normal(0, 1, (1, V)).astype(np.float32)
    bias = LowRankBias(torch.from_numpy(w1), torch.from_numpy(w2))
    assert np.array_equal(bias(torch.tensor([5, 89])).numpy(), np.stack([NumpyLowRankBias(w1, w2)(x) for x in (5, 89)]))
    for bad in ((w1, w2.T), (w1[:, 0], w2), (w1.astype(np.float64), w2)):
        with pytest.raises(SamplingError, match="bias: expected"):
            LowRankBias(*(torch.from_numpy(np.ascontiguousarray(x)) for x in bad))
    with pytest.raises(SamplingError, match="bias: expected float32"):
        BiasTable(torch.zeros(3, 4))


def test_refused_plans():
    for arguments in ((0, 1, 10), (1, 0, 10), (1, 1, 0), (1, 1, 2**24 + 1), (1, 256, 10), (1, 1, 10, 0)):
        with pytest.raises(SamplingError):
            ChainPlan(*arguments)
    sparse, dense = layout(agreement(V, 8)), layout(agreement(V, None))
    for top_k, wrong in ((9, sparse), (None, sparse), (8, dense)):
        with pytest.raises(SamplingError, match="layout: expected columns for"):
            ChainPlan(1, 1, V, top_k, wrong)
    with pytest.raises(SamplingError, match="layout: expected columns for 91 entries"):
        ChainPlan(1, 1, V + 1, None, dense)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((100, 64, 68, 96, 112, 4, 4), "outside|inside 100 bytes"),
        ((128, 64, 66, 96, 112, 4, 4), "multiples of 4"),
        ((130, 64, 68, 96, 112, 4, 4), "multiples of 4"),
        ((128, 64, 68, 96, 108, 4, 4), "ids ends at byte 112, after q begins at 108"),
        ((128, 64, 64, 96, 112, 4, 4), "ends at byte 68"),
        ((128, -4, 68, 96, 112, 4, 4), "inside 128 bytes"),
        ((128, 64, 68, 96, 112, 3, 4), "as many ids or none"),
        ((128, 64, 68, 96, 112, 0, 0), "q entries >= 1"),
    ],
)
def test_refused_layouts(fields, message):
    with pytest.raises(SamplingError, match=message):
        RowLayout(*fields)


def test_refused_frames_that_do_not_fit_the_layout():
    rows = RowLayout(128, 64, 68, 96, 112, 4, 4)
    for frames_ in (
        torch.zeros(2, 127, dtype=torch.uint8),
        torch.zeros(2, 128),
        torch.zeros(2, 256, dtype=torch.uint8)[:, ::2],
    ):
        with pytest.raises(SamplingError, match="frames: expected contiguous uint8"):
            rows.views(frames_)
    with pytest.raises(SamplingError, match="aligned to 4 bytes"):
        rows.views(torch.zeros(129, dtype=torch.uint8)[1:])


def test_refused_inputs_change_nothing():
    made = sampler("torch", 8)
    before = [tensor.clone() for tensor in (made.logits, made.temperature, made.keys, made.previous)]
    logits = torch.zeros(2, DEPTH, V)
    for arguments in (
        ((1.0,), KEYS, logits, [1, 2]),
        ((1.0, 1.0), KEYS[:1], logits, [1, 2]),
        ((1.0, 0.0), KEYS, logits, [1, 2]),
        ((1.0, math.nan), KEYS, logits, [1, 2]),
        ((1.0, 1.0), (KEYS[0], Key(1, 1, 1, 2**32 - 3)), logits, [1, 2]),
        ((1.0, 1.0), KEYS, logits, None),
        ((1.0, 1.0), KEYS, logits, [1]),
        ((1.0, 1.0), KEYS, logits, [1, V]),
        ((1.0, 1.0), KEYS, logits[:1], [1, 2]),
        ((1.0, 1.0), KEYS, logits.double(), [1, 2]),
        ((1.0, 1.0), KEYS, torch.zeros(2, V, DEPTH).transpose(1, 2), [1, 2]),
    ):
        with pytest.raises(SamplingError):
            made.load(*arguments)
        after = (made.logits, made.temperature, made.keys, made.previous)
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    unbiased = sampler("torch", 8, biased=False)
    with pytest.raises(SamplingError, match="if and only if there is a bias"):
        unbiased.load((1.0, 1.0), KEYS, None, [1, 2])


def test_refused_bias_that_does_not_fit():
    made = ChainSampler(ChainPlan(1, 1, 5), "torch", bias=lambda tokens: torch.zeros(1, 4))
    with pytest.raises(SamplingError, match="bias: expected"):
        made.run()


def test_graphs_need_a_cuda_device():
    made = sampler("torch", 8)
    with pytest.raises(BackendUnavailable, match="graph: expected a plan on a CUDA device, got cpu"):
        made.capture()
    with pytest.raises(SamplingError, match=r"expected capture\(\) before replay"):
        made.replay()


def test_refused_supports_beyond_one_program():
    made = ChainSampler(ChainPlan(1, 1, 20_000, 10_000), "triton")
    with pytest.raises(SamplingError, match="top_k: expected at most 8192 with backend 'triton', got 10000"):
        made.run()
    with pytest.raises(SamplingError, match="block: expected a power of two"):
        ChainSampler(ChainPlan(1, 1, 5), "triton", block=17)
