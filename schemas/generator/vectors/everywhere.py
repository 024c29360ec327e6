"""Vectors that every message needs: its length, its end, its direction, and each part of its identity."""

from __future__ import annotations

from schemas.generator.vectors.build import HEADER_BYTES, Draft
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import SENDERS, SLOTS, VERIFIER, WORKER, Conversation, hello

FILE = "frames"
LONGEST_BODY = 160
"""Bytes of the longest body of the small agreement, a RESET of 32 ids."""


def add(vectors: Collection) -> None:
    """What no other file shows of a message already."""
    start = vectors.talk("nothing", None)
    opened = vectors.talk("opened").opened()
    asked = vectors.talk("opened, asked").opened().asked()
    done = vectors.talk("opened, asked, two rows, completed").opened().asked().drafted().completed()
    agreed = vectors.talk("agreed")
    bases: tuple[tuple[Conversation, Draft], ...] = (
        (start, hello("offer")), (opened, opened.step()), (asked, asked.reply()), (asked, asked.completion("cancelled")),
        (done, done.commit(1, "correction", 5)), (agreed, agreed.reset()),
    )  # fmt: skip
    for talk, draft in bases:
        sender = SENDERS.get(draft.message, VERIFIER)
        _lengths(vectors, talk, draft, sender)
        if draft.message != "hello":
            _identity(vectors, talk, draft)
            _direction(vectors, draft, WORKER if sender == VERIFIER else VERIFIER)


def _lengths(vectors: Collection, talk: Conversation, draft: Draft, sender: str) -> None:
    kind = draft.message
    frame = len(vectors.builder.frame(talk.numbered(draft, sender)))
    body = frame - HEADER_BYTES
    longest = body if kind == "hello" else LONGEST_BODY
    for length in (0, body - 1, body + 1, longest + 1):
        code = "oversized_body" if length > longest else "wrong_body_length"
        changed = draft.under(body_length=length)
        if not vectors.has(talk, changed, sender, HEADER_BYTES):
            vectors.invalid(
                FILE, f"{kind}-length-{length}", talk, changed, code, "header.body_length",
                f"A body of {length} bytes; {body} are right.", sender, keep=HEADER_BYTES,
            )  # fmt: skip
    for keep in (HEADER_BYTES, frame - 1):
        if (kind, keep) not in (("hello", HEADER_BYTES), ("hello", frame - 1)):  # they have theirs
            vectors.invalid(
                FILE, f"{kind}-truncated-{keep}", talk, draft, "truncated", "frame",
                f"The stream ends after {keep} bytes of {frame}.", sender, keep=keep, at=keep,
            )  # fmt: skip
    vectors.invalid(
        FILE, f"{kind}-extra-data", talk, draft, "extra_data", "frame", "A byte behind what must be one frame.", sender,
        extra=b"\0", at=frame, whole=True,
    )  # fmt: skip


def _identity(vectors: Collection, talk: Conversation, draft: Draft) -> None:
    """Values of the header that no message of this kind can have here."""
    sequence = talk.sequences[SENDERS[draft.message]]
    wrong_round = 1 if draft.message == "reset" else 0
    cases: tuple[tuple[str, int, str, str], ...] = (
        ("sequence", sequence - 1, "sequence_mismatch", "The number of the frame before."),
        ("sequence", sequence + 1, "sequence_mismatch", "A frame is missing."),
        ("sequence", 2**64 - 1, "sequence_mismatch", "The last number that there is."),
        ("agreement_id", talk.agreement ^ 1 << 63, "agreement_mismatch", "Another connection."),
        ("slot", SLOTS, "header_out_of_bounds", "The third of two slots."),
        ("session", 0, "header_out_of_bounds", "Sessions count from 1."),
        ("generation", 0, "header_out_of_bounds", "Generations count from 1."),
        ("round", wrong_round, "header_out_of_bounds", "Rounds count from 1, and a RESET has none."),
    )
    for field, value, code, comment in cases:
        changed = draft.under(**{field: value})
        if not vectors.has(talk, changed, SENDERS[draft.message], HEADER_BYTES):
            name = f"{draft.message}-{field.replace('_', '-')}-{'other' if field == 'agreement_id' else value}"
            vectors.invalid(FILE, name, talk, changed, code, f"header.{field}", comment, keep=HEADER_BYTES)


def _direction(vectors: Collection, draft: Draft, sender: str) -> None:
    """From the end that never sends it; header checks come first, so its sequence is that end's next."""
    talk = vectors.talk("opened, asked").opened().asked()
    vectors.invalid(
        FILE, f"{draft.message}-from-{sender}", talk, draft, "wrong_direction", "header.message_type",
        f"The {sender} sends a {draft.message.upper()}.", sender,
    )  # fmt: skip
