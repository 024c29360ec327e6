"""Hypothesis strategies for agreements, every message and legal rows; other rooms' tests may use them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pp1wire.wire import (
    Agreement,
    Commit,
    CommitKind,
    Completion,
    CompletionStatus,
    DraftOrigin,
    Hello,
    HelloRole,
    HelloStatus,
    Message,
    RefusalReason,
    Reply,
    ReplyBatch,
    Representation,
    Reset,
    ResetReason,
    Step,
    SupportPolicy,
    prefix_digest,
)
from pp1wire.wire._schema_v2 import MAX_DEPTH, MAX_PREFIX, MAX_SLOTS, MAX_VOCAB, Q_TOTAL

U8, U32, U64 = 2**8 - 1, 2**32 - 1, 2**64 - 1
digests = st.binary(min_size=16, max_size=16)
hashes = st.binary(min_size=32, max_size=32)
temperatures = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)


def unsigned(largest: int, smallest: int = 0) -> st.SearchStrategy[int]:
    """Integers of a field, its ends more often than chance would have them."""
    return st.integers(smallest, largest) | st.sampled_from([smallest, largest])


def texts(size: int) -> st.SearchStrategy[str]:
    """Printable ASCII of at most `size` characters."""
    return st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=size)


@st.composite
def agreements(draw: st.DrawFn, representation: Representation | None = None, max_vocab: int = 12) -> Agreement:
    """Small agreements: padded or not, k below, at and above the vocabulary."""
    vocab = draw(st.integers(1, max_vocab))
    return Agreement(
        id=draw(unsigned(U64)),
        representation=representation or draw(st.sampled_from(Representation)),
        vocab_size=vocab,
        padded_vocab_size=vocab + draw(st.integers(0, 5)),
        max_slots=draw(st.integers(1, MAX_SLOTS)),
        max_depth=draw(st.integers(1, MAX_DEPTH)),
        max_support=draw(st.integers(1, vocab + 3)),
        max_prefix=draw(st.integers(1, 40)),
    )


@st.composite
def identities(draw: st.DrawFn, agreement: Agreement) -> dict[str, int]:
    """Header identity of a message of a round."""
    return {
        "session": draw(unsigned(U64, 1)),
        "slot": draw(st.integers(0, agreement.max_slots - 1)),
        "generation": draw(unsigned(U32, 1)),
        "round": draw(unsigned(U32, 1)),
    }


@st.composite
def rows(draw: st.DrawFn, agreement: Agreement) -> tuple[np.ndarray, np.ndarray]:
    """A legal row as (ids int32 [m], counts int32 [m]): strictly rising ids, positive counts with total 2^24."""
    sparse = agreement.representation is Representation.SPARSE
    most = min(agreement.vocab_size, agreement.max_support) if sparse else agreement.vocab_size
    size = draw(st.integers(1, most) | st.just(most))
    ids = sorted(draw(st.permutations(range(agreement.vocab_size)))[:size])
    cuts = draw(
        st.lists(unsigned(Q_TOTAL - 1, 1), min_size=size - 1, max_size=size - 1, unique=True)
        if draw(st.booleans())
        else st.just(list(range(1, size)))
    )
    return np.array(ids, np.int32), np.diff(np.array([0, *sorted(cuts), Q_TOTAL])).astype(np.int32)


@st.composite
def replies(draw: st.DrawFn, agreement: Agreement) -> Reply:
    """A legal REPLY."""
    ids, counts = draw(rows(agreement))
    q = counts.astype(np.float32) / np.float32(Q_TOTAL)
    token = int(draw(st.sampled_from(ids.tolist())))
    if agreement.representation is Representation.DENSE:
        wide = np.zeros(agreement.vocab_size, np.float32)
        wide[ids] = q
        ids, q = np.zeros(0, np.int32), wide
    return Reply(**draw(identities(agreement)), position=draw(unsigned(U32)), token=token, ids=ids, q=q)


@st.composite
def batches(draw: st.DrawFn, agreement: Agreement, min_rows: int = 0, max_rows: int = 5) -> ReplyBatch:
    """Legal rows that need not be of one round."""
    members = draw(st.lists(replies(agreement), min_size=min_rows, max_size=max_rows))
    return ReplyBatch.from_replies(members, agreement)


@st.composite
def steps(draw: st.DrawFn, agreement: Agreement) -> Step:
    """A legal STEP."""
    dense = agreement.representation is Representation.DENSE
    depth = draw(st.integers(1, agreement.max_depth))
    return Step(
        **draw(identities(agreement)),
        position=draw(unsigned(2**32 - 1 - depth)),
        depth=depth,
        support_policy=SupportPolicy.FULL if dense else SupportPolicy.TOP_K,
        temperature=draw(temperatures),
        proposal_seed=draw(unsigned(U64)),
        prefix_digest=draw(digests),
        support=0 if dense else draw(st.integers(1, agreement.max_support)),
        context_version=draw(unsigned(U32)),
    )


@st.composite
def completions(draw: st.DrawFn, agreement: Agreement) -> Completion:
    """A legal COMPLETION."""
    return Completion(
        **draw(identities(agreement)),
        position=draw(unsigned(U32)),
        context_version=draw(unsigned(U32)),
        reply_bytes=draw(unsigned(U64)),
        rows_checksum=draw(digests),
        status=draw(st.sampled_from(CompletionStatus)),
        rows=draw(st.integers(0, MAX_DEPTH)),
    )


@st.composite
def commits(draw: st.DrawFn, agreement: Agreement) -> Commit:
    """A legal COMMIT."""
    kind = draw(st.sampled_from(CommitKind))
    accepted = 0 if kind is CommitKind.TARGET_ONLY else draw(st.integers(kind is CommitKind.NONE, MAX_DEPTH))
    count = accepted + (kind is not CommitKind.NONE)
    position = draw(unsigned(U32 - count))
    return Commit(
        **draw(identities(agreement)),
        position=position,
        new_position=position + count,
        prefix_digest=draw(digests),
        new_digest=draw(digests),
        accepted=accepted,
        kind=kind,
        tokens=draw(token_lists(agreement, count, count)),
    )


def token_lists(agreement: Agreement, smallest: int, largest: int) -> st.SearchStrategy[list[int]]:
    """Ids below the vocabulary size."""
    return st.lists(st.integers(0, agreement.vocab_size - 1), min_size=smallest, max_size=largest)


@st.composite
def resets(draw: st.DrawFn, agreement: Agreement) -> Reset:
    """A legal RESET."""
    reason = draw(st.sampled_from(ResetReason))
    identity = draw(identities(agreement))
    del identity["round"]
    if reason is ResetReason.CLOSE:
        position, digest, ids = draw(unsigned(MAX_PREFIX)), draw(digests), []
    else:
        ids = draw(token_lists(agreement, 0, agreement.max_prefix))
        position, digest = len(ids), prefix_digest(ids)
    return Reset(**identity, reason=reason, position=position, prefix_digest=digest, prefix_ids=ids)


@st.composite
def hellos(draw: st.DrawFn) -> Hello:
    """A legal HELLO."""
    role = draw(st.sampled_from(HelloRole))
    refused = role is HelloRole.ANSWER and draw(st.booleans())
    vocab = draw(unsigned(MAX_VOCAB, 1))
    reasons = [r for r in RefusalReason if r is not RefusalReason.NONE]
    return Hello(
        role=role,
        status=HelloStatus.REFUSED if refused else HelloStatus.ACCEPTED,
        refusal=draw(st.sampled_from(reasons)) if refused else RefusalReason.NONE,
        precision=draw(unsigned(U8)),
        draft_origin=draw(st.sampled_from(DraftOrigin)),
        representations=draw(st.integers(1, 3)),
        max_slots=draw(st.integers(1, MAX_SLOTS)),
        features=draw(unsigned(U32)),
        vocab_size=vocab,
        padded_vocab_size=draw(unsigned(MAX_VOCAB, vocab)),
        max_support=draw(unsigned(MAX_VOCAB, 1)),
        max_prefix=draw(unsigned(MAX_PREFIX, 1)),
        max_depth=draw(st.integers(1, MAX_DEPTH)),
        dense_reply_bytes=draw(unsigned(U32)),
        sparse_reply_bytes=draw(unsigned(U32)),
        nonce=draw(digests.filter(any)),
        q_semantic=draw(texts(32)),
        verifier_semantic=draw(texts(32)),
        rng_abi=draw(texts(32)),
        id_map_sha256=draw(hashes),
        draft_checkpoint_sha256=draw(hashes),
        target_sha256=draw(hashes),
        draft_revision=draw(texts(64)),
    )


MESSAGES: dict[type[Any], Callable[[Agreement], st.SearchStrategy[Any]]] = {
    Hello: lambda _: hellos(),
    Step: steps,
    Reply: replies,
    Completion: completions,
    Commit: commits,
    Reset: resets,
}


def messages(agreement: Agreement) -> st.SearchStrategy[Message]:
    """Any message that goes with an agreement: all but HELLO."""
    return st.one_of(*(make(agreement) for kind, make in MESSAGES.items() if kind is not Hello))


@st.composite
def conversations(draw: st.DrawFn, max_messages: int = 6) -> tuple[Agreement, list[Message]]:
    """An agreement and messages under it."""
    agreement = draw(agreements())
    return agreement, draw(st.lists(messages(agreement), max_size=max_messages))
