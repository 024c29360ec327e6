"""The proposals of a worker that has drafted already: rows of the model, tokens by their tickets, for every round to come."""

from __future__ import annotations

from functools import cache

import numpy as np

from pp1wire.protocol.session import step_tickets
from pp1wire.sampling import sample
from pp1wire.wire import Agreement, ReplyBatch, Step

from .. import data, real_rows
from ..ends import SUPPORT

ROWS = data.REQUESTS * data.DEPTH


@cache
def laws() -> list[data.Row]:
    return [real_rows.sparse(index, SUPPORT, data.VOCAB) for index in range(ROWS)]


def proposal(step: Step, agreement: Agreement) -> ReplyBatch:
    """What is drafted for `step`: the same rows every round, with the tokens that its tickets draw."""
    own = laws()[step.slot * data.DEPTH : (step.slot + 1) * data.DEPTH]
    tokens = [sample(*law, ticket) for law, ticket in zip(own, step_tickets([step])[0].tolist(), strict=True)]
    return ReplyBatch.from_rows(
        agreement, session=step.session, slot=step.slot, generation=step.generation, round=step.round,
        position=step.position, tokens=tokens, rows=own,
    )  # fmt: skip


@cache
def batch() -> tuple[Agreement, ReplyBatch]:
    """The 20 rows of one round, for who sends them in another format."""
    from pp1wire.wire import decode_replies

    agreed, frames = data.shape_frames(data.Shape(data.REQUESTS, SUPPORT))
    return agreed, decode_replies(frames, agreed)


@cache
def logits(vocab: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """What a verifier that samples itself is sent for the same rows: ids int32 [20, n] and logits as BF16 (uint16) [20, n].

    With `vocab` all of them, and no ids are needed: [20, 0] and [20, vocab].
    """
    ids = np.stack([law[0] for law in laws()])
    values = np.log(np.stack([law[1] for law in laws()]).astype(np.float32))
    if vocab:
        whole = np.full((ROWS, vocab), -30.0, np.float32)
        np.put_along_axis(whole, ids, values, axis=1)
        ids, values = np.zeros((ROWS, 0), np.int32), whole
    return ids, (values.view(np.uint32) >> 16).astype(np.uint16)
