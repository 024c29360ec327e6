"""msgspec: a row as its user would declare it, the identity as numbers, the two columns as bytes."""

from __future__ import annotations

import msgspec
import numpy as np

from pp1wire.wire import Agreement, ReplyBatch

from .codec import NUMBERS, Codec, Row, columns

NAME = "msgspec"


class MsgspecRow(msgspec.Struct, array_like=True):
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

Decoded = tuple[MsgspecRow, np.ndarray, np.ndarray]


def ready(batch: ReplyBatch) -> list[MsgspecRow]:
    """Rows whose columns are bytes already."""
    return [MsgspecRow(*numbers, ids.tobytes(), q.tobytes()) for numbers, ids, q in columns(batch)]


def encode_ready(rows: list[MsgspecRow]) -> bytes:
    return _ENCODER.encode(rows)


def encode(batch: ReplyBatch) -> bytes:
    return _ENCODER.encode(ready(batch))


def decode(data: bytes) -> list[Decoded]:
    return [(row, np.frombuffer(row.ids, np.int32), np.frombuffer(row.q, np.float32)) for row in _DECODER.decode(data)]


def rows(decoded: list[Decoded]) -> list[Row]:
    return [(tuple(getattr(row, name) for name in NUMBERS), ids, q) for row, ids, q in decoded]


def codec(_: Agreement) -> Codec:
    return Codec(NAME, "its framing, and the type of each field", encode, decode, rows)
