"""Proposals as a worker makes them, row by row in bytes, so that one can be wrong and the COMPLETION still fit what was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pp1wire.attack.talk import Talk
from pp1wire.sampling import MASS, proposal_tickets, sample
from pp1wire.wire import (
    Agreement,
    Completion,
    CompletionStatus,
    ReplyBatch,
    Representation,
    Step,
    encode,
    encode_replies,
    rows_checksum,
)
from pp1wire.wire._schema_v2 import MAX_DEPTH

__all__ = ["LAWS", "completion_frame", "law", "row_frames"]

Int32 = npt.NDArray[np.int32]

LAWS: Final[Mapping[int, tuple[int, ...]]] = {
    1: (MASS,),
    2: (MASS // 2, MASS // 2),
    3: (MASS // 2, MASS // 4, MASS // 4),
}
"""Counts of a row by the number of its entries."""


def law(agreement: Agreement, step: Step, entries: int | None = None) -> tuple[Int32, Int32]:
    """The q of every row: ids 1, 2 and 3 where there are so many, with as many entries as the STEP allows, up to three.

    Args:
        agreement: gives representation and vocabulary.
        step: what is asked for.
        entries: how many there are instead, from id 1 on.
    """
    vocabulary = agreement.vocab_size
    if entries is not None:
        wide = np.ones(entries, np.int32)
        wide[0] = MASS - entries + 1
        return np.arange(1, entries + 1, dtype=np.int32), wide
    most = vocabulary if agreement.representation is Representation.DENSE else step.support
    ids = np.arange(vocabulary, dtype=np.int32)[1:4] if vocabulary >= 4 else np.zeros(1, np.int32)
    ids = ids[:most]
    return ids, np.array(LAWS[len(ids)], np.int32)


def row_frames(talk: Talk, step: Step, count: int | None = None, entries: int | None = None) -> list[bytes]:
    """The first `count` REPLYs to `step`, by default all, numbered as the next frames; each token is its ticket's."""
    agreement = talk.agreed
    ids, counts = law(agreement, step, entries)
    n = step.depth if count is None else count
    positions = np.arange(step.position, step.position + n, dtype=np.uint64)
    tickets = proposal_tickets(
        np.uint64(step.proposal_seed), np.uint64(step.generation), np.uint64(step.round), positions
    )
    batch = ReplyBatch.from_rows(
        agreement, session=step.session, slot=step.slot, generation=step.generation, round=step.round,
        position=step.position, tokens=[sample(ids, counts, int(t)) for t in tickets], rows=[(ids, counts)] * n,
    )  # fmt: skip
    data = bytes(encode_replies(batch, agreement, talk.sequence))
    size = agreement.reply_frame_bytes
    return [data[i * size : (i + 1) * size] for i in range(n)]


def completion_frame(
    talk: Talk, step: Step, rows: Sequence[bytes], status: CompletionStatus = CompletionStatus.OK
) -> bytes:
    """The COMPLETION that counts and hashes `rows` as they are, numbered as the frame behind them."""
    completion = Completion(
        session=step.session, slot=step.slot, generation=step.generation, round=step.round, position=step.position,
        context_version=step.context_version, reply_bytes=sum(map(len, rows)),
        rows_checksum=rows_checksum([int.from_bytes(row[48:56], "little") for row in rows]),
        status=status, rows=min(len(rows), MAX_DEPTH),
    )  # fmt: skip
    return encode(completion, talk.agreed, talk.sequence + len(rows))
