"""Tickets and tokens: who owns which ticket, at both ends and for every ticket."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import MASS, SamplingError, dense_row, oracle, sample, tickets_agree

TICKET = st.integers(0, MASS - 1)


def composition(parts):
    """Counts in proportion to the parts, from the oracle, so that they sum to 2^24."""
    return list(oracle.allocate(parts))


ROWS = st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(any).map(composition)


@given(ROWS, TICKET)
def test_sample_equals_the_oracle(counts, ticket):
    full = np.array(counts, np.int32)
    expected = oracle.sample(counts, ticket)
    assert sample(np.arange(full.size), full, ticket) == expected
    ids = np.flatnonzero(full).astype(np.int32)
    assert sample(ids, full[ids], ticket) == expected


def test_exact_law_of_one_draw_over_all_tickets():
    """Every one of the 2^24 tickets: token v owns exactly count_v of them."""
    ids = np.array([2, 3, 5, 11], np.int32)
    counts = np.array([1, MASS // 3, 0, MASS - 1 - MASS // 3], np.int32)
    tickets = np.arange(MASS)
    owners = np.zeros(MASS, np.int32)
    edges = np.cumsum(counts)
    for i, edge in enumerate(edges):  # sample() at both ends of every run, then the runs themselves
        first = edge - counts[i]
        for ticket in {int(first), int(edge) - 1} if counts[i] else ():
            assert sample(ids, counts, ticket) == ids[i]
        owners[first:edge] = ids[i]
    block = 1 << 16
    for start in range(0, MASS, block):
        n = slice(start, start + block)
        rows = np.broadcast_to(counts, (block, 4)), np.broadcast_to(ids, (block, 4))
        assert tickets_agree(rows[0], tickets[n], owners[n], rows[1]).all()
    assert np.array_equal(np.bincount(owners, minlength=12)[ids], counts)


def test_ends_first_and_last_ticket_hit_positive_ids():
    ids, counts = np.array([4, 6, 8, 9]), np.array([0, 5, MASS - 5, 0])
    assert sample(ids, counts, 0) == 6
    assert sample(ids, counts, 4) == 6
    assert sample(ids, counts, 5) == 8
    assert sample(ids, counts, MASS - 1) == 8


@pytest.mark.parametrize("ticket", [-1, MASS, 2**32, 0.5])
def test_refused_ticket(ticket):
    with pytest.raises(SamplingError, match="ticket"):
        sample(np.array([0]), np.array([MASS]), ticket)


@pytest.mark.parametrize(
    ("ids", "counts", "message"),
    [
        ([0, 1], [MASS - 1, 0], "summing to 2\\^24, got 16777215"),
        ([0, 1], [MASS, 1], "summing to 2\\^24, got 16777217"),
        ([0, 1, 2], [MASS, MASS, MASS], "summing"),
        ([0, 1], [MASS + 1, -1], "expected 0 <= count"),
        ([0, 0], [MASS - 1, 1], "rising strictly"),
        ([1, 0], [MASS - 1, 1], "rising strictly"),
        ([-1, 0], [MASS - 1, 1], "rising strictly from 0"),
        ([0], [MASS - 1, 1], "of one shape"),
        ([], [], "of one shape"),
        ([[0]], [[MASS]], "of one shape"),
        ([0.0], [MASS], "integer ids"),
        ([0], [float(MASS)], "integer counts"),
    ],
)
def test_refused_rows_over_full_or_unordered(ids, counts, message):
    with pytest.raises(SamplingError, match=message):
        sample(np.array(ids), np.array(counts), 0)


@st.composite
def sparse_batches(draw):
    n, k, vocabulary = draw(st.integers(1, 6)), draw(st.integers(1, 5)), 12
    ids, counts, tokens, tickets = np.zeros((n, k), np.int32), np.zeros((n, k), np.int32), [], []
    for i in range(n):
        row = draw(st.lists(st.integers(0, vocabulary - 1), min_size=1, max_size=k, unique=True).map(sorted))
        parts = draw(st.lists(st.integers(1, 9), min_size=len(row), max_size=len(row)))
        ids[i, : len(row)], counts[i, : len(row)] = row, composition(parts)
        tokens.append(draw(st.sampled_from(row) | st.integers(-3, vocabulary + 3)))
        tickets.append(draw(TICKET | st.sampled_from([0, MASS - 1])))
    return ids, counts, np.array(tokens), np.array(tickets), vocabulary


@given(sparse_batches())
def test_tickets_agree_exactly_when_sample_says_so(batch):
    ids, counts, tokens, tickets, vocabulary = batch
    used = [int(np.count_nonzero(row)) for row in counts]
    drawn = [sample(i[:u], c[:u], int(t)) for i, c, u, t in zip(ids, counts, used, tickets, strict=True)]
    expected = (np.array(drawn) == tokens).tolist()
    assert tickets_agree(counts, tickets, tokens, ids).tolist() == expected
    assert tickets_agree(counts, tickets, np.array(drawn), ids).all()
    full = np.stack([dense_row((i[:u], c[:u]), vocabulary) for i, c, u in zip(ids, counts, used, strict=True)])
    assert tickets_agree(full, tickets, tokens).tolist() == expected
    assert tickets_agree((full / MASS).astype(np.float32), tickets, tokens).tolist() == expected


def test_tickets_agree_at_every_edge_of_a_wide_dense_row():
    counts = np.full(129_280, 129, np.int32)
    counts[:100_096] += 1
    edges = np.cumsum(counts)
    for token in (0, 1, 64_640, 100_095, 100_096, 129_279):
        first, last = int(edges[token] - counts[token]), int(edges[token]) - 1
        rows = np.broadcast_to(counts, (4, counts.size))
        tickets = np.array([first, last, first - 1, last + 1])
        for form in (rows, (rows / MASS).astype(np.float32)):
            assert tickets_agree(form, tickets, np.full(4, token)).tolist() == [True, True, False, False]


def test_padding_never_agrees():
    """An unused entry (id 0, count 0) must not make token 0 look drawn."""
    ids, counts = np.array([[5, 0, 0]]), np.array([[MASS, 0, 0]])
    assert not tickets_agree(counts, np.array([0]), np.array([0]), ids)[0]
    assert tickets_agree(counts, np.array([MASS - 1]), np.array([5]), ids)[0]


@pytest.mark.parametrize(
    ("counts", "tickets", "tokens", "ids"),
    [
        (np.zeros(3), np.zeros(3), np.zeros(3), None),
        (np.zeros((2, 3), int), np.zeros(3, int), np.zeros(2, int), None),
        (np.zeros((2, 3), int), np.zeros(2, int), np.zeros((2, 1), int), None),
        (np.zeros((2, 3), int), np.zeros(2, int), np.zeros(2, int), np.zeros((2, 2), int)),
        (np.zeros((2, 3), np.float64), np.zeros(2, int), np.zeros(2, int), None),
        (np.zeros((2, 3), np.float32), np.zeros(2, int), np.zeros(2, int), np.zeros((2, 3), int)),
    ],
)
def test_refused_shapes_and_dtypes(counts, tickets, tokens, ids):
    with pytest.raises(SamplingError, match="tickets_agree: expected"):
        tickets_agree(counts, tickets, tokens, ids)
