"""A passive judge of both directions of one connection, in the order in which they were captured.

It runs the very functions that the two ends run. What it cannot see (deadlines, the verifier's coins) it does not judge; what
crossed on the wire it knows: an answer that a RESET overtook is stale, not wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from pp1wire.protocol.counters import Counters
from pp1wire.protocol.endpoint import Live
from pp1wire.protocol.judge_batch import Piece, judge_batch
from pp1wire.protocol.judged import Direction, Judged
from pp1wire.protocol.negotiation import agree, decode_hello
from pp1wire.protocol.places import Place
from pp1wire.protocol.session import Sessions
from pp1wire.protocol.tables import CONNECTION, ConnectionEvent, ConnectionState, Role
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.protocol.worker_messages import Completed, Outcome, RowsAccepted, WorkerMessages
from pp1wire.wire import (
    Agreement,
    Frame,
    FrameSplitter,
    Hello,
    HelloRole,
    HelloStatus,
    RejectCode,
    RemoteProtocolError,
)

__all__ = ["Conversation"]


class Conversation:
    """Judges one connection.

    A fault of proposal scope costs its round, a stale message nothing, and both directions go on. A fault of
    connection scope is told once, and that direction is judged no further; the other one then only as far as it can be
    without it: a worker's messages not at all, a verifier's without the proposals that its COMMITs refer to, and neither
    before there is an agreement.

    Args:
        agreement: None to begin with the HELLOs; otherwise the stream was joined behind them, and the first frame of
            each direction may have any sequence number.
        worker_seen: False if only the verifier's direction will be fed.
        keep_ids: whether `sessions` hold the committed ids themselves, 4 bytes each, for who recomputes rows.
    """

    def __init__(self, agreement: Agreement | None = None, *, worker_seen: bool = True, keep_ids: bool = False) -> None:
        self.state = ConnectionState.START
        self.counters = Counters()
        """As an end would count; bytes_sent are the verifier's, bytes_received the worker's."""
        self.unjudged = 0
        """Frames that could not be judged, because the other direction failed or has a gap."""
        number = 0 if agreement is None else None
        self._splitters = {direction: FrameSplitter(agreement, number) for direction in Direction}
        self._dead: set[Direction] = set()
        self._offer: Hello | None = None
        self._live: Live | None = None
        self._worker_seen = worker_seen
        self._keep_ids = keep_ids
        if agreement is not None:
            self.state = ConnectionState.OPEN
            self._go_live(agreement)

    @property
    def agreement(self) -> Agreement | None:
        """The connection's, once both HELLOs have passed."""
        return None if self._live is None else self._live.agreement

    @property
    def sessions(self) -> Sessions | None:
        """The sessions as they stand, once there is an agreement; look, do not touch."""
        return None if self._live is None else self._live.sessions

    def feed(self, direction: Direction, data: bytes | bytearray | memoryview) -> list[Judged]:
        """Take the next bytes of one direction; everything that they settle, in order."""
        if direction is Direction.VERIFIER:
            self.counters.bytes_sent += memoryview(data).nbytes
        else:
            self.counters.bytes_received += memoryview(data).nbytes
        verdicts: list[Judged] = []
        if direction in self._dead:
            return verdicts
        try:
            self._feed(direction, data, verdicts)
        except RemoteProtocolError as error:
            verdicts.append(self._kill(direction, error))
        return verdicts

    def feed_together(self, pieces: Sequence[Piece], *, each_row: bool = False) -> list[tuple[int, Judged]] | None:
        """What `feed` would say of many pieces, each with the index of the piece that settles it, at a fraction of the cost.

        None, and nothing has happened, unless all is as it should be: then `feed` them one by one. Nor is anything said before
        there is an agreement, or behind a fault.

        Args:
            pieces: in the order in which they were captured.
            each_row: one verdict a row in place of one for all rows of a round, at the first.
        """
        if self._live is None or self._dead:
            return None
        verifier, worker = (self._splitters[direction] for direction in Direction)
        found = judge_batch(self._live, verifier, worker, pieces, each_row=each_row)
        if found is not None:
            for direction, data in pieces:
                if direction is Direction.VERIFIER:
                    self.counters.bytes_sent += len(data)
                else:
                    self.counters.bytes_received += len(data)
        return found

    def in_progress(self, direction: Direction) -> tuple[int, int | None, bytes]:
        """Where in the stream the frame in progress begins, its sequence number (None: any), and what is there of it."""
        splitter = self._splitters[direction]
        return splitter.offset, splitter.next_sequence, splitter.held

    def close(self, direction: Direction) -> list[Judged]:
        """The direction ends here: a frame that is cut is a fault."""
        if direction in self._dead:
            return []
        try:
            self._splitters[direction].close()
        except RemoteProtocolError as error:
            return [self._kill(direction, error)]
        return []

    def lose(self, direction: Direction) -> None:
        """Bytes of this direction are missing, so it and what depends on it are judged no further; no fault is told."""
        self._dead.add(direction)
        if direction is Direction.WORKER:
            self._worker_seen = False
            if self._live is not None:
                self._live.from_verifier.answers_seen = False

    def _feed(self, direction: Direction, data: bytes | bytearray | memoryview, verdicts: list[Judged]) -> None:
        splitter = self._splitters[direction]
        if self._live is None and self._dead:
            # Without both HELLOs nothing can be said of this side that the other's fault might not explain.
            return
        if self._live is None and self._offer is not None and direction is Direction.VERIFIER and len(data):
            raise self._early(splitter.offset, len(data))
        frames = splitter.feed(data)
        if self._live is None and frames:
            frames = self._negotiate(direction, frames[0], verdicts)
        if self._live is not None:
            self._judge(direction, frames, self._live, verdicts)
        if splitter.error is not None:
            raise splitter.error

    def _negotiate(self, direction: Direction, frame: Frame, verdicts: list[Judged]) -> list[Frame]:
        self._hello(direction, frame, verdicts)
        # The splitter stops behind a HELLO, because the bounds of what follows are known only with the agreement.
        return [] if self._live is None else self._splitters[direction].feed(b"")

    def _hello(self, direction: Direction, frame: Frame, verdicts: list[Judged]) -> None:
        event = ConnectionEvent.OFFER if direction is Direction.VERIFIER else ConnectionEvent.ACCEPT
        if event not in CONNECTION[Role.WORKER][self.state]:
            raise self._unexpected(frame)
        message = decode_hello(frame)
        verdict = Judged(direction, frame.offset, message)
        if direction is Direction.VERIFIER:
            if message.role is not HelloRole.OFFER:
                raise Place.of(frame).body(RejectCode.WRONG_ROLE, "role", "offer", message.role.name.lower())
            self._enter(ConnectionEvent.OFFER)
            self._offer = message
            verdicts.append(verdict)
            waiting = self._splitters[direction].pending_bytes
            if waiting:
                raise self._early(self._splitters[direction].offset, waiting)
            return
        if message.status is HelloStatus.REFUSED:
            self._enter(ConnectionEvent.REFUSE)
        agreement = agree(self._offered(), message)
        self._enter(ConnectionEvent.ACCEPT)
        verdicts.append(verdict)
        for splitter in self._splitters.values():
            splitter.agreement = agreement
        self._go_live(agreement)

    def _judge(self, direction: Direction, frames: list[Frame], live: Live, verdicts: list[Judged]) -> None:
        if direction is Direction.VERIFIER:
            verdicts.extend(Judged(direction, frame.offset, live.from_verifier.judge(frame)) for frame in frames)
        elif Direction.VERIFIER in self._dead:
            self.unjudged += len(frames)
        else:
            verdicts.extend(_worker_verdict(outcome) for outcome in live.from_worker.judge(frames))

    def _go_live(self, agreement: Agreement) -> None:
        sessions = Sessions(agreement, self.counters, keep_ids=self._keep_ids)
        messages = VerifierMessages(sessions, answers_seen=self._worker_seen)
        self._live = Live(agreement, sessions, messages, WorkerMessages(sessions))

    def _kill(self, direction: Direction, error: RemoteProtocolError) -> Judged:
        self.lose(direction)
        self.counters.failures[error.code.name.lower()] += 1
        if self._live is None and ConnectionEvent.FAIL in CONNECTION[Role.WORKER][self.state]:
            self._enter(ConnectionEvent.FAIL)
        return Judged(direction, error.offset, error=error)

    def _enter(self, event: ConnectionEvent) -> None:
        self.state = CONNECTION[Role.WORKER][self.state][event]
        self.counters.states[f"connection.{self.state}"] += 1

    def _offered(self) -> Hello:
        if self._offer is None:
            raise RuntimeError(f"state {self.state} without an offer")
        return self._offer

    def _unexpected(self, frame: Frame) -> RemoteProtocolError:
        expected = f"nothing from this side in state {self.state}"
        return Place.of(frame).header(
            RejectCode.UNEXPECTED_MESSAGE, "message_type", expected, frame.header.message_type.name
        )

    def _early(self, offset: int, waiting: int) -> RemoteProtocolError:
        return RemoteProtocolError(
            RejectCode.DATA_BEFORE_AGREEMENT,
            offset=offset,
            path="frame",
            expected="no byte before an accepting answer",
            actual=f"{waiting} bytes",
        )


def _worker_verdict(outcome: Outcome) -> Judged:
    if isinstance(outcome, RowsAccepted):
        return Judged(
            Direction.WORKER,
            outcome.offset,
            batch=outcome.batch,
            start=outcome.start,
            stop=outcome.stop,
            step=outcome.session.latest.step,
        )
    if isinstance(outcome, Completed):
        return Judged(Direction.WORKER, outcome.offset, outcome.completion, step=outcome.session.latest.step)
    return Judged(Direction.WORKER, outcome.offset, error=outcome.error)
