"""What can be wrong with a HELLO. Offer and answer have the same fields, so most cases go to both ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pp1wire.attack.case import Case
from pp1wire.attack.crafting import Facts, Scalar, Value, plus
from pp1wire.attack.outcomes import Outcome, Target
from pp1wire.wire import RefusalReason, RejectCode, Representation

__all__ = ["hello_cases"]

C = RejectCode
_OTHER = bytes(range(200, 232))

_HEADER: tuple[tuple[str, str, RejectCode, Mapping[str, Value]], ...] = (
    ("magic", "Another protocol's first bytes.", C.BAD_MAGIC, {"header.magic": b"PP1X"}),
    ("version-1", "The older wire version.", C.UNSUPPORTED_VERSION, {"header.wire_version": 1}),
    ("version-3", "A newer wire version.", C.UNSUPPORTED_VERSION, {"header.wire_version": 3}),
    ("header-checksum", "One bit of the header's checksum.", C.HEADER_CHECKSUM_MISMATCH,
     {"header.header_checksum": lambda old, _: int(old) ^ 1}),
    ("type-0", "No message has type 0.", C.UNKNOWN_MESSAGE_TYPE, {"header.message_type": 0}),
    ("type-7", "No message has type 7.", C.UNKNOWN_MESSAGE_TYPE, {"header.message_type": 7}),
    ("header-reserved-1", "Reserved byte 7.", C.HEADER_RESERVED_NOT_ZERO, {"header.reserved_1": b"\1"}),
    ("header-reserved-2", "Reserved byte 23.", C.HEADER_RESERVED_NOT_ZERO, {"header.reserved_2": b"\0\1"}),
    ("sequence", "A HELLO is frame 0.", C.SEQUENCE_MISMATCH, {"header.sequence": 1}),
    ("agreement", "A HELLO has no agreement yet.", C.AGREEMENT_MISMATCH, {"header.agreement_id": 1}),
    ("slot", "A HELLO has no slot.", C.HEADER_OUT_OF_BOUNDS, {"header.slot": 1}),
    ("session", "A HELLO has no session.", C.HEADER_OUT_OF_BOUNDS, {"header.session": 1}),
    ("generation", "A HELLO has no generation.", C.HEADER_OUT_OF_BOUNDS, {"header.generation": 1}),
    ("round", "A HELLO has no round.", C.HEADER_OUT_OF_BOUNDS, {"header.round": 1}),
    ("body-checksum", "The body is not what was hashed.", C.BODY_CHECKSUM_MISMATCH,
     {"header.body_checksum": lambda old, _: int(old) ^ 1}),
)  # fmt: skip

_BODY: tuple[tuple[str, str, RejectCode, Mapping[str, Value]], ...] = (
    ("reserved", "A reserved byte.", C.RESERVED_NOT_ZERO, {"reserved_1": b"\0\0\1"}),
    ("role-0", "No role has number 0.", C.UNKNOWN_VALUE, {"role": 0}),
    ("status-2", "No status has number 2.", C.UNKNOWN_VALUE, {"status": 2}),
    ("no-representation", "An empty mask.", C.VALUE_OUT_OF_BOUNDS, {"representations": 0}),
    ("packed", "Bit 4 of the mask is kept for later.", C.VALUE_OUT_OF_BOUNDS, {"representations": 4}),
    ("slots-0", "No slots.", C.VALUE_OUT_OF_BOUNDS, {"max_slots": 0}),
    ("slots-5", "Five slots; four is the most.", C.VALUE_OUT_OF_BOUNDS, {"max_slots": 5}),
    ("depth-6", "Depth 6; five is the most.", C.VALUE_OUT_OF_BOUNDS, {"max_depth": 6}),
    ("no-vocabulary", "No token ids.", C.VALUE_OUT_OF_BOUNDS, {"vocab_size": 0}),
    ("vocabulary-too-large", "One id more than any agreement can have.", C.VALUE_OUT_OF_BOUNDS,
     {"padded_vocab_size": 262_145}),
    ("prefix-too-long", "A longer prefix than any agreement can have.", C.VALUE_OUT_OF_BOUNDS,
     {"max_prefix": 2**20 + 1}),
    ("text-hole", "A zero byte inside a text.", C.TEXT_NOT_CANONICAL, {"draft_revision": b"r\0001".ljust(64, b"\0")}),
    ("text-utf-8", "A text that is not ASCII.", C.TEXT_NOT_CANONICAL,
     {"draft_revision": b"r\xc3\xa9".ljust(64, b"\0")}),
    ("text-control", "A control character.", C.TEXT_NOT_CANONICAL, {"rng_abi": b"philox\n".ljust(32, b"\0")}),
    ("nonce-zero", "A nonce that nobody drew.", C.NONCE_NOT_FRESH, {"nonce": bytes(16)}),
    ("reason-without-refusal", "A reason, but not refused.", C.REFUSAL_MISMATCH, {"refusal": 12}),
)  # fmt: skip


def _less(old: Scalar, _: Facts) -> Scalar:
    # A size that differs and is legal by itself, whatever it was.
    return int(old) - 1 if int(old) > 1 else 2


def _more(old: Scalar, _: Facts) -> Scalar:
    return int(old) + 1 if int(old) < 262_144 else int(old) - 1


R = RefusalReason
_IDENTITIES: tuple[tuple[str, str, RejectCode, RefusalReason, Mapping[str, Value]], ...] = (
    ("q-semantic", "Another meaning of q.", C.Q_SEMANTIC_MISMATCH, R.Q_SEMANTIC,
     {"q_semantic": b"softmax-v1".ljust(32, b"\0")}),
    ("verifier-semantic", "Another verification rule.", C.VERIFIER_SEMANTIC_MISMATCH, R.VERIFIER_SEMANTIC,
     {"verifier_semantic": b"greedy-v1".ljust(32, b"\0")}),
    ("rng-abi", "Other random words.", C.RNG_ABI_MISMATCH, R.RNG_ABI, {"rng_abi": b"philox4x32-10/pp1-v0".ljust(32, b"\0")}),
    ("precision", "Another number format.", C.PRECISION_MISMATCH, R.PRECISION, {"precision": 2}),
    ("vocab-size", "Another number of token ids.", C.VOCAB_SIZE_MISMATCH, R.VOCABULARY,
     {"vocab_size": _less, "padded_vocab_size": lambda old, _: max(int(old), 2)}),
    ("padded-vocab-size", "Another number of entries.", C.PADDED_VOCAB_SIZE_MISMATCH, R.VOCABULARY,
     {"padded_vocab_size": _more}),
    ("id-map", "The same ids name other tokens.", C.ID_MAP_MISMATCH, R.ID_MAP, {"id_map_sha256": _OTHER}),
    ("draft-checkpoint", "Another draft.", C.DRAFT_CHECKPOINT_MISMATCH, R.DRAFT, {"draft_checkpoint_sha256": _OTHER}),
    ("draft-revision", "Another revision of the draft.", C.DRAFT_REVISION_MISMATCH, R.DRAFT,
     {"draft_revision": b"not-this-one".ljust(64, b"\0")}),
    ("draft-origin", "Native and adapted exchanged.", C.DRAFT_ORIGIN_MISMATCH, R.DRAFT,
     {"draft_origin": lambda old, _: 3 - int(old)}),
    ("target", "Another target.", C.TARGET_MISMATCH, R.TARGET, {"target_sha256": _OTHER}),
    ("features", "A feature that version 2 does not know.", C.UNKNOWN_FEATURES, R.FEATURES, {"features": 1}),
)  # fmt: skip


def hello_cases(target: Target) -> Iterator[Case]:
    """The cases of the HELLO that `target` receives."""
    state = "connected" if target is Target.WORKER else "offered"
    own_role, other_role = (1, 2) if target is Target.WORKER else (2, 1)
    refused = frozenset({Outcome.REFUSED}) if target is Target.WORKER else frozenset({Outcome.CLOSED})
    for name, comment, code, fields in (*_HEADER, *_BODY):
        yield Case(name=f"hello/{name}", comment=comment, code=code, state=state, frame="hello", fields=fields)
    yield from (
        Case(
            name="hello/oversized", comment="A body of 4 GiB is announced, and a megabyte of it sent.",
            code=C.OVERSIZED_BODY, state=state, frame="hello", fields={"header.body_length": 2**32 - 1},
            extra=bytes(1 << 20),
        ),
        Case(name="hello/short", comment="A byte too few for a HELLO.", code=C.WRONG_BODY_LENGTH, state=state,
             frame="hello", shrink=1),
        Case(name="hello/wrong-role", comment="An offer where an answer belongs, or the reverse.", code=C.WRONG_ROLE,
             state=state, frame="hello", fields={"role": lambda old, _: other_role if old == own_role else own_role}),
        Case(name="hello/padded-below-vocabulary", comment="Padding cannot take ids away.",
             code=C.PADDED_VOCAB_TOO_SMALL, state=state, frame="hello", needs=("two ids",),
             fields={"padded_vocab_size": lambda _, f: f.hello.vocab_size - 1}),
    )  # fmt: skip
    for name, keep in (("cut-1", 1), ("cut-header", 63), ("cut-behind-header", 64), ("cut-half", 0.5)):
        yield Case(name=f"hello/{name}", comment="The stream ends inside a HELLO.", code=C.TRUNCATED, state=state,
                   frame="hello", keep=keep, ends=True)  # fmt: skip
    for name, comment, code, reason, fields in _IDENTITIES:
        yield Case(
            name=f"hello/other-{name}", comment=comment, code=code, state=state, frame="hello", fields=fields,
            expect=refused, refusal=reason if target is Target.WORKER else None,
        )  # fmt: skip
    for representation in Representation:
        field = f"{representation.name.lower()}_reply_bytes"
        yield Case(
            name=f"hello/{representation.name.lower()}-reply-does-not-fit", comment="A buffer that is a byte too small.",
            code=C.REPLY_DOES_NOT_FIT, state=state, frame="hello", fields={field: plus(-1)}, expect=refused,
            refusal=R.CAPACITY if target is Target.WORKER else None, representation=representation,
        )  # fmt: skip
