"""Codes for rows of ids and counts that were weighed against each other (`docs/packed.md`).

`SIZES` gives exact bytes of every code; `CODECS` are those whose speed decided, as vectorised numpy both ways.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pp1wire.wire.packed import decode_packed, encode_packed, gap_bits

Numbers = npt.NDArray[np.int64]
Row = tuple[Numbers, Numbers, int]
"""(gaps from 1, counts from 1, vocabulary)"""


def bit_length(values: Numbers) -> Numbers:
    """⌊log2⌋ + 1 of values from 1 to 2^24."""
    return ((values.astype(np.float32).view(np.int32) >> 23) - 126).astype(np.int64)


def entropy_bits(values: Numbers) -> float:
    """Bits an entry of the row's own histogram, without the cost of the histogram: a floor that no code knows beforehand."""
    _, seen = np.unique(values, return_counts=True)
    share = seen / seen.sum()
    return float(-(share * np.log2(share)).sum())


def _bytes(bits: float) -> int:
    return -(-int(bits) // 8)


def _gamma(values: Numbers) -> int:
    return int((2 * bit_length(values) - 1).sum())


def _golomb(values: Numbers, k: int) -> int:
    return int((2 * bit_length(values - 1 + (1 << k)) - 1 - k).sum())


def _delta(values: Numbers) -> int:
    lengths = bit_length(values)
    return int((lengths - 1).sum()) + _gamma(lengths)


def _zeta(values: Numbers, k: int) -> int:
    h = (bit_length(values) - 1) // k
    return int((h + 1 + h * k + k - (values < (2 << (h * k)))).sum())


def _rice(gaps: Numbers, vocabulary: int) -> int:
    k = gap_bits(len(gaps), vocabulary)
    return len(gaps) * (k + 1) + int(((gaps - 1) >> k).sum())


def _elias_fano(gaps: Numbers, vocabulary: int) -> int:
    k = gap_bits(len(gaps), vocabulary)
    return len(gaps) * (k + 1) + ((int(gaps.sum()) - 1) >> k)


def _leb(values: Numbers) -> int:
    return 8 * int(((bit_length(np.maximum(values - 1, 1)) + 6) // 7).sum())


def _stream(values: Numbers) -> int:
    return 2 * len(values) + 8 * int(((bit_length(np.maximum(values - 1, 1)) + 7) // 8).sum())


def _escaped(values: Numbers) -> int:
    return 8 * len(values) + 32 * int((values > 255).sum())


def _blocks(values: Numbers, block: int = 128) -> int:
    widths = bit_length(np.maximum(np.maximum.reduceat(values, np.arange(0, len(values), block)) - 1, 1))
    sizes = np.minimum(block, len(values) - np.arange(0, len(values), block))
    return int((8 + widths * sizes).sum())


def _runs(values: Numbers) -> int:
    """Gamma codes of (count, run of entries that have it)."""
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return _gamma(values[starts]) + _gamma(np.diff(starts, append=len(values)))


SIZES: dict[str, Callable[[Row], int]] = {
    "varints (LEB128), gaps and counts": lambda r: _bytes(_leb(r[0]) + _leb(r[1])),
    "Stream VByte, 2-bit lengths": lambda r: _bytes(_stream(r[0]) + _stream(r[1])),
    "one byte each, 4 more from 256 on": lambda r: _bytes(_escaped(r[0]) + _escaped(r[1])),
    "blocks of 128 at one width": lambda r: _bytes(_blocks(r[0]) + _blocks(r[1])),
    "bitmap, counts in bytes": lambda r: _bytes(r[2] + _escaped(r[1])),
    "bitmap, counts gamma": lambda r: _bytes(r[2] + _gamma(r[1])),
    "Elias–Fano ids, counts gamma": lambda r: _bytes(_elias_fano(r[0], r[2]) + _gamma(r[1])),
    "gaps gamma, runs of counts gamma": lambda r: _bytes(_gamma(r[0]) + _runs(r[1])),
    "gaps gamma, counts gamma": lambda r: _bytes(_gamma(r[0]) + _gamma(r[1])),
    "gaps Rice, counts delta": lambda r: _bytes(_rice(r[0], r[2]) + _delta(r[1])),
    "gaps Rice, counts exp-Golomb 1": lambda r: _bytes(_rice(r[0], r[2]) + _golomb(r[1], 1)),
    "gaps Rice, counts zeta 2": lambda r: _bytes(_rice(r[0], r[2]) + _zeta(r[1], 2)),
    "gaps Rice, counts gamma (chosen)": lambda r: _bytes(_rice(r[0], r[2]) + _gamma(r[1])),
    "entropy of gaps and of counts": lambda r: _bytes(len(r[0]) * (entropy_bits(r[0]) + entropy_bits(r[1]))),
}
"""Name → bytes of a row."""


def _put_leb(values: Numbers) -> bytes:
    lengths = (bit_length(np.maximum(values, 1)) + 6) // 7
    ends = np.cumsum(lengths)
    out = np.repeat(values, lengths)
    inside = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
    septets = ((out >> (7 * inside)) & 127).astype(np.uint8)
    septets |= (inside < np.repeat(lengths, lengths) - 1).astype(np.uint8) << 7
    return septets.tobytes()


def _get_leb(data: bytes, n: int) -> tuple[Numbers, int]:
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets < 128)[:n]
    starts = np.concatenate([[0], ends[:-1] + 1])
    inside = np.arange(int(ends[-1]) + 1) - np.repeat(starts, ends - starts + 1)
    parts = (octets[: int(ends[-1]) + 1] & 127).astype(np.int64) << (7 * inside)
    return np.add.reduceat(parts, starts), int(ends[-1]) + 1


def _put_stream(values: Numbers) -> bytes:
    lengths = (bit_length(np.maximum(values, 1)) + 7) // 8
    pad = np.zeros(-(-len(values) // 4) * 4, dtype=np.uint8)
    pad[: len(values)] = lengths - 1
    control = (pad.reshape(-1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=1, dtype=np.uint8)
    octets = values.astype("<u4").view(np.uint8).reshape(-1, 4)
    return bytes(control.tobytes() + octets[np.arange(4) < lengths[:, None]].tobytes())


def _get_stream(data: bytes, n: int) -> tuple[Numbers, int]:
    control = np.frombuffer(data, dtype=np.uint8, count=-(-n // 4))
    lengths = ((control[:, None] >> np.array([0, 2, 4, 6], dtype=np.uint8)) & 3).reshape(-1)[:n].astype(np.int64) + 1
    ends = np.cumsum(lengths)
    body = np.frombuffer(data, dtype=np.uint8, offset=len(control))
    out = np.zeros((n, 4), dtype=np.uint8)
    out[np.arange(4) < lengths[:, None]] = body[: int(ends[-1])]
    return out.view("<u4").reshape(-1).astype(np.int64), len(control) + int(ends[-1])


def _put_escaped(values: Numbers) -> bytes:
    small = np.minimum(values, 255).astype(np.uint8)
    return small.tobytes() + values[values >= 255].astype("<u4").tobytes()


def _get_escaped(data: bytes, n: int) -> tuple[Numbers, int]:
    values = np.frombuffer(data, dtype=np.uint8, count=n).astype(np.int64)
    large = np.flatnonzero(values == 255)
    values[large] = np.frombuffer(data, dtype="<u4", count=len(large), offset=n)
    return values, n + 4 * len(large)


Integers = npt.NDArray[np.integer]
Put = Callable[[Integers, Integers, int], bytes]
Get = Callable[[bytes, int, int], object]


def _two(put: Callable[[Numbers], bytes], get: Callable[[bytes, int], tuple[Numbers, int]]) -> tuple[Put, Get]:
    def encode(ids: Integers, counts: Integers, _vocabulary: int) -> bytes:
        gaps = np.diff(ids, prepend=-1).astype(np.int64)
        return put(gaps - 1) + put(counts.astype(np.int64) - 1)

    def decode(data: bytes, n: int, vocabulary: int) -> object:
        # The rules that any format has to check: order is given by gaps, the rest by the last id and the total.
        gaps, used = get(data, n)
        counts, more = get(data[used:], n)
        ids = np.cumsum(gaps + 1) - 1
        if used + more != len(data) or int(ids[-1]) >= vocabulary or int(counts.sum()) + n != 1 << 24:
            raise ValueError("not a row")
        return ids.astype(np.int32), (counts + 1).astype(np.int32)

    return encode, decode


CODECS: dict[str, tuple[Put, Get]] = {
    "varints (LEB128), gaps and counts": _two(_put_leb, _get_leb),
    "Stream VByte, 2-bit lengths": _two(_put_stream, _get_stream),
    "one byte each, 4 more from 256 on": _two(_put_escaped, _get_escaped),
    "gaps Rice, counts gamma (chosen)": (encode_packed, decode_packed),
}
"""Name → (encode, decode). The first three do not look for second spellings, which costs them nothing here."""
