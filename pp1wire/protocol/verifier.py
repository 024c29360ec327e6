"""The verifier's end: it offers, opens sessions, asks for proposals, and says what became of them."""

from __future__ import annotations

import math
from typing import SupportsFloat

import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol.compose import (
    check_not_last,
    commit_message,
    open_message,
    reset_message,
    step_message,
    token_ids,
    unsigned,
)
from pp1wire.protocol.counters import CANCELLED, CONSUMER
from pp1wire.protocol.events import VerifierEvent
from pp1wire.protocol.session import OpenRound, Session
from pp1wire.protocol.slots import SlotPool
from pp1wire.protocol.tables import SessionState
from pp1wire.protocol.verifier_core import Request, VerifierConnection
from pp1wire.wire import CommitKind, Representation, ResetReason

__all__ = ["Verifier"]

_LAST_U64 = 2**64 - 1


class Verifier(VerifierConnection):
    """The end that owns the target model.

    Call `start`, send `data_to_send()`, feed what comes back to `receive`, and `check_deadlines` whenever `next_deadline()` has
    passed. Times are seconds on one clock of the caller's, never read here. Every method that is refused with
    LocalProtocolError has changed nothing and queued nothing.

    Args:
        offer: this end's HELLO; `pp1wire.protocol.hello` makes one.
        buffer: where proposals will lie: writable, contiguous, large enough for every agreement that the offer can lead
            to (`required_bytes`). None allocates what the agreement needs, once there is one.
        hello_timeout: seconds for the answer; None for no limit.
        step_timeout: seconds for each proposal; None for no limit.

    Raises:
        LocalProtocolError: the offer is none, or the buffer does not hold it.
    """

    def open(
        self, prefix_ids: npt.ArrayLike, proposal_seed: int, context_version: int = 0, *, generation: int = 1
    ) -> int:
        """Open a session with its committed prefix; its number.

        Args:
            prefix_ids: token ids [n], n ≤ max_prefix.
            proposal_seed: `pp1wire.sampling.proposal_seed` of the request's root seed.
            context_version: of the target's processors, grammar and stop state.
            generation: above the request's last one if it was opened before, on this or another connection, so that no key of
                its random streams comes twice.

        Raises:
            LocalProtocolError: not open, no slot free, or the prefix, seed or version does not fit.
        """
        sessions, pool = self._open().sessions, self._slots()
        slot = next((i for i, holder in enumerate(sessions.slots) if holder is None and pool.can_lease(i)), None)
        if slot is None:
            raise LocalProtocolError(
                f"all {len(sessions.slots)} slots are held; close a session or release proposals first"
            )
        if sessions.last >= _LAST_U64:
            raise LocalProtocolError("session numbers of this connection are used up")
        proposal_seed = unsigned(proposal_seed, 64, "proposal_seed")
        context_version = unsigned(context_version, 32, "context_version")
        number = sessions.last + 1
        self._send(open_message(number, slot, unsigned(generation, 32, "generation"), token_ids(prefix_ids)))
        self._requests[number] = Request(proposal_seed, context_version)
        return number

    def step(
        self,
        session: int,
        now: float,
        *,
        depth: int | None = None,
        temperature: float = 1.0,
        support: int | None = None,
    ) -> int:
        """Ask for one proposal; its round.

        Args:
            session: its number.
            now: the caller's clock; the round's deadline is `step_timeout` later.
            depth: positions to draft; the agreed maximum unless given.
            temperature: of the draft.
            support: k of a sparse row; the agreed maximum unless given. Not for dense rows.

        Raises:
            LocalProtocolError: a round is open; depth, temperature or support do not fit; both buffers of the slot are
                still held by consumers; or committing it whole could exceed max_prefix.
        """
        agreement, pool = self._open().agreement, self._slots()
        state, request = self._request(session)
        if support is None:
            support = 0 if agreement.representation is Representation.DENSE else agreement.max_support
        deadline = None if self._step_timeout is None else _finite(now, "now") + self._step_timeout
        step = step_message(
            state,
            agreement,
            depth=agreement.max_depth if depth is None else unsigned(depth, 8, "depth"),
            temperature=_finite(temperature, "temperature"),
            support=unsigned(support, 32, "support"),
            proposal_seed=request.proposal_seed,
            context_version=request.context_version,
        )
        if not pool.can_lease(state.slot):
            raise LocalProtocolError(
                f"session {session}: both buffers of slot {state.slot} are held; release proposals first"
            )
        self._send(step)
        request.lease = pool.lease(
            session=session, slot=state.slot, generation=state.generation, round_=state.round, position=state.position
        )
        request.deadline = deadline
        return state.round

    def commit(
        self, session: int, accepted: int, kind: CommitKind, tokens: npt.ArrayLike, *, raw_accepted: int | None = None
    ) -> None:
        """Say what became of the proposal; its buffer is free as soon as no consumer holds it.

        Args:
            session: its number.
            accepted: leading drafted tokens that are committed.
            kind: what the last id is; none if a stop token inside the accepted run ends the request (then `close` it).
            tokens: every newly committed id: the accepted ones, then the correction or bonus.
            raw_accepted: drafted tokens that verification accepted, if a stop token cut the committed ones short.

        Raises:
            LocalProtocolError: no proposal is ready, or accepted, kind and tokens contradict it or each other.
        """
        state, request = self._request(session)
        accepted = unsigned(accepted, 8, "accepted")
        raw = accepted if raw_accepted is None else unsigned(raw_accepted, 8, "raw_accepted")
        try:
            kind = CommitKind(kind)
        except ValueError:
            raise LocalProtocolError(f"kind: expected a CommitKind, got {kind!r}") from None
        if kind is CommitKind.TARGET_ONLY:
            raise LocalProtocolError(f"session {session}: a target-only token goes through target_only")
        if state.state is not SessionState.READY:
            raise LocalProtocolError(f"session {session}: expected a proposal to commit, but it is {state.state}")
        depth = state.latest.step.depth
        if not accepted <= raw <= depth:
            raise LocalProtocolError(f"raw_accepted: expected {accepted} to {depth}, got {raw}")
        self._send(commit_message(state, state.round, accepted, kind, token_ids(tokens)))
        self.counters.count_accepted(raw)
        request.let_go()

    def target_only(self, session: int, token: int) -> None:
        """Commit one token of the target alone, as a round without a STEP. Raises LocalProtocolError if a round is open."""
        state, _ = self._request(session)
        if state.state is not SessionState.IDLE:
            raise LocalProtocolError(f"session {session}: expected no open round, but it is {state.state}")
        check_not_last(state.round, "round")
        self._send(commit_message(state, state.next_round, 0, CommitKind.TARGET_ONLY, token_ids([token])))

    def discard(self, session: int, reason: str = CONSUMER) -> list[VerifierEvent]:
        """Give up the open round for a fault on this side, such as a rank that failed; as if a row had been rejected.

        Raises:
            LocalProtocolError: no round is open, or `reason` is not a key of `counters.discards`.
        """
        state, _ = self._request(session)
        if state.open_round() is None:
            raise LocalProtocolError(f"session {session}: expected an open round, but it is {state.state}")
        if reason not in tuple(self.counters.discards):
            raise LocalProtocolError(f"reason: expected one of {', '.join(self.counters.discards)}, got {reason!r}")
        events: list[VerifierEvent] = []
        self._discard(state, reason, events)
        return events

    def cancel(
        self,
        session: int,
        *,
        prefix_ids: npt.ArrayLike | None = None,
        proposal_seed: int | None = None,
        context_version: int | None = None,
    ) -> int:
        """Give up the open round, if any, and go on in a new generation with what is given changed; the generation.

        Raises:
            LocalProtocolError: the session is not open, or prefix, seed or version does not fit.
        """
        state, request = self._request(session)
        if proposal_seed is not None:
            proposal_seed = unsigned(proposal_seed, 64, "proposal_seed")
        if context_version is not None:
            context_version = unsigned(context_version, 32, "context_version")
        ids = state.prefix.ids() if prefix_ids is None else token_ids(prefix_ids)
        current = state.open_round()
        self._send(reset_message(state, ResetReason.CANCEL, ids))
        if proposal_seed is not None:
            request.proposal_seed = proposal_seed
        if context_version is not None:
            request.context_version = context_version
        self._let_go(request, current)
        return state.generation

    def close(self, session: int) -> None:
        """End a session and free its slot. Raises LocalProtocolError if it is not open."""
        state, request = self._request(session)
        current = state.open_round()
        self._send(reset_message(state, ResetReason.CLOSE, state.prefix.ids()))
        self._let_go(request, current)
        del self._requests[session]

    def generation(self, session: int) -> int:
        """The session's generation. Raises LocalProtocolError if it is not open."""
        return self._session(session).generation

    def _request(self, number: int) -> tuple[Session, Request]:
        session = self._session(number)
        return session, self._requests[number]

    def _slots(self) -> SlotPool:
        if self._pool is None:
            raise LocalProtocolError(f"expected an open connection, but it is {self.state}")
        return self._pool

    def _let_go(self, request: Request, current: OpenRound | None) -> None:
        if current is not None:
            self._open().sessions.count_discard(current, CANCELLED)
        request.let_go()


def _finite(value: SupportsFloat, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise LocalProtocolError(f"{name}: expected a finite number, got {value!r}")
    return number
