"""Mutated frames through every decoder, for `python -O`: prints how many were refused and accepted, or fails.

No assert does any checking here, as `-O` would drop it.
"""

from __future__ import annotations

import random
import sys
from contextlib import suppress

from pp1wire.wire import FrameReader, RemoteProtocolError, decode, decode_replies, encode
from tests.wire.frames import EVERY_KIND, drain, frame_of, sealed


def mutate(rng: random.Random, frame: bytearray) -> bytes:
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(64, len(frame)) if rng.random() < 0.8 and len(frame) > 64 else rng.randrange(len(frame))
        choice = rng.randrange(6)
        if choice == 0:
            del frame[at : at + rng.randint(1, 8)]
        elif choice == 1:
            frame[at:at] = rng.randbytes(rng.randint(1, 8))
        elif choice == 2:
            at -= at % 4
            frame[at : at + 4] = rng.choice(
                [b"\0\0\xc0\x7f", b"\1\0\x80\x7f", b"\0\0\x80\xff", b"\0\0\0\x80", b"\xff" * 4]
            )
        else:
            frame[at] ^= 1 << rng.randrange(8)
        if not frame:
            frame += b"P"
    if len(frame) >= 64 and rng.random() < 0.8:
        if rng.random() < 0.5:
            frame[16:20] = (len(frame) - 64).to_bytes(4, "little")
        return sealed(frame)
    return bytes(frame)


def main(trials: int) -> None:
    rng = random.Random(20260101)
    refused = accepted = 0
    for _ in range(trials):
        _, agreement, message = rng.choice(EVERY_KIND)
        data = mutate(rng, frame_of(message, agreement))
        if rng.random() < 0.2:
            data += data
        for outcome in drain(FrameReader(agreement), [data]):
            if isinstance(outcome, RemoteProtocolError):
                str(outcome)
        if agreement is not None:
            with suppress(RemoteProtocolError):
                decode_replies(data, agreement)
        try:
            decoded = decode(data, agreement)
        except RemoteProtocolError:
            refused += 1
            continue
        sequence = int.from_bytes(data[8:16], "little")
        if encode(decoded, agreement, sequence) != data:
            sys.exit(f"two spellings of one message: {data.hex()}")
        accepted += 1
    print(refused, accepted)


main(int(sys.argv[1]))
