"""`docs/packed.md` in plain Python, a bit at a time: what the vectorised codec is held to."""

from __future__ import annotations

from collections.abc import Sequence

from pp1wire.wire.packed import PackedProblem


def encode(ids: Sequence[int], counts: Sequence[int], vocabulary: int) -> bytes:
    """The bits of a row, the lowest of the first byte first."""
    k = (vocabulary // len(ids)).bit_length() - 1
    gaps = [after - before - 1 for before, after in zip([-1, *ids], ids, strict=False)]
    unary = [gap >> k for gap in gaps] + [count.bit_length() - 1 for count in counts]
    bits = "".join("0" * number + "1" for number in unary)
    bits += "".join(_low(gap, k) for gap in gaps) + "".join(_low(count, count.bit_length() - 1) for count in counts)
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


def _low(value: int, width: int) -> str:
    return "".join(str(value >> bit & 1) for bit in range(width))


def decode(data: bytes, entries: int, vocabulary: int, total: int) -> tuple[list[int], list[int]] | PackedProblem:
    """(ids, counts), or what is wrong first."""
    bits = [byte >> bit & 1 for byte in data for bit in range(8)]
    k, at, unary = (vocabulary // entries).bit_length() - 1, 0, []
    for _ in range(2 * entries):
        start = at
        while at < len(bits) and not bits[at]:
            at += 1
        if at == len(bits):
            return PackedProblem.TRUNCATED
        unary.append(at - start)
        at += 1
    widths = [k] * entries + unary[entries:]
    if at + sum(widths) > len(bits):
        return PackedProblem.TRUNCATED
    lows = []
    for width in widths:
        lows.append(sum(bits[at + bit] << bit for bit in range(width)))
        at += width
    if len(bits) - at >= 8:
        return PackedProblem.EXTRA
    if any(bits[at:]):
        return PackedProblem.PADDING
    counts = [(1 << width) + low for width, low in zip(unary[entries:], lows[entries:], strict=True)]
    ids, last = [], -1
    for quotient, low in zip(unary[:entries], lows[:entries], strict=True):
        last += (quotient << k) + low + 1
        ids.append(last)
    if last >= vocabulary:
        return PackedProblem.ID
    return (ids, counts) if sum(counts) == total else PackedProblem.MASS
