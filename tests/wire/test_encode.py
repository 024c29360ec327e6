"""Encoding refuses what its receiver would refuse, and what packing would cut, pad or round, naming the field."""

from __future__ import annotations

import dataclasses
import decimal
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.errors import LocalProtocolError, PP1Error
from pp1wire.wire import (
    Agreement,
    CommitKind,
    Message,
    ReplyBatch,
    ResetReason,
    decode,
    decode_replies,
    encode,
    encode_replies,
    prefix_digest,
)
from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire._schema_v2 import Q_TOTAL
from tests.wire.frames import (
    DENSE,
    EVERY_KIND,
    MAKERS,
    SPARSE,
    commit,
    completion,
    encode_all,
    hello,
    q_of,
    reply,
    reset,
    step,
)
from tests.wire.strategies import agreements, batches

both = pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])


def refusal(message: Message, agreement: Agreement | None, sequence: Any = 0) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        encode(message, agreement, sequence)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


NOT_INTEGERS = [
    -1,
    2**64,
    2**200,
    10**5000,
    1.0,
    1.5,
    math.nan,
    "1",
    b"1",
    None,
    [1],
    decimal.Decimal(1),
    np.float32(1),
]


def integer_fields() -> list[tuple[str, Agreement | None, Message, str]]:
    found = []
    for name, agreement, message in EVERY_KIND:
        number = schema.MessageType[name.split("-")[0].upper()]
        fields = [s.name for s in schema.BODY_FIELDS[number] if s.kind in ("int", "enum")]
        for field in [*schema.IDENTITY_FIELDS[number], *fields]:
            if hasattr(message, field):
                found.append((f"{name}.{field}", agreement, message, field))
    return found


INTEGER_FIELDS = integer_fields()


@pytest.mark.parametrize("case", INTEGER_FIELDS, ids=lambda c: c[0])
def test_integer_fields_take_integers_that_fit(case: tuple[str, Agreement | None, Message, str]) -> None:
    _, agreement, message, field = case
    for value in NOT_INTEGERS:
        if field == "token" and value == -1:
            continue
        text = refusal(dataclasses.replace(message, **{field: value}), agreement)
        assert field in text, text
    own = getattr(message, field)
    for same in (np.int64(own), np.uint64(own), int(own)) if own < 2**63 else (np.uint64(own), int(own)):
        changed = dataclasses.replace(message, **{field: same})
        assert encode(changed, agreement, 0) == encode(message, agreement, 0)
        assert decode(encode(changed, agreement, 0), agreement) == message


@pytest.mark.parametrize("value", [*NOT_INTEGERS, 2**64 - 0.5], ids=lambda v: type(v).__name__)
def test_sequences_are_unsigned_64_bit_integers(value: Any) -> None:
    for _, agreement, message in EVERY_KIND:
        assert "sequence" in refusal(message, agreement, value)
    batch = ReplyBatch.from_replies([reply(SPARSE)], SPARSE)
    with pytest.raises(LocalProtocolError, match="sequence"):
        encode_replies(batch, SPARSE, value)


def test_sequences_of_a_batch_do_not_wrap() -> None:
    batch = ReplyBatch.from_replies([reply(SPARSE)] * 3, SPARSE)
    assert len(encode_replies(batch, SPARSE, 2**64 - 3)) == 3 * SPARSE.reply_frame_bytes
    with pytest.raises(LocalProtocolError, match="sequence"):
        encode_replies(batch, SPARSE, 2**64 - 2)
    assert encode_replies(batch, SPARSE, np.int64(2**63 - 1)) == encode_replies(batch, SPARSE, 2**63 - 1)


@pytest.mark.parametrize("size", [0, 1, 15, 17, 31, 33, 1000])
def test_bytes_are_neither_padded_nor_cut(size: int) -> None:
    for name, agreement, message in EVERY_KIND:
        for spec in schema.BODY_FIELDS[schema.MessageType[name.split("-")[0].upper()]]:
            if spec.kind == "bytes" and spec.size != size:
                for value in (b"x" * size, "x" * spec.size, bytearray(spec.size), None, spec.size):
                    text = refusal(dataclasses.replace(message, **{spec.name: value}), agreement)
                    assert spec.name in text


@pytest.mark.parametrize("field", ["q_semantic", "verifier_semantic", "rng_abi", "draft_revision"])
def test_texts_are_printable_ascii_that_fits(field: str) -> None:
    size = 64 if field == "draft_revision" else 32
    for good in ("", "x" * size, " ~"):
        message = hello(**{field: good})
        assert decode(encode(message, None, 0), None) == message
    for bad in ("x" * (size + 1), "x" * 10**6, "a\0", "\0", "a\0b", "caf\u00e9", "\ud800", "a\n", b"ascii", None, 7):
        assert field in refusal(hello(**{field: bad}), None)


def test_temperatures_are_doubles_as_they_are() -> None:
    for good in (0.6, 1, np.float32(0.6), np.float64(0.7), 5e-324, 1.7976931348623157e308, 2**53, np.int32(2)):
        message = step(SPARSE, temperature=good)
        decoded = decode(encode(message, SPARSE, 0), SPARSE)
        assert decoded.temperature == good  # type: ignore[union-attr]
    for bad in (
        0,
        -0.0,
        -1,
        math.inf,
        -math.inf,
        math.nan,
        2**53 + 1,
        10**400,
        "1",
        None,
        decimal.Decimal("0.1"),
        1j,
        [1.0],
    ):
        assert "temperature" in refusal(step(SPARSE, temperature=bad), SPARSE)


RULES = [
    (hello(status=1), "hello.status"),
    (hello(refusal=3), "hello.refusal"),
    (hello(nonce=bytes(16)), "hello.nonce"),
    (hello(vocab_size=0), "hello.vocab_size"),
    (hello(vocab_size=14), "hello.padded_vocab_size"),
    (hello(representations=4), "hello.representations"),
    (hello(role=3), "hello.role"),
    (step(SPARSE, depth=5), "step.depth"),
    (step(SPARSE, depth=6), "step.depth"),
    (step(SPARSE, support=0), "step.support"),
    (step(SPARSE, support=5), "step.support"),
    (step(SPARSE, position=2**32 - 2), "step.position"),
    (step(SPARSE, support_policy=1), "step.support_policy"),
    (completion(SPARSE, rows=6), "completion.rows"),
    (completion(SPARSE, status=8), "completion.status"),
    (completion(SPARSE, slot=3), "header.slot"),
    (completion(SPARSE, session=0), "header.session"),
    (completion(SPARSE, generation=0), "header.generation"),
    (completion(SPARSE, round=0), "header.round"),
    (commit(SPARSE, tokens=[]), "commit.token_count"),
    (commit(SPARSE, tokens=[1] * 7, accepted=6), "commit.tokens"),
    (commit(SPARSE, tokens=[1, 2, 3]), "commit.token_count"),
    (commit(SPARSE, kind=CommitKind.TARGET_ONLY), "commit.accepted"),
    (commit(SPARSE, tokens=[1, 11]), "commit.tokens[1]"),
    (commit(SPARSE, tokens=[-1, 1]), "commit.tokens[0]"),
    (commit(SPARSE, new_position=3), "commit.new_position"),
    (reset(SPARSE, position=2), "reset.prefix_count"),
    (reset(SPARSE, reason=ResetReason.CLOSE), "reset.prefix_count"),
    (reset(SPARSE, prefix_digest=bytes(16)), "reset.prefix_digest"),
    (reset(SPARSE, prefix_ids=[1, 2, 13], prefix_digest=prefix_digest([1, 2, 13])), "reset.prefix_ids[2]"),
    (reset(SPARSE, prefix_ids=[1] * 9, position=9, prefix_digest=prefix_digest([1] * 9)), "header.body_length"),
    (reply(SPARSE, token=3), "reply.token"),
    (reply(SPARSE, token=11), "reply.token"),
    (reply(SPARSE, token=-1), "reply.token"),
    (reply(SPARSE, ids=[2, 2, 9]), "reply.ids[1]"),
    (reply(SPARSE, ids=[2, 9, 5]), "reply.ids[2]"),
    (reply(SPARSE, ids=[2, 5, 11]), "reply.ids[2]"),
    (reply(SPARSE, q=q_of(1, 2, 3)), "reply.q"),
    (reply(SPARSE, q=q_of(1, 0, Q_TOTAL - 1)), "reply.q[1]"),
    (reply(SPARSE, slot=3), "slot"),
    (reply(SPARSE, session=0), "session"),
    (reply(SPARSE, ids=[], q=[]), "reply.entry_count"),
    (reply(DENSE, q=q_of(1, 0, 1, 0, 1, 1)), "reply.q"),
    (reply(DENSE, token=6), "reply.token"),
    (reply(DENSE, token=1), "reply.token"),
    (reply(DENSE, q=q_of(1, 0, Q_TOTAL - 1)), "reply.entry_count"),
]


@pytest.mark.parametrize(("message", "path"), RULES, ids=[f"{i}-{p}" for i, (_, p) in enumerate(RULES)])
def test_the_receivers_rules_hold_for_the_sender(message: Message, path: str) -> None:
    agreement = None if isinstance(message, schema.Hello) else DENSE if path.startswith("reply") and not len(getattr(
        message, "ids", [0])) and len(message.q) else SPARSE  # type: ignore[union-attr]  # fmt: skip
    assert path in refusal(message, agreement)


@both
def test_q_of_a_reply_is_encoded_as_it_is_or_not_at_all(agreement: Agreement) -> None:
    good = reply(agreement)
    for value in (-0.0, np.nan, np.inf, -(2.0**-24), 2.0**-25, 5e-38, 1 + 2.0**-23, 2.0):
        q = good.q.copy()
        q[-1] = value
        assert "row 0" in refusal(dataclasses.replace(good, q=q), agreement)
    for ids, q in (([], [1.0]), ([2], []), ([2, 5], [1.0]), ([0], [0.5, 0.5]), (range(9), q_of(*[1] * 9))):
        assert "row 0" in refusal(dataclasses.replace(good, ids=list(ids), q=q, token=0), agreement)


@both
def test_encode_needs_what_it_needs(agreement: Agreement) -> None:
    for make in MAKERS.values():
        assert "agreement" in refusal(make(agreement), None)
    assert "without an agreement" in refusal(hello(), agreement)
    for thing in (None, "step", object(), np.zeros(3), [step(agreement)], ReplyBatch.from_replies([], agreement)):
        assert "expected a message of Hello, Step" in refusal(thing, agreement)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ids", [[1.0], [1.5], ["1"], [None], [[1]], 1, "12", [[1], [1, 2]], [2**31], [-(2**31) - 1], [2**63], [2**64], [1 + 0j], {1},
            np.zeros((1, 1), np.int32), np.zeros(2, np.float32), np.array([True])],
)  # fmt: skip
def test_columns_of_ids_are_int32(ids: Any) -> None:
    for make, name in ((commit, "tokens"), (reset, "prefix_ids"), (reply, "ids")):
        with pytest.raises(LocalProtocolError):
            make(SPARSE, **{name: ids})
    with pytest.raises(LocalProtocolError):
        prefix_digest(ids)


@pytest.mark.parametrize("q", [[1], ["1.0"], [[1.0]], 1.0, [[1.0], [1.0, 2.0]], [0.1], [1e300], [1 + 0j], [None]])
def test_columns_of_q_are_float32(q: Any) -> None:
    with pytest.raises(LocalProtocolError):
        reply(SPARSE, q=q)


def test_columns_take_any_integers_and_floats_that_fit() -> None:
    for dtype in (np.int8, np.uint8, np.int64, np.uint64, ">i4", ">u2"):
        assert commit(SPARSE, tokens=np.array([2, 4], dtype)) == commit(SPARSE)
    for dtype in (np.float16, np.float64, ">f4", np.longdouble):
        assert reply(SPARSE, ids=[1, 2], q=np.array([0.5, 0.5], dtype)) == reply(SPARSE, ids=[1, 2], q=[0.5, 0.5])
    spread = np.array([2, 0, 4, 0], np.int32)[::2]
    assert encode(commit(SPARSE, tokens=spread), SPARSE, 0) == encode(commit(SPARSE), SPARSE, 0)


@st.composite
def damaged_batches(draw: st.DrawFn) -> tuple[Agreement, ReplyBatch]:
    """A legal batch with one column changed, in value or type, by somebody who builds batches by hand."""
    agreement = draw(agreements(max_vocab=5))
    batch = draw(batches(agreement, min_rows=1, max_rows=3))
    values = {name: getattr(batch, name).copy() for name in (f.name for f in dataclasses.fields(batch)) if name != "_q"}
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(values)))
        column = values[name]
        if column.size and column.dtype.kind in "iu" and draw(st.integers(0, 4)):
            info = np.iinfo(column.dtype)
            number = st.integers(-2, 3) | st.sampled_from(
                [info.min, info.max, Q_TOTAL, Q_TOTAL + 1, Q_TOTAL - 1, 5, -5]
            )
            column.flat[draw(st.integers(0, column.size - 1))] = np.clip(draw(number), info.min, info.max)
            if draw(st.booleans()) and name == "counts":
                row = column[draw(st.integers(0, len(column) - 1))]
                row[-1] = np.clip(Q_TOTAL - int(row[:-1].sum()), info.min, info.max)
        else:
            with np.errstate(invalid="ignore"):
                values[name] = column.astype(draw(st.sampled_from([np.int64, np.float64, np.int16, np.uint8])))
    return agreement, ReplyBatch(**values)


@given(damaged_batches())
def test_a_batch_made_by_hand_is_encoded_as_it_is_or_not_at_all(case: tuple[Agreement, ReplyBatch]) -> None:
    agreement, batch = case
    try:
        stream = encode_replies(batch, agreement, 0)
    except LocalProtocolError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    decoded = decode_replies(stream, agreement)
    for name in ("sessions", "slots", "generations", "rounds", "positions", "tokens", "entry_counts", "ids", "counts"):
        assert np.array_equal(getattr(decoded, name), getattr(batch, name)), name


def test_counts_that_float32_would_round_are_refused() -> None:
    for agreement in (SPARSE, DENSE):
        row = ([2], [Q_TOTAL])
        batch = ReplyBatch.from_rows(
            agreement, session=1, slot=0, generation=1, round=1, position=0, tokens=[2], rows=[row]
        )
        assert len(encode_replies(batch, agreement, 0)) == agreement.reply_frame_bytes
        batch.counts[batch.counts == Q_TOTAL] = Q_TOTAL + 1
        with pytest.raises(LocalProtocolError):
            encode_replies(batch, agreement, 0)
        batch.counts[0, -1] = -1
        with pytest.raises(LocalProtocolError):
            encode_replies(batch, agreement, 0)


def test_every_error_has_one_base() -> None:
    assert issubclass(LocalProtocolError, PP1Error)


@pytest.mark.parametrize("row", [None, (), ([1],), ([1], [2], [3]), 7], ids=repr)
def test_rows_that_are_no_pairs_are_refused(row):
    with pytest.raises(LocalProtocolError, match="pair"):
        ReplyBatch.from_rows(SPARSE, session=1, slot=0, generation=1, round=1, position=0, tokens=[1], rows=[row])


def test_a_numpy_sequence_number_does_not_wrap():
    frame = encode_all([reply(SPARSE, position=i) for i in range(2)], SPARSE, 255)
    assert len(decode_replies(frame, SPARSE, np.uint8(255))) == 2
