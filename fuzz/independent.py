"""A second reading of what an end accepted, in plain Python: slow, and without a line of what it checks.

Only the layout comes from the schema's tables. A function returns what is wrong with a frame that should be right, or None.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import xxhash

from pp1wire.wire import Agreement, MessageType
from pp1wire.wire._schema_v2 import BODY_FIELDS, BODY_STRUCTS, HEADER_FIELDS
from pp1wire.wire.fields import FieldSpec

__all__ = ["HEADER", "Fields", "digest", "draw", "fields_of", "frame_problem", "frames_of", "row_of", "ticket"]

HEADER: Final = 64
_TOTAL: Final = 1 << 24
Fields = Mapping[str, Any]


def frames_of(data: bytes) -> list[bytes]:
    """The whole frames that a stream begins with, by their lengths alone."""
    frames, at = [], 0
    while len(data) - at >= HEADER:
        size = HEADER + int.from_bytes(data[at + 16 : at + 20], "little")
        if len(data) - at < size:
            break
        frames.append(data[at : at + size])
        at += size
    return frames


def fields_of(frame: bytes) -> dict[str, Any]:
    """Header fields under `header.NAME`, body fields and columns by name. Texts are bytes, enumerations numbers."""
    values = {f"header.{spec.name}": _value(spec, frame, 0) for spec in HEADER_FIELDS}
    kind = frame[6]
    values |= {spec.name: _value(spec, frame, HEADER) for spec in BODY_FIELDS[kind]}
    tail = frame[HEADER + BODY_STRUCTS[kind].size :]
    words = [tail[i : i + 4] for i in range(0, len(tail), 4)]
    if kind == MessageType.REPLY:
        ids = len(words) // 2 if values["representation"] == 2 else 0
        values["ids"], values["q"] = [_signed(w) for w in words[:ids]], words[ids:]
    elif kind in (MessageType.COMMIT, MessageType.RESET):
        values["tokens" if kind == MessageType.COMMIT else "prefix_ids"] = [_signed(w) for w in words]
    return values


def frame_problem(frame: bytes, agreement: Agreement | None) -> str | None:
    """What is wrong with one frame by itself: checksums, bounds, canonical form, and the rules that one message can show."""
    header = frame[:HEADER]
    if int.from_bytes(header[16:20], "little") != len(frame) - HEADER:
        return "body_length"
    if int.from_bytes(header[56:64], "little") != xxhash.xxh3_64_intdigest(header[:56]):
        return "header checksum"
    seed = xxhash.xxh3_64_intdigest(header[16:48])
    if int.from_bytes(header[48:56], "little") != xxhash.xxh3_64_intdigest(frame[HEADER:], seed=seed):
        return "body checksum"
    if (frame[6] == MessageType.HELLO) != (agreement is None):
        return "message type"
    for spec in HEADER_FIELDS:
        if not _in_bounds(spec, header):
            return f"header.{spec.name}"
    for spec in BODY_FIELDS[frame[6]]:
        if not _in_bounds(spec, frame[HEADER:]):
            return spec.name
    v = fields_of(frame)
    if agreement is None:
        hello = v["header.agreement_id"], v["header.session"], v["header.generation"], v["header.round"]
        wrong = any(hello) or v["padded_vocab_size"] < v["vocab_size"] or not any(v["nonce"])
        return "hello" if wrong or (v["status"] == 1) != (v["refusal"] != 0) else None
    if v["header.agreement_id"] != agreement.id or v["header.slot"] >= agreement.max_slots:
        return "identity"
    if not v["header.session"] or not v["header.generation"] or (v["header.round"] == 0) != (frame[6] == 6):
        return "identity"
    rule = _RULES.get(MessageType(frame[6]))
    return None if rule is None else rule(v, agreement)


def row_of(v: Fields, agreement: Agreement) -> tuple[list[int], list[int]] | str:
    """The ids and counts of a row's used entries; or what is wrong with it."""
    sparse, entries, token = agreement.representation == 2, v["entry_count"], v["token"]
    if v["representation"] != agreement.representation or len(v["q"]) != agreement.q_entries:
        return "representation"
    if (v["shard_first_id"], v["shard_id_count"]) != (0, agreement.vocab_size):
        return "shard"
    if not 1 <= entries <= len(v["q"]) or (not sparse and entries != agreement.vocab_size):
        return "entry_count"
    if any(map(any, v["q"][entries:])) or any(v["ids"][entries:]):
        return "padding"
    ids = v["ids"][:entries] if sparse else list(range(entries))
    if ids[0] < 0 or ids[-1] >= agreement.vocab_size or any(b <= a for a, b in pairwise(ids)):
        return "ids"
    counts = []
    for word in v["q"][:entries]:
        (q,) = struct.unpack("<f", word)
        # The product is exact: a power of two, and float64 holds every float32.
        if word[3] & 0x80 or not math.isfinite(q) or (q * _TOTAL) % 1 or (sparse and not q):
            return "q"
        counts.append(int(q * _TOTAL))
    if sum(counts) != _TOTAL:
        return "mass"
    if token not in ids or not counts[ids.index(token)]:
        return "token without q"
    return ids, counts


def draw(ids: Sequence[int], counts: Sequence[int], number: int) -> int:
    """The token that owns ticket `number`."""
    for token, count in zip(ids, counts, strict=True):
        number -= count
        if number < 0:
            return token
    return -1


def ticket(seed: int, generation: int, round_: int, position: int) -> int:
    """The proposal ticket of a position: the top 24 bits of Philox4x32-10, domain 1, draw 0 (Salmon et al., SC 2011)."""
    mask = 0xFFFFFFFF
    k0, k1 = seed & mask, seed >> 32
    a, b, c, d = position, 1 << 24, round_, generation
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (second >> 32) ^ b ^ k0, second & mask, (first >> 32) ^ d ^ k1, first & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return a >> 8


def digest(ids: Sequence[int]) -> bytes:
    """XXH3-128 over ids as little-endian int32."""
    return xxhash.xxh3_128_digest(struct.pack(f"<{len(ids)}i", *ids))


def _signed(word: bytes) -> int:
    return int.from_bytes(word, "little", signed=True)


def _value(spec: FieldSpec, data: bytes, at: int) -> Any:
    raw = bytes(data[at + spec.offset : at + spec.offset + spec.size])
    if spec.kind == "float":
        return struct.unpack("<d", raw)[0]
    return int.from_bytes(raw, "little", signed=spec.minimum < 0) if spec.kind in ("int", "enum") else raw


def _in_bounds(spec: FieldSpec, data: bytes) -> bool:
    value = _value(spec, data, 0)
    if spec.kind == "int":
        return bool(spec.minimum <= value <= spec.maximum)
    if spec.kind == "enum" and spec.enum is not None:
        return value in [int(v) for v in spec.enum]
    if spec.kind == "text":
        return all(0x20 <= byte < 0x7F for byte in value.rstrip(b"\0"))
    return not any(value) if spec.kind == "zeros" else value == b"PP1W" if spec.kind == "magic" else True


def _step(v: Fields, agreement: Agreement) -> str | None:
    dense = agreement.representation == 1
    wrong = not (math.isfinite(v["temperature"]) and v["temperature"] > 0)
    wrong |= v["depth"] > agreement.max_depth or v["position"] + v["depth"] > 0xFFFFFFFF
    wrong |= v["support_policy"] != (1 if dense else 2)
    wrong |= v["support"] != 0 if dense else not 1 <= v["support"] <= agreement.max_support
    return "step" if wrong else None


def _reply(v: Fields, agreement: Agreement) -> str | None:
    row = row_of(v, agreement)
    return row if isinstance(row, str) else None


def _commit(v: Fields, agreement: Agreement) -> str | None:
    count, accepted, kind = v["token_count"], v["accepted"], v["kind"]
    wrong = count != accepted + (kind != 0) or (kind == 3 and accepted != 0) or any(v["tokens"][count:])
    wrong |= any(not 0 <= token < agreement.vocab_size for token in v["tokens"][:count])
    return "commit" if wrong or v["new_position"] != v["position"] + count else None


def _reset(v: Fields, agreement: Agreement) -> str | None:
    ids, closes = v["prefix_ids"], v["reason"] == 4
    wrong = v["prefix_count"] != len(ids) or len(ids) != (0 if closes else v["position"])
    wrong |= len(ids) > agreement.max_prefix or any(not 0 <= token < agreement.vocab_size for token in ids)
    return "reset" if wrong or (not closes and v["prefix_digest"] != digest(ids)) else None


_RULES: Final = {
    MessageType.STEP: _step,
    MessageType.REPLY: _reply,
    MessageType.COMMIT: _commit,
    MessageType.RESET: _reset,
}
