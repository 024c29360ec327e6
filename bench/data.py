"""The same proposals for every contestant, from a fixed seed or a model's rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp1wire.protocol.session import step_tickets
from pp1wire.sampling import MASS, sample
from pp1wire.wire import Agreement, ReplyBatch, Representation, Step, SupportPolicy, encode_replies

from . import real_rows

VOCAB = 129_280
REQUESTS, DEPTH = 4, 5
SUPPORTS = (16, 32, 64, 256)
SEED, POSITION = 2**60, 100

Row = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


@dataclass(frozen=True)
class Shape:
    """A round: so many requests of depth 5, with rows of `support` entries (0: dense), from a model or from an adversary."""

    requests: int
    support: int
    rows: str = "real"

    @property
    def representation(self) -> Representation:
        return Representation.SPARSE if self.support else Representation.DENSE

    @property
    def name(self) -> str:
        what = f"k={self.support}" if self.support else "dense"
        return f"{self.requests}×{DEPTH}, {what}, {self.rows}"


def shapes(requests: tuple[int, ...] = (1, REQUESTS), supports: tuple[int, ...] = (*SUPPORTS, 0)) -> Iterator[Shape]:
    """Every shape that formats are compared in."""
    for rows in ("real", "adversarial"):
        for number in requests:
            yield from (Shape(number, support, rows) for support in supports)


def agreement(representation: Representation, support: int = 32, vocab: int = VOCAB) -> Agreement:
    return Agreement(
        id=1,
        representation=representation,
        vocab_size=vocab,
        padded_vocab_size=vocab,
        max_slots=REQUESTS,
        max_depth=DEPTH,
        max_support=support,
        max_prefix=4_096,
    )


def round_frames(agreed: Agreement, requests: int = REQUESTS) -> bytes:
    """The REPLY frames of one round of four requests, depth 5."""
    rng = np.random.default_rng(20_240_501)
    vocab = agreed.vocab_size
    entries = agreed.max_support if agreed.representation is Representation.SPARSE else vocab

    def row(_: int) -> Row:
        ids = np.sort(rng.choice(vocab, entries, replace=False)).astype(np.int32)
        weights = rng.dirichlet(np.full(entries, 0.3))
        return ids, rng.multinomial(MASS - entries, weights).astype(np.int32) + 1

    return _frames(agreed, [row(index) for index in range(requests * DEPTH)])


def shape_frames(shape: Shape) -> tuple[Agreement, bytes]:
    """The agreement and the REPLY frames of a round of that shape; every token is what its ticket draws."""
    agreed = agreement(shape.representation, shape.support or 32)
    return agreed, _frames(agreed, shape_rows(shape))


def shape_rows(shape: Shape) -> list[Row]:
    """The rows of a round of that shape as (ids, counts), request by request."""
    make = {"real": _real, "adversarial": _adversarial}[shape.rows]
    return [make(index, shape.support) for index in range(shape.requests * DEPTH)]


def steps(requests: int = REQUESTS, depth: int = DEPTH) -> list[Step]:
    """What the rows of `shape_frames` and `round_frames` were asked for with, slot by slot."""
    return [
        Step(
            session=slot + 1, slot=slot, generation=1, round=1, position=POSITION, depth=depth, temperature=1.0,
            support_policy=SupportPolicy.TOP_K, support=32, proposal_seed=SEED + slot, prefix_digest=bytes(16),
            context_version=0,
        )
        for slot in range(requests)
    ]  # fmt: skip


def _frames(agreed: Agreement, rows: list[Row]) -> bytes:
    drawn, frames = step_tickets(steps(len(rows) // DEPTH)), []
    for slot in range(len(rows) // DEPTH):
        own = rows[slot * DEPTH : (slot + 1) * DEPTH]
        tokens = [sample(*row, ticket) for row, ticket in zip(own, drawn[slot].tolist(), strict=True)]
        batch = ReplyBatch.from_rows(
            agreed, session=slot + 1, slot=slot, generation=1, round=1, position=POSITION, tokens=tokens, rows=own
        )
        frames.append(bytes(encode_replies(batch, agreed, 1 + slot * DEPTH)))
    return b"".join(frames)


def _real(index: int, support: int) -> Row:
    return real_rows.sparse(index, support, VOCAB) if support else real_rows.full(index % DEPTH, VOCAB)


def _adversarial(index: int, support: int) -> Row:
    """Legal rows that are the hardest to judge, pack or sum: all alike, one id alone, halves again and again, the far ends."""
    entries = support or VOCAB
    kind = index % 4
    if kind == 1:
        return np.array([VOCAB - 1], np.int32), np.array([MASS], np.int32)
    ids = np.linspace(0, VOCAB - 1, entries).astype(np.int32)
    if kind == 0:
        counts = np.full(entries, MASS // entries, np.int32)
        counts[-1] += MASS - int(counts.sum())
    else:
        counts = np.ones(entries, np.int32)
        left = MASS - entries
        for place in range(min(entries, 23)) if kind == 2 else ():
            counts[place] += left // 2
            left -= left // 2
        counts[-1 if kind == 2 else 0] += left
    return ids, counts
