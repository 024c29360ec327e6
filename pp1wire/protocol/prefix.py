"""The committed prefix of a session and its running digest."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from pp1wire.wire.checksums import PrefixDigest

__all__ = ["CommittedPrefix"]


class CommittedPrefix:
    """Token ids that both ends hold as decided.

    Args:
        ids: int32 [n] to begin with.
        keep: whether to keep the ids themselves (4 bytes each); a passive observer needs only their digest.
    """

    __slots__ = ("_digest", "_ids")

    def __init__(self, ids: npt.NDArray[np.int32], keep: bool) -> None:
        self._digest = PrefixDigest(ids)
        self._ids = array("i") if keep else None
        self._append(ids)

    def __len__(self) -> int:
        return self._digest.length

    def copy(self) -> CommittedPrefix:
        """An independent prefix of the same ids."""
        other = CommittedPrefix.__new__(CommittedPrefix)
        other._digest = self._digest.copy()
        other._ids = None if self._ids is None else array("i", self._ids)
        return other

    def extend(self, ids: npt.NDArray[np.int32]) -> None:
        """Append newly committed ids [n]."""
        self._digest.extend(ids)
        self._append(ids)

    def digest(self) -> bytes:
        """XXH3-128 of the ids, as STEP, COMMIT and RESET carry it."""
        return self._digest.digest()

    def digest_after(self, ids: npt.NDArray[np.int32]) -> bytes:
        """What `digest` would be after `extend(ids)`."""
        digest = self._digest.copy()
        digest.extend(ids)
        return digest.digest()

    def ids(self) -> npt.NDArray[np.int32]:
        """A copy of the ids, int32 [n]; empty if they are not kept."""
        return np.array(self._ids if self._ids is not None else (), np.int32)

    def _append(self, ids: npt.NDArray[np.int32]) -> None:
        if self._ids is not None:
            self._ids.frombytes(np.ascontiguousarray(ids, np.int32).tobytes())
