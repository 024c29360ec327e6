"""Vectors of what the worker sends: REPLY and COMPLETION. What is wrong in them costs the round."""

from __future__ import annotations

import math
import struct

from schemas.generator.vectors.build import Draft, Value
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import CONTEXT, PADDED, SUPPORT, TOTAL, VOCAB, Conversation

STEP = 1 / TOTAL
NOT_FINITE = {"nan": math.nan, "infinite": math.inf}


def add(vectors: Collection) -> None:
    """Valid rows and completions, and every code that one of them can get."""
    _valid_rows(vectors)
    for representation in ("sparse", "dense"):
        _structure(vectors, vectors.talk("opened, asked", representation).opened().asked())
        _law(vectors, vectors.talk("opened, asked", representation).opened().asked())
    _sparse(vectors)
    _dense(vectors)
    _row_of_a_round(vectors)
    _completion(vectors)
    _discards(vectors)


def _valid_rows(vectors: Collection) -> None:
    for representation in ("sparse", "dense"):
        talk = vectors.talk("opened, asked", representation).opened().asked()
        vectors.valid("reply", f"{representation}-first", talk, talk.reply(), "The first row of a proposal.")
        talk = vectors.talk("opened, asked, one row", representation).opened().asked().drafted(1)
        vectors.valid("reply", f"{representation}-second", talk, talk.reply(), "Counts of 1 and of nearly 2^24.")
        talk = vectors.talk("opened, asked for three, two rows", representation).opened().asked(3).drafted(2)
        vectors.valid("reply", f"{representation}-third", talk, talk.reply(), "Every entry of a sparse row is used.")


def _structure(vectors: Collection, talk: Conversation) -> None:
    kind, row = talk.representation, talk.reply()

    def bad(name: str, comment: str, code: str, path: str, **body: Value) -> None:
        vectors.invalid("reply", f"{kind}-{name}", talk, row.but(**body), code, f"reply.{path}", comment)

    vectors.invalid(
        "reply", f"{kind}-body-checksum", talk, row.under(body_checksum=1), "body_checksum_mismatch",
        "header.body_checksum", "The row is not what was hashed.",
    )  # fmt: skip
    moved = int.from_bytes(vectors.builder.frame(talk.numbered(row.under(round=2), "worker"))[48:56], "little")
    vectors.invalid(
        "reply", f"{kind}-moved", talk, row.under(body_checksum=moved), "body_checksum_mismatch", "header.body_checksum",
        "A whole row, hashed for another round: the identity seeds the checksum.",
    )  # fmt: skip
    bad("reserved-1", "A reserved byte.", "reserved_not_zero", "reserved_1", reserved_1=b"\0\1")
    bad("reserved-2", "A reserved byte.", "reserved_not_zero", "reserved_2", reserved_2=b"\0\0\0\0\0\0\0\1")
    bad("representation-3", "No representation has number 3.", "unknown_value", "representation", representation=3)
    other = 1 if kind == "sparse" else 2
    bad("representation", "Not the agreed one.", "representation_mismatch", "representation", representation=other)
    bad("shard-first", "Rows begin at id 0.", "shard_mismatch", "shard_first_id", shard_first_id=1)
    bad("shard-count", "Rows cover all ids.", "shard_mismatch", "shard_id_count", shard_id_count=VOCAB - 1)
    bad("no-q", "A token without q.", "missing_q", "entry_count", entry_count=0)
    wrong = SUPPORT + 1 if kind == "sparse" else VOCAB - 1
    bad("entry-count", "Not a row of this agreement.", "entry_count_mismatch", "entry_count", entry_count=wrong)


def _law(vectors: Collection, talk: Conversation) -> None:
    """What q must be in both representations; entry 1 is in use in both."""
    kind, row = talk.representation, talk.reply()

    def bad(name: str, comment: str, code: str, path: str, draft: Draft) -> None:
        vectors.invalid("reply", f"{kind}-{name}", talk, draft, code, f"reply.{path}", comment)

    for name, value in NOT_FINITE.items():
        bad(f"q-{name}", f"q is {value}.", "q_not_finite", "q[1]", row.entry("q", 1, value))
    bad("q-negative", "q is below zero.", "q_negative", "q[1]", row.entry("q", 1, -STEP))
    bad("q-minus-zero", "A second spelling of zero.", "q_negative_zero", "q[1]", row.entry("q", 1, -0.0))
    bad("q-half-step", "Half of 2^-24.", "q_not_dyadic", "q[1]", row.entry("q", 1, STEP / 2))
    tiny = struct.unpack("<f", b"\1\0\0\0")[0]
    bad("q-subnormal", "The smallest number above zero.", "q_not_dyadic", "q[1]", row.entry("q", 1, tiny))
    largest = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
    too_much = {
        "two": (2.0, "q is 2."), "largest": (largest, "The largest number that is finite."),
        "wraps": (256.25, "The total is right modulo 2^32."),
    }  # fmt: skip
    for name, (value, comment) in too_much.items():
        bad(f"q-{name}", comment, "q_mass_mismatch", "q", row.entry("q", 1 if kind == "sparse" else 4, value))
    far = row.entry("q", 3 if kind == "sparse" else 11, 2.0**40)
    if kind == "sparse":
        far = far.entry("ids", 3, 11).but(entry_count=4)
    bad("q-wraps-64", "The total is right modulo 2^64.", "q_mass_mismatch", "q", far)
    q = row.body["q"]
    least = float(q[1]) if isinstance(q, tuple) else 0.0
    bad("mass-short", "One count is missing.", "q_mass_mismatch", "q", row.entry("q", 1, least - STEP))
    bad("mass-over", "One count too many.", "q_mass_mismatch", "q", row.entry("q", 1, least + STEP))
    bad("token-negative", "Id -1.", "token_out_of_range", "token", row.but(token=-1))
    bad("token-beyond", "The first id behind the padding.", "token_out_of_range", "token", row.but(token=PADDED))
    bad("token-padded", "The first id of the padding.", "token_padded", "token", row.but(token=VOCAB))
    bad("token-without-q", "A token that cannot have been drawn.", "q_zero_at_token", "token", row.but(token=2))
    drawn = row.body["token"]
    other = next(t for t in (1, 4, 9) if t != drawn)
    bad(
        "ticket",
        "A possible token, but not the one its ticket draws.",
        "ticket_mismatch",
        "token",
        row.but(token=other),
    )


def _sparse(vectors: Collection) -> None:
    talk = vectors.talk("opened, asked").opened().asked()
    row = talk.reply()
    cases: tuple[tuple[str, str, str, str, Draft], ...] = (
        ("id-negative", "Id -1.", "id_out_of_range", "ids[0]", row.entry("ids", 0, -1)),
        ("id-beyond", "The first id behind the padding.", "id_out_of_range", "ids[2]", row.entry("ids", 2, PADDED)),
        ("id-padded", "The first id of the padding.", "id_padded", "ids[2]", row.entry("ids", 2, VOCAB)),
        ("ids-duplicate", "Id 4 twice.", "ids_duplicate", "ids[2]", row.entry("ids", 2, 4)),
        ("ids-duplicate-zero", "Id 4 twice, once without mass.", "ids_duplicate", "ids[2]",
         row.entry("ids", 2, 4).but(q=(0.5, 0.5, 0.0, 0.0))),
        ("ids-unsorted", "Id 3 after id 4.", "ids_unsorted", "ids[2]", row.entry("ids", 2, 3)),
        ("q-zero", "An id without mass.", "q_zero_entry", "q[1]", row.but(q=(0.5, 0.0, 0.5, 0.0))),
        ("padding-id", "An id that is not in use.", "sparse_padding_not_zero", "ids[3]", row.entry("ids", 3, 10)),
        ("padding-q", "Mass that is not in use.", "sparse_padding_not_zero", "q[3]", row.entry("q", 3, STEP)),
        ("padding-minus-zero", "A sign bit.", "sparse_padding_not_zero", "q[3]", row.entry("q", 3, -0.0)),
    )  # fmt: skip
    for name, comment, code, path, draft in cases:
        vectors.invalid("reply", f"sparse-{name}", talk, draft, code, f"reply.{path}", comment)


def _dense(vectors: Collection) -> None:
    talk = vectors.talk("opened, asked", "dense").opened().asked()
    row = talk.reply()
    for name, value in (("mass", STEP), ("minus-zero", -0.0)):
        vectors.invalid(
            "reply", f"dense-padding-{name}", talk, row.entry("q", VOCAB, value), "dense_padding_not_zero",
            f"reply.q[{VOCAB}]", "The first entry behind the vocabulary is not zero.",
        )  # fmt: skip


def _row_of_a_round(vectors: Collection) -> None:
    """What a row shows against its round."""
    first = vectors.talk("opened, asked").opened().asked()
    one = vectors.talk("opened, asked, one row").opened().asked().drafted(1)
    two = vectors.talk("opened, asked, two rows").opened().asked().drafted(2)
    narrow = vectors.talk("opened, asked for two candidates").opened()
    narrow.send(narrow.step().but(support=2))
    cases: tuple[tuple[str, str, str, str, Conversation, Draft], ...] = (
        ("position-skipped", "The second row first.", "reply_position_mismatch", "position", first, first.reply(1)),
        ("position-before", "A position of the prefix.", "reply_position_mismatch", "position", first,
         first.reply().but(position=2)),
        ("position-repeated", "The first row twice.", "reply_position_duplicate", "position", one, one.reply(0)),
        ("third-of-two", "The STEP asked for two.", "too_many_rows", "position", two, two.reply()),
        ("support-over-step", "Three candidates; the STEP asked for two.", "support_over_step", "entry_count", narrow,
         narrow.reply()),
    )  # fmt: skip
    for name, comment, code, path, after, draft in cases:
        vectors.invalid("reply", name, after, draft, code, f"reply.{path}", comment)


def _completion(vectors: Collection) -> None:
    talk = vectors.talk("opened, asked, two rows").opened().asked().drafted()
    end = talk.completion()
    vectors.valid("completion", "sparse-ok", talk, end, "Two rows, as asked.")
    dense = vectors.talk("opened, asked, two rows", "dense").opened().asked().drafted()
    vectors.valid("completion", "dense-ok", dense, dense.completion(), "Two dense rows.")
    none = vectors.talk("opened, asked").opened().asked()
    vectors.valid("completion", "no-rows", none, none.completion("model_error"), "Nothing was drafted.")
    one = vectors.talk("opened, asked, one row").opened().asked().drafted(1)
    vectors.valid("completion", "given-up", one, one.completion("cancelled"), "After one row of two.")

    def bad(name: str, comment: str, code: str, path: str, **body: Value) -> None:
        vectors.invalid("completion", name, talk, end.but(**body), code, f"completion.{path}", comment)

    vectors.invalid(
        "completion", "body-checksum", talk, end.under(body_checksum=1), "body_checksum_mismatch",
        "header.body_checksum", "The body is not what was hashed.",
    )  # fmt: skip
    bad("reserved", "A reserved byte.", "reserved_not_zero", "reserved_1", reserved_1=b"\1")
    bad("status-8", "No status has number 8.", "unknown_value", "status", status=8)
    bad("rows-6", "More than any depth.", "value_out_of_bounds", "rows", rows=6)
    bad("position", "Not the STEP's.", "completion_position_mismatch", "position", position=4)
    bad("context", "Not the STEP's.", "completion_context_mismatch", "context_version", context_version=CONTEXT + 1)
    bad("rows", "Two rows came.", "completion_rows_mismatch", "rows", rows=1)
    bad("bytes", "A byte too few.", "completion_bytes_mismatch", "reply_bytes", reply_bytes=talk.session.row_bytes - 1)
    bad("checksum", "Other rows.", "completion_checksum_mismatch", "rows_checksum", rows_checksum=bytes(16))
    vectors.invalid(
        "completion", "ok-too-early", one, one.completion(), "completion_rows_mismatch", "completion.rows",
        "Status ok after one row of two.",
    )  # fmt: skip


def _discards(vectors: Collection) -> None:
    """Seven rounds are rejected, each followed by its RESET; the eighth ends the connection."""
    talk = vectors.talk("opened, seven rounds rejected").opened()
    for _ in range(7):
        talk.asked()
        talk.send(talk.reply().but(token=2), code="q_zero_at_token")
        talk.send(talk.reset("fault"))
    talk.asked()
    row, end = talk.reply().but(token=2), talk.completion("cancelled").but(position=4)
    for draft, path in ((row, "reply.token"), (end, "completion.position")):
        vectors.invalid(
            draft.message, "eighth-discard", talk, draft, "too_many_discards", path,
            "The eighth round in a row that is rejected.",
        )  # fmt: skip
