"""Vectors of HELLO: offers, answers, and whatever the two can disagree on."""

from __future__ import annotations

import hashlib

from schemas.generator.vectors.build import Value
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import PADDED, SUPPORT, VERIFIER, VOCAB, WORKER, hello

FILE = "hello"
OTHER = hashlib.sha256(b"another").digest()

# Field of an answer → what it says instead, the code, and why.
MISMATCHES: dict[str, tuple[Value, str, str]] = {
    "q_semantic": (b"softmax-v1", "q_semantic_mismatch", "Another meaning of q."),
    "verifier_semantic": (b"greedy-v1", "verifier_semantic_mismatch", "Another verification rule."),
    "rng_abi": (b"philox4x32-10/pp1-v0", "rng_abi_mismatch", "Other random words."),
    "precision": (2, "precision_mismatch", "A number format that nobody offered."),
    "vocab_size": (VOCAB - 1, "vocab_size_mismatch", "One token id fewer."),
    "padded_vocab_size": (PADDED - 1, "padded_vocab_size_mismatch", "One entry of padding fewer."),
    "id_map_sha256": (OTHER, "id_map_mismatch", "The same ids name other tokens."),
    "draft_checkpoint_sha256": (OTHER, "draft_checkpoint_mismatch", "Another draft checkpoint."),
    "draft_revision": (b"r2", "draft_revision_mismatch", "Another revision of the draft."),
    "draft_origin": (2, "draft_origin_mismatch", "The draft is adapted, not native."),
    "target_sha256": (OTHER, "target_mismatch", "Another target."),
    "features": (1, "unknown_features", "A feature that version 2 does not know."),
    "representations": (3, "representation_not_offered", "An answer names one representation, not two."),
    "sparse_reply_bytes": (96 + 8 * SUPPORT - 1, "reply_does_not_fit", "A buffer that is one byte too small."),
}


def add(vectors: Collection) -> None:
    """Valid offers and answers, and every code of a HELLO."""
    start = vectors.talk("nothing", None)
    offered = vectors.talk("offered", None).send(hello("offer"), VERIFIER)
    vectors.valid(FILE, "offer", start, hello("offer"), "An offer of both representations.", VERIFIER)
    longest = hello("offer", draft_revision=b"r" * 64, q_semantic=b"dyadic24-standard-v1")
    vectors.valid(FILE, "offer-longest-text", start, longest, "A text without a zero byte behind it.", VERIFIER)
    vectors.valid(FILE, "answer-sparse", offered, hello("answer"), "Sparse rows are agreed.", WORKER)
    vectors.valid(FILE, "answer-dense", offered, hello("answer", representations=1), "Dense rows are agreed.", WORKER)
    smaller = hello("answer", max_slots=1, max_depth=1, max_support=1, max_prefix=1)
    vectors.valid(FILE, "answer-smaller", offered, smaller, "Capacities need not be equal; the smaller counts.", WORKER)

    def offer(name: str, comment: str, code: str, path: str, **body: Value) -> None:
        vectors.invalid(FILE, name, start, hello("offer", **body), code, f"hello.{path}", comment, VERIFIER)

    def answer(name: str, comment: str, code: str, path: str, **body: Value) -> None:
        vectors.invalid(FILE, name, offered, hello("answer", **body), code, f"hello.{path}", comment, WORKER)

    vectors.invalid(
        FILE, "body-checksum", start, hello("offer").under(body_checksum=1), "body_checksum_mismatch",
        "header.body_checksum", "The body is not what was hashed.", VERIFIER,
    )  # fmt: skip
    offer("reserved", "A reserved byte.", "reserved_not_zero", "reserved_1", reserved_1=b"\0\0\1")
    offer("role-0", "No role has number 0.", "unknown_value", "role", role=0)
    offer("no-representation", "An empty mask.", "value_out_of_bounds", "representations", representations=0)
    offer("packed", "Bit 4 of the mask is kept for later.", "value_out_of_bounds", "representations", representations=4)
    offer("slots-5", "Five slots; four is the most.", "value_out_of_bounds", "max_slots", max_slots=5)
    offer("depth-6", "Depth 6; five is the most.", "value_out_of_bounds", "max_depth", max_depth=6)
    offer("no-vocabulary", "No token ids.", "value_out_of_bounds", "vocab_size", vocab_size=0)
    offer(
        "vocabulary-too-large", "One id more than any agreement can have.", "value_out_of_bounds", "padded_vocab_size",
        padded_vocab_size=262_145,
    )  # fmt: skip
    offer("text-hole", "A zero byte inside a text.", "text_not_canonical", "draft_revision", draft_revision=b"r\0001")
    offer(
        "text-utf-8", "A text that is not ASCII.", "text_not_canonical", "draft_revision", draft_revision=b"r\xc3\xa9"
    )
    offer("text-control", "A control character.", "text_not_canonical", "rng_abi", rng_abi=b"philox\n")
    offer("nonce-zero", "A nonce that nobody drew.", "nonce_not_fresh", "nonce", nonce=bytes(16))
    offer("refused-offer", "Only an answer can refuse.", "refusal_mismatch", "status", status=1, refusal=12)
    offer("reason-without-refusal", "A reason, but not refused.", "refusal_mismatch", "refusal", refusal=12)
    offer(
        "padded-below-vocabulary", "Padding cannot take ids away.", "padded_vocab_too_small", "padded_vocab_size",
        padded_vocab_size=VOCAB - 1,
    )  # fmt: skip
    vectors.invalid(
        FILE, "answer-first", start, hello("answer"), "wrong_role", "hello.role", "An answer to nothing.", VERIFIER
    )
    vectors.invalid(
        FILE, "offer-as-answer", offered, hello("offer", nonce=bytes([1] * 16)), "wrong_role", "hello.role",
        "Both ends offer.", WORKER,
    )  # fmt: skip
    nonce = hello("offer").body["nonce"]
    answer("nonce-repeated", "The offer's nonce again.", "nonce_not_fresh", "nonce", nonce=nonce)
    answer("refused", "The worker is draining.", "hello_refused", "refusal", status=1, refusal=12)
    answer("refused-without-reason", "Refused, but not why.", "refusal_mismatch", "refusal", status=1)
    for name, (value, code, comment) in MISMATCHES.items():
        answer(f"answer-{name.replace('_', '-')}", comment, code, name, **{name: value})
    only_dense = vectors.talk("offered dense only", None).send(hello("offer", representations=1), VERIFIER)
    vectors.invalid(
        FILE, "answer-not-offered", only_dense, hello("answer"), "representation_not_offered", "hello.representations",
        "The answer names sparse rows, but only dense ones were offered.", WORKER,
    )  # fmt: skip
