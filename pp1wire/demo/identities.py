"""Which models the demo's two processes load, and what their HELLOs say of them."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from pp1wire.demo.models import SmolLM2Draft, SmolLM2Target, SyntheticDraft, SyntheticTarget
from pp1wire.net import DraftModel, TargetModel, Terms
from pp1wire.wire import DraftOrigin, Representation

if TYPE_CHECKING:
    from pp1wire.demo.smollm2 import SmolLM2

__all__ = ["draft_model", "smollm2", "target_model", "terms", "vocab_size"]

SYNTHETIC_VOCAB = 129_280
_MAX_PREFIX = 8_192


@lru_cache(maxsize=1)
def smollm2() -> SmolLM2:
    """The real model, loaded once a process."""
    from pp1wire.demo.smollm2 import SmolLM2

    return SmolLM2.load()


def vocab_size(model: str) -> int:
    """Token ids of `model`."""
    return SYNTHETIC_VOCAB if model == "synthetic" else smollm2().vocab_size


def draft_model(model: str) -> DraftModel:
    """The draft of `model`."""
    if model == "synthetic":
        return SyntheticDraft(SYNTHETIC_VOCAB)
    from pp1wire.demo.smollm2 import DRAFT_SKIPS

    return SmolLM2Draft(smollm2().skipping(*DRAFT_SKIPS))


def target_model(model: str, temperature: float) -> TargetModel:
    """The target of `model` at a temperature."""
    if model == "synthetic":
        return SyntheticTarget(SYNTHETIC_VOCAB, temperature)
    return SmolLM2Target(smollm2(), temperature)


def terms(model: str, *, representation: Representation, support: int, depth: int) -> Terms:
    """What an end of the demo is bound to."""
    if model == "synthetic":
        vocab, origin = SYNTHETIC_VOCAB, DraftOrigin.NATIVE
        id_map, draft, target = (
            hashlib.sha256(f"synthetic {what}".encode()).digest() for what in ("ids", "draft", "target")
        )
    else:
        from pp1wire.demo.smollm2 import DRAFT_SKIPS

        whole = smollm2()
        vocab, origin = whole.vocab_size, DraftOrigin.ADAPTED
        id_map, draft, target = whole.tokenizer.vocabulary_digest, whole.skipping(*DRAFT_SKIPS).digest, whole.digest
    return Terms(
        vocab_size=vocab,
        id_map_sha256=id_map,
        draft_checkpoint_sha256=draft,
        draft_revision="pp1wire-demo",
        draft_origin=origin,
        target_sha256=target,
        representations=(representation,),
        max_support=support,
        max_depth=depth,
        max_prefix=_MAX_PREFIX,
    )
