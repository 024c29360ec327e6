"""Vectors of COMMIT. Whatever is wrong in one costs the connection."""

from __future__ import annotations

from schemas.generator.vectors.build import Draft, Value
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import (
    PADDED,
    VOCAB,
    Conversation,
    digest,
)
from schemas.generator.vectors.requests import LONGEST, general, identity


def add(vectors: Collection) -> None:
    """Valid COMMITs, and every code that one can get."""
    _alone(vectors)
    _of_a_round(vectors)


def _alone(vectors: Collection) -> None:
    """What a COMMIT shows alone."""
    talk = vectors.talk("opened, asked, two rows, completed").opened().asked().drafted().completed()
    dense = vectors.talk("opened, asked, two rows, completed", "dense").opened().asked().drafted().completed()
    commit = talk.commit(1, "correction", 5)
    vectors.valid("commit", "sparse-correction", talk, commit, "One accepted, one drawn from the residual.")
    vectors.valid("commit", "none-accepted", talk, talk.commit(0, "correction", 5), "Nothing accepted.")
    vectors.valid("commit", "sparse-bonus", talk, talk.commit(2, "bonus", 11), "All accepted, and one from the target.")
    vectors.valid("commit", "sparse-end", talk, talk.commit(1, "none"), "The accepted run ends the request.")
    vectors.valid("commit", "dense-correction", dense, dense.commit(0, "correction", 3), "With dense rows.")
    opened = vectors.talk("opened").opened()
    alone = opened.commit(0, "target_only", 2)
    vectors.valid("commit", "target-only", opened, alone, "A token of the target, without a STEP.")

    def bad(name: str, comment: str, code: str, path: str, draft: Draft = commit, **body: Value) -> None:
        after = opened if draft is alone else talk
        vectors.invalid("commit", name, after, draft.but(**body), code, f"commit.{path}", comment)

    general(vectors, talk, commit, "reserved_1")
    bad("accepted-6", "More than any depth.", "value_out_of_bounds", "accepted", accepted=6)
    bad("kind-4", "No kind has number 4.", "unknown_value", "kind", kind=4)
    bad("count-0", "No ids.", "value_out_of_bounds", "token_count", token_count=0)
    bad("count-7", "More ids than fit.", "value_out_of_bounds", "token_count", token_count=7)
    bad("count", "One accepted and a correction make two.", "commit_count_mismatch", "token_count", token_count=3)
    bad("target-only-accepts", "Of what?", "commit_count_mismatch", "accepted", alone, accepted=1)
    bad("padding", "An id behind the last.", "commit_padding_not_zero", "tokens[2]", tokens=(9, 5, 1, 0, 0, 0))
    bad("token-negative", "Id -1.", "token_out_of_range", "tokens[0]", alone, tokens=(-1, 0, 0, 0, 0, 0))
    bad(
        "token-beyond",
        "The first id behind the padding.",
        "token_out_of_range",
        "tokens[0]",
        alone,
        tokens=_only(PADDED),
    )
    bad("token-padded", "The first id of the padding.", "token_padded", "tokens[0]", alone, tokens=_only(VOCAB))
    bad("new-position", "3 and 2 make 5.", "commit_position_mismatch", "new_position", new_position=6)


def _only(token: int) -> tuple[int, ...]:
    return (token, 0, 0, 0, 0, 0)


def _of_a_round(vectors: Collection) -> None:
    """What a COMMIT shows against its round."""
    talk = vectors.talk("opened, asked, two rows, completed").opened().asked().drafted().completed()
    opened = vectors.talk("opened").opened()
    commit = talk.commit(1, "correction", 5)
    other = ((talk.session.tokens[0] + 1) % VOCAB, 5)
    cases: tuple[tuple[str, str, str, str, Draft], ...] = (
        ("position", "Not the STEP's position.", "position_mismatch", "position", commit.but(position=4, new_position=6)),
        ("digest", "Not the STEP's prefix.", "prefix_digest_mismatch", "prefix_digest", commit.but(prefix_digest=digest(()))),
        ("new-digest", "Not the new prefix.", "commit_digest_mismatch", "new_digest", commit.but(new_digest=digest(()))),
        (
            "over-depth", "Three accepted of two.", "commit_over_depth", "accepted",
            _with_ids(talk, commit, (*talk.session.tokens, 5, 5), accepted=3),
        ),
        (
            "correction-behind-all", "Nothing was rejected.", "commit_over_depth", "accepted",
            talk.commit(2, "correction", 5),
        ),
        ("bonus-early", "Not all were accepted.", "commit_over_depth", "accepted", talk.commit(1, "bonus", 5)),
        (
            "token", "Accepted, but never proposed.", "commit_token_mismatch", "tokens[0]",
            _with_ids(talk, commit, other),
        ),
    )  # fmt: skip
    for name, comment, code, path, draft in cases:
        vectors.invalid("commit", name, talk, draft, code, f"commit.{path}", comment)
    identity(
        vectors, talk, commit,
        {
            "session-not-open": ("session", 2, "session_not_open"),
            "slot": ("slot", 1, "slot_mismatch"),
            "generation-not-current": ("generation", 2, "generation_not_next"),
            "round-skipped": ("round", 2, "round_not_next"),
        },
    )  # fmt: skip
    full = vectors.talk("opened with the longest prefix")
    full.send(full.reset("open", LONGEST))
    vectors.invalid(
        "commit", "prefix-over-agreement", full, full.commit(0, "target_only", 1), "value_out_of_bounds",
        "commit.new_position", "The 33rd id of an agreed prefix of 32.",
    )  # fmt: skip
    early = vectors.talk("opened, asked").opened().asked()
    vectors.invalid(
        "commit", "before-completion", early, early.commit(0, "correction", 5), "unexpected_message",
        "header.message_type", "The round is not complete.",
    )  # fmt: skip
    vectors.invalid(
        "commit", "correction-without-step", opened, opened.commit(0, "correction", 5).under(round=1),
        "unexpected_message", "header.message_type", "Nothing was proposed that could be corrected.",
    )  # fmt: skip


def _with_ids(talk: Conversation, commit: Draft, ids: tuple[int, ...], **body: Value) -> Draft:
    """`commit` of other ids, with everything that follows from them."""
    position = len(talk.session.ids)
    return commit.but(
        token_count=len(ids), tokens=(*ids, *[0] * (6 - len(ids))), new_position=position + len(ids),
        new_digest=digest(talk.session.ids + ids), **body,
    )  # fmt: skip
