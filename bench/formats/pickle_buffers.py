"""pickle, protocol 5, with the arrays out of band: what multiprocessing and Ray send. Only what was written here is read."""

from __future__ import annotations

import pickle
from struct import Struct
from typing import Any

from pp1wire.wire import Agreement, ReplyBatch

from .codec import Codec, Row, columns

NAME = "pickle 5, out of band"
_LENGTH = Struct("<Q")


def encode(batch: ReplyBatch) -> bytes:
    """The pickle and then its buffers, each behind its length."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(list(columns(batch)), protocol=5, buffer_callback=buffers.append)
    parts: list[Any] = [_LENGTH.pack(len(head)), head]
    for buffer in buffers:
        raw = buffer.raw()
        parts += (_LENGTH.pack(raw.nbytes), raw)
    return b"".join(parts)


def decode(data: bytes) -> list[Row]:
    view, parts, start = memoryview(data), [], 0
    while start < len(data):
        (length,) = _LENGTH.unpack_from(data, start)
        start += _LENGTH.size
        parts.append(view[start : start + length])
        start += length
    rows: list[Row] = pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - bytes of `encode`, never a peer's
    return rows


def codec(_: Agreement) -> Codec:
    return Codec(NAME, "nothing, and it runs what it is sent", encode, decode, list)
