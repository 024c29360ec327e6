"""Changes to a conversation: frames are lost, repeated, moved, spliced in, cut and glued together; rounds are played again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from fuzz.mutation.content import change_bytes, change_frame
from fuzz.mutation.piece import Piece, blank
from fuzz.mutation.repair import FRESH
from fuzz.script import CLOCK
from pp1wire.wire import MessageType, ResetReason

__all__ = ["change_pieces"]

_OWN: Final = ("position", "token", "header.round", "header.session", "header.slot")
_MADE: Final = (MessageType.STEP, MessageType.COMPLETION, MessageType.COMMIT, MessageType.RESET, MessageType.RESET)
_AGAIN: Final = (1, 1, 2, 3, 8, 9)
Change = Callable[[list[Piece], random.Random], None]


def change_pieces(pieces: list[Piece], donor: Sequence[Piece], rng: random.Random, hostile: int | None) -> None:
    """One change, most often to a single frame.

    Args:
        pieces: changed in place.
        donor: pieces of another input.
        rng: chooses.
        hostile: whose frames are judged, where there are two senders; None where there is one.
    """
    own = [piece for piece in pieces if piece.who == hostile]
    if pieces and rng.random() < (0.7 if hostile is None else 0.6):
        _one(own if own and rng.random() < 0.75 else pieces, rng, hostile is not None)
    elif rng.random() < 0.08:
        _splice(pieces, donor, rng)
    else:
        rng.choice(_CHANGES + (() if hostile is None else _TURNS))(pieces, rng)


def _one(pieces: list[Piece], rng: random.Random, meaning: bool) -> None:
    # The last as often as all others together: each of those is the last one of another input.
    piece = rng.choice(pieces) if rng.random() < 0.5 else pieces[-1]
    if piece.kind and rng.random() < 0.92:
        change_frame(piece, rng, meaning=meaning)
        while rng.random() < 0.2:
            change_frame(piece, rng, meaning=meaning)
    else:
        change_bytes(piece.data, rng)
        if rng.random() < 0.5 or len(piece.data) < piece.columns_at:
            piece.kind = 0


def _lose(pieces: list[Piece], rng: random.Random) -> None:
    if pieces:
        del pieces[rng.randrange(len(pieces))]


def _repeat(pieces: list[Piece], rng: random.Random) -> None:
    if pieces:
        at = rng.randrange(len(pieces))
        again = pieces[at].copy()
        again.kept |= {name for name in _OWN if again.kind and rng.random() < 0.3}
        pieces.insert(rng.choice((at + 1, len(pieces), rng.randrange(len(pieces) + 1))), again)


def _open_again(pieces: list[Piece], rng: random.Random) -> None:
    """Another session, or the same, in another slot, or the same."""
    opening = next((p for p in pieces if p.kind == MessageType.RESET and p.get("reason") == ResetReason.OPEN), None)
    if opening is None:
        return
    for _ in range(rng.choice((1, 2, 3))):
        again = opening.copy()
        if rng.random() < 0.6:
            again.change("header.session", rng.randrange(1, 9))
        again.kept |= {name for name in ("header.session", "header.slot") if rng.random() < 0.3}
        pieces.insert(rng.choice((len(pieces), rng.randrange(len(pieces) + 1))), again)


def _ask(pieces: list[Piece], rng: random.Random) -> None:
    """A STEP asks for something else; its round is the answer to that, or still to what it asked before."""
    if rng.random() < 0.5:
        _play_again(pieces, rng)
    steps = [piece for piece in pieces if piece.kind == MessageType.STEP]
    if steps:
        step = rng.choice((steps[-1], rng.choice(steps)))
        name = rng.choice(("depth", "support", "proposal_seed", "context_version"))
        step.change(name, rng.randrange(1, 5) if name in ("depth", "support") else step.get(name) + 1)


def _late(pieces: list[Piece], rng: random.Random) -> None:
    """An answer to a round that is over, often by a RESET."""
    answers = [piece for piece in pieces if piece.kind in (MessageType.REPLY, MessageType.COMPLETION)]
    steps = [piece for piece in pieces if piece.kind == MessageType.STEP]
    if answers and steps:
        answer = rng.choice(answers).copy()
        answer.kept |= {"header.generation", "header.round"}
        if rng.random() < 0.6:
            pieces.append(_reset(steps[0], rng.choice((ResetReason.CLOSE, ResetReason.CANCEL))))
        pieces.append(answer)


def _move(pieces: list[Piece], rng: random.Random) -> None:
    if pieces:
        piece = pieces.pop(rng.randrange(len(pieces)))
        if piece.kind and rng.random() < 0.5:
            piece.kept |= (
                {"header.generation", "header.round", "position"} if piece.kind != MessageType.HELLO else set()
            )
        pieces.insert(rng.randrange(len(pieces) + 1), piece)


def _splice(pieces: list[Piece], donor: Sequence[Piece], rng: random.Random) -> None:
    if donor:
        start = rng.randrange(len(donor))
        stop = rng.choice((start + 1, len(donor)))
        at = rng.choice((len(pieces), rng.randrange(len(pieces) + 1)))
        pieces[at:at] = [piece.copy() for piece in donor[start:stop]]


def _cut(pieces: list[Piece], rng: random.Random) -> None:
    if pieces:
        del pieces[rng.randrange(1, len(pieces) + 1) :]
        if rng.random() < 0.5:
            del pieces[-1].data[rng.randrange(len(pieces[-1].data) + 1) :]
            pieces[-1].kind = 0


def _append(pieces: list[Piece], rng: random.Random) -> None:
    if pieces:
        piece = rng.choice(pieces)
        piece.data += rng.randbytes(rng.choice((1, 4, 8, 300)))
        if rng.random() < 0.5:
            piece.kind = 0


def _play_again(pieces: list[Piece], rng: random.Random) -> None:
    """A round several times more: as it was, with its COMMIT, or ended by a RESET that resumes the session."""
    steps = [i for i, piece in enumerate(pieces) if piece.kind == MessageType.STEP]
    if not steps:
        return
    start = rng.choice(steps)
    stop = next((i for i in range(start + 1, len(pieces)) if pieces[i].kind in _ENDS), len(pieces))
    stretch = pieces[start:stop]
    if stop < len(pieces) and pieces[stop].kind == MessageType.COMMIT and rng.random() < 0.5:
        stretch.append(pieces[stop])
    else:
        stretch.append(_reset(stretch[0], rng.choice((ResetReason.FAULT, ResetReason.FAULT, ResetReason.CANCEL))))
    rounds = [piece.copy() for _ in range(rng.choice(_AGAIN)) for piece in stretch]
    pieces[start:stop] = rounds + pieces[start:stop]
    if rng.random() < 0.5:
        last = [piece for piece in pieces[start + len(rounds) :][: len(stretch)] if piece.kind]
        change_frame(rng.choice(last), rng, meaning=True)


def _reset(like: Piece, reason: ResetReason) -> Piece:
    reset = blank(like, MessageType.RESET)
    reset.change("reason", reason)
    reset.set("header.round", 0)
    reset.kept.add(FRESH)
    return reset


def _fresh(pieces: list[Piece], rng: random.Random) -> None:
    """A frame of any kind, made from nothing."""
    frames = [piece for piece in pieces if piece.kind not in (0, MessageType.HELLO)]
    if frames:
        kind = rng.choice(_MADE)
        piece = blank(rng.choice(frames), kind)
        piece.set("header.round", 0)
        if kind is MessageType.RESET:
            piece.change("reason", rng.randrange(1, 5))
            piece.kept |= {name for name in ("header.session", "header.slot") if rng.random() < 0.3}
        piece.kept.add(FRESH)
        pieces.insert(rng.randrange(1, len(pieces) + 1), piece)


def _join(pieces: list[Piece], rng: random.Random) -> None:
    """One arrives together with the one before."""
    if pieces:
        piece = rng.choice(pieces)
        piece.joined = not piece.joined


def _join_more(pieces: list[Piece], rng: random.Random) -> None:
    """The next piece of the same sender arrives together with this one."""
    if pieces:
        at = rng.randrange(len(pieces))
        later = next((i for i in range(at + 1, len(pieces)) if pieces[i].who == pieces[at].who), None)
        if later is not None:
            piece = pieces.pop(later)
            piece.joined = True
            pieces.insert(at + 1, piece)


def _turn(pieces: list[Piece], rng: random.Random) -> None:
    """Said by the other side."""
    if pieces:
        piece = rng.choice(pieces)
        piece.who = 1 - piece.who if piece.who != CLOCK else 0


def _wait(pieces: list[Piece], rng: random.Random) -> None:
    """A second passes."""
    pieces.insert(rng.randrange(len(pieces) + 1), Piece(CLOCK, bytearray()))


_ENDS: Final = frozenset({int(MessageType.COMMIT), int(MessageType.RESET), int(MessageType.STEP)})
_CHANGES: Final[tuple[Change, ...]] = (
    _lose, _repeat, _repeat, _move, _cut, _append, _play_again, _fresh,
)  # fmt: skip
_TURNS: Final[tuple[Change, ...]] = (
    _open_again,
    _open_again,
    _ask,
    _ask,
    _ask,
    _late,
    _repeat,
    _join,
    _join_more,
    _turn,
    _wait,
    _play_again,
)
