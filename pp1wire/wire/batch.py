"""The rows of a round as arrays: what workers encode and verifiers decode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import Q_TOTAL, Reply, Representation
from pp1wire.wire.agreement import Agreement
from pp1wire.wire.columns import as_array
from pp1wire.wire.reject import short

__all__ = ["ReplyBatch"]

Row = tuple[npt.ArrayLike, npt.ArrayLike]
_COLUMNS = tuple(
    (name, np.dtype(dtype))
    for name, dtype in (
        ("sessions", np.uint64), ("slots", np.uint16), ("generations", np.uint32), ("rounds", np.uint32),
        ("positions", np.uint32), ("tokens", np.int32), ("entry_counts", np.uint32), ("ids", np.int32), ("counts", np.int32),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ReplyBatch:
    """`n` rows with the column lengths of one agreement; arrays are read-only when they were decoded.

    Unused entries of `ids`, `counts` and `q` are zero. `batch[i]` is row i as a `Reply`, `len(batch)` is n.
    """

    sessions: npt.NDArray[np.uint64]
    """[n]"""
    slots: npt.NDArray[np.uint16]
    """[n]"""
    generations: npt.NDArray[np.uint32]
    """[n]"""
    rounds: npt.NDArray[np.uint32]
    """[n]"""
    positions: npt.NDArray[np.uint32]
    """[n], absolute"""
    tokens: npt.NDArray[np.int32]
    """[n]"""
    entry_counts: npt.NDArray[np.uint32]
    """[n], entries in use: the support size of a sparse row, the vocabulary size of a dense one"""
    ids: npt.NDArray[np.int32]
    """[n, id_entries], strictly rising; id_entries is 0 for dense rows"""
    counts: npt.NDArray[np.int32]
    """[n, q_entries], total 2^24 a row"""
    row_checksums: npt.NDArray[np.uint64]
    """[n], the body checksums of decoded rows; zero in a batch that has not been on the wire"""
    _q: npt.NDArray[np.float32] | None = None

    @property
    def q(self) -> npt.NDArray[np.float32]:
        """[n, q_entries], counts / 2^24, exact: the array on the wire if the batch was decoded."""
        if self._q is not None:
            return self._q
        return np.multiply(self.counts, np.float32(1 / Q_TOTAL), dtype=np.float32)

    def check_columns(self, agreement: Agreement, out: npt.NDArray[Any] | None = None) -> None:
        """Whether the columns are what they are documented to be, whoever made the batch, and lie apart from `out`.

        Raises:
            LocalProtocolError: a column of another dtype or shape than the agreement's, or one that overlaps `out`.
        """
        n = len(self)
        widths = {"ids": agreement.id_entries, "counts": agreement.q_entries}
        for name, dtype in _COLUMNS:
            column = getattr(self, name)
            shape = (n, widths[name]) if name in widths else (n,)
            if column.dtype != dtype or column.shape != shape:
                raise LocalProtocolError(
                    f"{name}: expected {dtype} {shape} of the agreement, got {column.dtype} {column.shape}"
                )
            if out is not None and np.may_share_memory(out, column):
                # Headers would be written over columns still to be read, and one row's q end under another row's token.
                raise LocalProtocolError(
                    f"out: expected a buffer apart from the batch, got one that overlaps its {name}"
                )

    def __len__(self) -> int:
        return len(self.tokens)

    def row(self, index: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Row `index` as (ids int32 [m], counts int32 [m]) of the tokens with mass, as `pp1wire.sampling` takes it."""
        if self.ids.shape[1]:
            used = int(self.entry_counts[index])
            return self.ids[index, :used], self.counts[index, :used]
        ids = np.flatnonzero(self.counts[index])
        return ids.astype(np.int32), self.counts[index, ids]

    def __getitem__(self, index: int) -> Reply:
        used = int(self.entry_counts[index])
        return Reply(
            session=int(self.sessions[index]),
            slot=int(self.slots[index]),
            generation=int(self.generations[index]),
            round=int(self.rounds[index]),
            position=int(self.positions[index]),
            token=int(self.tokens[index]),
            ids=self.ids[index, : used if self.ids.shape[1] else 0],
            q=self.q[index, :used],
        )

    @classmethod
    def from_rows(
        cls,
        agreement: Agreement,
        *,
        session: int,
        slot: int,
        generation: int,
        round: int,
        position: int,
        tokens: Sequence[int],
        rows: Sequence[Row],
    ) -> ReplyBatch:
        """Rows of one round, from `position` on.

        Args:
            agreement: gives the representation and the column lengths.
            session, slot, generation, round, position: identity of the first row.
            tokens: [n], the token drawn at each position.
            rows: n pairs (ids int32 [m], counts int32 [m]), as `pp1wire.sampling` makes them.

        Raises:
            LocalProtocolError: rows and tokens differ in number, a number does not fit its column, or a row does not fit the
                agreement.
        """
        if len(tokens) != len(rows):
            raise LocalProtocolError(f"expected one row a token, got {len(rows)} rows and {len(tokens)} tokens")
        n, dense = len(rows), agreement.representation is Representation.DENSE
        first = int(_column("position", [position], np.uint32)[0])
        ids = np.zeros((n, agreement.id_entries), dtype=np.int32)
        counts = np.zeros((n, agreement.q_entries), dtype=np.int32)
        entries = np.full(n, agreement.vocab_size, dtype=np.uint32)
        for index, row in enumerate(rows):
            try:
                row_ids, row_counts = map(as_array, row)
            except (TypeError, ValueError):
                raise LocalProtocolError(f"row {index}: expected a pair (ids, counts), got {short(row)}") from None
            _check_row(index, row_ids, row_counts, agreement)
            if dense:
                counts[index, row_ids] = row_counts
            else:
                ids[index, : len(row_ids)] = row_ids
                counts[index, : len(row_ids)] = row_counts
                entries[index] = len(row_ids)
        return cls(
            sessions=_column("session", [session] * n, np.uint64),
            slots=_column("slot", [slot] * n, np.uint16),
            generations=_column("generation", [generation] * n, np.uint32),
            rounds=_column("round", [round] * n, np.uint32),
            positions=_column("position", range(first, first + n), np.uint32),
            tokens=_column("token", tokens, np.int32),
            entry_counts=entries,
            ids=ids,
            counts=counts,
            row_checksums=np.zeros(n, dtype=np.uint64),
        )

    @classmethod
    def from_replies(cls, replies: Sequence[Reply], agreement: Agreement) -> ReplyBatch:
        """The rows of `replies` as one batch.

        Raises:
            LocalProtocolError: a number does not fit its column, a row does not fit the agreement, or its q is not a whole
                multiple of 2^-24.
        """
        n = len(replies)
        batch = cls(
            sessions=_column("session", [r.session for r in replies], np.uint64),
            slots=_column("slot", [r.slot for r in replies], np.uint16),
            generations=_column("generation", [r.generation for r in replies], np.uint32),
            rounds=_column("round", [r.round for r in replies], np.uint32),
            positions=_column("position", [r.position for r in replies], np.uint32),
            tokens=_column("token", [r.token for r in replies], np.int32),
            entry_counts=np.array([len(r.q) for r in replies], dtype=np.uint32),
            ids=np.zeros((n, agreement.id_entries), dtype=np.int32),
            counts=np.zeros((n, agreement.q_entries), dtype=np.int32),
            row_checksums=np.zeros(n, dtype=np.uint64),
        )
        for index, reply in enumerate(replies):
            ids_needed = len(reply.q) if agreement.id_entries else 0
            if len(reply.q) > agreement.q_entries or len(reply.ids) != ids_needed:
                raise LocalProtocolError(
                    f"row {index}: expected at most {agreement.q_entries} q, and {ids_needed} ids for {len(reply.q)} q, "
                    f"got {len(reply.ids)} ids"
                )
            if not bool(np.all((reply.q >= 0) & (reply.q <= 1) & ~np.signbit(reply.q))):
                raise LocalProtocolError(f"row {index}: expected every q from plus zero to 1")
            scaled = reply.q * np.float32(Q_TOTAL)
            row_counts = scaled.astype(np.int32)
            if not np.array_equal(row_counts, scaled):
                raise LocalProtocolError(f"row {index}: expected every q to be a whole multiple of 2^-24")
            batch.ids[index, : len(reply.ids)] = reply.ids
            batch.counts[index, : len(row_counts)] = row_counts
        return batch


def _column(name: str, values: Sequence[object], dtype: type[np.integer[Any]]) -> npt.NDArray[Any]:
    # numpy cuts fractions off and, by version, wraps or raises what does not fit.
    limits = np.iinfo(dtype)
    numbers: list[int] = []
    for index, value in enumerate(values):
        if not isinstance(value, (int, np.integer)) or not limits.min <= int(value) <= limits.max:
            raise LocalProtocolError(
                f"row {index}: {name}: expected an integer from {limits.min} to {limits.max}, got {short(value)}"
            )
        numbers.append(int(value))
    return np.array(numbers, dtype=dtype)


def _check_row(index: int, ids: npt.NDArray[np.generic], counts: npt.NDArray[np.generic], agreement: Agreement) -> None:
    if ids.shape != counts.shape or ids.ndim != 1 or ids.dtype.kind not in "iu" or counts.dtype.kind not in "iu":
        raise LocalProtocolError(
            f"row {index}: expected ids and counts to be integers of one length, "
            f"got {ids.dtype} {ids.shape} and {counts.dtype} {counts.shape}"
        )
    if agreement.id_entries and len(ids) > agreement.id_entries:
        raise LocalProtocolError(f"row {index}: expected at most {agreement.id_entries} entries, got {len(ids)}")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < agreement.vocab_size:
        raise LocalProtocolError(
            f"row {index}: expected ids from 0 to {agreement.vocab_size - 1}, got {ids.min()} to {ids.max()}"
        )
    if not agreement.id_entries and bool(np.less_equal(ids[1:], ids[:-1]).any()):
        # Scattered into a dense row, the later of two equal ids would hide the earlier.
        raise LocalProtocolError(f"row {index}: expected ids that rise")
    if counts.size and not 0 <= int(counts.min()) <= int(counts.max()) <= Q_TOTAL:
        raise LocalProtocolError(
            f"row {index}: expected counts from 0 to {Q_TOTAL}, got {counts.min()} to {counts.max()}"
        )
