"""Small models whose calls take a while, and the terms that both processes are bound to."""

from __future__ import annotations

import time
import weakref

import numpy as np

from pp1wire.net import Terms
from pp1wire.wire import Representation

DEPTH = 5


def terms(vocabulary, representation):
    return Terms(
        vocab_size=vocabulary, id_map_sha256=b"m" * 32, draft_checkpoint_sha256=b"d" * 32, draft_revision="chaos",
        target_sha256=b"t" * 32, representations=(Representation[representation.upper()],),
        max_support=min(8, vocabulary), max_prefix=512, max_depth=DEPTH,
    )  # fmt: skip


class _State:
    def __init__(self, model):
        self._model = model

    def logits(self, prefix, drafted):
        return self._model.logits(prefix, drafted)


class Model:
    """Logits that depend on the position and on the token before.

    Args:
        vocabulary: ids.
        noise: makes a draft unlike the target.
        delay: seconds that each call takes.
    """

    def __init__(self, vocabulary, *, noise=0.0, delay=0.0):
        rng, other = np.random.default_rng(1), np.random.default_rng(2)
        self.base = rng.normal(size=(7, vocabulary)) + noise * other.normal(size=(7, vocabulary))
        self.bias = rng.normal(size=(16, vocabulary)) + noise * other.normal(size=(16, vocabulary))
        self.delay = delay
        self.states = weakref.WeakSet()
        """States that are still held by somebody."""

    def open(self, capacity):
        state = _State(self)
        self.states.add(state)
        return state

    def row(self, position, last):
        return (self.base[position % 7] + self.bias[last % 16]).astype(np.float32)

    def last_row(self, prefix, drafted):
        last = drafted[-1] if len(drafted) else prefix[-1]
        return self.row(len(prefix) + len(drafted), int(last))


class Draft(Model):
    def __init__(self, vocabulary, delay=0.0):
        super().__init__(vocabulary, noise=0.4, delay=delay)

    def logits(self, prefix, drafted):
        time.sleep(self.delay)
        return self.last_row(prefix, drafted)


class Target(Model):
    def logits(self, prefix, drafted):
        time.sleep(self.delay)
        return np.stack([self.last_row(prefix, drafted[:i]) for i in range(len(drafted) + 1)])
