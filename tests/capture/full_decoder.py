"""A decoder that follows the whole conversation, as an implementer's would: the vectors' protocol serves it, too.

It answers by the judge of this package, so it must be right about every vector, with scope, offset and path.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from pp1wire.protocol import Conversation, Direction
from pp1wire.wire import RemoteProtocolError, decode


def answer(line: str) -> dict[str, Any]:
    name, mode, id_entries, q_entries, *frames = line.split(" ")
    judge = Conversation()
    sent = [(Direction(end), bytes.fromhex(digits)) for end, _, digits in (frame.partition(":") for frame in frames)]
    for sender, data in sent[:-1]:
        judge.feed(sender, data)
    agreement = judge.agreement
    assert (int(id_entries), int(q_entries)) == ((agreement.id_entries, agreement.q_entries) if agreement else (0, 0))
    sender, data = sent[-1]
    if mode == "frame":
        try:
            message = decode(data, agreement)
        except RemoteProtocolError as error:
            return {"name": name} | reject(error)
    else:
        verdicts = judge.feed(sender, data) + judge.close(sender)
        for verdict in verdicts:
            if verdict.error is not None:
                return {"name": name} | reject(verdict.error)
        message = decode(data, agreement)
    fields = {field: plain(getattr(message, field)) for field in message.__dataclass_fields__}
    return {"name": name, "message": type(message).__name__.lower(), "fields": fields}


def reject(error: RemoteProtocolError) -> dict[str, Any]:
    return {"reject": error.code.name.lower(), "scope": error.scope, "offset": error.offset, "path": error.path}


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return value.tolist()
    # An enumeration as its number, which is as good as its name.
    return int(value) if hasattr(value, "name") else value


if __name__ == "__main__":
    for question in sys.stdin:
        print(json.dumps(answer(question.rstrip("\n"))), flush=True)
