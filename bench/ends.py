"""Both ends of a connection at the deployment's shape, for whoever needs a conversation."""

from __future__ import annotations

from typing import Any

from pp1wire.protocol import Verifier, Worker, hello
from pp1wire.wire import Hello, HelloRole, Representation

from .data import DEPTH, REQUESTS, VOCAB

PREFIX = 64
SUPPORT = 32


def own_hello(role: HelloRole, representation: Representation, support: int = SUPPORT, vocab: int = VOCAB) -> Hello:
    """What an end says of itself."""
    settings: dict[str, Any] = {
        "vocab_size": vocab, "max_slots": REQUESTS, "max_depth": DEPTH, "max_support": support, "max_prefix": 1 << 20,
        "id_map_sha256": bytes(32), "draft_checkpoint_sha256": bytes(32), "target_sha256": bytes(32), "draft_revision": "r1",
        "representations": (representation,),
    }  # fmt: skip
    return hello(role, nonce=bytes([role] * 16), **settings)


def verifier(representation: Representation, support: int = SUPPORT, vocab: int = VOCAB) -> Verifier:
    return Verifier(own_hello(HelloRole.OFFER, representation, support, vocab), step_timeout=None)


def worker(representation: Representation, support: int = SUPPORT, vocab: int = VOCAB) -> Worker:
    return Worker(own_hello(HelloRole.ANSWER, representation, support, vocab))
