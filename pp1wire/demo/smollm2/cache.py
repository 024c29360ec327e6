"""The key/value cache of one request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pp1wire.errors import PP1Error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["KVCache"]


class KVCache:
    """Keys and values of one token sequence, for the blocks of one model; made by `SmolLM2.new_cache`.

    It remembers the token ids it holds, so that after a rejection or a reset the caller can ask for the part of a
    prefix that is still good (`keep_common_prefix`) instead of doing the arithmetic of positions.
    """

    def __init__(self, blocks: tuple[int, ...], kv_heads: int, head_dim: int, capacity: int) -> None:
        self.blocks = blocks
        """Indices of the checkpoint's blocks this cache belongs to."""
        self.keys: NDArray[np.float32] = np.zeros((len(blocks), kv_heads, capacity, head_dim), np.float32)
        """[blocks, kv_heads, capacity, head_dim], rotated; entries at or beyond `length` are leftovers."""
        self.values: NDArray[np.float32] = np.zeros_like(self.keys)
        """Same shape as `keys`."""
        self._tokens: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._length = 0

    @property
    def capacity(self) -> int:
        """Most tokens it can hold."""
        return len(self._tokens)

    @property
    def length(self) -> int:
        """Tokens it holds."""
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        return self.keys.nbytes + self.values.nbytes

    @property
    def tokens(self) -> NDArray[np.int32]:
        """A copy of the ids it holds, int32 [length]."""
        return self._tokens[: self._length].copy()

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens. `PP1Error` unless 0 <= length <= current length."""
        if not 0 <= length <= self._length:
            raise PP1Error(f"KVCache.truncate: length {length}, expected 0 to {self._length}, the tokens held")
        self._length = length

    def keep_common_prefix(self, tokens: Sequence[int] | NDArray[np.int32]) -> int:
        """Truncate to the longest prefix that `tokens` shares; returns its length, where feeding `tokens` goes on."""
        wanted = np.asarray(tokens, dtype=np.int64).ravel()
        shared = min(len(wanted), self._length)
        differs = np.flatnonzero(self._tokens[:shared] != wanted[:shared])
        self._length = int(differs[0]) if len(differs) else shared
        return self._length

    def check_room(self, count: int) -> None:
        """Raise `PP1Error` unless `count` more tokens fit."""
        if self._length + count > self.capacity:
            raise PP1Error(f"KVCache: {count} tokens after {self._length} exceed the capacity of {self.capacity}")

    def append(self, tokens: NDArray[np.int32]) -> None:
        """Record tokens whose keys and values have been written at `length` onwards."""
        self.check_room(len(tokens))
        self._tokens[self._length : self._length + len(tokens)] = tokens
        self._length += len(tokens)
