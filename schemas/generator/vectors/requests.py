"""What any request of the verifier can get: faults of its body as a whole, and of its identity."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.generator.vectors.build import Draft
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import (
    PREFIX,
    VOCAB,
    Conversation,
)

LONGEST = (*range(VOCAB), *range(VOCAB), *range(PREFIX - 2 * VOCAB))
"""A prefix as long as the agreement allows."""


def general(vectors: Collection, talk: Conversation, draft: Draft, reserved: str) -> None:
    """What any body can get."""
    kind = draft.message
    vectors.invalid(
        kind, "body-checksum", talk, draft.under(body_checksum=1), "body_checksum_mismatch", "header.body_checksum",
        "The body is not what was hashed.",
    )  # fmt: skip
    vectors.invalid(
        kind, "reserved", talk, draft.but(**{reserved: b"\1"}), "reserved_not_zero", f"{kind}.{reserved}",
        "A reserved byte.",
    )  # fmt: skip


def identity(vectors: Collection, talk: Conversation, draft: Draft, cases: Mapping[str, tuple[str, int, str]]) -> None:
    """One other value in a field of the header: name of the vector → field, value, code."""
    for name, (header, value, code) in cases.items():
        vectors.invalid(
            draft.message, name, talk, draft.under(**{header: value}), code, f"header.{header}",
            f"{header.capitalize()} {value}, which is another.",
        )  # fmt: skip
