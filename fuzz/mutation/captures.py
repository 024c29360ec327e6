"""Changes to a pcapng file: its blocks, and the frames in its packets."""

from __future__ import annotations

import random
from typing import Final

from fuzz.mutation.content import change_bytes, change_frame
from fuzz.mutation.piece import Piece, split
from fuzz.mutation.repair import seal
from pp1wire.capture.pcapng import SECTION_HEADER

__all__ = ["change_blocks", "split_blocks"]

_PACKET: Final = 6
_INTERESTING: Final = (0, 1, 2, 11, 12, 13, 0x7F, 0xFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF)


def split_blocks(data: bytes) -> list[bytearray]:
    """The blocks of a little-endian file, and what is left behind them."""
    blocks, at = [], 0
    while len(data) - at >= 12:
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if not 12 <= size <= len(data) - at:
            break
        blocks.append(bytearray(data[at : at + size]))
        at += size
    return blocks + ([bytearray(data[at:])] if at < len(data) else [])


def change_blocks(data: bytes, donor: bytes, rng: random.Random) -> bytes:
    """`data` with one change."""
    blocks = split_blocks(data) or [bytearray()]
    at = rng.randrange(len(blocks))
    match rng.randrange(10):
        case 0:
            del blocks[at]
        case 1:
            blocks.insert(rng.randrange(len(blocks) + 1), bytearray(blocks[at]))
        case 2:
            blocks.insert(rng.randrange(len(blocks) + 1), blocks.pop(at))
        case 3:
            other = split_blocks(donor) or [bytearray(SECTION_HEADER)]
            blocks.insert(rng.randrange(len(blocks) + 1), rng.choice(other))
        case 4:
            change_bytes(blocks[at], rng)
            if rng.random() < 0.5:
                _close(blocks[at])
        case 5 if len(blocks[at]) >= 16:
            word = rng.randrange(len(blocks[at]) // 4) * 4
            blocks[at][word : word + 4] = rng.choice(_INTERESTING).to_bytes(4, rng.choice(("little", "big")))
        case 6:
            # Whole, but shorter than what it must hold.
            del blocks[at][rng.randrange(8, 40) :]
            _close(blocks[at])
        case _:
            _change_packet(rng.choice(blocks), rng)
    return b"".join(blocks)


def _change_packet(block: bytearray, rng: random.Random) -> None:
    """A frame in a packet is changed and sealed, or a byte of the packet's headers."""
    payload = _payload(block)
    if payload is None:
        change_bytes(block, rng)
        return
    start, stop = payload
    if stop > start and rng.random() < 0.75:
        pieces = split(0, bytes(block[start:stop]))
        piece: Piece = rng.choice(pieces)
        if piece.kind:
            size = len(piece.data)
            change_frame(piece, rng)
            # In its place, so that the packet stays what it is.
            piece.data[size:] = b""
            piece.data += bytes(size - len(piece.data))
            seal(piece)
        else:
            piece.data[rng.randrange(len(piece.data))] ^= 1 << rng.randrange(8)
        block[start:stop] = b"".join(p.data for p in pieces)
    else:
        block[rng.randrange(28, max(start, 29))] = rng.randrange(256)


def _payload(block: bytearray) -> tuple[int, int] | None:
    """Where the TCP payload of an enhanced packet block with an IPv4 packet lies."""
    if len(block) < 72 or int.from_bytes(block[:4], "little") != _PACKET or block[28] >> 4 != 4:
        return None
    end = 28 + int.from_bytes(block[20:24], "little")
    start = 28 + 4 * (block[28] & 15)
    start += 4 * (block[start + 12] >> 4) if start + 12 < len(block) else 0
    return (start, end) if start <= end <= len(block) - 4 else None


def _close(block: bytearray) -> None:
    """Right lengths at both ends of a block, padded to whole words."""
    block += bytes(-len(block) % 4)
    if len(block) >= 12:
        block[4:8] = block[-4:] = len(block).to_bytes(4, "little")
