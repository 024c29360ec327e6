"""This package: every rule of a row, its checksums, and its ticket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pp1wire.protocol.session import step_tickets
from pp1wire.sampling import tickets_agree
from pp1wire.wire import Agreement, ReplyBatch, Representation, Step, decode_replies, encode_replies

from .. import data
from .codec import Codec, Row

NAME = "pp1wire"
_STEPS = data.steps()


def codec(agreement: Agreement) -> Codec:
    buffers: dict[int, bytearray] = {}

    def encode(batch: ReplyBatch) -> memoryview | bytes:
        # Into a buffer that is there already, as the ends do.
        size = len(batch) * agreement.reply_frame_bytes
        if size not in buffers:
            buffers[size] = bytearray(size)
        return encode_replies(batch, agreement, 1, buffers[size])

    return Codec(
        NAME, "every rule, three checksums, and the ticket of each row", encode,
        lambda frames: validated(frames, agreement, _STEPS[: len(frames) // agreement.reply_frame_bytes // data.DEPTH]),
        rows,
    )  # fmt: skip


def validated(frames: bytes, agreement: Agreement, steps: Sequence[Step]) -> ReplyBatch:
    """The rows, of which every rule, checksum and ticket was checked, by what both ends call; tickets are drawn here, too."""
    batch = decode_replies(frames, agreement)
    sparse = agreement.representation is Representation.SPARSE
    tickets = np.concatenate(step_tickets(steps))
    drawn = tickets_agree(batch.counts if sparse else batch.q, tickets, batch.tokens, batch.ids if sparse else None)
    if not np.all(drawn):
        raise RuntimeError("expected tokens that their tickets draw")
    return batch


def rows(batch: ReplyBatch) -> list[Row]:
    numbers: list[npt.NDArray[np.generic]] = [
        batch.sessions, batch.slots, batch.generations, batch.rounds, batch.positions, batch.tokens, batch.entry_counts
    ]  # fmt: skip
    each = zip(*(column.tolist() for column in numbers), strict=True)
    return list(zip(each, batch.ids, batch.q, strict=True))
