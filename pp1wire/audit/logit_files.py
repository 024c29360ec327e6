"""What the rounds of a capture were made from: logits, target rows and verification seeds, found by round."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pp1wire.audit.errors import AuditError
from pp1wire.audit.tensors import TensorFile, open_tensors
from pp1wire.sampling import RNG_ABI, SEMANTIC_ID, VERIFIER_ID, proposal_seed, verification_seed

__all__ = ["FORMAT", "Kind", "LogitFiles", "RoundKey", "metadata", "read_roots"]

FORMAT: Final = "pp1wire-logits-1"
_RULES: Final = {"format": FORMAT, "draft_law": SEMANTIC_ID, "verification": VERIFIER_ID, "random_numbers": RNG_ABI}
_NAME: Final = re.compile(
    r"(draft|target|target_probabilities)/([0-9]{1,20})/([0-9]{1,20})/([0-9]{1,20})/([0-9]{1,20})", re.ASCII
)
_SEEDS: Final = "seeds"
_MOST_SEEDS: Final = 1 << 20
_MOST_HELD: Final = 16
"""Arrays kept after their reading: rows of one round come one by one, and a few rounds at a time."""

MAX_VOCABULARY: Final = 262_144


class Kind(StrEnum):
    """What an array holds."""

    DRAFT = "draft"
    TARGET = "target"
    TARGET_PROBABILITIES = "target_probabilities"


class RoundKey(NamedTuple):
    """Which round: `connection` is its number in the capture, as `pp1wire validate` counts."""

    connection: int
    session: int
    generation: int
    round: int


def metadata(**more: Any) -> dict[str, Any]:
    """The metadata of a file of logits: the rules that make its arrays mean something, and `more` for people."""
    return _RULES | more


def read_roots(path: str | os.PathLike[str]) -> dict[int, int]:
    """Verification seeds by proposal seed, from a text file of root seeds, one a line. Raises AuditError."""
    name = os.fspath(path)
    try:
        lines = Path(path).read_text("ascii").split()
    except (OSError, UnicodeError) as error:
        raise AuditError(f"{name}: cannot read root seeds: {error}") from error
    seeds = {}
    for number, text in enumerate(lines, 1):
        # The text itself is secret, so it is not shown.
        if not re.fullmatch("[0-9]{1,20}", text) or int(text) >= 1 << 64:
            raise AuditError(f"{name}: entry {number}: expected a root seed from 0 to 2^64 - 1")
        seeds[proposal_seed(int(text))] = verification_seed(int(text))
    return seeds


class LogitFiles:
    """Several files as one. Names alone are held; arrays are read when they are asked for.

    Args:
        paths: npz or safetensors files.

    Raises:
        AuditError: a file that cannot be read, an array twice, or a name that is none.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]] = ()) -> None:
        self.seeds: dict[int, int] = {}
        """Verification seeds by proposal seed."""
        self._files: list[TensorFile] = []
        self._index: dict[tuple[Kind, RoundKey], TensorFile] = {}
        self._asked: set[tuple[Kind, RoundKey]] = set()
        self._held: OrderedDict[tuple[Kind, RoundKey], npt.NDArray[Any]] = OrderedDict()
        self.kinds: set[Kind] = set()
        try:
            for path in paths:
                self._add(open_tensors(path))
        except BaseException:
            self.close()
            raise

    def _add(self, file: TensorFile) -> None:
        self._files.append(file)
        for key, rule in _RULES.items():
            if file.metadata.get(key, rule) != rule:
                raise AuditError(
                    f"{file.name}: metadata {key}: expected {rule!r}, got {str(file.metadata[key])[:80]!r}"
                )
        for name in file.names():
            if name == _SEEDS:
                self._add_seeds(file)
                continue
            parts = _NAME.fullmatch(name)
            if parts is None:
                raise AuditError(
                    f"{file.name}: array {name[:80]!r}: expected seeds, or draft, target or target_probabilities with "
                    "/connection/session/generation/round"
                )
            place = Kind(parts[1]), RoundKey(*(int(part) for part in parts.groups()[1:]))
            if place in self._index:
                raise AuditError(f"{file.name}: {name}: there already, in {self._index[place].name}")
            self._index[place] = file
            self.kinds.add(place[0])

    def _add_seeds(self, file: TensorFile) -> None:
        pairs = file.read(_SEEDS, _Shapes(_MOST_SEEDS, 2))
        if pairs.dtype != np.uint64:
            raise AuditError(f"{file.name}: {_SEEDS}: expected uint64, got {pairs.dtype}")
        self.seeds.update((int(proposal), int(verification)) for proposal, verification in pairs)

    def has(self, kind: Kind, key: RoundKey) -> bool:
        """Whether there is such an array."""
        return (kind, key) in self._index

    def read(self, kind: Kind, key: RoundKey, most_rows: int, vocabulary: int | None) -> npt.NDArray[Any] | None:
        """An array [1 … most_rows, V], float32 (or float64 for probabilities); None if there is none.

        Raises:
            AuditError: it has another shape or dtype, or is damaged.
        """
        place = kind, key
        file = self._index.get(place)
        if file is None:
            return None
        self._asked.add(place)
        if place in self._held:
            self._held.move_to_end(place)
            return self._held[place]
        name = "/".join(str(part) for part in (kind, *key))
        array = file.read(name, _Shapes(most_rows, vocabulary))
        wide = np.dtype(np.float64) if kind is Kind.TARGET_PROBABILITIES else np.dtype(np.float32)
        if array.dtype.kind != "f" or array.dtype.itemsize > wide.itemsize:
            raise AuditError(f"{file.name}: {name}: expected {wide} or narrower floats, got {array.dtype}")
        array = array.astype(wide if array.dtype.itemsize < 4 else array.dtype.newbyteorder("="), copy=False)
        if kind is Kind.DRAFT:
            self._held[place] = array
        if len(self._held) > _MOST_HELD:
            self._held.popitem(last=False)
        return array

    @property
    def unused(self) -> list[str]:
        """Names of arrays that nothing asked for, in order."""
        return [
            "/".join(str(part) for part in (kind, *key)) for kind, key in self._index if (kind, key) not in self._asked
        ]

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Shapes:
    """The shapes [1 … rows, width], without listing them."""

    def __init__(self, rows: int, width: int | None) -> None:
        self._rows, self._width = rows, width

    def __contains__(self, shape: object) -> bool:
        if not isinstance(shape, tuple) or len(shape) != 2:
            return False
        fits = 1 <= shape[1] <= MAX_VOCABULARY if self._width is None else shape[1] == self._width
        return bool(1 <= shape[0] <= self._rows and fits)

    def __str__(self) -> str:
        return f"[1 to {self._rows}, {'V' if self._width is None else self._width}]"
