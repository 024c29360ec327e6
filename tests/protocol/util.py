"""A pair of ends over in-memory bytes, and honest proposals for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pp1wire.protocol import Agreed, Draft, Verifier, Worker, hello
from pp1wire.protocol.session import step_tickets
from pp1wire.sampling import dyadic_counts, sample
from pp1wire.wire import (
    Commit,
    CommitKind,
    Completion,
    CompletionStatus,
    HelloRole,
    ReplyBatch,
    Representation,
    Reset,
    ResetReason,
    Step,
    SupportPolicy,
    encode,
    prefix_digest,
    rows_checksum,
)

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


def snapshot(end):
    """Everything about an end's sessions that a message could change."""
    live = end._live
    if live is None:
        return end.state
    sessions = {
        number: (
            s.slot, s.generation, s.state, s.round, s.position, s.prefix.digest(), s.proposal_seed, s.context_version,
            None if s.current is None else (s.current.step, list(s.current.tokens), list(s.current.checksums)),
        )
        for number, s in live.sessions.open.items()
    }  # fmt: skip
    return sessions, live.sessions.last, [s and s.number for s in live.sessions.slots]


def frame(end, message, agreement=None, sequence=None):
    """`message` as the next frame that the peer of `end` would send."""
    number = end._splitter.next_sequence if sequence is None else sequence
    return encode(message, agreement or end.agreement, number)


def reset_for(session, reason, *, generation=None, ids=None):
    """The RESET that may follow in `session` (a protocol Session), with legal contents."""
    closes = reason is ResetReason.CLOSE
    prefix = session.prefix.ids() if ids is None else np.array(ids, np.int32)
    return Reset(
        session=session.number, slot=session.slot, generation=generation or session.generation + 1, reason=reason,
        position=len(prefix), prefix_digest=prefix_digest(prefix), prefix_ids=prefix[: 0 if closes else None],
    )  # fmt: skip


def step_for(session, agreement, **changes):
    """A STEP of the session's next round, with legal contents."""
    dense = agreement.representation is Representation.DENSE
    step = Step(
        session=session.number, slot=session.slot, generation=session.generation, round=session.next_round,
        position=session.position, depth=2, support_policy=SupportPolicy.FULL if dense else SupportPolicy.TOP_K,
        temperature=1.0, proposal_seed=7 if session.proposal_seed is None else session.proposal_seed,
        prefix_digest=session.prefix.digest(), support=0 if dense else agreement.max_support,
        context_version=0 if session.context_version is None else session.context_version,
    )  # fmt: skip
    return replace(step, **changes)


def commit_for(session, kind, **changes):
    """A COMMIT with legal contents: of the open round, or of the next one for a token of the target alone."""
    drafted = [] if session.current is None else session.current.tokens
    if kind is CommitKind.TARGET_ONLY:
        round_, accepted, tokens = session.next_round, 0, [1]
    else:
        round_ = max(session.round, 1)
        accepted = {CommitKind.NONE: 1, CommitKind.CORRECTION: 0, CommitKind.BONUS: len(drafted)}[kind]
        tokens = (drafted or [1])[:accepted] + [2] * (kind is not CommitKind.NONE)
    ids = np.array(tokens, np.int32)
    commit = Commit(
        session=session.number, slot=session.slot, generation=session.generation, round=round_,
        position=session.position, new_position=session.position + len(ids), prefix_digest=session.prefix.digest(),
        new_digest=session.prefix.digest_after(ids), accepted=accepted, kind=kind, tokens=ids,
    )  # fmt: skip
    return replace(commit, **changes)


def replies_for(step, prefix, agreement):
    """The honest REPLYs to a STEP, as messages."""
    tokens, rows = draft(step, prefix, step_tickets([step])[0])
    batch = ReplyBatch.from_rows(
        agreement, session=step.session, slot=step.slot, generation=step.generation, round=step.round,
        position=step.position, tokens=tokens, rows=rows,
    )  # fmt: skip
    return [batch[i] for i in range(len(batch))]


def completion_for(step, replies, agreement, **changes):
    """The COMPLETION ok of these REPLYs."""
    checksums = [int.from_bytes(encode(r, agreement, 0)[48:56], "little") for r in replies]
    completion = Completion(
        session=step.session, slot=step.slot, generation=step.generation, round=step.round, position=step.position,
        context_version=step.context_version, reply_bytes=len(replies) * agreement.reply_frame_bytes,
        rows_checksum=rows_checksum(checksums), status=CompletionStatus.OK, rows=len(replies),
    )  # fmt: skip
    return replace(completion, **changes)
