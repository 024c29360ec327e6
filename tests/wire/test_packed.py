"""The packed row: one spelling, bounded bytes, and every other string of bytes named for what it is."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import packed
from pp1wire.wire.packed import PackedFault, PackedProblem, decode_packed, encode_packed, gap_bits, packed_bound
from tests.wire import packed_reference as reference

TOTAL = 1 << 24
REAL = Path(__file__).parent.parent / "data" / "full_support.npz"


def _array(values):
    return np.array(values, dtype=np.int32)


def _decoded(data: bytes, entries: int, vocabulary: int, total: int = TOTAL):
    """A row as lists, or the problem."""
    row = decode_packed(data, entries, vocabulary, total)
    return row.problem if isinstance(row, PackedFault) else (row[0].tolist(), row[1].tolist())


def _all_rows(vocabulary: int, total: int):
    for entries in range(1, min(vocabulary, total) + 1):
        for ids in itertools.combinations(range(vocabulary), entries):
            for cuts in itertools.combinations(range(1, total), entries - 1):
                yield list(ids), [b - a for a, b in itertools.pairwise([0, *cuts, total])]


@st.composite
def rows(draw):
    vocabulary = draw(st.sampled_from([1, 2, 3, 40, 1000, 129_280, 262_144]))
    entries = draw(st.integers(1, min(vocabulary, 60)))
    ids = draw(st.lists(st.integers(0, vocabulary - 1), min_size=entries, max_size=entries, unique=True))
    cuts = draw(st.lists(st.integers(1, TOTAL - 1), min_size=entries - 1, max_size=entries - 1, unique=True))
    counts = np.diff([0, *sorted(cuts), TOTAL])
    return _array(sorted(ids)), counts.astype(np.int32), vocabulary


@pytest.mark.parametrize(("vocabulary", "total", "every"), [(1, 4, 1), (2, 4, 1), (3, 5, 1), (4, 4, 3), (9, 2, 3)])
def test_bijection_every_string_of_bytes_is_a_row_s_only_spelling_or_rejected_as_the_reference_does(
    vocabulary, total, every
):
    wanted = {}
    for ids, counts in _all_rows(vocabulary, total):
        data = encode_packed(_array(ids), _array(counts), vocabulary, total)
        assert data == reference.encode(ids, counts, vocabulary)
        assert wanted.setdefault((data, len(ids)), (ids, counts)) == (ids, counts)
    accepted = {}
    for size in range(3):
        # Where there are many entry counts to try, every third string of two bytes is enough, and all spellings of rows.
        spellings = {data for data, _ in wanted if len(data) == size}
        values = range(0, 256**size, every if size == 2 else 1)
        for data in spellings | {value.to_bytes(size, "little") for value in values}:
            for entries in range(1, vocabulary + 1):
                result = _decoded(data, entries, vocabulary, total)
                assert result == reference.decode(data, entries, vocabulary, total), (data, entries)
                if not isinstance(result, PackedProblem):
                    accepted[data, entries] = result
    assert accepted == {key: row for key, row in wanted.items() if len(key[0]) <= 2}
    assert accepted


@given(rows())
def test_bijection_of_any_row(row):
    ids, counts, vocabulary = row
    data = encode_packed(ids, counts, vocabulary)
    assert data == reference.encode(ids.tolist(), counts.tolist(), vocabulary)
    assert _decoded(data, len(ids), vocabulary) == (ids.tolist(), counts.tolist())
    assert len(data) <= packed_bound(vocabulary)


@given(rows(), st.data())
def test_every_bit_changed_is_rejected_or_the_only_spelling_of_another_row(row, data):
    ids, counts, vocabulary = row
    good = bytearray(encode_packed(ids, counts, vocabulary))
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    good[bit // 8] ^= 1 << bit % 8
    result = _decoded(bytes(good), len(ids), vocabulary)
    assert result == reference.decode(bytes(good), len(ids), vocabulary, TOTAL)
    if not isinstance(result, PackedProblem):
        assert encode_packed(_array(result[0]), _array(result[1]), vocabulary) == good


@given(st.binary(max_size=60), st.integers(1, 40), st.sampled_from([40, 1000, 129_280]))
@settings(max_examples=300)
def test_one_family_any_bytes_are_judged_as_the_reference_judges_them(data, entries, vocabulary):
    assert _decoded(data, entries, vocabulary) == reference.decode(data, entries, vocabulary, TOTAL)


@given(rows(), st.data())
def test_every_prefix_is_truncated_and_a_byte_more_is_extra(row, data):
    ids, counts, vocabulary = row
    good = encode_packed(ids, counts, vocabulary)
    cut = data.draw(st.integers(0, len(good) - 1))
    assert _decoded(good[:cut], len(ids), vocabulary) is PackedProblem.TRUNCATED
    assert _decoded(good + b"\0", len(ids), vocabulary) is PackedProblem.EXTRA


def test_exact_code_of_each_rule():
    ids, counts = [3, 7], [TOTAL - 2, 2]
    good = reference.encode(ids, counts, 100)
    assert _decoded(good, 2, 100) == (ids, counts)
    assert len(good) == 8, "62 bits, so that two are to spare"
    for bit in (6, 7):
        dirty = good[:-1] + bytes([good[-1] | 1 << bit])
        assert decode_packed(dirty, 2, 100) == (PackedProblem.PADDING, None, 7, 0, 1 << bit - 6)
    fault = decode_packed(reference.encode([3, 100], counts, 100), 2, 100)
    assert isinstance(fault, PackedFault)
    assert (fault.problem, fault.entry, fault.actual) == (PackedProblem.ID, 1, 100)
    for wrong in ([TOTAL, 1], [TOTAL - 3, 2], [1, 1]):
        fault = decode_packed(reference.encode(ids, wrong, 100), 2, 100)
        assert isinstance(fault, PackedFault)
        assert (fault.problem, fault.actual) == (PackedProblem.MASS, sum(wrong))
    fault = decode_packed(reference.encode(ids, [5, 2 * TOTAL], 100), 2, 100)
    assert isinstance(fault, PackedFault)
    assert (fault.problem, fault.entry) == (PackedProblem.MASS, 1)


@pytest.mark.parametrize("vocabulary", [1, 2, 3, 7, 1000, 49_152, 65_536, 129_280, 131_072, 262_143, 262_144])
def test_caps_reached_the_bound_is_the_length_of_the_longest_row(vocabulary):
    exponent = (TOTAL // vocabulary).bit_length() - 1
    counts = np.full(vocabulary, 1 << exponent, dtype=np.int64)
    counts[: (TOTAL - int(counts.sum())) >> exponent] *= 2
    counts[0] += TOTAL - int(counts.sum())
    data = encode_packed(np.arange(vocabulary), counts, vocabulary)
    assert len(data) == packed_bound(vocabulary)
    assert decode_packed(data, vocabulary, vocabulary)[1].tolist() == counts.tolist()


@pytest.mark.parametrize(("vocabulary", "total"), [(4, 256), (5, 400), (3, 192)])
def test_no_row_of_a_small_vocabulary_is_longer_than_the_bound_says(vocabulary, total, monkeypatch):
    # The proof asks for a total of at least 64 a id, which these have; the search is over lengths, which stand for all counts.
    monkeypatch.setattr(packed, "Q_TOTAL", total)
    longest = 0
    for entries in range(1, vocabulary + 1):
        k = gap_bits(entries, vocabulary)
        gaps = max(
            sum((b - a - 1) >> k for a, b in itertools.pairwise([-1, *ids]))
            for ids in itertools.combinations(range(vocabulary), entries)
        )
        lengths = max(
            sum(classes)
            for classes in itertools.product(range(total.bit_length()), repeat=entries)
            if sum(1 << e for e in classes) <= total
        )
        longest = max(longest, entries * (k + 1) + gaps + entries + 2 * lengths)
    assert packed_bound(vocabulary) == (longest + 7) // 8


def test_real_rows_come_back_and_take_few_per_cent_of_dense():
    shares = []
    with np.load(REAL, allow_pickle=False) as data:
        width = int(data["vocabulary"])
        for name in ("T06", "T08", "T10"):
            ends, used = data[f"{name}_indptr"], 0
            for first, last in itertools.pairwise(ends.tolist()):
                ids = data[f"{name}_ids"][first:last].astype(np.int32)
                counts = data[f"{name}_counts"][first:last]
                packed_row = encode_packed(ids, counts, width)
                back = decode_packed(packed_row, len(ids), width)
                assert np.array_equal(back[0], ids)
                assert np.array_equal(back[1], counts)
                used += len(packed_row)
            shares.append(used / (4 * width * (len(ends) - 1)))
    assert shares[0] < 0.004
    assert shares[1] < 0.013
    assert shares[2] < 0.036


def test_own_bytes_a_row_keeps_nothing_of_its_buffer():
    buffer = bytearray(encode_packed(_array([0, 5]), _array([1, TOTAL - 1]), 9))
    ids, counts = decode_packed(memoryview(buffer), 2, 9)
    buffer[:] = bytes(len(buffer))
    assert ids.tolist() == [0, 5]
    assert counts.tolist() == [1, TOTAL - 1]
    assert not ids.flags.writeable
    assert not counts.flags.writeable


@pytest.mark.parametrize("filler", [0x00, 0xFF, 0x55, 0x01])
def test_early_refusal_hostile_bytes_cost_no_more_than_themselves(filler):
    size = packed_bound(262_144)
    for data, entries in ((bytes([filler]) * size, 262_144), (bytes([filler]) * 64, 262_144), (bytes(size), 1)):
        tracemalloc.start()
        assert isinstance(decode_packed(data, entries, 262_144), PackedFault)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20_000 + 40 * len(data)


@pytest.mark.parametrize(
    ("ids", "counts", "vocabulary"),
    [
        ([], [], 9), ([0], [TOTAL - 1], 9), ([0, 0], [1, TOTAL - 1], 9), ([1, 0], [1, TOTAL - 1], 9), ([9], [TOTAL], 9),
        ([-1], [TOTAL], 9), ([0, 1], [0, TOTAL], 9), ([0, 1], [-1, TOTAL + 1], 9), ([0], [TOTAL], 0), ([0], [TOTAL], 262_145),
        ([0, 1], [TOTAL], 9),
    ],
)  # fmt: skip
def test_refused_what_is_no_row_is_not_encoded(ids, counts, vocabulary):
    with pytest.raises(LocalProtocolError):
        encode_packed(_array(ids), _array(counts), vocabulary)


def test_refused_fractions_and_impossible_entry_counts():
    with pytest.raises(LocalProtocolError, match="integers"):
        encode_packed(_array([0]), np.array([float(TOTAL)]), 9)
    for entries in (0, 10):
        with pytest.raises(LocalProtocolError, match="entries"):
            decode_packed(b"\1", entries, 9)
