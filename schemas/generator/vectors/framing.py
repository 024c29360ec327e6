"""Vectors of framing and identity: what a header alone shows, and what it shows against the conversation."""

from __future__ import annotations

from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import VERIFIER, hello

FILE = "frames"
V1_HEADER = 1


def add(vectors: Collection) -> None:
    """Every code that stands on a header."""
    _headers(vectors)
    _order(vectors)
    _freshness(vectors)


def _headers(vectors: Collection) -> None:
    start = vectors.talk("nothing", None)
    offer = hello("offer")

    def bad(name: str, comment: str, code: str, path: str, keep: int | None = 64, **header: int | bytes) -> None:
        vectors.invalid(FILE, name, start, offer.under(**header), code, path, comment, VERIFIER, keep=keep)

    bad("magic", "Another protocol.", "bad_magic", "header.magic", magic=b"PP1X")
    bad("version-1", "An older wire version.", "unsupported_version", "header.wire_version", wire_version=V1_HEADER)
    bad("version-3", "A newer wire version.", "unsupported_version", "header.wire_version", wire_version=3)
    bad(
        "header-checksum", "One bit of the header's checksum.", "header_checksum_mismatch", "header.header_checksum",
        header_checksum=int.from_bytes(vectors.builder.frame(start.numbered(offer, VERIFIER))[56:64], "little") ^ 1,
    )  # fmt: skip
    bad("type-0", "No message has type 0.", "unknown_message_type", "header.message_type", message_type=0)
    bad("type-7", "No message has type 7.", "unknown_message_type", "header.message_type", message_type=7)
    bad("hello-oversized", "A byte above the longest body.", "oversized_body", "header.body_length", body_length=313)
    bad("hello-short", "A byte too few for a HELLO.", "wrong_body_length", "header.body_length", body_length=311)
    bad("reserved-1", "Reserved byte 7.", "header_reserved_not_zero", "header.reserved_1", reserved_1=b"\1")
    bad("reserved-2", "Reserved byte 23.", "header_reserved_not_zero", "header.reserved_2", reserved_2=b"\0\1")
    bad("hello-sequence", "A HELLO is frame 0.", "sequence_mismatch", "header.sequence", sequence=1)
    bad("hello-agreement", "A HELLO has no agreement yet.", "agreement_mismatch", "header.agreement_id", agreement_id=1)
    for name in ("slot", "session", "generation", "round"):
        bad(f"hello-{name}", f"A HELLO has no {name}.", "header_out_of_bounds", f"header.{name}", **{name: 1})
    for keep in (1, 63, 64, 375):
        vectors.invalid(
            FILE, f"truncated-{keep}", start, offer, "truncated", "frame", f"The stream ends after {keep} bytes of 376.",
            VERIFIER, keep=keep, at=keep,
        )  # fmt: skip
    vectors.invalid(
        FILE, "extra-data", start, offer, "extra_data", "frame", "A byte behind what must be one frame.", VERIFIER,
        extra=b"\0", at=376, whole=True,
    )  # fmt: skip


def _order(vectors: Collection) -> None:
    talk = vectors.talk("agreed")
    reset = talk.reset()

    def bad(name: str, comment: str, code: str, path: str, **header: int | bytes) -> None:
        vectors.invalid(FILE, name, talk, reset.under(**header), code, path, comment, keep=64)

    bad("sequence-repeated", "Frame 0 again.", "sequence_mismatch", "header.sequence", sequence=0)
    bad("sequence-skipped", "Frame 1 is missing.", "sequence_mismatch", "header.sequence", sequence=2)
    bad("agreement-zero", "No agreement.", "agreement_mismatch", "header.agreement_id", agreement_id=0)
    bad(
        "agreement-other", "A frame of another connection.", "agreement_mismatch", "header.agreement_id",
        agreement_id=talk.agreement ^ 1,
    )  # fmt: skip
    bad("reset-oversized", "33 ids where 32 are agreed.", "oversized_body", "header.body_length", body_length=164)
    bad("reset-uneven", "A body that cuts an id.", "wrong_body_length", "header.body_length", body_length=42)
    bad("slot-beyond", "The third of two slots.", "header_out_of_bounds", "header.slot", slot=2)
    bad("session-zero", "Sessions count from 1.", "header_out_of_bounds", "header.session", session=0)
    bad("generation-zero", "Generations count from 1.", "header_out_of_bounds", "header.generation", generation=0)
    bad("reset-round", "A RESET has round 0.", "header_out_of_bounds", "header.round", round=1)
    step = vectors.talk("opened").opened()
    vectors.invalid(
        FILE, "step-round-zero", step, step.step().under(round=0), "header_out_of_bounds", "header.round",
        "Rounds count from 1.", keep=64,
    )  # fmt: skip
    vectors.invalid(
        FILE, "second-hello", talk, hello("offer").under(agreement_id=0), "unexpected_message", "header.message_type",
        "A HELLO after the HELLOs.", VERIFIER,
    )  # fmt: skip
    start = vectors.talk("nothing", None)
    vectors.invalid(
        FILE, "reset-before-hello", start, reset.under(agreement_id=0), "unexpected_message", "header.message_type",
        "Only a HELLO may come first.",
    )  # fmt: skip
    vectors.invalid(
        FILE, "data-before-agreement", start, hello("offer"), "data_before_agreement", "frame",
        "The verifier does not wait for the answer: the first byte of its next frame follows at once.", VERIFIER,
        extra=b"P", at=376,
    )  # fmt: skip


def _freshness(vectors: Collection) -> None:
    drafting = vectors.talk("opened, asked").opened().asked()

    def answers(kind: str) -> None:
        draft = drafting.reply() if kind == "reply" else drafting.completion("cancelled")
        for name, value in (("session", 2), ("generation", 2), ("round", 2)):
            vectors.invalid(
                FILE, f"{kind}-{name}-never-issued", drafting, draft.under(**{name: value}), f"{name}_never_issued",
                f"header.{name}", f"An answer of a {name} that was never asked for.",
            )  # fmt: skip
        vectors.invalid(
            FILE, f"{kind}-slot", drafting, draft.under(slot=1), "slot_mismatch", "header.slot",
            "Session 1 holds slot 0.",
        )  # fmt: skip

    answers("reply")
    answers("completion")
    row = drafting.reply()
    end = drafting.completion("cancelled")
    cancelled = vectors.talk("opened, asked, cancelled").opened().asked()
    cancelled.send(cancelled.reset("cancel"))
    closed = vectors.talk("opened, asked, closed").opened().asked()
    closed.send(closed.reset("close"))
    done = vectors.talk("opened, asked, two rows, completed").opened().asked().drafted().completed()
    for kind, late in (("reply", row), ("completion", end)):
        vectors.invalid(
            FILE, f"{kind}-of-closed-session", closed, late, "stale_session", "header.session",
            "An answer that crossed the RESET which closed its session.",
        )  # fmt: skip
        vectors.invalid(
            FILE, f"{kind}-of-old-generation", cancelled, late, "stale_generation", "header.generation",
            "An answer that crossed the RESET which ended its generation.",
        )  # fmt: skip
        vectors.invalid(
            FILE, f"{kind}-of-complete-round", done, late, "stale_round", "header.round",
            "An answer of a round that is complete.",
        )  # fmt: skip
