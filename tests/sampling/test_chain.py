"""Drafting in order: the row drawn from is the row returned, and each row sees the token before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import Key, LowRankBias, SamplingError, draft_chain, dyadic_counts, proposal_tickets, sample

V = 9


def logits_of(seed, depth=4):
    return np.random.default_rng(seed).normal(scale=2, size=(depth, V)).astype(np.float32)


def low_rank(seed):
    rng = np.random.default_rng(seed)
    return LowRankBias(rng.normal(size=(V, 3)).astype(np.float32), rng.normal(size=(3, V)).astype(np.float32))


@given(st.integers(0, 10**6), st.integers(0, V - 1), st.none() | st.integers(1, 4))
def test_chain_is_rows_and_tickets_in_order(seed, previous, top_k):
    key, logits, bias = Key(seed, 1, 2, 50), logits_of(seed), low_rank(seed)
    draft = draft_chain(logits, 0.8, key, bias=bias, previous=previous, top_k=top_k)
    tickets = proposal_tickets(seed, 1, 2, 50 + np.arange(4))
    before = previous
    for i in range(4):
        ids, counts = dyadic_counts(logits[i] + bias(before), 0.8, top_k)
        assert np.array_equal(draft.rows[i][0], ids)
        assert np.array_equal(draft.rows[i][1], counts)
        before = sample(ids, counts, int(tickets[i]))
        assert draft.tokens[i] == before
    assert draft.tokens.dtype == np.int32


def test_one_q_the_returned_array_is_the_one_drawn_from(monkeypatch):
    from pp1wire.sampling import chain

    seen = []

    def spy(ids, counts, ticket):
        seen.append((ids, counts))
        return sample(ids, counts, ticket)

    monkeypatch.setattr(chain, "sample", spy)
    draft = draft_chain(logits_of(1), 1.0, Key(1, 1, 1, 1))
    assert [tuple(map(id, row)) for row in draft.rows] == [tuple(map(id, row)) for row in seen]
    for ids, counts in draft.rows:
        for array in (ids, counts):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_no_q_no_tokens_a_draft_with_one_bad_row_does_not_exist():
    logits = logits_of(2)
    logits[3, 5] = np.nan
    with pytest.raises(SamplingError, match="NaN at id 5"):
        draft_chain(logits, 1.0, Key(1, 1, 1, 1))


def test_callable_logits_see_exactly_the_tokens_drawn_so_far():
    logits, calls = logits_of(3), []

    def rows(i, drawn):
        calls.append((i, drawn))
        return logits[i]

    draft = draft_chain(rows, 1.0, Key(3, 1, 1, 1), depth=4)
    tokens = tuple(draft.tokens.tolist())
    assert calls == [(i, tokens[:i]) for i in range(4)]
    assert np.array_equal(draft.tokens, draft_chain(logits, 1.0, Key(3, 1, 1, 1)).tokens)
    assert np.array_equal(draft.tokens, draft_chain(logits, 1.0, Key(3, 1, 1, 1), depth=4).tokens)


def test_bias_is_added_once_in_fp32():
    """Sums that FP64 would round differently: 2^24 + 1 in FP32 is 2^24."""
    logits = np.array([[2.0**24, 2.0**24, 0.0]], np.float32)
    draft = draft_chain(logits, 1.0, Key(1, 1, 1, 1), bias=lambda x: np.array([1, 0, 0], np.float32), previous=0)
    assert draft.rows[0][1].tolist() == [2**23, 2**23]


def test_bias_overflow_is_refused_not_warned_about():
    logits = np.array([[3e38, 0.0]], np.float32)
    with pytest.raises(SamplingError, match=r"\+inf at id 0"):
        draft_chain(logits, 1.0, Key(1, 1, 1, 1), bias=lambda x: np.array([3e38, 0], np.float32), previous=0)


def test_low_rank_bias_is_the_product_of_its_pair():
    w1, w2 = np.eye(3, 2, dtype=np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    bias = LowRankBias(w1, w2)
    assert [bias(t).tolist() for t in range(3)] == [[0, 1, 2], [3, 4, 5], [0, 0, 0]]
    assert bias(0).dtype == np.float32
    for token in (-1, 3):
        with pytest.raises(SamplingError, match="expected 0 <= token < 3"):
            bias(token)


@pytest.mark.parametrize(
    ("w1", "w2"),
    [((3, 2), (3, 3)), ((3, 2), (2, 4)), ((3,), (2, 3)), ((3, 2), (2,))],
)
def test_refused_low_rank_shapes(w1, w2):
    with pytest.raises(SamplingError, match="expected w1"):
        LowRankBias(np.zeros(w1, np.float32), np.zeros(w2, np.float32))
    with pytest.raises(SamplingError, match="expected float32"):
        LowRankBias(np.zeros((3, 2)), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bias": lambda x: np.zeros(V, np.float32)}, "previous: expected the last committed token"),
        ({"bias": lambda x: np.zeros(V), "previous": 0}, r"logits\[0\]: expected float32 logits and bias"),
        ({"bias": lambda x: np.zeros(V - 1, np.float32), "previous": 0}, "of one shape"),
        ({"depth": 3}, r"logits: expected shape \[3, V\]"),
        ({"logits": np.zeros(V, np.float32)}, r"logits: expected shape \[depth, V\]"),
        ({"logits": np.zeros((0, V), np.float32)}, "logits: expected shape"),
        ({"logits": lambda i, drawn: np.zeros(V, np.float32)}, "depth: expected an integer >= 1"),
        ({"logits": lambda i, drawn: np.zeros(V, np.float32), "depth": 0}, "depth: expected an integer >= 1"),
        ({"key": Key(1, 1, 1, 2**32 - 4)}, r"position \+ depth < 2\^32"),
        ({"temperature": 0.0}, "temperature"),
        ({"top_k": 0}, "top_k"),
    ],
)
def test_refused_arguments(arguments, message):
    defaults = {"logits": logits_of(0), "temperature": 1.0, "key": Key(1, 1, 1, 1)}
    with pytest.raises(SamplingError, match=message):
        draft_chain(**(defaults | arguments))


def test_rows_stay_paired_whatever_is_drafted_between():
    """Four requests interleaved give the bytes of each alone: a draw depends on its address only."""
    alone = [draft_chain(logits_of(s), 1.0, Key(s, 1, 1, 10)) for s in range(4)]
    order = [3, 1, 0, 2]
    mixed = {s: draft_chain(logits_of(s), 1.0, Key(s, 1, 1, 10)) for s in order}
    for s in range(4):
        assert alone[s].tokens.tobytes() == mixed[s].tokens.tobytes()
        assert [c.tobytes() for _, c in alone[s].rows] == [c.tobytes() for _, c in mixed[s].rows]
