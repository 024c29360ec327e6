"""One input from another: a few changes, then what follows from them made right, each with some probability."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from fuzz import script
from fuzz.agreements import agreements
from fuzz.mutation.captures import change_blocks
from fuzz.mutation.content import change_bytes
from fuzz.mutation.piece import Piece, split
from fuzz.mutation.repair import FRESH, Walk, seal
from fuzz.mutation.structure import change_pieces

__all__ = ["mutated"]

_CHANGES: Final = (1, 1, 1, 1, 1, 2, 2, 4)
_LONGEST: Final = 20_000
"""Bytes of an input: longer ones are slow and show nothing that shorter ones do not."""
_MOST_PIECES: Final = 60


def mutated(harness: str, data: bytes, donor: bytes, rng: random.Random) -> bytes:
    """`data`, an input of a harness, with a few changes; `donor` is another input of it."""
    if rng.random() < 0.03:
        raw = bytearray(data)
        change_bytes(raw, rng)
        return bytes(raw)
    if harness == "capture" and data[:4] != b"PP1W":
        for _ in range(rng.choice(_CHANGES)):
            data = change_blocks(data, donor, rng)
        return data[:_LONGEST]
    if harness == "negotiated_session":
        return _script(data, donor, rng)[:_LONGEST]
    head = b"" if harness == "capture" else data[:1]
    pieces, other = split(0, data[len(head) :]), split(0, donor[len(head) :])
    known = agreements()
    agreement = known[head[0] % len(known)] if head else None
    if head and rng.random() < 0.03:
        head = bytes([rng.randrange(len(known))])
    _change(pieces, other, rng, None)
    _repair(pieces, rng, Walk(rng, agreement), one=harness == "one_frame")
    return (head + b"".join(piece.data for piece in pieces))[:_LONGEST]


def _script(data: bytes, donor: bytes, rng: random.Random) -> bytes:
    mode, pieces = _pieces(data)
    if rng.random() < 0.1:
        mode ^= 1 << rng.randrange(3)
    hostile = script.VERIFIER if mode & script.WORKER_UNDER_TEST else script.WORKER
    _change(pieces, _pieces(donor)[1], rng, hostile)
    _repair(pieces, rng, Walk(rng, None), one=False)
    # Joined pieces are one record with the one before, if that is of the same sender.
    groups: list[list[Piece]] = []
    for piece in pieces:
        if piece.joined and groups and groups[-1][-1].who == piece.who:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return script.pack(mode, [script.Record(g[0].who, b"".join(piece.data for piece in g)) for g in groups])


def _pieces(data: bytes) -> tuple[int, list[Piece]]:
    mode, records = script.parse(data)
    return mode, [piece for record in records for piece in split(record.who, record.data)]


def _change(pieces: list[Piece], donor: Sequence[Piece], rng: random.Random, hostile: int | None) -> None:
    for _ in range(rng.choice(_CHANGES)):
        change_pieces(pieces, donor, rng, hostile)
    del pieces[_MOST_PIECES:]


def _repair(pieces: list[Piece], rng: random.Random, walk: Walk, *, one: bool) -> None:
    """Most inputs are right in all that was not changed; some are right in their checksums only, or in nothing."""
    links, sums = rng.random() < (0.6 if one else 0.9), rng.random() < 0.95
    for piece in pieces:
        if not piece.kind:
            continue
        if links or FRESH in piece.kept:
            walk.links(piece)
        if sums:
            seal(piece)
        walk.learn(piece)
