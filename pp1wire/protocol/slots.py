"""Where validated proposals lie: one preallocated buffer of the caller's, two halves a slot.

The buffer can be anything writable and contiguous (a bytearray, a mapping, shared, pinned or registered memory). It holds the
columns of rows as they were on the wire and nothing else:

    row(slot, half, i) at ((slot · 2 + half) · max_depth + i) · payload_bytes:   ids int32 [id_entries], q float32 [q_entries]

Two halves a slot, so that round r + 1 can arrive while a consumer still reads round r. A half belongs to a generation's
round from its STEP to its COMMIT or RESET, and to every consumer that retained its proposal; it is used again only when
neither holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import Agreement, ReplyBatch
from pp1wire.wire._schema_v2 import Q_TOTAL

__all__ = ["HALVES", "Proposal", "SlotPool", "check_buffer", "required_bytes", "row_views"]

HALVES: Final = 2

Ids = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]
Q = npt.NDArray[np.float32]


def required_bytes(agreement: Agreement) -> int:
    """Bytes that a pool of this agreement needs: 2 · max_slots · max_depth · payload_bytes."""
    return HALVES * agreement.max_slots * agreement.max_depth * agreement.payload_bytes


def check_buffer(buffer: Any, needed: int) -> memoryview:
    """`buffer` as a flat view of `needed` bytes.

    Raises:
        LocalProtocolError: no buffer, read-only, not contiguous, not aligned to 4 bytes, or too small.
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise LocalProtocolError(f"buffer: expected a writable buffer, got {type(buffer).__name__}") from None
    if view.readonly or not view.c_contiguous:
        state = "a read-only" if view.readonly else "a non-contiguous"
        raise LocalProtocolError(f"buffer: expected a writable contiguous buffer, got {state} one")
    if view.nbytes < needed:
        raise LocalProtocolError(f"buffer: expected at least {needed} bytes, got {view.nbytes}")
    flat = view.cast("B")[:needed]
    if np.frombuffer(flat, np.uint8).ctypes.data % 4:
        raise LocalProtocolError("buffer: expected an address that is a multiple of 4")
    return flat


def row_views(buffer: Any, agreement: Agreement, offset: int, depth: int) -> tuple[Ids, Q]:
    """Zero-copy views of a proposal's rows in any buffer that shows the pool's memory, in another process too.

    Args:
        buffer: the pool's memory.
        offset: `Proposal.offset`.
        depth: rows.

    Returns:
        ids int32 [depth, id_entries] and q float32 [depth, q_entries].
    """
    row = np.dtype([("ids", "<i4", (agreement.id_entries,)), ("q", "<f4", (agreement.q_entries,))])
    rows = np.frombuffer(buffer, row, depth, offset)
    return rows["ids"], rows["q"]


@dataclass(slots=True)
class _Half:
    """One half of a slot. `uses` counts rounds, so that a handle of an earlier round is recognised."""

    offset: int
    owned: bool = False
    consumers: int = 0
    uses: int = 0

    @property
    def free(self) -> bool:
        return not self.owned and not self.consumers


class Proposal:
    """A validated proposal, ready to be verified: `depth` tokens and the q that each was drawn from.

    It is valid until its round is committed or reset; a consumer that needs it longer calls `retain` before that, and
    `release` when it is done. Views that were handed out show whatever the buffer holds later, so drop them with the release.
    """

    __slots__ = (
        "_agreement", "_buffer", "_entries", "_half", "_use", "depth", "generation", "offset", "position", "round",
        "session", "slot", "tokens",
    )  # fmt: skip

    def __init__(self, lease: Lease, tokens: Ids, entries: npt.NDArray[np.int64]) -> None:
        self.session = lease.session
        self.slot = lease.slot
        self.generation = lease.generation
        self.round = lease.round
        self.position = lease.position
        """Position of the first drafted token."""
        self.depth = len(tokens)
        self.tokens = tokens
        """int32 [depth], read-only."""
        self.offset = lease._half.offset
        """Where the first row begins in the pool's buffer, in bytes; `row_views` reads it from there."""
        self._entries = entries
        self._agreement = lease._pool.agreement
        self._buffer = lease._pool._view()
        self._half = lease._half
        self._use = lease._use

    @property
    def live(self) -> bool:
        """Whether its rows still lie in the buffer."""
        return self._half.uses == self._use and not self._half.free

    @property
    def ids(self) -> Ids:
        """int32 [depth, id_entries], read-only view of the buffer; id_entries is 0 for dense rows. Raises LocalProtocolError."""
        return self._views()[0]

    @property
    def q(self) -> Q:
        """float32 [depth, q_entries], read-only view of the buffer. Raises LocalProtocolError once released."""
        return self._views()[1]

    def rows(self) -> list[tuple[Ids | None, Counts]]:
        """Each row as (ids int32 [n], counts int32 [n]); dense as (None, counts [vocab_size]), as `verify_chain` takes them.

        The ids are views of the buffer, the counts are computed. Raises LocalProtocolError once released.
        """
        ids, q = self._views()
        # q is a whole multiple of 2^-24 not above 1, so the product is exact in FP32 and an integer.
        counts = np.multiply(q, np.float32(Q_TOTAL)).astype(np.int32)
        if not self._agreement.id_entries:
            return [(None, row[: self._agreement.vocab_size]) for row in counts]
        return [(ids[i, :n], counts[i, :n]) for i, n in enumerate(self._entries.tolist())]

    def retain(self) -> Proposal:
        """Hold the rows beyond the round, once more. Raises LocalProtocolError if they are gone already."""
        self._require_live()
        self._half.consumers += 1
        return self

    def release(self) -> None:
        """Undo one `retain`. Raises LocalProtocolError if nothing is retained."""
        if self._half.uses != self._use or not self._half.consumers:
            raise LocalProtocolError(f"{self!r}: released more often than retained")
        self._half.consumers -= 1

    def __repr__(self) -> str:
        return f"Proposal(session={self.session}, generation={self.generation}, round={self.round}, depth={self.depth})"

    def _require_live(self) -> None:
        if not self.live:
            raise LocalProtocolError(f"{self!r}: its buffer was released, and may hold another round")

    def _views(self) -> tuple[Ids, Q]:
        self._require_live()
        ids, q = row_views(self._buffer, self._agreement, self.offset, self.depth)
        ids.flags.writeable = q.flags.writeable = False
        return ids, q


class Lease:
    """A half of a slot while its round is drafted; rows go in as they pass, `publish` makes them a proposal."""

    __slots__ = ("_entries", "_half", "_pool", "_use", "generation", "position", "round", "session", "slot")

    def __init__(
        self, pool: SlotPool, half: _Half, session: int, slot: int, generation: int, round_: int, position: int
    ) -> None:
        self.session, self.slot, self.generation, self.round, self.position = (
            session,
            slot,
            generation,
            round_,
            position,
        )
        self._pool = pool
        self._half = half
        self._use = half.uses
        self._entries: list[int] = []

    def write(self, first: int, batch: ReplyBatch, start: int, stop: int) -> None:
        """Copy validated rows start … stop − 1 of `batch` in as rows `first` …; the only copy that is made of them."""
        agreement = self._pool.agreement
        offset = self._half.offset + first * agreement.payload_bytes
        ids, q = row_views(self._pool._view(), agreement, offset, stop - start)
        ids[:] = batch.ids[start:stop]
        q[:] = batch.q[start:stop]
        self._entries += batch.entry_counts[start:stop].tolist()

    def publish(self, tokens: list[int]) -> Proposal:
        """The rows written so far as a proposal, after the COMPLETION was checked."""
        ids = np.array(tokens, np.int32)
        ids.flags.writeable = False
        return Proposal(self, ids, np.array(self._entries, np.int64))

    def end(self) -> None:
        """The round is over: only consumers that retained the proposal hold its half from here on."""
        if self._half.uses == self._use:
            self._half.owned = False


class SlotPool:
    """The halves of all slots over one buffer; nothing is allocated here.

    Args:
        buffer: writable, contiguous, at least `required_bytes(agreement)`; the pool uses its first so many bytes.
        agreement: the connection's.

    Raises:
        LocalProtocolError: the buffer cannot be used.
    """

    def __init__(self, buffer: Any, agreement: Agreement) -> None:
        self.agreement = agreement
        self._memory: memoryview | None = check_buffer(buffer, required_bytes(agreement))
        size = agreement.max_depth * agreement.payload_bytes
        self._halves = [
            [_Half((slot * HALVES + half) * size) for half in range(HALVES)] for slot in range(agreement.max_slots)
        ]

    def can_lease(self, slot: int) -> bool:
        """Whether a half of `slot` is free."""
        return any(half.free for half in self._halves[slot])

    def lease(self, *, session: int, slot: int, generation: int, round_: int, position: int) -> Lease:
        """A free half of `slot` for one round.

        Raises:
            LocalProtocolError: a round or its consumers hold both halves.
        """
        half = next((h for h in self._halves[slot] if h.free), None)
        if half is None:
            raise LocalProtocolError(f"slot {slot}: both buffers are held; release earlier proposals first")
        half.owned = True
        half.uses += 1
        return Lease(self, half, session, slot, generation, round_, position)

    def held(self) -> int:
        """Halves that a round or a consumer holds."""
        return sum(not half.free for halves in self._halves for half in halves)

    def close(self) -> None:
        """Let go of the buffer, so that its owner can unmap it; views handed out earlier still hold it."""
        self._memory = None

    def _view(self) -> memoryview:
        if self._memory is None:
            raise LocalProtocolError("the pool was closed")
        return self._memory
