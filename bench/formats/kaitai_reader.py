"""Kaitai Struct's reader of the schemas, as its compiler writes Python; it reads only.

`kaitai_python/` is the compiler's output, kept so that nobody needs node to measure; a test compiles it again and compares.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from kaitaistruct import KaitaiStream

from pp1wire.wire import Agreement

from .codec import Codec, Row

NAME = "Kaitai Struct"
FOLDER = Path(__file__).with_name("kaitai_python")


@cache
def _reply() -> Any:
    """The class. The compiler's files import each other by bare names, so their folder is on the path while they load."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module("pp1_reply").Pp1Reply
    finally:
        sys.path.remove(str(FOLDER))


def codec(agreement: Agreement) -> Codec:
    reply, size = _reply(), agreement.reply_frame_bytes
    k, width = agreement.id_entries, agreement.q_entries

    def decode(data: bytes) -> list[Row]:
        made = []
        for start in range(0, len(data), size):
            row = reply(k, width, KaitaiStream(BytesIO(data[start : start + size])))
            own = row.header
            numbers = (own.session, own.slot, own.generation, own.round, row.position, row.token, row.entry_count)
            made.append((numbers, np.array(row.ids, np.int32), np.array(row.q, np.float32)))
        return made

    return Codec(NAME, "what a schema can say: constants, bounds, enumerations", None, decode, list, per_value=True)
