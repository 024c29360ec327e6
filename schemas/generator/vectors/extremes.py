"""Vectors at the ends of what is legal: the smallest and the largest of every field, shape and limit."""

from __future__ import annotations

import math
import sys

from schemas.generator.vectors.build import Draft, Value
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import (
    LAWS,
    PREFIX,
    TOTAL,
    VERIFIER,
    VOCAB,
    WORKER,
    Conversation,
    Shape,
    hello,
)
from schemas.generator.vectors.requests import LONGEST

FILE = "bounds"
U8, U16, U32, U64 = 2**8 - 1, 2**16 - 1, 2**32 - 1, 2**64 - 1
TINY = Shape(vocab=1, padded=1, support=1, depth=1, slots=1, prefix=2, laws=({0: TOTAL},))
# The fourth law uses every entry of a sparse row, the fifth one entry.
_EVERY = dict.fromkeys(range(VOCAB - 1), TOTAL // 16) | {VOCAB - 1: TOTAL - (VOCAB - 1) * (TOTAL // 16)}
DEEP = Shape(padded=VOCAB, support=VOCAB, depth=5, slots=4, prefix=64, laws=(*LAWS, _EVERY, {VOCAB - 1: TOTAL}))


def add(vectors: Collection) -> None:
    """Both ends of every field that has them, and one below, at and one above each named limit."""
    _offers(vectors)
    _answers(vectors)
    _requests(vectors)
    for representation in ("sparse", "dense"):
        _tiny(vectors, representation)
        _deep(vectors, representation)
    _wide(vectors)
    _discards(vectors)


def _limit(vectors: Collection, name: str) -> int:
    return int(vectors.builder.schema.constants[name][0])


def _offers(vectors: Collection) -> None:
    start = vectors.talk("nothing", None)

    def offer(name: str, comment: str, **body: Value) -> None:
        vectors.valid(FILE, f"offer-{name}", start, hello("offer", **body), comment, VERIFIER)

    texts = {"q_semantic": 32, "verifier_semantic": 32, "rng_abi": 32, "draft_revision": 64}
    digests = ("id_map_sha256", "draft_checkpoint_sha256", "target_sha256")
    least: dict[str, Value] = dict.fromkeys(
        ("max_slots", "vocab_size", "padded_vocab_size", "max_support", "max_prefix", "max_depth", "representations"), 1
    )
    least |= {
        "precision": 0,
        "features": 0,
        "dense_reply_bytes": 0,
        "sparse_reply_bytes": 0,
        "nonce": bytes(15) + b"\1",
    }
    least |= dict.fromkeys(texts, b"") | dict.fromkeys(digests, bytes(32))
    offer("least", "The least of every field. A worker may refuse it, but it is a legal offer.", **least)
    most: dict[str, Value] = {
        "max_slots": _limit(vectors, "max_slots"), "max_depth": _limit(vectors, "max_depth"),
        "vocab_size": _limit(vectors, "max_vocab"), "padded_vocab_size": _limit(vectors, "max_vocab"),
        "max_support": _limit(vectors, "max_vocab"), "max_prefix": _limit(vectors, "max_prefix"),
    }  # fmt: skip
    one_below = {name: value - 1 for name, value in most.items() if isinstance(value, int)}
    offer("below-limits", "One below each limit of the protocol.", **one_below)
    most |= {
        "precision": U8, "features": U32, "dense_reply_bytes": U32, "sparse_reply_bytes": U32, "nonce": b"\xff" * 16,
        "draft_origin": 2, "representations": 3,
    }  # fmt: skip
    most |= {name: b"~" * size for name, size in texts.items()} | dict.fromkeys(digests, b"\xff" * 32)
    offer("most", "The most of every field, and texts that fill theirs.", **most)
    offer("spaces", "A text of spaces, the first character that may be printed.", draft_revision=b" " * 64)
    vectors.invalid(
        FILE, "offer-text-delete", start, hello("offer", draft_revision=b"r\x7f"), "text_not_canonical",
        "hello.draft_revision", "The character above the last that may be printed.", VERIFIER,
    )  # fmt: skip
    vectors.invalid(
        FILE, "offer-text-unit-separator", start, hello("offer", draft_revision=b"\x1fr"), "text_not_canonical",
        "hello.draft_revision", "The character below the first that may be printed.", VERIFIER,
    )  # fmt: skip


def _answers(vectors: Collection) -> None:
    offered = vectors.talk("offered", None).send(hello("offer"), VERIFIER)
    most = {"max_slots": 4, "max_depth": 5, "max_support": _limit(vectors, "max_vocab")}
    most |= {"max_prefix": _limit(vectors, "max_prefix"), "dense_reply_bytes": U32, "sparse_reply_bytes": U32}
    vectors.valid(FILE, "answer-larger", offered, hello("answer", **most), "The offer's capacities count.", WORKER)
    for reason in vectors.builder.schema.enums["refusal_reason"]:
        refusal = hello("answer", status=1, refusal=reason.number)
        if reason.number and not vectors.has(offered, refusal, WORKER):
            name = f"answer-refused-{reason.name.replace('_', '-')}"
            vectors.invalid(FILE, name, offered, refusal, "hello_refused", "hello.refusal", reason.doc, WORKER)


def _requests(vectors: Collection) -> None:
    """The ends of what STEP, RESET and COMPLETION say."""
    agreed = vectors.talk("agreed")
    empty = vectors.talk("opened with no ids")
    empty.send(empty.reset("open", ()))
    opened = vectors.talk("opened").opened()
    asked = vectors.talk("opened, asked").opened().asked()
    shorter = agreed.reset("open", LONGEST[: PREFIX - 1])
    vectors.valid(FILE, "reset-31-ids", agreed, shorter, "One below the agreed prefix.")
    vectors.valid(FILE, "reset-one-id", agreed, agreed.reset("open", (VOCAB - 1,)), "The last id of the vocabulary.")
    far = agreed.reset().under(session=U64, generation=U32, slot=1)
    vectors.valid(FILE, "reset-last-session", agreed, far, "The last session, generation and slot.")
    vectors.valid(FILE, "step-empty-prefix", empty, empty.step(), "Position 0.")
    vectors.valid(FILE, "step-depth-one", opened, opened.step(1), "The least depth.")
    vectors.valid(FILE, "step-support-three", opened, opened.step().but(support=3), "One below the agreed support.")
    for name, seed, context, temperature in (
        ("least", 0, 0, math.ulp(0.0)), ("most", U64, U32, sys.float_info.max),
    ):  # fmt: skip
        step = opened.step().but(proposal_seed=seed, context_version=context, temperature=temperature)
        vectors.valid(FILE, f"step-{name}", opened, step, f"The {name} seed, context version and temperature.")
    for status in vectors.builder.schema.enums["completion_status"]:
        if status.name not in ("ok", "model_error"):
            name, draft = status.name.replace("_", "-"), asked.completion(status.name)
            vectors.valid(FILE, f"completion-{name}", asked, draft, status.doc)
    bad_context = asked.completion("cancelled").but(context_version=U32)
    vectors.invalid(
        FILE, "completion-last-context", asked, bad_context, "completion_context_mismatch",
        "completion.context_version", "Not the STEP's, and the last that there is.",
    )  # fmt: skip


def _tiny(vectors: Collection, representation: str) -> None:
    """One id, one slot, one position, one entry."""

    def talk(name: str) -> Conversation:
        return vectors.talk(f"{name} of one id", representation, TINY)

    def valid(name: str, after: Conversation, draft: Draft, comment: str) -> None:
        vectors.valid(FILE, f"{representation}-one-id-{name}", after, draft, comment)

    agreed = talk("agreed")
    valid("reset", agreed, agreed.reset("open", (0, 0)), "The longest prefix, of the one id there is.")
    opened = talk("opened")
    opened.send(opened.reset("open", ()))
    valid("step", opened, opened.step(1), "The only depth and support.")
    asked = talk("asked")
    asked.send(asked.reset("open", ())).asked(1)
    valid("reply", asked, asked.reply(), "The only row that there is: q = 1.")
    done = talk("completed")
    done.send(done.reset("open", ())).asked(1).drafted(1)
    valid("completion", done, done.completion(), "One row.")
    committing = talk("to commit")
    committing.send(committing.reset("open", ())).asked(1).drafted(1).completed()
    valid("commit", committing, committing.commit(1, "none"), "The draft is the only token that there is.")
    vectors.invalid(
        FILE, f"{representation}-one-id-slot", agreed, agreed.reset("open", (0,)).under(slot=1), "header_out_of_bounds",
        "header.slot", "The second of one slot.", keep=64,
    )  # fmt: skip
    vectors.invalid(
        FILE, f"{representation}-one-id-token", asked, asked.reply().but(token=1), "token_out_of_range", "reply.token",
        "There is no padding, so the first id behind the vocabulary is out of range.",
    )  # fmt: skip
    vectors.invalid(
        FILE, f"{representation}-one-id-prefix", agreed, agreed.reset("open", (0, 0, 0)), "wrong_body_length",
        "header.body_length", "Three ids where two are agreed; a COMMIT may be as long.", keep=64,
    )  # fmt: skip


def _deep(vectors: Collection, representation: str) -> None:
    """All four slots and five positions; a sparse row may name every id, and a dense one has no padding."""

    def talk(name: str, rows: int = -1) -> Conversation:
        made = vectors.talk(f"five deep, {name}", representation, DEEP)
        return made if rows < 0 else made.opened().asked(5).drafted(rows)

    def valid(name: str, after: Conversation, draft: Draft, comment: str) -> None:
        vectors.valid(FILE, f"{representation}-deep-{name}", after, draft, comment)

    agreed, opened = talk("agreed"), talk("opened").opened()
    valid("slot-2", agreed, agreed.reset().under(slot=2), "One below the last slot.")
    valid("slot-3", agreed, agreed.reset().under(slot=3), "The last slot.")
    vectors.invalid(
        FILE, f"{representation}-deep-slot-4", agreed, agreed.reset().under(slot=4), "header_out_of_bounds", "header.slot",
        "The fifth slot.", keep=64,
    )  # fmt: skip
    valid("step-4", opened, opened.step(4), "One below the largest depth.")
    valid("step-5", opened, opened.step(5), "The largest depth.")
    three, four, five = talk("three rows", 3), talk("four rows", 4), talk("five rows", 5)
    valid("reply-4", three, three.reply(), "Every id has mass.")
    valid("reply-5", four, four.reply(), "The whole mass on the last id: q = 1.")
    vectors.invalid(
        FILE, f"{representation}-deep-reply-6", five, five.reply(), "too_many_rows", "reply.position", "A sixth row.",
    )  # fmt: skip
    valid("completion-3", three, three.completion("model_error"), "The model failed after three rows.")
    valid("completion-4", four, four.completion("cancelled"), "Given up before the last row.")
    valid("completion-5", five, five.completion(), "Five rows.")
    done = talk("completed", 5).completed()
    valid("commit-3", done, done.commit(3, "correction", 0), "Three of five accepted, and a correction.")
    valid("commit-4", done, done.commit(4, "correction", 0), "All but the last accepted, and a correction.")
    valid("commit-5", done, done.commit(5, "none"), "All accepted, and no more.")
    valid("commit-6", done, done.commit(5, "bonus", VOCAB - 1), "Six ids, the most.")


def _wide(vectors: Collection) -> None:
    """The largest vocabulary, support and prefix that any agreement can have."""
    most = _limit(vectors, "max_vocab")
    last = most - 1
    longest = _limit(vectors, "max_prefix")
    shape = Shape(most, most, 4, 5, 4, longest, laws=({0: TOTAL // 2, last: TOTAL // 2},))
    agreed = vectors.talk("largest vocabulary", "sparse", shape)
    reset = agreed.reset("open", (0, last))
    vectors.valid(FILE, "wide-reset", agreed, reset, "The first and the last id.")
    asked = vectors.talk("largest vocabulary, asked", "sparse", shape)
    asked.send(asked.reset("open", (last,))).asked(5)
    row = asked.reply()
    vectors.valid(FILE, "wide-reply", asked, row, "The first and the last id.")
    opened = vectors.talk("largest vocabulary, opened", "sparse", shape)
    opened.send(opened.reset("open", (last,)))
    commit = opened.commit(0, "target_only", last)
    vectors.valid(FILE, "wide-commit", opened, commit, "The last id.")
    cases: tuple[tuple[str, str, str, Conversation, Draft], ...] = (
        ("reset-id", "token_out_of_range", "reset.prefix_ids[1]", agreed, agreed.reset("open", (0, most))),
        ("reply-id", "id_out_of_range", "reply.ids[1]", asked, row.entry("ids", 1, most)),
        ("reply-token", "token_out_of_range", "reply.token", asked, row.but(token=most)),
        ("commit-id", "token_out_of_range", "commit.tokens[0]", opened, opened.commit(0, "target_only", most)),
    )
    for name, code, path, after, draft in cases:
        vectors.invalid(FILE, f"wide-{name}", after, draft, code, path, "The first id behind the largest vocabulary.")
    for name, ids, code, path, at in (
        ("longest", longest, "truncated", "frame", 64), ("oversized", longest + 1, "oversized_body", "header.body_length", None),
    ):  # fmt: skip
        vectors.invalid(
            FILE, f"wide-reset-{name}", agreed, reset.under(body_length=32 + 4 * ids), code, path,
            f"A header that announces {ids:,} ids.", keep=64, at=at,
        )  # fmt: skip
    largest = vectors.talk("largest support, opened", "sparse", Shape(most, most, most, 5, 4, longest))
    largest.opened()
    vectors.valid(FILE, "wide-step-support", largest, largest.step(5), "As many candidates as any vocabulary has ids.")
    below = largest.step(5).but(support=last)
    vectors.valid(FILE, "wide-step-support-below", largest, below, "One candidate fewer.")


def _discards(vectors: Collection) -> None:
    """Around the limit of rounds that are rejected in a row."""

    def seven(name: str) -> Conversation:
        talk = vectors.talk(name).opened()
        for _ in range(7):
            talk.asked()
            talk.send(talk.reply().but(token=2), code="q_zero_at_token")
            talk.send(talk.reset("fault"))
        return talk.asked()

    eighth = seven("seven rounds rejected, an eighth asked")
    vectors.valid(FILE, "discards-seven", eighth, eighth.reply(), "Seven in a row are one below the limit.")
    whole = seven("seven rounds rejected, then a whole one").drafted().completed()
    whole.send(whole.commit(1, "correction", 5)).asked()
    vectors.invalid(
        FILE, "discards-not-in-a-row", whole, whole.reply().but(token=2), "q_zero_at_token", "reply.token",
        "A whole round came between, so this is the first in a row again.",
    )  # fmt: skip
