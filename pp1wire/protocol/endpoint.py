"""What both ends share: the state of the connection, bytes in and out, and the one place where an error becomes final."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.protocol.compose import unsigned
from pp1wire.protocol.counters import CONNECTION_LOST, Counters
from pp1wire.protocol.notices import Notice, Watch
from pp1wire.protocol.session import Session, Sessions
from pp1wire.protocol.tables import CONNECTION, ConnectionEvent, ConnectionState, Role, SessionState
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.protocol.worker_messages import WorkerMessages
from pp1wire.wire import (
    Agreement,
    Frame,
    FrameSplitter,
    RemoteProtocolError,
    encode,
)
from pp1wire.wire import Message as WireMessage
from pp1wire.wire.frames import contiguous

__all__ = ["Buffer", "Endpoint", "Live"]

Buffer = bytes | bytearray | memoryview
Event = TypeVar("Event")


@dataclass(frozen=True, slots=True)
class Live:
    """What an end has once there is an agreement: the sessions, and a judge for each direction."""

    agreement: Agreement
    sessions: Sessions
    from_verifier: VerifierMessages
    from_worker: WorkerMessages


class Endpoint(ABC, Generic[Event]):
    """One end of one connection, without I/O, clocks or randomness: bytes and times go in, bytes and events come out."""

    role: ClassVar[Role]

    def __init__(self) -> None:
        self.counters = Counters()
        self.state = ConnectionState.START
        self.error: RemoteProtocolError | None = None
        """What ended the connection, if a fault did; every later `receive` raises it."""
        self.watch: Watch | None = None
        """Who hears of discards, drops and RESETs, beside the events."""
        self._splitter = FrameSplitter(None, 0)
        self._sequence = 0
        self._outgoing: list[bytes | memoryview] = []
        self._live: Live | None = None

    @property
    def agreement(self) -> Agreement | None:
        """The connection's, once the HELLOs are settled."""
        return None if self._live is None else self._live.agreement

    @property
    def is_open(self) -> bool:
        """Whether there is an agreement, and no end yet."""
        return self._live is not None and self.state is ConnectionState.OPEN

    # Bytes out.

    @property
    def has_data_to_send(self) -> bool:
        """Whether `data_to_send` would return anything."""
        return bool(self._outgoing)

    def data_to_send(self) -> bytes:
        """Everything queued, as one piece; it is the caller's to send, in this order."""
        return b"".join(self.buffers_to_send())

    def buffers_to_send(self) -> list[bytes | memoryview]:
        """Everything queued, in pieces, without copying rows: for `writelines` or `sendmsg`."""
        pieces, self._outgoing = self._outgoing, []
        self.counters.bytes_sent += sum(len(piece) for piece in pieces)
        return pieces

    # Bytes in.

    def _receive(self, data: Buffer, events: list[Event]) -> list[Event]:
        """Judge `data`; the events before an error are returned, and the error is raised by the next call."""
        self._raise_error()
        self._require(ConnectionState.OFFERED, ConnectionState.OPEN, *self._listening_states())
        self.counters.bytes_received += memoryview(data).nbytes
        try:
            self._split(data, events)
        except RemoteProtocolError as error:
            self._fail(error.with_traceback(None))
        # Behind `del`, as a traceback keeps what this function names.
        del data
        if not events:
            self._raise_error()
        return events

    def _split(self, data: Buffer, events: list[Event]) -> None:
        if self._live is None:
            frames = self._splitter.feed(data)
            if frames:
                self._hello(frames[0], events)
            if self._splitter.agreement is None:
                return
            # The splitter stops behind a HELLO, because the bounds of what follows are known only with the agreement.
            data = self._splitter.behind_hello()
        view, used = contiguous(data), 0
        while used < len(view) and self._splitter.error is None and self.state is ConnectionState.OPEN:
            # Some frames at a time: small ones are much larger as objects.
            frames, taken = self._splitter.take(view[used:])
            used += taken
            if frames:
                self._frames(frames, self._open(), events)
        if self._splitter.error is not None and self.state is ConnectionState.OPEN:
            raise self._splitter.error

    def _go_live(self, agreement: Agreement) -> None:
        self._enter(ConnectionEvent.ACCEPT)
        self._splitter.agreement = agreement
        sessions = Sessions(agreement, self.counters, keep_ids=True, watch=self._tell)
        self._live = Live(agreement, sessions, VerifierMessages(sessions), WorkerMessages(sessions))

    def _listening_states(self) -> Iterable[ConnectionState]:
        """States besides OFFERED and OPEN in which this end reads."""
        return ()

    @abstractmethod
    def _hello(self, frame: Frame, events: list[Event]) -> None:
        """Take the peer's HELLO."""

    @abstractmethod
    def _frames(self, frames: list[Frame], live: Live, events: list[Event]) -> None:
        """Take frames of an open connection."""

    # The end.

    def _close_input(self) -> bool:
        """The peer will send nothing more; whether that ended the connection. Raises RemoteProtocolError if a frame is cut."""
        self._raise_error()
        if self.state is ConnectionState.ENDED:
            return False
        try:
            self._splitter.close()
        except RemoteProtocolError as error:
            self._fail(error)
            raise
        self._end()
        return True

    def _raise_error(self) -> None:
        if self.error is not None:
            # Without the traceback of the time before, which would grow with every call.
            raise self.error.with_traceback(None)

    def _end(self) -> None:
        self._enter(ConnectionEvent.END)
        self._lose_sessions()

    def _fail(self, error: RemoteProtocolError) -> None:
        self.error = error
        self.counters.failures[error.code.name.lower()] += 1
        self._enter(ConnectionEvent.FAIL)
        self._outgoing.clear()
        self._lose_sessions()

    def _lose_sessions(self) -> None:
        """Every session of the connection is gone, and with it the round that was open."""
        if self._live is None:
            return
        for session in self._live.sessions.open.values():
            current = session.open_round()
            if current is not None:
                self.counters.unused += session.state is SessionState.READY
                self._live.sessions.count_discard(current, CONNECTION_LOST)

    def _tell(self, notice: Notice) -> None:
        if self.watch is not None:
            self.watch(notice)

    # Helpers.

    @property
    def open_sessions(self) -> tuple[int, ...]:
        """Numbers of the sessions that are open; none once the connection is over."""
        return tuple(self._live.sessions.open) if self._live is not None and self.state is ConnectionState.OPEN else ()

    @property
    def open_rounds(self) -> tuple[int, int]:
        """Rounds open now: without a whole proposal yet, and with one that waits for its COMMIT."""
        if self._live is None or self.state is not ConnectionState.OPEN:
            return 0, 0
        states = [session.state for session in list(self._live.sessions.open.values())]
        return states.count(SessionState.DRAFTING), states.count(SessionState.READY)

    def imbalance(self) -> list[str]:
        """The equations between the counters that are broken; see `Counters.imbalance`. Always none."""
        drafting, ready = self.open_rounds
        return self.counters.imbalance(self.role, drafting=drafting, ready=ready)

    def prefix_ids(self, session: int) -> npt.NDArray[np.int32]:
        """The session's committed prefix, int32 [n]. Raises LocalProtocolError if it is not open."""
        return self._session(session).prefix.ids()

    def session_state(self, session: int) -> SessionState:
        """The session's state; CLOSED or ABSENT if it is not open, or the connection is over."""
        if session in self.open_sessions:
            return self._session(session).state
        was_open = self._live is not None and 0 < session <= self._live.sessions.last
        return SessionState.CLOSED if was_open else SessionState.ABSENT

    def _enter(self, event: ConnectionEvent) -> None:
        following = CONNECTION[self.role][self.state].get(event)
        if following is None:
            raise LocalProtocolError(f"the {self.role} cannot {event} in state {self.state}")
        self.state = following
        self.counters.states[f"connection.{following}"] += 1

    def _require(self, *states: ConnectionState) -> None:
        if self.state not in states:
            raise LocalProtocolError(f"expected a connection in state {' or '.join(states)}, but it is {self.state}")

    def _open(self) -> Live:
        """What an open connection has. Raises LocalProtocolError."""
        if self._live is None or self.state is not ConnectionState.OPEN:
            raise LocalProtocolError(f"expected an open connection, but it is {self.state}")
        return self._live

    def _session(self, number: int) -> Session:
        """An open session. Raises LocalProtocolError."""
        sessions = self._open().sessions.open
        number = unsigned(number, 64, "session")
        if number not in sessions:
            raise LocalProtocolError(
                f"session {number} is not open; open are {', '.join(map(str, sessions)) or 'none'}"
            )
        return sessions[number]

    def _frame(self, message: WireMessage, agreement: Agreement | None) -> Frame:
        """`message` encoded as the next frame to send, ready to be judged as its receiver will."""
        data = memoryview(encode(message, agreement, self._sequence))
        return FrameSplitter(agreement, self._sequence).feed(data)[0]

    def _queue(self, frame: Frame) -> None:
        self._outgoing.append(frame.data)
        self._sequence += 1
