"""Philox4x32-10 against its published answers, addresses, and bounded draws against big integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.sampling import Domain, SamplingError, below, below_many, philox, proposal_tickets, words, words_many

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)

# Random123 distribution, kat_vectors, philox4x32 with 10 rounds: (counter, key, answer).
PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), PUBLISHED)
def test_published_answers(counter, key, answer):
    position, second, round_, generation = counter
    address = (key[1] << 32 | key[0], generation, round_, position, second >> 24, second & 0xFFFFFF)
    assert tuple(words(*address)) == answer
    assert tuple(words_many(*address)) == answer
    assert words(*address).dtype == np.uint32


@given(U64, U32, U32, U32, st.integers(0, 255), st.integers(0, 2**24 - 1))
def test_array_words_equal_scalar_words(seed, generation, round_, position, domain, index):
    batch = words_many(np.array([seed, seed], np.uint64), generation, [round_, round_], position, domain, index)
    assert batch.shape == (2, 4)
    assert np.array_equal(batch[0], words(seed, generation, round_, position, domain, index))
    assert np.array_equal(batch[1], batch[0])


@given(U64, st.integers(1, 2**63))
def test_product_is_the_128_bit_product(x, n):
    assert philox._product(x, n) == (x * n >> 64, x * n & (2**64 - 1))
    high, low = philox._product(np.array([x], np.uint64), np.array([n], np.uint64))
    assert (int(high[0]), int(low[0])) == (x * n >> 64, x * n & (2**64 - 1))


def bounded_by_definition(n, address):
    """The rule of `below` on Python integers, without limbs."""
    for index in range(2**24):
        w0, w1, _, _ = (int(word) for word in words(*address, index))
        product = (w0 << 32 | w1) * n
        if product % 2**64 >= 2**64 % n:
            return product >> 64
    raise AssertionError


@given(st.integers(1, 2**63) | st.sampled_from([1, 2, 2**24, 2**62 + 1, 2**63 - 1, 2**63]), U64, U32, U32, U32)
def test_below_is_its_definition_in_scalars_and_arrays(n, seed, generation, round_, position):
    address = (seed, generation, round_, position, 2)
    expected = bounded_by_definition(n, address)
    assert below(n, *address) == expected
    many = below_many(np.array([n, n], np.uint64), *address)
    assert many.tolist() == [expected, expected]
    assert many.dtype == np.int64


def test_below_rejects_where_the_definition_does():
    """A quarter of all first draws is rejected at n ≈ 3·2^61, so both paths must walk to later draw indices."""
    n = 3 * 2**61 + 1
    positions = np.arange(400)
    expected = [bounded_by_definition(n, (9, 1, 1, int(p), 3)) for p in positions]
    assert below_many(n, 9, 1, 1, positions, 3).tolist() == expected
    redrawn = [
        ((int(w[0]) << 32 | int(w[1])) * n) % 2**64 < 2**64 % n for w in (words(9, 1, 1, int(p), 3) for p in positions)
    ]
    assert 10 < sum(redrawn) < 390


@pytest.mark.parametrize("n", [3, 10**9 + 7, 2**62 + 12345, 2**63 - 25])
def test_below_ends_exactly_at_the_rejection_boundary(n, monkeypatch):
    """The unbiased rule: for each result v, exactly floor(2^64 / n) of the 2^64 words are kept."""
    threshold = 2**64 % n

    def kept(x):
        monkeypatch.setattr(
            philox, "_scalar_words", lambda *a: (x >> 32, x & 0xFFFFFFFF, 0, 0) if not a[-1] else (0,) * 4
        )
        monkeypatch.setattr(philox, "MAX_DRAWS", 1)
        try:
            return below(n, 0, 0, 0, 0, 2)
        except SamplingError:
            return None

    for v in (0, 1, n // 2, n - 1):
        lowest = -(-((v << 64) + threshold) // n)  # the first word whose product is (v, low >= threshold)
        highest = ((v + 1 << 64) - 1) // n
        assert kept(lowest) == v
        assert kept(highest) == v
        assert highest - lowest + 1 == 2**64 // n
        if lowest * n - n >= v << 64:
            assert kept(lowest - 1) is None


@pytest.mark.parametrize("n", [0, 2**63 + 1, -1, 2**64])
def test_refused_bound(n):
    with pytest.raises(SamplingError, match=r"n: expected"):
        below(n, 1, 1, 1, 1, 2)
    if 0 <= n < 2**64:
        with pytest.raises(SamplingError, match=r"n: expected"):
            below_many(np.array([5, n], np.uint64), 1, 1, 1, 1, 2)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", 2**64),
        ("seed", -1),
        ("generation", 2**32),
        ("round", 2**32),
        ("position", 2**32),
        ("domain", 256),
        ("index", 2**24),
        ("index", -1),
        ("seed", 1.5),
    ],
)
def test_refused_address(field, value):
    """draw ≥ 2^24 or a position ≥ 2^32 is an error, never a wrap onto another address."""
    address = {"seed": 1, "generation": 1, "round": 1, "position": 1, "domain": 1, "index": 0, field: value}
    with pytest.raises(SamplingError, match=field):
        words(**address)
    with pytest.raises(SamplingError, match=field):
        words_many(**address)


def test_below_gives_up_after_the_last_draw_index(monkeypatch):
    monkeypatch.setattr(philox, "MAX_DRAWS", 0)
    with pytest.raises(SamplingError, match="rejected"):
        below(3, 1, 1, 1, 1, 2)
    with pytest.raises(SamplingError, match="rejected"):
        below_many(np.array([3]), 1, 1, 1, 1, 2)


def test_empty_arrays_draw_nothing():
    assert below_many(np.zeros(0, np.int64), 1, 1, 1, 1, 2).shape == (0,)
    assert proposal_tickets(1, 1, 1, np.zeros(0, np.int64)).shape == (0,)


@given(U64, U32, U32, st.lists(U32, min_size=1, max_size=20))
def test_proposal_tickets_are_the_top_24_bits_of_the_first_word(seed, generation, round_, positions):
    tickets = proposal_tickets(seed, generation, round_, np.array(positions))
    assert tickets.dtype == np.int64
    assert tickets.tolist() == [int(words(seed, generation, round_, p, Domain.PROPOSAL)[0]) >> 8 for p in positions]


@given(U64, U32, U32, st.integers(0, 2**32 - 41), st.integers(0, 40))
def test_round_tickets_are_the_proposal_tickets_of_its_positions(seed, generation, round_, position, depth):
    tickets = philox.round_tickets(seed, generation, round_, position, depth)
    together = proposal_tickets(np.uint64(seed), generation, round_, np.arange(position, position + depth))
    assert tickets.dtype == together.dtype == np.int64
    assert tickets.tolist() == together.tolist()


@pytest.mark.parametrize("position", [-1, 2**32 - 2])
def test_round_tickets_refuse_positions_that_are_none(position):
    with pytest.raises(SamplingError, match="position"):
        philox.round_tickets(1, 1, 1, position, 3)


def test_proposal_tickets_broadcast_over_requests_and_positions():
    seeds = np.array([[3], [2**64 - 1]], np.uint64)
    tickets = proposal_tickets(seeds, np.array([[1], [2]]), 7, np.arange(5))
    assert tickets.shape == (2, 5)
    assert tickets[1, 4] == proposal_tickets(2**64 - 1, 2, 7, 4)


def test_no_echo_every_part_of_an_address_changes_the_words():
    """Two generations, rounds, positions, domains, draws or seeds never share a block."""
    base = {"seed": 5, "generation": 1, "round": 1, "position": 1, "domain": 1, "index": 0}
    blocks = {tuple(words(**base))}
    changes = [(field, value) for field in base for value in (2, 3, 77, 255)] + [("seed", 2**63), ("seed", 2**32 + 5)]
    for field, value in changes:
        blocks.add(tuple(words(**(base | {field: value}))))
    assert len(blocks) == 1 + len(changes)


def test_domains_have_the_numbers_of_the_protocol():
    numbers = {"PROPOSAL": 1, "ACCEPTANCE": 2, "CORRECTION": 3, "BONUS": 4, "TARGET_ONLY": 5}
    assert {domain.name: domain.value for domain in Domain} == numbers


def test_no_echo_counter_words_do_not_overlap():
    """(domain, draw) fill one word without touching: every pair is its own counter."""
    pairs = {(d, i): tuple(words(1, 1, 1, 1, d, i)) for d in (0, 1, 2, 255) for i in (0, 1, 2, 2**24 - 1)}
    assert len(set(pairs.values())) == len(pairs)
