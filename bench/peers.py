"""What people would use instead, on the same rows. None of them checks anything beyond its own framing."""

from __future__ import annotations

import msgspec
import numpy as np

from pp1wire.wire import ReplyBatch


class MsgspecRow(msgspec.Struct, array_like=True):
    """A row as a msgspec user would declare it: the identity as numbers, the two columns as bytes."""

    session: int
    slot: int
    generation: int
    round: int
    position: int
    token: int
    entries: int
    ids: bytes
    q: bytes


_DECODER = msgspec.msgpack.Decoder(list[MsgspecRow])
_ENCODER = msgspec.msgpack.Encoder()


def msgspec_encode(batch: ReplyBatch) -> bytes:
    """Counts to bytes: identity, token, entry count and the two columns of every row, q as float32."""
    columns = (
        batch.sessions.tolist(),
        batch.slots.tolist(),
        batch.generations.tolist(),
        batch.rounds.tolist(),
        batch.positions.tolist(),
        batch.tokens.tolist(),
        batch.entry_counts.tolist(),
        batch.ids,
        batch.counts * np.float32(2**-24),
    )
    return _ENCODER.encode(
        [MsgspecRow(*row, ids.tobytes(), q.tobytes()) for *row, ids, q in zip(*columns, strict=True)]
    )


def msgspec_decode(data: bytes) -> list[tuple[MsgspecRow, np.ndarray, np.ndarray]]:
    """Bytes to arrays, without a single check of what they say."""
    return [(row, np.frombuffer(row.ids, np.int32), np.frombuffer(row.q, np.float32)) for row in _DECODER.decode(data)]
