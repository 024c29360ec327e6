"""Plays the conversation of a vector with one real end: it must send, byte for byte, what was recorded of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pp1wire.capture.vectors import Sent, load_vectors
from pp1wire.protocol import Direction, Draft, Verifier, Worker
from pp1wire.wire import (
    Agreement,
    Commit,
    CommitKind,
    Completion,
    CompletionStatus,
    Hello,
    Reply,
    Representation,
    Reset,
    ResetReason,
    Step,
    decode,
)
from schemas.generator.vectors.conversation import CONTEXT, SEED, TOTAL

NOW = 0.0


def any_answer() -> Hello:
    """The worker's HELLO, for conversations in which it has not answered yet."""
    answers = (v.data for v in load_vectors() if v.name == "hello/answer-sparse")
    message = decode(next(answers), None)
    assert isinstance(message, Hello)
    return message


def hello_of(conversation: Sequence[Sent], sender: Direction) -> Hello | None:
    for sent in conversation:
        if sent.sender is sender:
            message = decode(sent.data, None)
            assert isinstance(message, Hello)
            return message
    return None


def play_worker(conversation: Sequence[Sent]) -> Worker:
    """A worker that has received and sent the conversation."""
    worker = Worker(hello_of(conversation, Direction.WORKER) or any_answer())
    steps: dict[int, Step] = {}
    for sent in conversation:
        if sent.sender is Direction.VERIFIER:
            steps |= {e.session: e.step for e in worker.receive(sent.data) if isinstance(e, Draft)}
            continue
        if worker.agreement is not None and not worker.has_data_to_send:
            answered = answer_as_worker(worker, sent, worker.agreement, steps)
            # A round that is gone is not answered; only a hostile worker would.
            assert answered == (sent.code is None)
            if not answered:
                continue
        assert worker.data_to_send() == sent.data
    return worker


def answer_as_worker(worker: Worker, sent: Sent, agreement: Agreement, steps: dict[int, Step]) -> bool:
    message = decode(sent.data, agreement)
    assert isinstance(message, (Reply, Completion))
    step = steps[message.session]
    if isinstance(message, Completion):
        ok = message.status is CompletionStatus.OK
        return worker.complete(step) if ok else worker.fail(step, message.status)
    counts = (message.q * TOTAL).astype(np.int32)
    ids = message.ids if agreement.representation is Representation.SPARSE else np.arange(len(counts), dtype=np.int32)
    used = agreement.vocab_size
    return worker.reply_row(step, message.token, ids[:used], counts[:used])


def play_verifier(conversation: Sequence[Sent]) -> Verifier:
    """A verifier that has sent and received the conversation."""
    offer = hello_of(conversation, Direction.VERIFIER)
    assert offer is not None
    verifier = Verifier(offer)
    for sent in conversation:
        if sent.sender is Direction.WORKER:
            verifier.receive(sent.data, NOW)
            continue
        if not verifier.has_data_to_send:
            speak_as_verifier(verifier, sent)
        assert verifier.data_to_send() == sent.data
    return verifier


def speak_as_verifier(verifier: Verifier, sent: Sent) -> None:
    if verifier.agreement is None:
        verifier.start(NOW)
        return
    message = decode(sent.data, verifier.agreement)
    if isinstance(message, Reset):
        if message.reason is ResetReason.OPEN:
            verifier.open(message.prefix_ids, SEED, CONTEXT, generation=message.generation)
        elif message.reason is ResetReason.CANCEL:
            verifier.cancel(message.session, prefix_ids=message.prefix_ids)
        else:
            assert message.reason is ResetReason.CLOSE, "a fault is the verifier's own answer"
            verifier.close(message.session)
    elif isinstance(message, Step):
        support = message.support if verifier.agreement.representation is Representation.SPARSE else None
        verifier.step(message.session, NOW, depth=message.depth, temperature=message.temperature, support=support)
    else:
        assert isinstance(message, Commit)
        if message.kind is CommitKind.TARGET_ONLY:
            verifier.target_only(message.session, int(message.tokens[0]))
        else:
            verifier.commit(message.session, message.accepted, message.kind, message.tokens)
