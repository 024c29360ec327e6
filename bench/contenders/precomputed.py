"""The proposals of a worker that has drafted already: rows of the model, tokens by their tickets, for every round to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from pp1wire.protocol.session import step_tickets
from pp1wire.wire import Agreement, ReplyBatch, Step, decode_replies

from .. import data, real_rows
from ..ends import SUPPORT

ROWS = data.REQUESTS * data.DEPTH


@cache
def laws() -> list[data.Row]:
    return [real_rows.sparse(index, SUPPORT, data.VOCAB) for index in range(ROWS)]


def proposals(steps: Sequence[Step], agreement: Agreement) -> list[ReplyBatch]:
    """What is drafted for each step: the same rows every round, with the tokens that its tickets draw."""
    found = []
    for step, tickets in zip(steps, step_tickets(steps), strict=True):
        base, running = _rows(step.slot, agreement)
        tokens = [
            base.ids[i, np.searchsorted(own, ticket, side="right")]
            for i, (own, ticket) in enumerate(zip(running, tickets, strict=True))
        ]
        n = len(base)
        found.append(
            replace(
                base, tokens=np.array(tokens, np.int32), sessions=np.full(n, step.session, np.uint64),
                generations=np.full(n, step.generation, np.uint32), rounds=np.full(n, step.round, np.uint32),
                positions=np.arange(step.position, step.position + n, dtype=np.uint32),
            )
        )  # fmt: skip
    return found


@cache
def _rows(slot: int, agreement: Agreement) -> tuple[ReplyBatch, list[np.ndarray]]:
    """The rows of a slot, whoever they are for, and the running sums of their counts."""
    own = laws()[slot * data.DEPTH : (slot + 1) * data.DEPTH]
    base = ReplyBatch.from_rows(
        agreement, session=1, slot=slot, generation=1, round=1, position=0, tokens=[0] * len(own), rows=own
    )
    return base, [np.cumsum(counts) for _, counts in own]


@cache
def batch() -> tuple[Agreement, ReplyBatch]:
    """The 20 rows of one round, for who sends them in another format."""
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
