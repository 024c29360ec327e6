"""The worker's end: it answers the offer, follows the sessions, and sends proposals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol.counters import CANCELLED, LATE_ANSWER, VERIFIER_DISCARDED
from pp1wire.protocol.endpoint import Buffer, Endpoint, Live
from pp1wire.protocol.events import (
    Agreed,
    Closed,
    Committed,
    Draft,
    Ended,
    Opened,
    Refused,
    ResetTo,
    WorkerEvent,
)
from pp1wire.protocol.negotiation import agree, answer_to, check_own, decode_hello
from pp1wire.protocol.places import Place, as_local
from pp1wire.protocol.session import Session
from pp1wire.protocol.tables import ConnectionEvent, ConnectionState, Role, SessionState
from pp1wire.protocol.worker_messages import RowRun, first_fault
from pp1wire.wire import (
    Agreement,
    Completion,
    CompletionStatus,
    Frame,
    Hello,
    HelloRole,
    HelloStatus,
    RejectCode,
    RemoteProtocolError,
    ReplyBatch,
    Representation,
    Reset,
    ResetReason,
    Step,
    encode_replies,
    rows_checksum,
)

__all__ = ["Worker"]

Row = tuple[npt.NDArray[Any], npt.NDArray[Any]]


class Worker(Endpoint[WorkerEvent]):
    """The end that owns the draft model.

    Feed bytes to `receive`, follow its events, answer each `Draft` with `reply` or `fail`, and send `data_to_send()`. An
    answer may come from a slower thread than the bytes: one for a generation or round that is gone returns False, is counted, and
    sends nothing. The caller serialises the calls. Every call refused with LocalProtocolError changed nothing.

    Args:
        own: this end's HELLO (role answer); its mask names all representations that it can make.
        prefer: which one to name when both ends can do both.
        fits: preflight of this end's real buffers for an agreement (id 0); the offer is refused if it says no.
        draining: refuse every offer.

    Raises:
        LocalProtocolError: `own` is not an accepting answer.
    """

    role: ClassVar[Role] = Role.WORKER

    def __init__(
        self,
        own: Hello,
        *,
        prefer: Representation = Representation.SPARSE,
        fits: Callable[[Agreement], bool] | None = None,
        draining: bool = False,
    ) -> None:
        super().__init__()
        check_own(own, HelloRole.ANSWER)
        self._own = own
        self._prefer = prefer
        self._fits = fits
        self._draining = draining

    # Connection.

    def receive(self, data: Buffer) -> list[WorkerEvent]:
        """Take bytes from the verifier. An offer is answered by itself.

        Raises:
            RemoteProtocolError: of connection scope: the connection is over and every session on it gone. If events came
                before it, they are returned first and the next call raises it; `error` has it at once.
            LocalProtocolError: after the end.
        """
        events: list[WorkerEvent] = []
        return self._receive(data, events)

    def eof(self) -> list[WorkerEvent]:
        """The verifier will send nothing more: every session is forgotten.

        Raises:
            RemoteProtocolError: the bytes ended inside a frame.
        """
        return [Ended("closed")] if self._close_input() else []

    def end(self) -> None:
        """Close the connection from this side: every session is forgotten. Raises LocalProtocolError."""
        self._end()

    # Answers.

    def reply(self, step: Step, tokens: Sequence[int] | npt.NDArray[Any], rows: Sequence[Row]) -> bool:
        """Send a whole proposal: all rows and COMPLETION ok; False if the round is gone.

        Args:
            step: the `Draft` event's.
            tokens: [depth], each drawn from its row with its ticket.
            rows: depth pairs (ids int32 [n], counts int32 [n]) as `pp1wire.sampling` makes them.

        Raises:
            LocalProtocolError: there are not `depth` rows, rows were sent already, or a row is not what was drawn from.
        """
        session = self._awaited(step)
        if session is None:
            return False
        if len(tokens) != step.depth:
            raise LocalProtocolError(f"session {step.session}: expected {step.depth} rows, got {len(tokens)}")
        return self.reply_batch(step, self._batch(step, tokens, rows, 0))

    def reply_batch(self, step: Step, batch: ReplyBatch) -> bool:
        """`reply` with a batch that is already in columns. Raises as `reply`."""
        session = self._awaited(step)
        if session is None:
            return False
        if len(batch) != step.depth or session.latest.rows:
            raise LocalProtocolError(
                f"session {step.session}: expected all {step.depth} rows at once, got {len(batch)}"
            )
        self._send_rows(session, batch)
        self._complete(session, CompletionStatus.OK)
        return True

    def reply_row(self, step: Step, token: int, ids: npt.NDArray[Any], counts: npt.NDArray[Any]) -> bool:
        """Send the next row alone, as soon as it is drawn; False if the round is gone. `complete` follows the last.

        Raises:
            LocalProtocolError: all rows were sent, or the row is not what was drawn from.
        """
        session = self._awaited(step)
        if session is None:
            return False
        self._send_rows(session, self._batch(step, [token], [(ids, counts)], session.latest.rows))
        return True

    def complete(self, step: Step) -> bool:
        """Send COMPLETION ok after the last `reply_row`; False if the round is gone.

        Raises:
            LocalProtocolError: rows are missing.
        """
        session = self._awaited(step)
        if session is None:
            return False
        rows = session.latest.rows
        if rows != step.depth:
            raise LocalProtocolError(
                f"session {step.session}: expected {step.depth} rows before completion, sent {rows}"
            )
        self._complete(session, CompletionStatus.OK)
        return True

    def fail(self, step: Step, status: CompletionStatus) -> bool:
        """End the round without a proposal; rows sent are void. False if the round is gone.

        Raises:
            LocalProtocolError: status ok.
        """
        if status is CompletionStatus.OK:
            raise LocalProtocolError("status: expected a failure, got ok")
        session = self._awaited(step)
        if session is None:
            return False
        self._complete(session, status)
        return True

    # Looking.

    def awaits(self, step: Step) -> bool:
        """Whether an answer to `step` would still be sent."""
        return self._find(step) is not None

    # Inside.

    def _listening_states(self) -> tuple[ConnectionState, ...]:
        return (ConnectionState.START,)

    def _hello(self, frame: Frame, events: list[WorkerEvent]) -> None:
        offer = decode_hello(frame)
        place = Place.of(frame)
        if offer.role is not HelloRole.OFFER:
            raise place.body(RejectCode.WRONG_ROLE, "role", "offer", offer.role.name.lower())
        if offer.nonce == self._own.nonce:
            raise place.body(RejectCode.NONCE_NOT_FRESH, "nonce", "another nonce than this end's", offer.nonce.hex())
        self._enter(ConnectionEvent.OFFER)
        waiting = self._splitter.pending_bytes
        if waiting:
            raise RemoteProtocolError(
                RejectCode.DATA_BEFORE_AGREEMENT, offset=self._splitter.offset, path="frame",
                expected="no byte before the answer", actual=f"{waiting} bytes",
            )  # fmt: skip
        answer = answer_to(offer, self._own, prefer=self._prefer, fits=self._fits, draining=self._draining)
        self._queue(self._frame(answer, None))
        if answer.status is HelloStatus.REFUSED:
            self._enter(ConnectionEvent.REFUSE)
            events.append(Refused(answer.refusal))
            return
        self._go_live(agree(offer, answer))
        events.append(Agreed(self._open().agreement))

    def _frames(self, frames: list[Frame], live: Live, events: list[WorkerEvent]) -> None:
        for frame in frames:
            session = live.sessions.open.get(frame.header.session)
            current = None if session is None else session.open_round()
            message = live.from_verifier.judge(frame)
            if isinstance(message, Step):
                events.append(Draft(message))
            elif isinstance(message, Reset):
                if current is not None:
                    fault = message.reason is ResetReason.FAULT
                    live.sessions.count_discard(current, VERIFIER_DISCARDED if fault else CANCELLED)
                events.append(_reset_event(message))
            else:
                events.append(Committed(message))

    def _find(self, step: Step) -> Session | None:
        if step.session not in self.open_sessions:
            return None
        session = self._session(step.session)
        awaited = session.state is SessionState.DRAFTING and session.generation == step.generation
        if not awaited or session.step_round != step.round:
            return None
        if step != session.latest.step:
            raise LocalProtocolError(
                f"session {step.session}: expected the step that its Draft event gave, got {step!r}"
            )
        return session

    def _awaited(self, step: Step) -> Session | None:
        session = self._find(step)
        if session is None and self._live is not None:
            self._live.sessions.count_drop(step.session, step.generation, step.round, LATE_ANSWER)
        elif session is None:
            self.counters.dropped[LATE_ANSWER] += 1
        return session

    def _batch(
        self, step: Step, tokens: Sequence[int] | npt.NDArray[Any], rows: Sequence[Row], first: int
    ) -> ReplyBatch:
        return ReplyBatch.from_rows(
            self._open().agreement, session=step.session, slot=step.slot, generation=step.generation, round=step.round,
            position=step.position + first, tokens=[int(t) for t in tokens], rows=rows,
        )  # fmt: skip

    def _send_rows(self, session: Session, batch: ReplyBatch) -> None:
        """Judge rows as the verifier will, and queue them."""
        live, current = self._open(), session.latest
        agreement = live.agreement
        identity = (session.number, session.slot, session.generation, current.step.round)
        columns: tuple[npt.NDArray[Any], ...] = (batch.sessions, batch.slots, batch.generations, batch.rounds)
        for value, column, name in zip(identity, columns, ("session", "slot", "generation", "round"), strict=True):
            if bool(np.any(column != value)):
                raise LocalProtocolError(f"reply.{name}: expected {value} in every row")
        frames = encode_replies(
            batch, agreement, self._sequence, out=bytearray(len(batch) * agreement.reply_frame_bytes)
        )
        run = RowRun(session, current, current.rows, 0, len(batch))
        fault = first_fault(batch, [run], [0] * len(batch), agreement)
        if fault is not None:
            raise as_local(fault[1])
        sent = replace(batch, row_checksums=_row_checksums(frames, agreement, len(batch)))
        live.from_worker.record_rows(run, sent, len(batch))
        self._outgoing.append(frames)
        self._sequence += len(batch)

    def _complete(self, session: Session, status: CompletionStatus) -> None:
        live, current = self._open(), session.latest
        completion = Completion(
            session=session.number, slot=session.slot, generation=session.generation, round=current.step.round,
            position=current.step.position, context_version=current.step.context_version,
            reply_bytes=current.reply_bytes, rows_checksum=rows_checksum(current.checksums),
            status=status, rows=current.rows,
        )  # fmt: skip
        self._queue(self._frame(completion, live.agreement))
        live.from_worker.complete(session, completion)


def _row_checksums(frames: Buffer, agreement: Agreement, rows: int) -> npt.NDArray[np.uint64]:
    """The body checksums in `rows` encoded REPLY frames that lie back to back."""
    size = agreement.reply_frame_bytes
    return np.frombuffer(frames, np.uint8, rows * size).reshape(rows, size)[:, 48:56].copy().view("<u8").reshape(rows)


def _reset_event(reset: Reset) -> WorkerEvent:
    if reset.reason is ResetReason.OPEN:
        return Opened(reset.session, reset.slot, reset.generation, reset.prefix_ids)
    if reset.reason is ResetReason.CLOSE:
        return Closed(reset.session, reset.slot)
    return ResetTo(reset.session, reset.slot, reset.generation, reset.reason, reset.prefix_ids)
