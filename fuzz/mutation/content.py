"""Changes to one frame: a field, an entry of a column, the order or number of entries, or its bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from fuzz.mutation.piece import Piece, fields_of_type
from fuzz.mutation.values import COUNTS, Q_BITS, other_value, token
from pp1wire.wire import MessageType
from pp1wire.wire.fields import FieldSpec

__all__ = ["change_bytes", "change_frame", "count_of"]

_IDENTITY = frozenset({"header.session", "header.slot", "header.generation", "header.round"})
_RARELY = frozenset({"header.magic", "header.wire_version", "header.header_checksum"})


def change_frame(piece: Piece, rng: random.Random, *, meaning: bool = False) -> None:
    """One change to a frame; with `meaning` rather to what it says of its session than to how it is written."""
    if piece.kind in _COLUMNS and rng.random() < (0.35 if meaning else 0.55):
        rng.choice(_COLUMNS[piece.kind])(piece, rng)
        return
    fields = fields_of_type(piece.kind)
    if meaning and rng.random() < 0.85:
        name = rng.choice([name for name, (spec, _) in fields.items() if _has_meaning(name, spec)])
    else:
        wanted = rng.random() < 0.25
        name = rng.choice([name for name in fields if name.startswith("header.") == wanted])
        if name in _RARELY and rng.random() < 0.7:
            name = rng.choice([*fields])
    piece.change(name, other_value(fields[name][0], piece.get(name), rng))


def _has_meaning(name: str, spec: FieldSpec) -> bool:
    return name in _IDENTITY or not (name.startswith("header.") or spec.kind == "zeros")


def change_bytes(data: bytearray, rng: random.Random) -> None:
    """One change to bytes whatever they are."""
    at = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0 if data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        case 1 if data:
            data[at % len(data)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        case 2:
            del data[at:]
        case 3:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        case _:
            del data[at : at + rng.randrange(1, 9)]


# Rows.


def _set_id(piece: Piece, rng: random.Random) -> None:
    ids, q = piece.row()
    if ids:
        ids[rng.randrange(len(ids))] = token(rng)
        piece.set_words(ids + q)


def _order_ids(piece: Piece, rng: random.Random) -> None:
    ids, q = piece.row()
    used = min(piece.get("entry_count"), len(ids))
    if used >= 2:
        a, b = rng.sample(range(used), 2)
        if rng.random() < 0.5:
            ids[a], ids[b] = ids[b], ids[a]
        else:
            ids[a] = ids[b]
        piece.set_words(ids + q)


def _set_q(piece: Piece, rng: random.Random) -> None:
    ids, q = piece.row()
    if q:
        q[rng.randrange(len(q))] = rng.choice(Q_BITS)
        piece.set_words(ids + q)


def _swap_q(piece: Piece, rng: random.Random) -> None:
    """Another law with the same mass."""
    ids, q = piece.row()
    if len(q) >= 2:
        a, b = rng.sample(range(len(q)), 2)
        q[a], q[b] = q[b], q[a]
        piece.set_words(ids + q)


def _move_mass(piece: Piece, rng: random.Random) -> None:
    """Half of one entry's count to another entry: a right row, in which another token may be drawn."""
    ids, q = piece.row()
    used = min(piece.get("entry_count"), len(q))
    counts = [count_of(word) for word in q[:used]]
    if used >= 2 and all(count is not None for count in counts):
        a, b = rng.sample(range(used), 2)
        known = [count or 0 for count in counts]
        moved = known[a] // 2 if rng.random() < 0.7 else known[a]
        known[a], known[b] = known[a] - moved, known[b] + moved
        q[:used] = [_bits(count) for count in known]
        piece.set_words(ids + q)


def _swap_columns(piece: Piece, rng: random.Random) -> None:
    ids, q = piece.row()
    piece.set_words(q + ids if ids and rng.random() < 0.5 else ids + q[::-1])


def _use(piece: Piece, rng: random.Random) -> None:
    """Another number of entries in use, with or without something in those that are not."""
    ids, q = piece.row()
    entries = rng.randrange(len(q) + 2)
    piece.change("entry_count", entries)
    if rng.random() < 0.5:
        ids[entries:] = [0] * len(ids[entries:])
        q[entries:] = [0] * len(q[entries:])
        piece.set_words(ids + q)


def _pad(piece: Piece, rng: random.Random) -> None:
    """Something in the last entry, which is not in use as a rule."""
    ids, q = piece.row()
    if ids and rng.random() < 0.5:
        ids[-1] = token(rng)
    elif q:
        q[-1] = rng.choice(Q_BITS)
    piece.set_words(ids + q)


# Tokens and prefixes.


def _set_token(piece: Piece, rng: random.Random) -> None:
    ids = piece.ids()
    if ids:
        used = piece.get("token_count") if piece.kind == MessageType.COMMIT and rng.random() < 0.7 else len(ids)
        at = rng.randrange(min(max(used, 1), len(ids)))
        ids[at] = rng.randrange(12) if rng.random() < 0.5 else token(rng)
        piece.kept.add(f"tokens[{at}]")
        piece.set_words(ids)


def _accept(piece: Piece, rng: random.Random) -> None:
    piece.change("accepted", rng.choice(COUNTS[:6]))
    if rng.random() < 0.5:
        piece.change("kind", rng.randrange(4))


def _resize(piece: Piece, rng: random.Random) -> None:
    ids = piece.ids()
    size = rng.choice((0, 1, len(ids) + 1, max(len(ids) - 1, 0), 31, 32, 33, 40))
    ids = ids[:size] + [rng.randrange(12) for _ in range(size - len(ids))]
    piece.set_words(ids)


_COLUMNS: Final[dict[int, tuple[Callable[[Piece, random.Random], None], ...]]] = {
    MessageType.REPLY: (_set_id, _order_ids, _set_q, _set_q, _swap_q, _move_mass, _swap_columns, _use, _pad),
    MessageType.COMMIT: (_set_token, _accept, _accept),
    MessageType.RESET: (_set_token, _resize),
}


def count_of(word: int) -> int | None:
    """The count of a float32's bits if it is one."""
    exponent = (word >> 23) - 127
    if word == 0:
        return 0
    if not -24 <= exponent <= 0:
        return None
    mantissa = (word & 0x7FFFFF) | 0x800000
    shift = -1 - exponent
    return mantissa << 1 if shift < 0 else None if mantissa & ((1 << shift) - 1) else mantissa >> shift


def _bits(count: int) -> int:
    """The bits of count · 2^-24 as float32."""
    if count == 0:
        return 0
    top = count.bit_length() - 1
    return (top - 24 + 127) << 23 | (count << 23 >> top) & 0x7FFFFF
