"""Vectors of RESET. Whatever is wrong in one costs the connection."""

from __future__ import annotations

from schemas.generator.vectors.build import Draft, Value
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import (
    PADDED,
    VOCAB,
    Conversation,
    Session,
    digest,
)
from schemas.generator.vectors.requests import LONGEST, general


def add(vectors: Collection) -> None:
    """Valid RESETs, and every code that one can get."""
    _alone(vectors)
    _of_a_session(vectors)


def _alone(vectors: Collection) -> None:
    """What a RESET shows alone."""
    talk = vectors.talk("agreed")
    dense = vectors.talk("agreed", "dense")
    opened = vectors.talk("opened").opened()
    reset = talk.reset()
    vectors.valid("reset", "open-sparse", talk, reset, "Opens session 1 with three ids.")
    vectors.valid("reset", "open-dense", dense, dense.reset(), "The same, with dense rows agreed.")
    vectors.valid("reset", "open-empty", talk, talk.reset("open", ()), "An empty prefix.")
    vectors.valid("reset", "open-longest", talk, talk.reset("open", LONGEST), "32 ids, the agreed prefix.")
    vectors.valid(
        "reset", "open-again-elsewhere", talk, reset.under(generation=7),
        "A session that comes from another connection goes on counting, so that no noise is used twice.",
    )  # fmt: skip
    vectors.valid("reset", "cancel", opened, opened.reset("cancel", (3,)), "The caller's prefix is another now.")
    vectors.valid("reset", "close", opened, opened.reset("close"), "Ends the session; no ids.")

    def bad(name: str, comment: str, code: str, path: str, draft: Draft = reset, **body: Value) -> None:
        after = talk if draft is reset else opened
        vectors.invalid("reset", name, after, draft.but(**body), code, f"reset.{path}", comment)

    general(vectors, talk, reset, "reserved_2")
    bad("reason-0", "No reason has number 0.", "unknown_value", "reason", reason=0)
    bad("position-beyond", "Longer than any prefix.", "value_out_of_bounds", "position", position=2**20 + 1)
    bad("count", "Two ids are announced, three are there.", "prefix_count_mismatch", "prefix_count", prefix_count=2)
    bad("count-position", "Three ids at position 2.", "prefix_count_mismatch", "prefix_count", position=2)
    closing = opened.reset("close")
    bad(
        "close-with-ids", "Closing needs no ids.", "prefix_count_mismatch", "prefix_count", closing,
        prefix_count=3, prefix_ids=opened.session.ids,
    )  # fmt: skip
    bad("id-negative", "Id -1.", "token_out_of_range", "prefix_ids[1]", prefix_ids=(7, -1, 11))
    bad(
        "id-beyond",
        "The first id behind the padding.",
        "token_out_of_range",
        "prefix_ids[2]",
        prefix_ids=(7, 0, PADDED),
    )
    bad("id-padded", "The first id of the padding.", "token_padded", "prefix_ids[0]", prefix_ids=(VOCAB, 0, 11))
    bad("digest", "Not the digest of these ids.", "prefix_digest_mismatch", "prefix_digest", prefix_digest=digest((7,)))


def _of_a_session(vectors: Collection) -> None:
    """What a RESET shows against the sessions of its connection."""
    opened = vectors.talk("opened").opened()
    fifth = vectors.talk("session 5 opened")
    fifth.session = Session(number=5)
    fifth.opened()
    fault = opened.reset("fault")
    again = opened.reset("open")
    vectors.valid("reset", "fault", opened, fault, "Generation 2, with the prefix that both ends have.")
    cases: tuple[tuple[str, str, str, str, Conversation, Draft], ...] = (
        ("generation-repeated", "Generation 1 again.", "generation_not_next", "header.generation", opened,
         fault.under(generation=1)),
        ("generation-skipped", "Generation 3 after 1.", "generation_not_next", "header.generation", opened,
         fault.under(generation=3)),
        ("session-not-open", "Resumes what was never opened.", "session_not_open", "header.session", opened,
         fault.under(session=2)),
        ("fault-opens", "Begins a session, but not with reason open.", "reset_reason_mismatch", "reset.reason", opened,
         fault.under(session=2, slot=1, generation=1)),
        ("slot", "Session 1 holds slot 0.", "slot_mismatch", "header.slot", opened, fault.under(slot=1)),
        ("slot-occupied", "Session 1 holds slot 0.", "slot_occupied", "header.slot", opened,
         again.under(session=2, generation=1)),
        ("session-not-rising", "Session 4 after session 5.", "session_not_rising", "header.session", fifth,
         again.under(session=4, slot=1, generation=1)),
        ("open-again", "The session is open.", "reset_reason_mismatch", "reset.reason", opened, again),
        ("close-position", "Closes at another position.", "position_mismatch", "reset.position", opened,
         opened.reset("close").but(position=4)),
        ("close-digest", "Closes with another prefix.", "prefix_digest_mismatch", "reset.prefix_digest", opened,
         opened.reset("close").but(prefix_digest=digest((7,)))),
    )  # fmt: skip
    for name, comment, code, path, after, draft in cases:
        vectors.invalid("reset", name, after, draft, code, path, comment)
