"""A pair of ends over in-memory bytes, and honest proposals for them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pp1wire.protocol import Agreed, Draft, Verifier, Worker, hello
from pp1wire.sampling import dense_row, dyadic_counts, sample
from pp1wire.wire import HelloRole, Representation, Step

VOCAB, PADDED = 48, 64


def sha(byte: int) -> bytes:
    return bytes([byte] * 32)


def offer(**changes):
    return _hello(HelloRole.OFFER, 1, **changes)


def answer(**changes):
    return _hello(HelloRole.ANSWER, 2, **changes)


def _hello(role, nonce, **changes):
    values = {
        "vocab_size": VOCAB, "padded_vocab_size": PADDED, "nonce": bytes([nonce] * 16), "id_map_sha256": sha(3),
        "draft_checkpoint_sha256": sha(4), "draft_revision": "r1", "target_sha256": sha(5), "max_support": 8, "max_prefix": 256,
    }  # fmt: skip
    return hello(role, **(values | changes))


def draft(step: Step, prefix, tickets, salt: int = 0):
    """A small Markov chain model: the tokens and rows of an honest proposal, a function of prefix and step alone."""
    last = int(prefix[-1]) if len(prefix) else 0
    tokens, rows = [], []
    for i in range(step.depth):
        logits = np.random.default_rng([salt, step.position + i, last]).normal(size=VOCAB).astype(np.float32) * 2
        ids, counts = dyadic_counts(logits, step.temperature, step.support or None)
        last = sample(ids, counts, int(tickets[i]))
        tokens.append(last)
        rows.append((ids, counts))
    return tokens, rows


@dataclass
class Pair:
    """Both ends, with bytes carried at once or on request."""

    verifier: Verifier
    worker: Worker
    drafts: list[Draft] = field(default_factory=list)
    events: list = field(default_factory=list)
    now: float = 0.0

    def to_worker(self):
        events = self.worker.receive(self.verifier.data_to_send())
        self.drafts += [e for e in events if isinstance(e, Draft)]
        return events

    def to_verifier(self):
        events = self.verifier.receive(self.worker.data_to_send(), self.now)
        self.events += events
        return events

    def answer_all(self):
        for event in self.drafts:
            step = event.step
            self.worker.reply(step, *draft(step, self.worker.prefix_ids(step.session), event.tickets()))
        self.drafts.clear()

    def round(self, session, **options):
        """STEP → proposal, all the way; the events at the verifier."""
        self.verifier.step(session, self.now, **options)
        self.to_worker()
        self.answer_all()
        return self.to_verifier()


def pair(
    representation=Representation.SPARSE, buffer=None, step_timeout=1.0, offer_changes=None, answer_changes=None
) -> Pair:
    masks = {"representations": (representation,)}
    verifier = Verifier(offer(**(masks | (offer_changes or {}))), buffer=buffer, step_timeout=step_timeout)
    p = Pair(verifier, Worker(answer(**(answer_changes or {}))))
    p.verifier.start(0.0)
    p.to_worker()
    assert [type(e) for e in p.to_verifier()] == [Agreed]
    return p


__all__ = ["PADDED", "VOCAB", "Pair", "answer", "dense_row", "draft", "offer", "pair", "sha"]
