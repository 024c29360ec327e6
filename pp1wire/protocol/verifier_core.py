"""The verifier's connection: the offer, what comes back, deadlines, and the end of a round that failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pp1wire.protocol.compose import LAST_U32, reset_message
from pp1wire.protocol.counters import DEADLINE
from pp1wire.protocol.endpoint import Buffer, Endpoint, Live
from pp1wire.protocol.events import Agreed, Ended, ProposalReady, TargetOnly, VerifierEvent
from pp1wire.protocol.negotiation import agree, check_own, decode_hello, possible_agreements
from pp1wire.protocol.places import as_local
from pp1wire.protocol.session import Session
from pp1wire.protocol.slots import Lease, SlotPool, check_buffer, required_bytes
from pp1wire.protocol.tables import ConnectionEvent, ConnectionState, Role
from pp1wire.protocol.worker_messages import Completed, Discarded, RowsAccepted
from pp1wire.wire import (
    Commit,
    CompletionStatus,
    Frame,
    Hello,
    HelloRole,
    RemoteProtocolError,
    Reset,
    ResetReason,
    Step,
)

__all__ = ["Request", "VerifierConnection"]


@dataclass(slots=True)
class Request:
    """What a session has on the verifier's end alone."""

    proposal_seed: int
    context_version: int
    lease: Lease | None = None
    deadline: float | None = None

    def let_go(self) -> None:
        """End what the round owns; consumers that retained its proposal keep it."""
        self.deadline = None
        if self.lease is not None:
            self.lease.end()
            self.lease = None


class VerifierConnection(Endpoint[VerifierEvent]):
    """The half of `Verifier` that faces the worker; the other half, which faces the caller, is in `verifier`."""

    role: ClassVar[Role] = Role.VERIFIER

    def __init__(
        self, offer: Hello, *, buffer: Any = None, hello_timeout: float | None = 5.0, step_timeout: float | None = 1.0
    ) -> None:
        super().__init__()
        check_own(offer, HelloRole.OFFER)
        if buffer is not None:
            check_buffer(buffer, max(required_bytes(a) for a in possible_agreements(offer)))
        self._offer = offer
        self._buffer = buffer
        self._hello_timeout = hello_timeout
        self._step_timeout = step_timeout
        self._hello_deadline: float | None = None
        self._requests: dict[int, Request] = {}
        self._pool: SlotPool | None = None

    def start(self, now: float) -> None:
        """Queue the offer. Raises LocalProtocolError if it was queued before, or is not legal."""
        frame = self._frame(self._offer, None)
        self._enter(ConnectionEvent.OFFER)
        self._queue(frame)
        self._hello_deadline = None if self._hello_timeout is None else now + self._hello_timeout

    def receive(self, data: Buffer, now: float) -> list[VerifierEvent]:
        """Take bytes from the worker. What is read after its deadline is late.

        Raises:
            RemoteProtocolError: of connection scope: the connection is over and every session on it gone. If events came
                before it, they are returned first and the next call raises it; `error` has it at once, and a proposal
                among them is not `live` any more.
            LocalProtocolError: before `start`, or after the end.
        """
        # Not left to the caller's timer, so that whether an answer is late does not depend on which came first.
        events = self.check_deadlines(now)
        return events if events and self.state is ConnectionState.ENDED else self._receive(data, events)

    def eof(self) -> list[VerifierEvent]:
        """The worker will send nothing more: every session is gone, and can be opened again on another connection.

        Raises:
            RemoteProtocolError: the bytes ended inside a frame, or what ended the connection before.
        """
        return [Ended("closed")] if self._close_input() else []

    def end(self) -> None:
        """Close the connection from this side: every session is gone. Raises LocalProtocolError if it is over."""
        self._end()

    @property
    def held_buffers(self) -> int:
        """Halves of slots that a round or a consumer of its proposal holds, of 2 · max_slots."""
        return 0 if self._pool is None else self._pool.held()

    def next_deadline(self) -> float | None:
        """When `check_deadlines` has something to do, on the caller's clock; None for never."""
        deadlines = [r.deadline for r in self._requests.values() if r.deadline is not None]
        if self._hello_deadline is not None:
            deadlines.append(self._hello_deadline)
        return min(deadlines, default=None)

    def check_deadlines(self, now: float) -> list[VerifierEvent]:
        """Discard every round whose deadline has come; a HELLO that is late ends the connection."""
        if self._hello_deadline is not None and now >= self._hello_deadline:
            self._end()
            return [Ended("hello_deadline")]
        events: list[VerifierEvent] = []
        late = [n for n, r in self._requests.items() if r.deadline is not None and now >= r.deadline]
        for number in late:
            if self.state is ConnectionState.OPEN:
                self._discard(self._session(number), DEADLINE, events)
        return events

    # What comes back.

    def _hello(self, frame: Frame, events: list[VerifierEvent]) -> None:
        agreement = agree(self._offer, decode_hello(frame))
        self._hello_deadline = None
        memory = bytearray(required_bytes(agreement)) if self._buffer is None else self._buffer
        self._pool = SlotPool(memory, agreement)
        self._go_live(agreement)
        events.append(Agreed(agreement))

    def _frames(self, frames: list[Frame], live: Live, events: list[VerifierEvent]) -> None:
        for outcome in live.from_worker.judge(frames):
            if isinstance(outcome, RowsAccepted):
                self._lease(outcome.session).write(outcome.first, outcome.batch, outcome.start, outcome.stop)
            elif isinstance(outcome, Completed):
                self._completed(outcome, events)
            elif isinstance(outcome, Discarded):
                self._void(outcome.session, outcome.error.code.name.lower(), events)
            if self.state is not ConnectionState.OPEN:
                return

    def _completed(self, outcome: Completed, events: list[VerifierEvent]) -> None:
        session, status = outcome.session, outcome.completion.status
        if status is not CompletionStatus.OK:
            self._void(session, f"completion_{status.name.lower()}", events)
            return
        self._requests[session.number].deadline = None
        events.append(ProposalReady(session.number, self._lease(session).publish(session.latest.tokens)))

    def _lease(self, session: Session) -> Lease:
        lease = self._requests[session.number].lease
        if lease is None:
            raise RuntimeError(f"session {session.number} is {session.state} without a buffer")
        return lease

    # The end of a round that failed.

    def _discard(self, session: Session, reason: str, events: list[VerifierEvent]) -> None:
        live = self._open()
        live.from_worker.discard(session)
        live.sessions.count_discard(session.latest, reason)
        self._void(session, reason, events)

    def _void(self, session: Session, reason: str, events: list[VerifierEvent]) -> None:
        """The round is void: end its generation, so that nothing of it can be taken for later, and only then free its buffer."""
        if session.generation == LAST_U32:
            self._end()
            events.append(Ended("generation_exhausted"))
            return
        self._send(reset_message(session, ResetReason.FAULT, session.prefix.ids()))
        self._requests[session.number].let_go()
        events.append(TargetOnly(session.number, session.generation, reason))

    def _send(self, message: Step | Commit | Reset) -> None:
        """Judge `message` as the worker will, apply it, and queue it."""
        live = self._open()
        frame = self._frame(message, live.agreement)
        try:
            live.from_verifier.judge(frame)
        except RemoteProtocolError as error:
            raise as_local(error) from None
        self._queue(frame)

    def _lose_sessions(self) -> None:
        super()._lose_sessions()
        self._hello_deadline = None
        for request in self._requests.values():
            request.let_go()
        self._requests.clear()
        if self._pool is not None:
            # Proposals that consumers retained keep their own view, so the owner can unmap once those are gone.
            self._pool.close()
