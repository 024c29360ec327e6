"""Proposals of a worker that lies, each of which some rule can tell from an honest one.

A worker that draws a token from another q by the very ticket that is asked for tells no lie that anybody could find
(docs/exactness.md, "What tickets show"); so a forged row is sent only if the ticket belongs to another token.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from fuzz.simulator.outbox import field, resealed, restamped
from fuzz.simulator.toys import Expected, Toys, ticket
from pp1wire.wire import (
    Agreement,
    Completion,
    CompletionStatus,
    MessageType,
    ReplyBatch,
    Step,
    decode_replies,
    encode,
    encode_replies,
    rows_checksum,
)

if TYPE_CHECKING:
    from fuzz.simulator.outbox import Outbox

__all__ = ["forged"]

_POSITION = field(MessageType.REPLY, "position")
_TOKEN = field(MessageType.REPLY, "token")


class _Round:
    """The frames of one STEP's answer, honest until they are changed."""

    def __init__(self, toys: Toys, agreement: Agreement, step: Step, honest: Expected) -> None:
        self.toys, self.agreement, self.step, self.honest = toys, agreement, step, honest
        self.tokens = list(honest.tokens)
        self.rows = list(honest.rows)

    def ticket(self, i: int) -> int:
        step = self.step
        return ticket(step.proposal_seed, step.generation, step.round, step.position + i)

    def replies(self) -> list[bytes]:
        step, size = self.step, self.agreement.reply_frame_bytes
        batch = ReplyBatch.from_rows(
            self.agreement, session=step.session, slot=step.slot, generation=step.generation, round=step.round,
            position=step.position, tokens=self.tokens, rows=[(row.ids, row.counts) for row in self.rows],
        )  # fmt: skip
        data = bytes(encode_replies(batch, self.agreement, 0))
        return [data[at : at + size] for at in range(0, len(data), size)]

    def completion(self, replies: list[bytes]) -> Completion:
        """The COMPLETION ok that fits these REPLYs."""
        step = self.step
        return Completion(
            session=step.session, slot=step.slot, generation=step.generation, round=step.round, position=step.position,
            context_version=step.context_version, reply_bytes=sum(map(len, replies)),
            rows_checksum=rows_checksum([int.from_bytes(r[48:56], "little") for r in replies]),
            status=CompletionStatus.OK, rows=len(replies),
        )  # fmt: skip


def forged(
    kind: str, rng: random.Random, toys: Toys, outbox: Outbox, agreement: Agreement, step: Step, honest: Expected
) -> tuple[list[bytes], list[bytes]] | None:
    """The frames of a lie of this kind, and those of the honest answer; None if this round has no room for it."""
    round_ = _Round(toys, agreement, step, honest)
    truthful = round_.replies()
    truthful.append(encode(round_.completion(truthful), agreement, 0))
    at = rng.randrange(step.depth)
    if kind == "other_q":
        if not _other_q(round_, at, rng):
            return None
    elif kind == "other_token":
        others = [int(t) for t in round_.rows[at].ids if t != round_.tokens[at]]
        if not others:
            return None
        round_.tokens[at] = rng.choice(others)
    frames = round_.replies()
    if kind == "older_row":
        old = _older_row(round_, at, outbox)
        if old is None:
            return None
        frames[at] = old
    elif kind == "other_position":
        frame = bytearray(frames[at])
        position = step.position + at + rng.choice((-1, 1, 2))
        frame[_POSITION] = max(position, 0).to_bytes(4, "little")
        frames[at] = resealed(frame)
        if position < 0:
            return None
    elif kind == "row_too_many":
        frame = bytearray(frames[-1])
        frame[_POSITION] = (step.position + step.depth).to_bytes(4, "little")
        frames.append(resealed(frame))
    completion = round_.completion(frames[: step.depth])
    if kind == "early_completion":
        frames = frames[: rng.randrange(step.depth)]
        completion = rng.choice((round_.completion(frames), completion))
    elif kind == "wrong_completion":
        completion = _wrong(completion, rng)
    answer = [*frames, encode(completion, agreement, 0)]
    if kind == "other_round":
        answer = _in_another_name(answer, step, rng)
    return answer, truthful


def _other_q(round_: _Round, at: int, rng: random.Random) -> bool:
    """Another q with the same token, which its ticket does not draw."""
    step, token = round_.step, round_.tokens[at]
    for last in rng.sample(range(round_.toys.vocab), round_.toys.vocab):
        row = round_.toys.row(step.position + at, last, step.temperature, step.support)
        if token in row.ids and row.owner(round_.ticket(at)) != token:
            round_.rows[at] = row
            return True
    return False


def _older_row(round_: _Round, at: int, outbox: Outbox) -> bytes | None:
    """A row of another round at this position, with everything made right but its ticket."""
    own = round_.replies()[at]
    for old in outbox.history(MessageType.REPLY):
        moved = resealed(bytearray(restamped(old, own)))
        if old[_POSITION] == own[_POSITION] and _is_told(round_, at, moved):
            return moved
    return None


def _is_told(round_: _Round, at: int, frame: bytes) -> bool:
    """Whether the ticket draws another token than this row's from this row's q."""
    batch = _batch(frame, round_.agreement)
    used = int(batch.entry_counts[0])
    ids = batch.ids[0, :used] if round_.agreement.id_entries else range(round_.agreement.vocab_size)
    running = 0
    for token, count in zip(ids, batch.counts[0].tolist(), strict=False):
        running += count
        if round_.ticket(at) < running:
            return int(token) != _token(frame)
    return True


def _wrong(completion: Completion, rng: random.Random) -> Completion:
    changes = (
        {"rows_checksum": bytes(16)},
        {"context_version": completion.context_version ^ 1},
        {"position": completion.position ^ 1},
        {"reply_bytes": completion.reply_bytes + 1},
    )
    return replace(completion, **rng.choice(changes))


def _in_another_name(frames: list[bytes], step: Step, rng: random.Random) -> list[bytes]:
    """The same answer for a round, generation, session or slot that was not asked for, with right checksums."""
    identity = bytearray(frames[0])
    what = rng.choice(("round", "generation", "session", "slot"))
    at, size, value = {
        "round": (44, 4, step.round),
        "generation": (40, 4, step.generation),
        "session": (32, 8, step.session),
        "slot": (20, 2, step.slot),
    }[what]
    value = (value + 1) % 4 if what == "slot" else max(value + rng.choice((-1, 1, 7)), 1)
    identity[at : at + size] = value.to_bytes(size, "little")
    return [resealed(bytearray(restamped(frame, bytes(identity)))) for frame in frames]


def _token(frame: bytes) -> int:
    return int.from_bytes(frame[_TOKEN], "little")


def _batch(frame: bytes, agreement: Agreement) -> ReplyBatch:
    return decode_replies(frame, agreement)
