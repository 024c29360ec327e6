"""Mutations of frames, most of them with checksums made right again, so that the rules behind them are reached."""

from __future__ import annotations

import random

from pp1wire.wire.checksums import body_checksum, header_checksum

__all__ = ["mutated"]

_INTERESTING = (0, 1, 2, 5, 6, 0x7F, 0x80, 0xFF, 0x7F80_0000, 0x8000_0000, 0x3F80_0000, 0x3380_0000, 0xFFFF_FFFF)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """`data`, a stream of frames, with a few changes."""
    frame = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _change(frame, rng)
    if len(frame) >= 64 and rng.random() < 0.8:
        reseal(frame)
    return bytes(frame)


def reseal(frame: bytearray) -> None:
    """Make the checksums of the first frame right; a length that leads outside is left alone."""
    end = 64 + int.from_bytes(frame[16:20], "little")
    if end <= len(frame):
        whole = memoryview(frame)[:end]
        frame[48:56] = body_checksum(whole).to_bytes(8, "little")
    frame[56:64] = header_checksum(bytes(frame[:64])).to_bytes(8, "little")


def _change(frame: bytearray, rng: random.Random) -> None:
    kind = rng.randrange(6)
    at = rng.randrange(len(frame) + 1)
    if kind == 0 and frame:
        frame[at % len(frame)] ^= 1 << rng.randrange(8)
    elif kind == 1 and len(frame) >= 4:
        word = at % len(frame) & ~3
        frame[word : word + 4] = rng.choice(_INTERESTING).to_bytes(4, "little")
    elif kind == 2 and frame:
        frame[at % len(frame)] = rng.randrange(256)
    elif kind == 3:
        del frame[at:]
    elif kind == 4:
        frame[at:at] = rng.randbytes(rng.randrange(1, 9))
    elif len(frame) >= 16:
        other = rng.randrange(len(frame) - 8)
        at %= len(frame) - 8
        frame[at : at + 8], frame[other : other + 8] = frame[other : other + 8], frame[at : at + 8]
