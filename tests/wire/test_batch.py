"""Batches: rows of `pp1wire.sampling` and messages in, rows and messages out; what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import Agreement, ReplyBatch, Representation, decode_replies, encode_replies
from pp1wire.wire._schema_v2 import Q_TOTAL
from tests.wire.frames import DENSE, SPARSE, reply
from tests.wire.strategies import agreements, rows

HALF = Q_TOTAL // 2
both = pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])


def made(agreement: Agreement, **changes: Any) -> ReplyBatch:
    fields: dict[str, Any] = {
        "session": 7, "slot": 2, "generation": 3, "round": 5, "position": 10, "tokens": [1, 4],
        "rows": [([1, 3], [HALF, HALF]), ([4], [Q_TOTAL])],
    }  # fmt: skip
    return ReplyBatch.from_rows(agreement, **fields | changes)


@given(st.data())
def test_rows_come_back_as_they_went(data: st.DataObject) -> None:
    agreement = data.draw(agreements())
    given_rows = data.draw(st.lists(rows(agreement), max_size=5))
    tokens = [int(data.draw(st.sampled_from(ids.tolist()))) for ids, _ in given_rows]
    batch = ReplyBatch.from_rows(
        agreement, session=1, slot=0, generation=2, round=3, position=9, tokens=tokens, rows=given_rows
    )
    decoded = decode_replies(encode_replies(batch, agreement, 0), agreement)
    for some in (batch, decoded):
        assert len(some) == len(given_rows)
        assert some.positions.tolist() == list(range(9, 9 + len(given_rows)))
        for i, (ids, counts) in enumerate(given_rows):
            found_ids, found_counts = some.row(i)
            assert found_ids.tolist() == ids.tolist()
            assert found_counts.tolist() == counts.tolist()
            assert some[i].token == tokens[i]
            assert some[i].q.sum(dtype=np.float64) == 1


@both
def test_replies_come_back_as_they_went(agreement: Agreement) -> None:
    replies = [reply(agreement, position=i, session=i + 1) for i in range(3)]
    batch = ReplyBatch.from_replies(replies, agreement)
    assert [batch[i] for i in range(3)] == replies
    assert batch[-1] == replies[-1]
    with pytest.raises(IndexError):
        batch[3]


@both
@pytest.mark.parametrize("field", ["session", "slot", "generation", "round", "position"])
def test_identities_fit_their_columns(agreement: Agreement, field: str) -> None:
    bits = {"session": 64, "slot": 16}.get(field, 32)
    for value in (-1, 2**bits, 2**200, 10**5000, 1.0, "1", None, np.float32(2)):
        with pytest.raises(LocalProtocolError, match=f"row 0: {field}"):
            made(agreement, **{field: value})
    top = 2**bits - (2 if field == "position" else 1)
    assert made(agreement, **{field: np.uint64(top)})[1]
    if field == "position":
        for last in (2**32 - 1, np.uint32(2**32 - 1)):
            with pytest.raises(LocalProtocolError, match="row 1: position"):
                made(agreement, position=last)


@both
def test_tokens_fit_their_column(agreement: Agreement) -> None:
    for token in (2**31, -(2**31) - 1, 4.0, 4.5, "4", None, [4]):
        with pytest.raises(LocalProtocolError, match="row 1: token"):
            made(agreement, tokens=[1, token])
    assert made(agreement, tokens=np.array([1, 4], np.int16))[1].token == 4


@both
def test_rows_that_do_not_fit(agreement: Agreement) -> None:
    for tokens in ([1], [1, 4, 4], []):
        with pytest.raises(LocalProtocolError, match="one row a token"):
            made(agreement, tokens=tokens)
    good = ([4], [Q_TOTAL])
    bad_rows: list[Any] = [
        ([1, 3], [Q_TOTAL]), ([[1]], [[Q_TOTAL]]), ([1.0], [Q_TOTAL]), ([1], [1.0]), ([1], [float("nan")]), (1, Q_TOTAL),
        ([-1], [Q_TOTAL]), ([agreement.vocab_size], [Q_TOTAL]), ([2**40], [Q_TOTAL]), ([1], [-1]), ([1], [Q_TOTAL + 1]),
        ([1], [2**40]), ([1], [-(2**40)]), (["1"], [Q_TOTAL]), ([[1], [2, 3]], [1, 2]),
    ]  # fmt: skip
    if agreement is SPARSE:
        bad_rows.append(([0, 1, 2, 3, 4], [1, 1, 1, 1, Q_TOTAL - 4]))
    else:
        # Scattered over each other, these would total 2^24.
        bad_rows += [([3, 3], [5, Q_TOTAL]), ([4, 3], [HALF, HALF])]
    for bad in bad_rows:
        with pytest.raises(LocalProtocolError, match=r"row 1|column"):
            made(agreement, rows=[good, bad])


def test_batches_of_another_agreement_are_refused() -> None:
    others = [
        DENSE, Agreement(1, Representation.SPARSE, 11, 13, 3, 4, 5, 8), Agreement(1, Representation.SPARSE, 11, 13, 3, 4, 3, 8),
        Agreement(1, Representation.DENSE, 11, 13, 3, 4, 4, 8),
    ]  # fmt: skip
    batch = made(SPARSE)
    for other in others:
        with pytest.raises(LocalProtocolError, match=r"ids|counts"):
            encode_replies(batch, other, 0)
    # The same columns, another vocabulary: the ids lie beyond it.
    small = Agreement(1, Representation.SPARSE, 4, 13, 3, 4, 4, 8)
    with pytest.raises(LocalProtocolError, match=r"row 1: reply.ids\[0\]"):
        encode_replies(batch, small, 0)


def test_columns_of_another_type_are_refused() -> None:
    batch = made(SPARSE)
    columns = {name: getattr(batch, name) for name in (
        "sessions", "slots", "generations", "rounds", "positions", "tokens", "entry_counts", "ids", "counts", "row_checksums",
    )}  # fmt: skip
    for name, column in columns.items():
        if name == "row_checksums":
            continue
        for bad in (column.astype(np.float64), column.astype(np.int64), column[:1], column[None], column.astype(">i8")):
            with pytest.raises(LocalProtocolError, match=name if name != "tokens" else "expected"):
                encode_replies(ReplyBatch(**columns | {name: bad}), SPARSE, 0)
    assert encode_replies(ReplyBatch(**columns), SPARSE, 0) == encode_replies(batch, SPARSE, 0)


EDGES = {
    "one id": Agreement(0, Representation.SPARSE, 1, 1, 1, 1, 1, 1),
    "one id, wide k": Agreement(2**64 - 1, Representation.SPARSE, 1, 1, 1, 1, 4, 1),
    "one id, padded": Agreement(1, Representation.DENSE, 1, 262144, 4, 5, 262144, 1048576),
    "one id, dense": Agreement(1, Representation.DENSE, 1, 1, 1, 1, 1, 1),
    "widest k": Agreement(1, Representation.SPARSE, 262144, 262144, 4, 5, 262144, 1),
}


@pytest.mark.parametrize("name", EDGES)
def test_agreements_at_their_edges(name: str) -> None:
    agreement = EDGES[name]
    token = agreement.vocab_size - 1
    batch = ReplyBatch.from_rows(
        agreement, session=1, slot=0, generation=1, round=1, position=0, tokens=[token], rows=[([token], [Q_TOTAL])]
    )
    stream = encode_replies(batch, agreement, 0)
    assert len(stream) == agreement.reply_frame_bytes == 96 + 4 * (agreement.id_entries + agreement.q_entries)
    [found] = [decode_replies(stream, agreement)[0]]
    assert found == batch[0]
    assert found.token == token
