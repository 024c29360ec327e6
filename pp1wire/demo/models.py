"""The demo's models, as a worker and a verifier take them (`pp1wire.net.models`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pp1wire.sampling import LowRankBias

if TYPE_CHECKING:
    from pp1wire.demo.smollm2 import KVCache, SmolLM2

__all__ = ["SmolLM2Draft", "SmolLM2Target", "SyntheticDraft", "SyntheticTarget"]

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int32]

_SYNTHETIC_SEED = 129_280
_RANK = 4
# Wide enough that the 32 likeliest tokens hold most of the mass, as a language model's do.
_BASE_SCALE, _BIAS_SCALE, _DRAFT_ERROR = 5.0, 2.0, 0.6


class SyntheticTarget:
    """A made-up target of any vocabulary: fixed logits plus a low-rank Markov bias of the token before.

    Weights come from a fixed seed, so that a worker and a verifier in two processes have the same ones.

    Args:
        vocab_size: V.
        temperature: divides the logits; the target's own, part of its law.
    """

    def __init__(self, vocab_size: int, temperature: float = 1.0) -> None:
        self.vocab_size = vocab_size
        base, bias = _weights(vocab_size)
        self._base, self._bias = base / np.float32(temperature), bias
        self._inverse_temperature = np.float32(1 / temperature)

    def open(self, capacity: int, /) -> SyntheticTarget:
        """The model keeps nothing of a request."""
        return self

    def logits(self, prefix: Tokens, drafted: Tokens, /) -> Floats:
        """float32 [len(drafted) + 1, V]."""
        before = [int(prefix[-1]), *(int(token) for token in drafted)]
        rows = np.empty((len(before), self.vocab_size), dtype=np.float32)
        for row, token in zip(rows, before, strict=True):
            np.multiply(self._bias(token), self._inverse_temperature, out=row)
            row += self._base
        return rows


class SyntheticDraft:
    """The draft of `SyntheticTarget`: the same weights with an error."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        base, self._bias = _weights(vocab_size)
        error = np.random.default_rng(_SYNTHETIC_SEED + 1).standard_normal(vocab_size, dtype=np.float32)
        self._base = base + np.float32(_DRAFT_ERROR) * error

    def open(self, capacity: int, /) -> SyntheticDraft:
        """The model keeps nothing of a request."""
        return self

    def logits(self, prefix: Tokens, drafted: Sequence[int], /) -> Floats:
        """float32 [V]."""
        row: Floats = self._base + self._bias(drafted[-1] if drafted else int(prefix[-1]))
        return row


def _weights(vocab_size: int) -> tuple[Floats, LowRankBias]:
    rng = np.random.default_rng(_SYNTHETIC_SEED)
    base = rng.standard_normal(vocab_size, dtype=np.float32) * np.float32(_BASE_SCALE)
    w1 = rng.standard_normal((vocab_size, _RANK), dtype=np.float32)
    w2 = rng.standard_normal((_RANK, vocab_size), dtype=np.float32) * np.float32(_BIAS_SCALE)
    return base, LowRankBias(w1, w2)


class SmolLM2Draft:
    """SmolLM2 with a block skipped, drafting token by token."""

    def __init__(self, model: SmolLM2) -> None:
        self._model = model
        self.vocab_size = model.vocab_size

    def open(self, capacity: int, /) -> _CachedDraft:
        """A request's own key/value cache."""
        return _CachedDraft(self._model, self._model.new_cache(min(capacity, self._model.context)))


class SmolLM2Target:
    """The whole of SmolLM2, judging a proposal in one pass.

    Args:
        model: with every block.
        temperature: divides the logits; the target's own, part of its law.
    """

    def __init__(self, model: SmolLM2, temperature: float) -> None:
        self._model = model
        self._inverse_temperature = np.float32(1 / temperature)
        self.vocab_size = model.vocab_size

    def open(self, capacity: int, /) -> _CachedTarget:
        """A request's own key/value cache."""
        cache = self._model.new_cache(min(capacity, self._model.context))
        return _CachedTarget(self._model, cache, self._inverse_temperature)


class _CachedDraft:
    def __init__(self, model: SmolLM2, cache: KVCache) -> None:
        self._model, self._cache = model, cache

    def logits(self, prefix: Tokens, drafted: Sequence[int], /) -> Floats:
        row: Floats = _after(self._model, self._cache, [*prefix.tolist(), *drafted], 1)[-1]
        return row


class _CachedTarget:
    def __init__(self, model: SmolLM2, cache: KVCache, inverse_temperature: np.float32) -> None:
        self._model, self._cache, self._inverse_temperature = model, cache, inverse_temperature

    def logits(self, prefix: Tokens, drafted: Tokens, /) -> Floats:
        tokens = [*prefix.tolist(), *drafted.tolist()]
        rows: Floats = _after(self._model, self._cache, tokens, len(drafted) + 1) * self._inverse_temperature
        return rows


def _after(model: SmolLM2, cache: KVCache, tokens: list[int], rows: int) -> Floats:
    """Logits after each of the last `rows` tokens; what the cache already has is not computed again."""
    needed = len(tokens) - rows
    known = min(cache.keep_common_prefix(tokens), needed)
    cache.truncate(known)
    model.prefill(tokens[known:needed], cache)
    return model.forward(tokens[needed:], cache)
