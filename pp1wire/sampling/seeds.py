"""Seeds and keys: who owns which noise.

A request has one root seed of 64 bits, drawn elsewhere. From it come two seeds that tell nothing about each other, so
that the side which drafts never sees the coins of the side which verifies:

    proposal_seed(root)      = BLAKE2b(root, digest_size=8, person="pp1-v1 proposal")
    verification_seed(root)  = BLAKE2b(root, digest_size=8, person="pp1-v1 verify")
    choice_root(root, index) = BLAKE2b(root ‖ index, digest_size=8)

`root` and `index` enter as 8 bytes, little-endian; the 8 digest bytes are read little-endian; BLAKE2b pads the
personalisation with zero bytes to 16 (RFC 7693 and hashlib).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import SupportsIndex

from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.philox import unsigned

__all__ = ["Key", "choice_root", "proposal_seed", "verification_seed"]


def _blake2b_64(message: bytes, person: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(message, digest_size=8, person=person).digest(), "little")


def _bytes_64(value: SupportsIndex, name: str) -> bytes:
    return unsigned(value, 64, name).to_bytes(8, "little")


def proposal_seed(root: SupportsIndex) -> int:
    """The 64-bit seed of domain 1, known to both ends. Raises SamplingError unless 0 ≤ root < 2^64."""
    return _blake2b_64(_bytes_64(root, "root"), b"pp1-v1 proposal")


def verification_seed(root: SupportsIndex) -> int:
    """The 64-bit seed of domains 2 to 5; it belongs in no message, log or capture. Raises SamplingError."""
    return _blake2b_64(_bytes_64(root, "root"), b"pp1-v1 verify")


def choice_root(root: SupportsIndex, index: SupportsIndex) -> int:
    """The root seed of choice `index` of a request that asks for several continuations. Raises SamplingError."""
    return _blake2b_64(_bytes_64(root, "root") + _bytes_64(index, "index"), b"")


@dataclass(frozen=True, slots=True)
class Key:
    """The address of one round's noise: `seed` has 64 bits, the rest 32; `position` is that of the first drafted token.

    `seed` is whichever seed the caller owns: the proposal seed to draft, the verification seed to verify.
    """

    seed: int
    generation: int
    round: int
    position: int

    def __post_init__(self) -> None:
        for name, bits in (("seed", 64), ("generation", 32), ("round", 32), ("position", 32)):
            object.__setattr__(self, name, unsigned(getattr(self, name), bits, name))

    def span(self, depth: int) -> None:
        """Refuse a chain of `depth` tokens whose bonus position would not fit 32 bits. Raises SamplingError."""
        if self.position + depth >= 1 << 32:
            raise SamplingError(f"position: expected position + depth < 2^32, got {self.position} + {depth}")
