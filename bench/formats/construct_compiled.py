"""Construct, compiled, by the declarations that are generated from the schemas: the REPLY frame field by field."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pp1wire.wire import Agreement, ReplyBatch, Representation
from pp1wire.wire._schema_v2 import MAGIC, WIRE_VERSION, MessageType, constructs

from .codec import Codec, Row, columns

NAME = "Construct, compiled"


@cache
def _reply() -> tuple[Any, Any]:
    """The declaration, which can build, and what Construct compiles it to, which can parse."""
    declared = constructs()["reply"]
    return declared, declared.compile()


def codec(agreement: Agreement) -> Codec:
    declared, compiled = _reply()
    k, width, size = agreement.id_entries, agreement.q_entries, agreement.reply_frame_bytes
    header = {
        "magic": MAGIC, "wire_version": WIRE_VERSION, "message_type": MessageType.REPLY, "reserved_1": b"\0",
        "body_length": size - 64, "reserved_2": b"\0\0", "agreement_id": agreement.id, "body_checksum": 0, "header_checksum": 0,
    }  # fmt: skip
    fixed = {
        "representation": Representation(agreement.representation), "reserved_1": bytes(3), "shard_first_id": 0,
        "shard_id_count": agreement.vocab_size, "reserved_2": bytes(8),
    }  # fmt: skip

    def encode(batch: ReplyBatch) -> bytes:
        frames = []
        for index, (numbers, ids, q) in enumerate(columns(batch)):
            session, slot, generation, round_, position, token, entries = numbers
            own = {"sequence": index, "slot": slot, "session": session, "generation": generation, "round": round_}
            row = {"position": position, "token": token, "entry_count": entries, "ids": ids.tolist(), "q": q.tolist()}
            frames.append(declared.build({"header": header | own} | fixed | row, id_entries=k, q_entries=width))
        return b"".join(frames)

    def decode(data: bytes) -> list[Row]:
        made = []
        for start in range(0, len(data), size):
            row = compiled.parse(data[start : start + size], id_entries=k, q_entries=width)
            own = row.header
            numbers = (own.session, own.slot, own.generation, own.round, row.position, row.token, row.entry_count)
            made.append((numbers, np.array(row.ids, np.int32), np.array(row.q, np.float32)))
        return made

    return Codec(NAME, "that there are bytes enough", encode, decode, list, per_value=True)
