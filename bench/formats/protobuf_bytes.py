"""protobuf (upb) with the two columns as bytes fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from pp1wire.wire import Agreement, ReplyBatch

from .codec import NUMBERS, Codec, Row, columns
from .protobuf_messages import BACKEND, BytesBatch, numbers

NAME = f"protobuf ({BACKEND}), bytes"


def encode(batch: ReplyBatch) -> bytes:
    message = BytesBatch()
    add = message.rows.add
    for own, ids, q in columns(batch):
        add(**dict(zip(NUMBERS, own, strict=True)), ids=ids.tobytes(), q=q.tobytes())
    data: bytes = message.SerializeToString()
    return data


def decode(data: bytes) -> list[tuple[Any, np.ndarray, np.ndarray]]:
    batch = BytesBatch.FromString(data)
    return [(row, np.frombuffer(row.ids, np.int32), np.frombuffer(row.q, np.float32)) for row in batch.rows]


def rows(decoded: list[tuple[Any, np.ndarray, np.ndarray]]) -> list[Row]:
    return [(numbers(row), ids, q) for row, ids, q in decoded]


def codec(_: Agreement) -> Codec:
    return Codec(NAME, "its framing, and the type of each field", encode, decode, rows)
