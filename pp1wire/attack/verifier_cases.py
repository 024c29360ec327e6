"""What a worker can do wrong to a verifier, as a table.

A fault of a proposal costs its round, so `discarded` is right; one of the connection ends it; a stale answer is dropped.
States are those of `verifier_play.STATES`; `frame` says what of the answer is changed: the first `row`, all `rows`, the whole
`proposal`, the `completion`, or the `hello`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pp1wire.attack.case import CLOSES, Case
from pp1wire.attack.crafting import Facts, HashedFor, Scalar, Value, plus
from pp1wire.attack.hello_cases import hello_cases
from pp1wire.attack.outcomes import Outcome, Target
from pp1wire.attack.verifier_faults import verifier_faults
from pp1wire.wire import CompletionStatus, RejectCode, Representation

__all__ = ["verifier_cases"]

C = RejectCode
_SPARSE, _DENSE = Representation.SPARSE, Representation.DENSE
DISCARDS = frozenset({Outcome.DISCARDED})
_UNIT = 2.0**-24
_SMALLEST = 2.0**-149
Row = tuple[str, str, RejectCode, str, Mapping[str, Value]]
Needy = tuple[str, str, RejectCode, str, Mapping[str, Value], tuple[str, ...]]


def _flip(old: Scalar, _: Facts) -> Scalar:
    return int(old) ^ 1


_FRAMING: tuple[Row, ...] = (
    ("frame/magic", "Another protocol in mid-stream.", C.BAD_MAGIC, "row", {"header.magic": b"HTTP"}),
    ("frame/version", "Another version in mid-stream.", C.UNSUPPORTED_VERSION, "row", {"header.wire_version": 1}),
    ("frame/header-checksum", "One bit of the header's checksum.", C.HEADER_CHECKSUM_MISMATCH, "row",
     {"header.header_checksum": _flip}),
    ("frame/type-0", "No message has type 0.", C.UNKNOWN_MESSAGE_TYPE, "row", {"header.message_type": 0}),
    ("frame/type-7", "No message has type 7.", C.UNKNOWN_MESSAGE_TYPE, "row", {"header.message_type": 7}),
    ("frame/oversized", "A body of 4 GiB is announced.", C.OVERSIZED_BODY, "row", {"header.body_length": 2**32 - 1}),
    ("frame/reserved-1", "Reserved byte 7.", C.HEADER_RESERVED_NOT_ZERO, "row", {"header.reserved_1": b"\1"}),
    ("frame/reserved-2", "Reserved byte 22.", C.HEADER_RESERVED_NOT_ZERO, "row", {"header.reserved_2": b"\1\0"}),
    ("frame/sequence-repeated", "The number of the frame before.", C.SEQUENCE_MISMATCH, "row", {"header.sequence": plus(-1)}),
    ("frame/sequence-skipped", "A frame is missing.", C.SEQUENCE_MISMATCH, "row", {"header.sequence": plus(1)}),
    ("frame/agreement-zero", "No agreement.", C.AGREEMENT_MISMATCH, "row", {"header.agreement_id": 0}),
    ("frame/agreement-other", "A frame of another connection, as a replay would bring it.", C.AGREEMENT_MISMATCH, "proposal",
     {"header.agreement_id": _flip}),
    ("frame/slot-beyond", "A slot that nobody can have.", C.HEADER_OUT_OF_BOUNDS, "row", {"header.slot": 0xFFFF}),
    ("frame/session-zero", "Sessions count from 1.", C.HEADER_OUT_OF_BOUNDS, "row", {"header.session": 0}),
    ("frame/generation-zero", "Generations count from 1.", C.HEADER_OUT_OF_BOUNDS, "row", {"header.generation": 0}),
    ("frame/round-zero", "Rounds count from 1.", C.HEADER_OUT_OF_BOUNDS, "row", {"header.round": 0}),
    ("frame/completion-header-checksum", "One bit of the header's checksum.", C.HEADER_CHECKSUM_MISMATCH, "completion",
     {"header.header_checksum": _flip}),
    ("frame/completion-sequence", "A frame is missing before the COMPLETION.", C.SEQUENCE_MISMATCH, "completion",
     {"header.sequence": plus(1)}),
    ("fresh/session-never-issued", "A proposal for a session that was never opened.", C.SESSION_NEVER_ISSUED, "proposal",
     {"header.session": plus(1 << 40)}),
    ("fresh/generation-never-issued", "A proposal for a generation that no RESET began.", C.GENERATION_NEVER_ISSUED,
     "proposal", {"header.generation": plus(1)}),
    ("fresh/round-never-issued", "A proposal for a round that no STEP asked for.", C.ROUND_NEVER_ISSUED, "proposal",
     {"header.round": plus(1)}),
    ("fresh/completion-generation-never-issued", "The rows are right, the COMPLETION is of no generation.",
     C.GENERATION_NEVER_ISSUED, "completion", {"header.generation": plus(1)}),
    ("fresh/completion-round-never-issued", "The rows are right, the COMPLETION is of no round.", C.ROUND_NEVER_ISSUED,
     "completion", {"header.round": plus(1)}),
)  # fmt: skip

_ROW: tuple[Needy, ...] = (
    ("row/body-checksum", "The row is not what was hashed.", C.BODY_CHECKSUM_MISMATCH, "row",
     {"header.body_checksum": _flip}, ()),
    ("row/moved", "A whole row, hashed for another round.", C.BODY_CHECKSUM_MISMATCH, "row",
     {"header.body_checksum": HashedFor({"header.round": 999})}, ()),
    ("row/reserved-1", "A reserved byte.", C.RESERVED_NOT_ZERO, "row", {"reserved_1": b"\0\1\0"}, ()),
    ("row/reserved-2", "A reserved byte.", C.RESERVED_NOT_ZERO, "row", {"reserved_2": b"\0\0\0\0\0\0\0\1"}, ()),
    ("row/representation-3", "No representation has number 3.", C.UNKNOWN_VALUE, "row", {"representation": 3}, ()),
    ("row/representation", "Not the agreed one.", C.REPRESENTATION_MISMATCH, "row",
     {"representation": lambda old, _: 3 - int(old)}, ()),
    ("row/shard-first", "Rows begin at id 0.", C.SHARD_MISMATCH, "row", {"shard_first_id": 1}, ()),
    ("row/shard-count", "Rows cover all ids.", C.SHARD_MISMATCH, "row", {"shard_id_count": plus(1)}, ()),
    ("row/no-q", "A token without q.", C.MISSING_Q, "row", {"entry_count": 0}, ()),
    ("row/entry-count", "More entries than a row has.", C.ENTRY_COUNT_MISMATCH, "row",
     {"entry_count": lambda _, f: f.agreed.q_entries + 1}, ()),
    ("row/q-nan", "q is no number.", C.Q_NOT_FINITE, "row", {"q[1]": math.nan}, ("two entries",)),
    ("row/q-infinite", "q is infinite.", C.Q_NOT_FINITE, "row", {"q[1]": math.inf}, ("two entries",)),
    ("row/q-negative", "q is below zero.", C.Q_NEGATIVE, "row", {"q[1]": -_UNIT}, ("two entries",)),
    ("row/q-minus-zero", "A second spelling of zero.", C.Q_NEGATIVE_ZERO, "row", {"q[1]": -0.0}, ("two entries",)),
    ("row/q-half-step", "Half of 2^-24.", C.Q_NOT_DYADIC, "row", {"q[1]": _UNIT / 2}, ("two entries",)),
    ("row/q-subnormal", "The smallest number above zero.", C.Q_NOT_DYADIC, "row", {"q[1]": _SMALLEST}, ("two entries",)),
    ("row/mass-short", "One count is missing.", C.Q_MASS_MISMATCH, "row", {"q[1]": plus(-_UNIT)}, ("two entries",)),
    ("row/mass-over", "One count too many.", C.Q_MASS_MISMATCH, "row", {"q[1]": plus(_UNIT)}, ("two entries",)),
    ("row/mass-double", "Every token is certain.", C.Q_MASS_MISMATCH, "row", {"q[1]": 1.0, "q[2]": 1.0}, ("three entries",)),
    ("row/token-negative", "Id -1.", C.TOKEN_OUT_OF_RANGE, "row", {"token": -1}, ()),
    ("row/token-beyond", "The first id behind the padding.", C.TOKEN_OUT_OF_RANGE, "row",
     {"token": lambda _, f: f.agreed.padded_vocab_size}, ()),
    ("row/token-padded", "The first id of the padding.", C.TOKEN_PADDED, "row", {"token": lambda _, f: f.agreed.vocab_size},
     ("padding",)),
    ("row/token-without-q", "A token that cannot have been drawn.", C.Q_ZERO_AT_TOKEN, "row", {"token": 0}, ("two entries",)),
    ("row/ticket", "A possible token, but not the one its ticket draws.", C.TICKET_MISMATCH, "row",
     {"token": lambda old, _: int(old) % 3 + 1}, ("three entries",)),
    ("row/position-before", "A position of the prefix.", C.REPLY_POSITION_MISMATCH, "row", {"position": plus(-1)},
     ("a prefix",)),
    ("row/support-over-step", "More candidates than the STEP asked for.", C.SUPPORT_OVER_STEP, "wide row", {},
     ("a narrow STEP",)),
)  # fmt: skip

_SPARSE_ROW: tuple[Needy, ...] = (
    ("row/id-negative", "Id -1.", C.ID_OUT_OF_RANGE, "row", {"ids[0]": -1}, ("three entries",)),
    ("row/id-beyond", "The first id behind the padding.", C.ID_OUT_OF_RANGE, "row",
     {"ids[2]": lambda _, f: f.agreed.padded_vocab_size}, ("three entries",)),
    ("row/id-padded", "The first id of the padding.", C.ID_PADDED, "row", {"ids[2]": lambda _, f: f.agreed.vocab_size},
     ("three entries", "padding")),
    ("row/ids-duplicate", "Id 1 twice.", C.IDS_DUPLICATE, "row", {"ids[1]": 1}, ("three entries",)),
    ("row/ids-duplicate-zero", "Id 1 twice, once without mass.", C.IDS_DUPLICATE, "row",
     {"ids[1]": 1, "q[0]": 0.75, "q[1]": 0.0}, ("three entries",)),
    ("row/ids-unsorted", "Ids 2 and 3 exchanged, with their q.", C.IDS_UNSORTED, "row", {"ids[1]": 3, "ids[2]": 2},
     ("three entries",)),
    ("row/q-zero", "An id without mass.", C.Q_ZERO_ENTRY, "row", {"q[0]": 0.75, "q[1]": 0.0}, ("three entries",)),
    ("row/padding-id", "An id that is not in use.", C.SPARSE_PADDING_NOT_ZERO, "row", {"ids[3]": 5}, ("an unused entry",)),
    ("row/padding-q", "Mass that is not in use.", C.SPARSE_PADDING_NOT_ZERO, "row", {"q[3]": _UNIT}, ("an unused entry",)),
    ("row/padding-minus-zero", "A sign bit.", C.SPARSE_PADDING_NOT_ZERO, "row", {"q[3]": -0.0}, ("an unused entry",)),
)  # fmt: skip

_COMPLETION: tuple[Row, ...] = (
    ("completion/body-checksum", "The body is not what was hashed.", C.BODY_CHECKSUM_MISMATCH, "completion",
     {"header.body_checksum": _flip}),
    ("completion/reserved", "A reserved byte.", C.RESERVED_NOT_ZERO, "completion", {"reserved_1": b"\0\0\0\0\0\1"}),
    ("completion/status-8", "No status has number 8.", C.UNKNOWN_VALUE, "completion", {"status": 8}),
    ("completion/rows-6", "More than any depth.", C.VALUE_OUT_OF_BOUNDS, "completion", {"rows": 6}),
    ("completion/position", "Not the STEP's.", C.COMPLETION_POSITION_MISMATCH, "completion", {"position": plus(1)}),
    ("completion/context", "Not the STEP's.", C.COMPLETION_CONTEXT_MISMATCH, "completion", {"context_version": plus(1)}),
    ("completion/rows", "A row fewer than came.", C.COMPLETION_ROWS_MISMATCH, "completion", {"rows": plus(-1)}),
    ("completion/bytes", "A byte too few.", C.COMPLETION_BYTES_MISMATCH, "completion", {"reply_bytes": plus(-1)}),
    ("completion/checksum", "Of other rows.", C.COMPLETION_CHECKSUM_MISMATCH, "completion", {"rows_checksum": bytes(16)}),
)  # fmt: skip


def verifier_cases() -> Iterator[Case]:
    """Every case for a verifier, controls first."""
    for representation in (_SPARSE, _DENSE):
        yield Case(
            name=f"valid/{representation.name.lower()}-proposal", comment="A whole proposal.", code=None, state="asked",
            frame="row", expect=frozenset({Outcome.ACCEPTED}), representation=representation,
        )  # fmt: skip
    for status in CompletionStatus:
        if status is not CompletionStatus.OK:
            yield Case(
                name=f"valid/given-up-{status.name.lower().replace('_', '-')}", comment="The worker gives the round up.",
                code=None, state="asked", frame="completion", fields={"status": int(status)}, order=(), expect=DISCARDS,
            )  # fmt: skip
    yield from _hellos()
    for name, comment, code, part, fields in _FRAMING:
        yield Case(name=name, comment=comment, code=code, state="asked", frame=part, fields=fields, expect=CLOSES)
    yield from _lengths()
    yield from verifier_faults()
    for representation in (_SPARSE, _DENSE):
        yield from _proposals(representation)


def _hellos() -> Iterator[Case]:
    yield from hello_cases(Target.VERIFIER)
    yield from (
        Case(name="hello/refused", comment="The offer is refused.", code=C.HELLO_REFUSED, state="offered", frame="hello",
             fields={"status": 1, "refusal": 12}),
        Case(name="hello/refused-without-reason", comment="Refused, but not why.", code=C.REFUSAL_MISMATCH,
             state="offered", frame="hello", fields={"status": 1}),
        Case(name="hello/nonce-repeated", comment="The offer's own nonce.", code=C.NONCE_NOT_FRESH, state="offered",
             frame="hello with the offer's nonce"),
        Case(name="hello/offer-returned", comment="The offer itself, sent back.", code=C.WRONG_ROLE, state="offered",
             frame="offer"),
        Case(name="hello/both-representations", comment="An answer names one representation, not two.",
             code=C.REPRESENTATION_NOT_OFFERED, state="offered", frame="hello", fields={"representations": 3}),
        Case(name="hello/row-first", comment="Only a HELLO may come first.", code=C.UNEXPECTED_MESSAGE, state="offered",
             frame="completion without an agreement"),
        Case(name="frame/second-hello", comment="A HELLO after the HELLOs.", code=C.UNEXPECTED_MESSAGE, state="asked",
             frame="hello"),
        Case(name="frame/step-from-worker", comment="A STEP from the end that receives them.", code=C.WRONG_DIRECTION,
             state="asked", frame="step"),
    )  # fmt: skip


def _lengths() -> Iterator[Case]:
    yield from (
        Case(name="frame/row-longer", comment="Four bytes behind a row.", code=C.WRONG_BODY_LENGTH,
             also=(C.OVERSIZED_BODY,), state="asked", frame="row", grow=bytes(4)),
        Case(name="frame/row-shorter", comment="A row without its last entry.", code=C.WRONG_BODY_LENGTH, state="asked",
             frame="row", shrink=4),
        Case(name="frame/completion-longer", comment="Four bytes behind a COMPLETION.", code=C.WRONG_BODY_LENGTH,
             also=(C.OVERSIZED_BODY,), state="asked", frame="completion", grow=bytes(4)),
        Case(name="fresh/slot", comment="Not the slot that the session holds.", code=C.SLOT_MISMATCH, state="asked",
             frame="proposal", fields={"header.slot": lambda old, f: (int(old) + 1) % f.agreed.max_slots},
             needs=("two slots",)),
    )  # fmt: skip


def _proposals(representation: Representation) -> Iterator[Case]:
    """Faults of a proposal: each costs its round."""
    sparse = representation is _SPARSE

    def case(
        name: str, comment: str, code: RejectCode, part: str, fields: Mapping[str, Value], needs: tuple[str, ...]
    ) -> Case:
        return Case(
            name=f"{representation.name.lower()}-{name}", comment=comment, code=code, state="asked", frame=part,
            fields=fields, expect=DISCARDS, representation=representation, needs=needs,
        )  # fmt: skip

    rows = _ROW if sparse else [row for row in _ROW if row[2] is not C.SUPPORT_OVER_STEP]
    yield from (case(*row) for row in (*rows, *(_SPARSE_ROW if sparse else ())))
    if not sparse:
        padding: Mapping[str, Value] = {"q[-1]": _UNIT}
        yield case(
            "row/padding-mass", "Mass behind the vocabulary.", C.DENSE_PADDING_NOT_ZERO, "row", padding, ("padding",)
        )
        yield case("row/padding-minus-zero", "A sign bit behind the vocabulary.", C.DENSE_PADDING_NOT_ZERO, "row",
                   {"q[-1]": -0.0}, ("padding",))  # fmt: skip
        yield case("row/entry-count-short", "Not every id of the vocabulary.", C.ENTRY_COUNT_MISMATCH, "row",
                   {"entry_count": plus(-1)}, ("two ids",))  # fmt: skip
        return
    yield from (case(*row, ()) for row in _COMPLETION)
    for name, comment, code, order, needs in (
        ("row-skipped", "The second row first.", C.REPLY_POSITION_MISMATCH, (1, 0), ("two rows",)),
        ("row-repeated", "The first row twice.", C.REPLY_POSITION_DUPLICATE, (0, 0, 1), ("two rows",)),
        ("row-too-many", "A row behind the depth.", C.TOO_MANY_ROWS, (0, 1, 2, 3, 4, 5), ()),
        ("no-rows", "COMPLETION ok without a row.", C.COMPLETION_ROWS_MISMATCH, (), ()),
        ("row-missing", "COMPLETION ok after one row of several.", C.COMPLETION_ROWS_MISMATCH, (0,), ("two rows",)),
    ):
        yield Case(
            name=f"order/{name}", comment=comment, code=code, state="asked", frame="nothing", order=order, expect=DISCARDS,
            needs=needs,
        )  # fmt: skip
