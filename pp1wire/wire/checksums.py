"""Checksums and digests: XXH3 everywhere, because they find accidents, not attackers (`docs/wire.md`, "Checksums")."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import xxhash

from pp1wire.wire.columns import IdArray, frozen_ids

__all__ = ["PrefixDigest", "body_checksum", "header_checksum", "prefix_digest", "rows_checksum"]

Buffer = bytes | bytearray | memoryview


def header_checksum(frame: Buffer) -> int:
    """XXH3-64 of the first 56 bytes of `frame`, which are the header less its own checksum."""
    return xxhash.xxh3_64_intdigest(frame[:56])


def body_checksum(frame: Buffer) -> int:
    """XXH3-64 of the body, seeded by the identity in the header (bytes 16 to 47).

    The seed makes a body fail that was moved to another slot, agreement, session, generation or round.
    """
    return xxhash.xxh3_64_intdigest(frame[64:], seed=xxhash.xxh3_64_intdigest(frame[16:48]))


def rows_checksum(body_checksums: Iterable[int] | npt.NDArray[np.uint64]) -> bytes:
    """XXH3-128 (16 bytes, canonical) over the body checksums of a round's REPLYs, each as little-endian u64."""
    values = body_checksums if isinstance(body_checksums, np.ndarray) else list(body_checksums)
    return xxhash.xxh3_128_digest(np.asarray(values, dtype="<u8").tobytes())


def prefix_digest(ids: npt.ArrayLike) -> bytes:
    """XXH3-128 (16 bytes, canonical) over committed token ids [n] as little-endian int32.

    Raises:
        LocalProtocolError: not one-dimensional, not integers, or outside int32.
    """
    return xxhash.xxh3_128_digest(_little_endian(ids).data)


def _little_endian(ids: npt.ArrayLike) -> IdArray:
    # No copy of ids that are so already: prefixes are long, and hashed on both ends.
    return np.ascontiguousarray(frozen_ids(ids), dtype="<i4")


class PrefixDigest:
    """The digest of a committed prefix, kept as it grows.

    Args:
        ids: token ids [n] to begin with.
    """

    __slots__ = ("_state", "length")

    def __init__(self, ids: npt.ArrayLike | IdArray = ()) -> None:
        self._state = xxhash.xxh3_128()
        self.length = 0
        """Ids so far."""
        self.extend(ids)

    def extend(self, ids: npt.ArrayLike) -> None:
        """Append token ids [n].

        Raises:
            LocalProtocolError: not one-dimensional, not integers, or outside int32.
        """
        array = _little_endian(ids)
        self._state.update(array.data)
        self.length += len(array)

    def digest(self) -> bytes:
        """16 bytes: the same as `prefix_digest` of all ids so far."""
        return self._state.digest()

    def copy(self) -> PrefixDigest:
        """An independent digest of the same prefix; costs the same at any length."""
        other = PrefixDigest.__new__(PrefixDigest)
        other._state = self._state.copy()
        other.length = self.length
        return other
