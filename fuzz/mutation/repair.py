"""Makes right again what follows from what was changed: lengths, numbers, identities, digests, tokens, checksums.

A walk over the frames in their order keeps what both ends know (sessions, prefixes, rows of the round) and writes it into every
field that was not changed on purpose. So the fuzzer reaches the rules behind the checksums, and one fault at a time.
"""

from __future__ import annotations

import hashlib
import random
import struct
from dataclasses import dataclass, field
from typing import Final

import xxhash

from fuzz.independent import digest, draw, ticket
from fuzz.mutation.content import count_of
from fuzz.mutation.piece import HEADER, Piece
from pp1wire.wire import Agreement, CommitKind, MessageType, ResetReason

__all__ = ["FRESH", "Walk", "seal"]

_STEERED: Final = 0.03
FRESH: Final = "fresh"
"""In `kept`: a frame that was made from nothing, whose columns are filled in, too."""


@dataclass
class _Session:
    """What both ends know of a session."""

    slot: int
    generation: int
    ids: list[int]
    round: int = 0
    step: Piece | None = None
    tokens: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    row_bytes: int = 0


class Walk:
    """Repairs frames one after another.

    Args:
        rng: chooses where there is a choice.
        agreement: what the frames belong to; None where HELLOs settle it.
    """

    def __init__(self, rng: random.Random, agreement: Agreement | None) -> None:
        self._rng = rng
        self._identity = 0 if agreement is None else agreement.id
        self._hellos: dict[int, bytes] = {}
        self._numbers: dict[int, int] = {}
        self._sessions: dict[int, _Session] = {}
        self._renamed: dict[int, int] = {}
        self._last = 0

    def links(self, piece: Piece) -> None:
        """Identity, position, digests and all that follows from the frames before; then `seal`, then `learn`."""
        first = piece.get("header.sequence") if self._identity and not self._numbers else 0
        piece.repair("header.sequence", self._numbers.get(piece.who, first))
        if piece.kind == MessageType.HELLO:
            self._hello(piece)
            return
        piece.repair("header.agreement_id", self._identity)
        number = piece.get("header.session")
        piece.repair("header.session", self._renamed.get(number, number))
        session = self._sessions.get(piece.get("header.session"))
        if piece.kind == MessageType.RESET:
            self._reset(piece, session)
        elif session is not None:
            piece.repair("header.slot", session.slot)
            piece.repair("header.generation", session.generation)
            _LINKS[MessageType(piece.kind)](self, piece, session)

    def learn(self, piece: Piece) -> None:
        """Note a finished frame."""
        self._numbers[piece.who] = piece.get("header.sequence") + 1
        session = self._sessions.get(piece.get("header.session"))
        if piece.kind == MessageType.HELLO:
            self._hellos.setdefault(piece.who, bytes(piece.data[HEADER:]))
            bodies = b"".join(self._hellos[who] for who in sorted(self._hellos))
            self._identity = int.from_bytes(hashlib.blake2b(bodies, digest_size=8).digest(), "little")
        elif piece.kind == MessageType.RESET:
            self._learn_reset(piece, session)
        elif session is None:
            return
        elif piece.kind == MessageType.STEP:
            session.round, session.step = piece.get("header.round"), piece
            session.tokens, session.sums, session.row_bytes = [], [], 0
        elif piece.kind == MessageType.REPLY:
            session.tokens.append(piece.get("token"))
            session.sums.append(piece.get("header.body_checksum"))
            session.row_bytes += len(piece.data)
        elif piece.kind == MessageType.COMMIT:
            session.round = piece.get("header.round")
            session.ids += piece.ids()[: piece.get("token_count")]

    # What follows, by message.

    def _hello(self, piece: Piece) -> None:
        piece.repair("header.agreement_id", 0)
        refused = piece.get("status") == 1
        if refused != (piece.get("refusal") != 0) and self._rng.random() < 0.6:
            piece.repair("refusal", self._rng.randrange(1, 13) if refused else 0)

    def _reset(self, piece: Piece, session: _Session | None) -> None:
        reason = piece.get("reason")
        if reason == ResetReason.OPEN:
            self._open(piece)
        elif session is not None:
            piece.repair("header.slot", session.slot)
            piece.repair("header.generation", session.generation + 1)
            if FRESH in piece.kept and reason != ResetReason.CLOSE:
                piece.set_words(session.ids)
        ids = piece.ids()
        if reason == ResetReason.CLOSE and session is not None and not ids:
            ids = session.ids
        piece.repair("prefix_count", len(piece.ids()))
        piece.repair("position", len(ids))
        piece.repair("prefix_digest", digest(ids))

    def _open(self, piece: Piece) -> None:
        number = piece.get("header.session")
        if number <= self._last and "header.session" not in piece.kept:
            # Opened again: the frames behind it speak of the new one.
            self._renamed[number] = self._last + 1
            piece.set("header.session", self._last + 1)
        taken = {s.slot for s in self._sessions.values()}
        if piece.get("header.slot") in taken:
            piece.repair("header.slot", next((slot for slot in range(4) if slot not in taken), 0))

    def _step(self, piece: Piece, session: _Session) -> None:
        piece.repair("header.round", session.round + 1)
        piece.repair("position", len(session.ids))
        piece.repair("prefix_digest", digest(session.ids))

    def _reply(self, piece: Piece, session: _Session) -> None:
        step = session.step
        if step is None:
            return
        piece.repair("header.round", step.get("header.round"))
        piece.repair("position", step.get("position") + len(session.tokens))
        ids, q = piece.row()
        used = min(piece.get("entry_count"), len(q))
        counts = [count_of(word) for word in q[:used]]
        names = ids[:used] if ids else [*range(used)]
        if len(names) == used > 0 and None not in counts:
            number = ticket(
                step.get("proposal_seed"),
                piece.get("header.generation"),
                piece.get("header.round"),
                piece.get("position"),
            )
            steered = self._rng.random() < _STEERED
            piece.repair(
                "token", self._rng.choice(names) if steered else draw(names, [count or 0 for count in counts], number)
            )

    def _completion(self, piece: Piece, session: _Session) -> None:
        step = session.step
        if step is None:
            return
        piece.repair("header.round", step.get("header.round"))
        piece.repair("position", step.get("position"))
        piece.repair("context_version", step.get("context_version"))
        piece.repair("rows", len(session.tokens))
        piece.repair("reply_bytes", session.row_bytes)
        sums = struct.pack(f"<{len(session.sums)}Q", *session.sums)
        piece.repair("rows_checksum", xxhash.xxh3_128_digest(sums))

    def _commit(self, piece: Piece, session: _Session) -> None:
        kind, accepted, tokens = piece.get("kind"), piece.get("accepted"), piece.ids()
        fresh = kind == CommitKind.TARGET_ONLY or session.step is None
        piece.repair("header.round", session.round + fresh)
        piece.repair("token_count", accepted + (kind != CommitKind.NONE))
        count = piece.get("token_count")
        for index in range(min(accepted, len(session.tokens), len(tokens))):
            if f"tokens[{index}]" not in piece.kept:
                tokens[index] = session.tokens[index]
        if {"accepted", "kind"} & piece.kept:
            tokens[count:] = [0] * len(tokens[count:])
        piece.set_words(tokens)
        piece.repair("position", len(session.ids))
        piece.repair("prefix_digest", digest(session.ids))
        piece.repair("new_position", len(session.ids) + count)
        piece.repair("new_digest", digest(session.ids + tokens[:count]))

    def _learn_reset(self, piece: Piece, session: _Session | None) -> None:
        number, reason = piece.get("header.session"), piece.get("reason")
        generation, ids = piece.get("header.generation"), piece.ids()
        if reason == ResetReason.OPEN and session is None:
            self._sessions[number] = _Session(piece.get("header.slot"), generation, ids)
            self._last = max(self._last, number)
        elif session is not None and reason == ResetReason.CLOSE:
            del self._sessions[number]
        elif session is not None:
            self._sessions[number] = _Session(session.slot, generation, ids)


def seal(piece: Piece) -> None:
    """Length and both checksums of a frame, those that were not changed on purpose."""
    piece.repair("header.body_length", len(piece.data) - HEADER)
    seed = xxhash.xxh3_64_intdigest(bytes(piece.data[16:48]))
    piece.repair("header.body_checksum", xxhash.xxh3_64_intdigest(bytes(piece.data[HEADER:]), seed=seed))
    piece.repair("header.header_checksum", xxhash.xxh3_64_intdigest(bytes(piece.data[:56])))


_LINKS: Final = {
    MessageType.STEP: Walk._step,
    MessageType.REPLY: Walk._reply,
    MessageType.COMPLETION: Walk._completion,
    MessageType.COMMIT: Walk._commit,
}
