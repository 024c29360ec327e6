"""A row of counts over the whole vocabulary as one string of bits, and back (`docs/packed.md`).

A row is n ids that rise and n counts from 1 with total 2^24. Gaps between ids (less one) are Rice codes whose parameter follows
from n and the vocabulary; counts are Elias gamma codes. Both are written apart: first every unary part, then every binary part.

    n unary gap quotients · n unary count lengths · n · k low bits of gaps · low bits of counts · zeros up to a whole byte

Bits are numbered from the lowest of the first byte. Unary u is u zeros and a one. So no spelling is left to choose: ids cannot
fail to rise, a count cannot be zero, and no number has a longer form. What can be wrong is the end of the bits, an id beyond
the vocabulary, and the total. Rice (1971), Elias, "Universal codeword sets", IEEE Trans. Inf. Theory 21 (1975).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import MAX_VOCAB, Q_TOTAL

__all__ = ["PackedFault", "PackedProblem", "decode_packed", "encode_packed", "gap_bits", "packed_bound"]

_ONES: Final = np.array([value.bit_count() for value in range(256)], dtype=np.uint8)
_TAIL: Final = bytes(8)

Ids = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]
_Int64 = npt.NDArray[np.int64]


class PackedProblem(Enum):
    """What is wrong with bytes that are not a row."""

    TRUNCATED = "the bits end inside the row"
    EXTRA = "bytes follow the row"
    PADDING = "bits behind the row are not zero"
    ID = "an id lies at or beyond the vocabulary size"
    MASS = "the counts do not total 2^24"


class PackedFault(NamedTuple):
    """The first fault of a packed row, in the order of `PackedProblem`."""

    problem: PackedProblem
    entry: int | None
    """Which entry, where one alone is at fault."""
    at: int
    """Byte of the payload."""
    expected: object
    actual: object


def gap_bits(entries: int, vocabulary: int) -> int:
    """Low bits of a gap in a row of so many entries: ⌊log2(vocabulary / entries)⌋."""
    return (vocabulary // entries).bit_length() - 1


def packed_bound(vocabulary: int) -> int:
    """Most bytes that a row over so many ids can take (proof: `docs/packed.md`, "The bound").

    With V ids and e = ⌊log2(2^24 / V)⌋, the longest rows have every id, and 2·(e + 1)·V + 2·⌊(2^24 − V·2^e) / 2^e⌋ bits.

    Raises:
        LocalProtocolError: no vocabulary of the protocol.
    """
    if not 1 <= vocabulary <= MAX_VOCAB:
        raise LocalProtocolError(f"vocabulary: expected 1 to {MAX_VOCAB}, got {vocabulary}")
    # 2^e more of the total lift one count into the next class, for 2 bits.
    exponent = (Q_TOTAL // vocabulary).bit_length() - 1
    longer = (Q_TOTAL - (vocabulary << exponent)) >> exponent
    return (2 * (exponent + 1) * vocabulary + 2 * longer + 7) // 8


def encode_packed(
    ids: npt.NDArray[np.integer], counts: npt.NDArray[np.integer], vocabulary: int, total: int = Q_TOTAL
) -> bytes:
    """The only spelling of a row.

    Args:
        ids: [n], strictly rising, below `vocabulary`.
        counts: [n], from 1, with that total.
        vocabulary: ids of the vocabulary.
        total: 2^24 on the wire, and at most that.

    Raises:
        LocalProtocolError: the row is none.
    """
    gaps = _checked_gaps(ids, counts, vocabulary, total)
    n, k = len(gaps), gap_bits(len(gaps), vocabulary)
    # A float32 holds every count exactly, and its exponent is the count's length.
    lengths = (counts.astype(np.float32).view(np.int32) >> 23) - 127
    ends = np.empty(2 * n, dtype=np.int64)
    np.right_shift(gaps, k, out=ends[:n])
    ends[n:] = lengths
    ends += 1
    np.cumsum(ends, out=ends)
    unary = int(ends[-1])
    ends -= 1
    offsets = np.empty(2 * n, dtype=np.int64)
    offsets[:n], offsets[n:] = k, lengths
    values = np.empty(2 * n, dtype=np.uint64)
    np.bitwise_and(gaps, (1 << k) - 1, out=values[:n].view(np.int64))
    np.bitwise_xor(counts, np.left_shift(1, lengths), out=values[n:].view(np.int64), dtype=np.int64)
    np.cumsum(offsets, out=offsets)
    size = unary + int(offsets[-1])
    offsets[1:] = offsets[:-1]
    offsets[0] = 0
    offsets += unary
    words = np.zeros(size // 32 + 2, dtype=np.uint32)
    marks = np.zeros(unary, dtype=np.bool_)
    marks[ends] = True
    head = np.packbits(marks, bitorder="little")
    words.view(np.uint8)[: len(head)] = head
    _scatter(words, values, offsets)
    return words.astype("<u4", copy=False).tobytes()[: (size + 7) // 8]


def _scatter(words: npt.NDArray[np.uint32], values: npt.NDArray[np.uint64], offsets: _Int64) -> None:
    """Write values of up to 24 bits at bit offsets that rise."""
    at = offsets >> 5
    shifted = values << (offsets & 31).astype(np.uint64)
    # Those that begin in one word end below bit 31 + 24 of it, and lie apart, so their sum is their union.
    first = np.flatnonzero(np.concatenate([[True], at[1:] != at[:-1]]))
    sums, at = np.add.reduceat(shifted, first), at[first]
    words[at] |= sums.astype(np.uint32)
    words[at + 1] |= (sums >> np.uint64(32)).astype(np.uint32)


def _checked_gaps(ids: npt.NDArray[np.integer], counts: npt.NDArray[np.integer], vocabulary: int, total: int) -> _Int64:
    """Gaps less one."""
    packed_bound(vocabulary)
    if (
        ids.shape != counts.shape
        or ids.ndim != 1
        or not len(ids)
        or ids.dtype.kind + counts.dtype.kind not in _INTEGERS
    ):
        raise LocalProtocolError(
            f"expected ids and counts to be integers of one length from 1, got {ids.dtype} {ids.shape} and "
            f"{counts.dtype} {counts.shape}"
        )
    if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        raise LocalProtocolError(f"expected ids from 0 to {vocabulary - 1}, got {ids.min()} to {ids.max()}")
    gaps = np.empty(len(ids), dtype=np.int64)
    gaps[0] = ids[0]
    np.subtract(ids[1:], ids[:-1], out=gaps[1:], dtype=np.int64)
    gaps[1:] -= 1
    if int(gaps.min()) < 0:
        raise LocalProtocolError("expected ids that rise")
    if int(counts.min()) < 1 or int(counts.max()) > total or int(counts.sum(dtype=np.int64)) != total:
        raise LocalProtocolError(
            f"expected counts from 1 with total {total}, got {counts.min()} to {counts.max()} with {counts.sum()}"
        )
    return gaps


_INTEGERS: Final = ("ii", "iu", "ui", "uu")


def decode_packed(
    data: bytes | memoryview, entries: int, vocabulary: int, total: int = Q_TOTAL
) -> tuple[Ids, Counts] | PackedFault:
    """The row whose spelling `data` is, or its first fault. Nothing is repaired, and no array is longer than bits that are there.

    Args:
        data: the whole payload.
        entries: n, from 1 to `vocabulary`, as the row's header gives it.
        vocabulary: ids of the vocabulary.
        total: 2^24 on the wire, and at most that.

    Returns:
        ids int32 [n], strictly rising, and counts int32 [n], from 1 with that total; both read-only.

    Raises:
        LocalProtocolError: no row has so many entries.
    """
    if not 1 <= entries <= vocabulary:
        raise LocalProtocolError(f"entries: expected 1 to {vocabulary}, got {entries}")
    size, n, k = len(data), entries, gap_bits(entries, vocabulary)
    octets = np.frombuffer(data, dtype=np.uint8)
    # Two ones end two unary numbers of each entry: without them nothing that is as long as the entries is made.
    ones = np.cumsum(_ONES[octets], dtype=np.int64)
    if not size or int(ones[-1]) < 2 * n:
        return PackedFault(PackedProblem.TRUNCATED, None, size, f"{2 * n} unary numbers", int(ones[-1]) if size else 0)
    head = int(np.searchsorted(ones, 2 * n)) + 1
    del ones
    marks = np.flatnonzero(np.unpackbits(octets[:head], bitorder="little").view(np.bool_))[: 2 * n]
    unary = int(marks[-1]) + 1
    numbers = np.empty(2 * n, dtype=np.int64)
    numbers[0] = marks[0]
    np.subtract(marks[1:], marks[:-1], out=numbers[1:])
    numbers[1:] -= 1
    lengths, quotients = numbers[n:], numbers[:n]
    # Counted in Python, as k bits of every entry are there before any of them is read.
    bits = unary + n * k + int(lengths.sum())
    fault = _end_fault(octets, bits)
    if fault is not None:
        return fault
    windows = np.ndarray(size + 1, dtype="<u8", buffer=b"".join((data, _TAIL)), strides=(1,))
    starts = np.empty(n, dtype=np.int64)
    if k:
        np.multiply(np.arange(n), k, out=starts)
        starts += unary
        quotients <<= k
        quotients |= ((windows[starts >> 3] >> (starts & 7).astype(np.uint64)).view(np.int64)) & ((1 << k) - 1)
    quotients += 1
    np.cumsum(quotients, out=quotients)
    quotients -= 1
    if int(quotients[-1]) >= vocabulary:
        index = int(np.searchsorted(quotients, vocabulary))
        return PackedFault(PackedProblem.ID, index, 0, range(vocabulary), int(quotients[index]))
    if int(lengths.max()) >= total.bit_length():
        return PackedFault(PackedProblem.MASS, int(lengths.argmax()), 0, total, "more in one entry")
    starts[0] = unary + n * k
    np.cumsum(lengths[:-1], out=starts[1:])
    starts[1:] += unary + n * k
    tops = np.left_shift(1, lengths)
    counts = (windows[starts >> 3] >> (starts & 7).astype(np.uint64)).view(np.int64)
    counts &= tops - 1
    counts |= tops
    mass = int(counts.sum())
    if mass != total:
        return PackedFault(PackedProblem.MASS, None, 0, total, mass)
    row = quotients.astype(np.int32), counts.astype(np.int32)
    for column in row:
        column.flags.writeable = False
    return row


def _end_fault(octets: npt.NDArray[np.uint8], bits: int) -> PackedFault | None:
    """Whether the payload is as long as its row, to the bit."""
    size, needed = len(octets), (bits + 7) // 8
    if size < needed:
        return PackedFault(PackedProblem.TRUNCATED, None, size, f"{needed} bytes", size)
    if size > needed:
        return PackedFault(PackedProblem.EXTRA, None, needed, f"{needed} bytes", size)
    if bits % 8 and octets[-1] >> (bits % 8):
        return PackedFault(PackedProblem.PADDING, None, size - 1, 0, int(octets[-1]) >> (bits % 8))
    return None
