"""One verifier's connection to a worker: bytes to the core, rounds to threads, proposals back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from pp1wire.errors import PP1Error
from pp1wire.net.differences import PeerHello, differences
from pp1wire.net.drafting import Drafter, DraftFailed, Superseded
from pp1wire.net.errors import drop_frames, summary
from pp1wire.net.link import Link
from pp1wire.net.logs import EventLog
from pp1wire.net.models import DraftModel
from pp1wire.net.notice_log import NoticeLog, reject_fields
from pp1wire.net.stages import Stages
from pp1wire.net.tap import Tap
from pp1wire.net.terms import Terms
from pp1wire.protocol import (
    Agreed,
    Closed,
    ConnectionState,
    Draft,
    Ended,
    Opened,
    Refused,
    ResetTo,
    Role,
    Worker,
    WorkerEvent,
)
from pp1wire.sampling import HostSampler
from pp1wire.wire import Agreement, CompletionStatus, HelloRole, RefusalReason, Representation, Step

__all__ = ["WorkerConnection", "WorkerOptions"]

_RECEIVE_BYTES = 1 << 16  # a verifier's messages are small, but for prefixes
_WHY = {"no_hello": "no HELLO came in time", "unread": "the verifier does not read its proposals"}
_MOST_JOBS = 8  # rounds at work, or given up but not ended yet, above which no more is read


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What all connections of a server share; `WorkerServer` says what each means."""

    model: DraftModel
    terms: Terms
    executor: Executor
    prefer: Representation
    fits: Callable[[Agreement], bool] | None
    hello_timeout: float
    write_timeout: float
    tap: Tap | None
    sampler: HostSampler
    log: EventLog = field(default_factory=lambda: EventLog("worker"))
    stages: Stages = field(default_factory=lambda: Stages("draft", "encode"))


@dataclass(slots=True)
class _Session:
    drafter: Drafter
    wanted: Step | None = None
    """The round that an answer would still be for; a thread that works on another one stops."""
    job: asyncio.Task[None] | None = None


class WorkerConnection:
    """Serves one verifier.

    Args:
        options: the server's.
        refuse: answer the offer with `capacity`, because the server is full.
        on_end: told when socket and threads are done with this connection.
    """

    def __init__(self, options: WorkerOptions, *, refuse: bool, on_end: Callable[[WorkerConnection], None]) -> None:
        self._own = options.terms.hello(HelloRole.ANSWER)
        self._offer = PeerHello(self._own)
        self.core = Worker(self._own, prefer=options.prefer, fits=self._fits)
        self.link = Link(self, is_client=False, tap=options.tap, receive_bytes=_RECEIVE_BYTES)
        self._options = options
        self._refuse = refuse
        self._on_end = on_end
        self._agreement: Agreement | None = None
        self._sessions: dict[int, _Session] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False
        self._lost = False
        self._told_end = False
        self.core.watch = NoticeLog(options.log, Role.WORKER, lambda: self.link.peer)

    async def drain(self, grace: float) -> None:
        """Take no new rounds, finish the open ones for up to `grace` seconds, tell the rest, and close."""
        self._draining = True
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=grace)
        for session in self._sessions.values():
            if session.wanted is not None:
                self.core.fail(session.wanted, CompletionStatus.DRAINING)
                session.wanted = None
        self._flush()
        self.link.close()
        await self.link.wait_closed()
        # A thread that is still in the model cannot be stopped; its answer will find nobody.
        for job in self._jobs:
            job.cancel()
        if self._jobs:
            await asyncio.wait(self._jobs)

    # What the link tells.

    def link_made(self) -> None:
        """Give the verifier a while to say HELLO."""
        self._tell(logging.DEBUG, "connection_opened", "connected")
        self._start_timer(self._options.hello_timeout, "no_hello")

    def link_received(self, data: memoryview) -> None:
        """Judge bytes, follow the events, answer."""
        if self._agreement is None:
            self._offer.feed(data)
        try:
            events = self.core.receive(data)
        except PP1Error as error:
            self._fail(error)
            return
        for event in events:
            self._follow(event)
        self._flush()
        if self.core.error is not None:
            self._fail(self.core.error)
        elif self.core.state is ConnectionState.ENDED:
            self.link.close()
        for session in list(self._sessions.values()):
            self._start_job(session)

    def link_eof(self) -> None:
        """The verifier is done, or gone: forget its sessions."""
        try:
            self.core.eof()
        except PP1Error as error:
            self._tell_failed(error)
        self._forget()

    def link_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        if self._told_end:
            pass
        elif error is not None:
            self._tell(logging.INFO, "connection_lost", f"connection lost: {summary(error)}")
        else:
            self._tell(logging.DEBUG, "connection_closed", "closed", reason="ended")
        self._lost = True
        self._stop_timer()
        if self.core.state not in (ConnectionState.ENDED, ConnectionState.FAILED):
            self.core.end()
        self._forget()
        self._maybe_end()

    def link_congested(self, congested: bool) -> None:
        """While the verifier does not read, take no more orders from it, and not for ever."""
        if congested:
            self.link.hold("write")
            self._start_timer(self._options.write_timeout, "unread")
        else:
            self._stop_timer()
            self.link.release("write")

    def link_unrecorded(self, why: str) -> None:
        """The tap failed."""
        self._tell(logging.WARNING, "recording_failed", why)

    # Events.

    def _fits(self, agreement: Agreement) -> bool:
        if self._refuse:
            return False
        try:
            return self._options.fits is None or bool(self._options.fits(agreement))
        except Exception as error:  # noqa: BLE001 - a user's preflight may raise anything; then it has not said yes
            self._tell(logging.WARNING, "preflight_failed", f"preflight raised {summary(error)}")
            return False

    def _follow(self, event: WorkerEvent) -> None:
        if isinstance(event, Draft) and self._draining:
            self.core.fail(event.step, CompletionStatus.DRAINING)
        elif isinstance(event, Draft):
            self._sessions[event.session].wanted = event.step
        elif isinstance(event, ResetTo):
            self._sessions[event.session].wanted = None
        elif isinstance(event, Opened) and self._agreement is not None:
            self._sessions[event.session] = _Session(
                Drafter(self._options.model, self._agreement, self._options.sampler)
            )
        elif isinstance(event, Closed):
            self._sessions.pop(event.session).wanted = None
        elif isinstance(event, Agreed):
            self._stop_timer()
            self._agreement = event.agreement
            name = event.agreement.representation.name.lower()
            self._tell(logging.INFO, "agreed", f"agreed on {name} rows", representation=name)
        elif isinstance(event, Refused):
            self._stop_timer()
            text = f"offer refused: {self._why(event.reason)}"
            self._tell(logging.WARNING, "offer_refused", text, reason=event.reason.name.lower())
        elif isinstance(event, Ended):
            self._forget()

    def _why(self, reason: RefusalReason) -> str:
        if self._refuse and reason is RefusalReason.CAPACITY:
            return "the server is full"
        unequal = differences(reason, self._own, self._offer.read())
        return reason.name.lower() + (f": {unequal}" if unequal else "")

    # Rounds.

    def _start_job(self, session: _Session) -> None:
        if session.wanted is None or session.job is not None:
            return
        session.job = job = asyncio.get_running_loop().create_task(self._work(session))
        self._jobs.add(job)
        job.add_done_callback(self._job_done)
        if len(self._jobs) >= _MOST_JOBS:
            self.link.hold("work")

    def _job_done(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if len(self._jobs) < _MOST_JOBS:
            self.link.release("work")
        self._maybe_end()

    async def _work(self, session: _Session) -> None:
        """Draft whatever the session wants, one round at a time: its model state serves one thread."""
        try:
            while (step := session.wanted) is not None:
                await self._round(session, step)
                if session.wanted is step:
                    session.wanted = None
                self._flush()
        finally:
            session.job = None

    async def _round(self, session: _Session, step: Step) -> None:
        start = time.perf_counter()
        try:
            batch = await asyncio.get_running_loop().run_in_executor(
                self._options.executor,
                session.drafter.draft,
                step,
                self.core.prefix_ids(step.session),
                lambda: session.wanted is not step,
            )
        except Superseded:
            return
        except DraftFailed as error:
            self._give_up(step, error.status, error)
            return
        self._options.stages.add("draft", time.perf_counter() - start)
        try:
            with self._options.stages.timed("encode"):
                self.core.reply_batch(step, batch)
        except PP1Error as error:
            self._give_up(step, CompletionStatus.INTERNAL, error)

    def _give_up(self, step: Step, status: CompletionStatus, error: Exception) -> None:
        where = f"session {step.session} generation {step.generation} round {step.round}"
        name = status.name.lower()
        fields = {"session": step.session, "generation": step.generation, "round": step.round, "reason": name}
        self._tell(logging.WARNING, "draft_failed", f"{where}: {name}: {summary(error)}", **fields)
        # Where in the model it happened is for whoever looks for it: a bad draft would fill the log with tracebacks.
        cause = error.__cause__ or error
        self._tell(logging.DEBUG, "draft_traceback", f"{where}: traceback", exc_info=cause, **fields)
        self.core.fail(step, status)

    # Ends.

    def _flush(self) -> None:
        self.link.send(self.core.buffers_to_send())

    def _fail(self, error: Exception) -> None:
        self._tell_failed(error)
        self._forget()
        self.link.close()

    def _tell(self, level: int, event: str, text: str, **fields: Any) -> None:
        self._options.log.tell(level, event, text, peer=self.link.peer, **fields)

    def _tell_failed(self, error: Exception) -> None:
        self._told_end = True
        self._tell(logging.WARNING, "connection_failed", f"closed: {summary(error)}", **reject_fields(error))
        drop_frames(error)  # the core keeps it

    def _forget(self) -> None:
        for session in self._sessions.values():
            session.wanted = None
        self._sessions.clear()

    def _maybe_end(self) -> None:
        if self._lost and not self._jobs:
            self._on_end(self)

    def _start_timer(self, seconds: float, why: str) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._time_out, why)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, why: str) -> None:
        self._told_end = True
        self._tell(logging.WARNING, "connection_closed", f"closed: {_WHY[why]}", reason=why)
        self._forget()
        self.link.abort()
