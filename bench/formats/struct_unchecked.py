"""`struct` and `np.frombuffer`: the least that Python can do, and a bound for everything that checks."""

from __future__ import annotations

from struct import Struct

import numpy as np

from pp1wire.wire import Agreement, ReplyBatch

from .codec import Codec, Row, columns

NAME = "struct + frombuffer"
_ROW = Struct("<QHxxIIIiI")


def codec(agreement: Agreement) -> Codec:
    k, width = agreement.id_entries, agreement.q_entries
    size = _ROW.size + 4 * (k + width)

    def encode(batch: ReplyBatch) -> bytes:
        return b"".join(part for row in columns(batch) for part in (_ROW.pack(*row[0]), row[1].data, row[2].data))

    def decode(data: bytes) -> list[Row]:
        made: list[Row] = []
        for start in range(0, len(data), size):
            ids = np.frombuffer(data, np.int32, k, start + _ROW.size)
            made.append(
                (_ROW.unpack_from(data, start), ids, np.frombuffer(data, np.float32, width, start + _ROW.size + 4 * k))
            )
        return made

    return Codec(NAME, "nothing", encode, decode, list)
