"""Frames to begin from, one of every kind, and the tool that changes one field of a frame and repairs its checksums.

The tool packs by the offsets of `HEADER` and of the schema tables, and hashes by itself, so that a fault of `pp1wire.wire` does
not hide itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import xxhash

from pp1wire.wire import (
    Agreement,
    Commit,
    CommitKind,
    Completion,
    CompletionStatus,
    DraftOrigin,
    FrameReader,
    Hello,
    HelloRole,
    HelloStatus,
    Message,
    RefusalReason,
    RemoteProtocolError,
    Reply,
    Representation,
    Reset,
    ResetReason,
    Step,
    SupportPolicy,
    encode,
    prefix_digest,
)
from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire._schema_v2 import Q_TOTAL

SPARSE = Agreement(0x0123456789ABCDEF, Representation.SPARSE, 11, 13, 3, 4, 4, 8)
DENSE = Agreement(0xFEDCBA9876543210, Representation.DENSE, 6, 8, 3, 4, 4, 8)
IDENTITY = {"session": 7, "slot": 2, "generation": 3, "round": 5}
PREFIX = [1, 2, 5]


def q_of(*counts: int) -> np.ndarray:
    """q float32 of integer counts."""
    return np.array(counts, np.float32) / np.float32(Q_TOTAL)


def hello(**changes: Any) -> Hello:
    """An offer, changed."""
    fields: dict[str, Any] = {
        "role": HelloRole.OFFER, "status": HelloStatus.ACCEPTED, "refusal": RefusalReason.NONE, "precision": 1,
        "draft_origin": DraftOrigin.NATIVE, "representations": 3, "max_slots": 3, "features": 0, "vocab_size": 11,
        "padded_vocab_size": 13, "max_support": 4, "max_prefix": 8, "max_depth": 4, "dense_reply_bytes": 148,
        "sparse_reply_bytes": 128, "nonce": bytes(range(16)), "q_semantic": "dyadic24-standard-v1",
        "verifier_semantic": "standard-residual-v1", "rng_abi": "philox4x32-10/pp1-v1", "id_map_sha256": bytes(32),
        "draft_checkpoint_sha256": b"d" * 32, "target_sha256": b"t" * 32, "draft_revision": "main",
    }  # fmt: skip
    return Hello(**fields | changes)


def step(agreement: Agreement, **changes: Any) -> Step:
    """A STEP, changed."""
    dense = agreement.representation is Representation.DENSE
    fields: dict[str, Any] = IDENTITY | {
        "position": 3, "depth": 2, "support_policy": SupportPolicy.FULL if dense else SupportPolicy.TOP_K,
        "temperature": 0.75, "proposal_seed": 2**63 + 9, "prefix_digest": prefix_digest(PREFIX),
        "support": 0 if dense else 3, "context_version": 6,
    }  # fmt: skip
    return Step(**fields | changes)


def reply(agreement: Agreement, **changes: Any) -> Reply:
    """A REPLY with three entries, changed."""
    quarter = Q_TOTAL // 4
    if agreement.representation is Representation.DENSE:
        columns = {"ids": [], "q": q_of(quarter, 0, 2 * quarter - 1, 0, 1, quarter)}
    else:
        columns = {"ids": [2, 5, 9], "q": q_of(quarter, 2 * quarter - 1, quarter + 1)}
    return Reply(**(IDENTITY | {"position": 3, "token": 2} | columns | changes))


def completion(agreement: Agreement, **changes: Any) -> Completion:
    """A COMPLETION, changed."""
    fields: dict[str, Any] = IDENTITY | {
        "position": 3, "context_version": 6, "reply_bytes": 2 * agreement.reply_frame_bytes, "rows_checksum": bytes(range(16)),
        "status": CompletionStatus.OK, "rows": 2,
    }  # fmt: skip
    return Completion(**fields | changes)


def commit(agreement: Agreement, **changes: Any) -> Commit:
    """A COMMIT of one accepted token and a correction, changed."""
    fields: dict[str, Any] = IDENTITY | {
        "position": 3, "new_position": 5, "prefix_digest": prefix_digest(PREFIX), "new_digest": prefix_digest([*PREFIX, 2, 4]),
        "accepted": 1, "kind": CommitKind.CORRECTION, "tokens": [2, 4],
    }  # fmt: skip
    return Commit(**fields | changes)


def reset(agreement: Agreement, **changes: Any) -> Reset:
    """A RESET that opens a session with three ids, changed."""
    fields: dict[str, Any] = {k: v for k, v in IDENTITY.items() if k != "round"} | {
        "reason": ResetReason.OPEN, "position": 3, "prefix_digest": prefix_digest(PREFIX), "prefix_ids": PREFIX,
    }  # fmt: skip
    return Reset(**fields | changes)


MAKERS: dict[str, Callable[..., Message]] = {
    "step": step, "reply": reply, "completion": completion, "commit": commit, "reset": reset,
}  # fmt: skip

EVERY_KIND: list[tuple[str, Agreement | None, Message]] = [
    ("hello", None, hello()),
    *(
        (f"{name}-{a.representation.name.lower()}", a, make(a))
        for name, make in MAKERS.items()
        for a in (SPARSE, DENSE)
    ),
]
"""(name, agreement, message): every message, under both representations."""

KINDS = [(agreement, message) for _, agreement, message in EVERY_KIND]
KIND_NAMES = [name for name, _, _ in EVERY_KIND]


def frame_of(message: Message, agreement: Agreement | None, sequence: int = 0) -> bytearray:
    """One frame that may be written to."""
    return bytearray(encode(message, agreement, sequence))


def sealed(frame: bytes | bytearray) -> bytes:
    """`frame` with both checksums made right."""
    out = bytearray(frame)
    seed = xxhash.xxh3_64_intdigest(bytes(out[16:48]))
    out[48:56] = xxhash.xxh3_64_intdigest(bytes(out[64:]), seed=seed).to_bytes(8, "little")
    out[56:64] = xxhash.xxh3_64_intdigest(bytes(out[:56])).to_bytes(8, "little")
    return bytes(out)


def header_resealed(frame: bytes) -> bytes:
    """`frame` with its header checksum made right, whatever its body checksum says."""
    return frame[:56] + xxhash.xxh3_64_intdigest(frame[:56]).to_bytes(8, "little") + frame[64:]


def offset_of(path: str, agreement: Agreement | None) -> tuple[int, str]:
    """(bytes from the start of the frame, struct code) of `header.x`, `message.x` or `message.column[i]`."""
    owner, _, rest = path.partition(".")
    name, _, index = rest.rstrip("]").partition("[")
    if owner == "header":
        spec = next(s for s in schema.HEADER_FIELDS if s.name == name)
        return spec.offset, _code(spec)
    number = schema.MessageType[owner.upper()]
    for spec in schema.BODY_FIELDS[number]:
        if spec.name == name:
            return 64 + spec.offset, _code(spec)
    at = 64 + schema.BODY_STRUCTS[number].size
    for column, code, _ in schema.BODY_COLUMNS[number]:
        if column == name:
            return at + 4 * int(index or 0), code.replace("i4", "i").replace("f4", "f")
        at += 4 * (agreement.id_entries if agreement else 0)
    raise KeyError(path)


def _code(spec: Any) -> str:
    if spec.kind in ("magic", "zeros", "bytes", "text"):
        return f"{spec.size}s"
    if spec.kind == "float":
        return "<d"
    return "<" + {1: "B", 2: "H", 4: "i" if spec.minimum < 0 else "I", 8: "Q"}[spec.size]


def changed(frame: bytes | bytearray, agreement: Agreement | None, seal: bool = True, **fields: Any) -> bytes:
    """`frame` with fields at paths (`__` for the dot) set, its checksums repaired unless `seal` is False."""
    out = bytearray(frame)
    for path, value in fields.items():
        at, code = offset_of(path.replace("__", ".", 1), agreement)
        struct.pack_into(code, out, at, value)
    return sealed(out) if seal else bytes(out)


def set_bits(frame: bytes | bytearray, at: int, pattern: int) -> bytes:
    """`frame` with the 32 bits at byte `at` replaced, checksums repaired."""
    out = bytearray(frame)
    out[at : at + 4] = (pattern & 0xFFFFFFFF).to_bytes(4, "little")
    return sealed(out)


def drain(reader: FrameReader, pieces: list[bytes]) -> list[Message | RemoteProtocolError]:
    """Everything a reader says of a stream in pieces, `close` included: messages, and errors in their places."""
    outcomes: list[Message | RemoteProtocolError] = []
    for piece in [*pieces, b""]:
        data = piece
        while True:
            try:
                found = reader.feed(data)
            except RemoteProtocolError as error:
                outcomes.append(error)
                if error.scope == "connection":
                    return outcomes
                data = b""
                continue
            outcomes.extend(found)
            data = b""
            if not found:
                break
    try:
        reader.close()
    except RemoteProtocolError as error:
        outcomes.append(error)
    return outcomes


def facts(outcome: Message | RemoteProtocolError) -> object:
    """What of an outcome must not depend on how bytes were split: a message itself, an error's code, place and scope."""
    if isinstance(outcome, RemoteProtocolError):
        return outcome.code, outcome.offset, outcome.path, outcome.scope, outcome.message_type, outcome.identity
    return outcome


def encode_all(messages: Iterable[Message], agreement: Agreement, first: int = 0) -> bytes:
    """Frames back to back, numbered from `first` on."""
    return b"".join(encode(m, agreement, first + i) for i, m in enumerate(messages))
