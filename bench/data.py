"""The same proposals for every contestant, from a fixed seed."""

from __future__ import annotations

import numpy as np

from pp1wire.wire import Agreement, ReplyBatch, Representation, encode_replies

VOCAB = 129_280
REQUESTS, DEPTH = 4, 5


def agreement(representation: Representation, support: int = 32) -> Agreement:
    return Agreement(
        id=1,
        representation=representation,
        vocab_size=VOCAB,
        padded_vocab_size=VOCAB,
        max_slots=REQUESTS,
        max_depth=DEPTH,
        max_support=support,
        max_prefix=4_096,
    )


def round_frames(agreed: Agreement) -> bytes:
    """The REPLY frames of one round of four requests, depth 5."""
    rng = np.random.default_rng(20_240_501)
    entries = agreed.max_support if agreed.representation is Representation.SPARSE else VOCAB
    frames, sequence = [], 1
    for slot in range(REQUESTS):
        rows, tokens = [], []
        for _ in range(DEPTH):
            ids = np.sort(rng.choice(VOCAB, entries, replace=False)).astype(np.int32)
            weights = rng.dirichlet(np.full(entries, 0.3))
            counts = rng.multinomial(2**24 - entries, weights).astype(np.int32) + 1
            rows.append((ids, counts))
            tokens.append(int(ids[counts.argmax()]))
        batch = ReplyBatch.from_rows(
            agreed, session=slot + 1, slot=slot, generation=1, round=1, position=100, tokens=tokens, rows=rows
        )
        frames.append(bytes(encode_replies(batch, agreed, sequence)))
        sequence += DEPTH
    return b"".join(frames)
