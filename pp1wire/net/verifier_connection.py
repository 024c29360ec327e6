"""One connection to a worker: a socket, the verifier's core, its deadlines, and who waits for which proposal."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, TypeAlias

from pp1wire.errors import LocalProtocolError, PP1Error
from pp1wire.net.address import Address, TcpAddress
from pp1wire.net.differences import PeerHello, differences
from pp1wire.net.errors import ConnectError, drop_frames, summary
from pp1wire.net.link import Link
from pp1wire.net.logs import EventLog
from pp1wire.net.notice_log import NoticeLog, reject_fields
from pp1wire.net.sockets import connect_error, connected_socket
from pp1wire.net.stages import Stages
from pp1wire.net.tap import Tap
from pp1wire.net.tls import is_refusal
from pp1wire.protocol import (
    Agreed,
    ConnectionState,
    Ended,
    Proposal,
    ProposalReady,
    Role,
    TargetOnly,
    Verifier,
    VerifierEvent,
)
from pp1wire.wire import Agreement, Hello, RejectCode, RemoteProtocolError

__all__ = ["Outcome", "VerifierConnection"]

Outcome: TypeAlias = Proposal | TargetOnly | None
"""What comes of a STEP; None if the connection was lost. A proposal is retained once, for the waiter to release."""

_ADVICE = {
    "vocabulary": "both ends need one vocabulary size and one padded size",
    "id_map": "both ends need one tokenizer",
    "draft": "both ends must name one draft checkpoint, revision and origin",
    "target": "both ends must name one target",
    "representation": "the two ends have no representation of rows in common",
    "capacity": "it is full, or its buffers are too small; try later, another worker, or smaller terms",
    "draining": "it is shutting down; try another worker",
}
_PASSING = ("capacity", "draining")
# What a network makes of a good HELLO that it cuts or damages; the first two are also what other protocols look like.
_FOREIGN = (RejectCode.BAD_MAGIC, RejectCode.UNSUPPORTED_VERSION)
_DAMAGED = (RejectCode.TRUNCATED, RejectCode.HEADER_CHECKSUM_MISMATCH, RejectCode.BODY_CHECKSUM_MISMATCH)
_WHY = {
    "unread": "the worker does not read what it is sent",
    "generation_exhausted": "a request came to the last generation that there is",
}


class VerifierConnection:
    """A connection that a verifier makes; `connect`, then sessions on `core`, then `close`.

    Args:
        address: the worker's.
        offer: this end's HELLO.
        hello_timeout, step_timeout: seconds, on the event loop's clock.
        tap: hears both directions.
        stages: where decoding is timed.
        log: the client's.
        accepted_before: whether a worker at this address was agreed with before: then more of what fails may pass.
        on_lost: told once that every session here is gone, after their waiters were.
    """

    def __init__(
        self,
        address: Address,
        offer: Hello,
        *,
        hello_timeout: float,
        step_timeout: float,
        tap: Tap | None,
        stages: Stages,
        log: EventLog,
        accepted_before: bool,
        on_lost: Callable[[VerifierConnection], None],
    ) -> None:
        self.address = address
        self._own = offer
        self._answer = PeerHello(offer)
        self.core = Verifier(offer, hello_timeout=hello_timeout, step_timeout=step_timeout)
        self.core.watch = NoticeLog(log, Role.VERIFIER, lambda: str(address))
        self._log = log
        self.lost_for = "ended by the worker"
        """Why the connection is over, once it is: one line for people."""
        self.link = Link(self, is_client=True, tap=tap)
        self._loop = asyncio.get_running_loop()
        self._hello_timeout = hello_timeout
        self._step_timeout = step_timeout
        self._stages = stages
        self._accepted_before = accepted_before
        self._on_lost = on_lost
        # An error is a result here, too: nobody may be left to await it when it comes.
        self._agreed: asyncio.Future[Agreement | ConnectError] = self._loop.create_future()
        self._agreement: Agreement | None = None
        self._waiters: dict[int, asyncio.Future[Outcome]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._flush_handle: asyncio.Handle | None = None
        self._gone = False
        self._tls = False

    @property
    def is_live(self) -> bool:
        """Whether sessions can be opened and go on here."""
        return not self._gone and self.core.state is ConnectionState.OPEN

    @property
    def agreement(self) -> Agreement:
        """The connection's, once connected."""
        if self._agreement is None:
            raise LocalProtocolError(f"{self.address}: no agreement yet")
        return self._agreement

    async def connect(self, timeout: float, tls: ssl.SSLContext | None, server_hostname: str | None) -> None:
        """Connect, and settle the HELLOs.

        Raises:
            ConnectError: no socket, no TLS, or no agreement; the socket is closed then.
        """
        self._tls = tls is not None
        default_name = self.address.host if isinstance(self.address, TcpAddress) else "localhost"
        try:
            async with asyncio.timeout(timeout):
                make = (
                    self._loop.create_connection
                    if isinstance(self.address, TcpAddress)
                    else self._loop.create_unix_connection
                )
                await make(
                    lambda: self.link,
                    sock=await connected_socket(self.address),
                    ssl=tls,
                    server_hostname=(server_hostname or default_name) if tls else None,
                    ssl_handshake_timeout=timeout if tls else None,
                )
        except (OSError, UnicodeError) as error:
            raise connect_error(self.address, error, tls=self._tls, accepted_before=self._accepted_before) from None
        try:
            settled = await self._agreed
        except asyncio.CancelledError:
            self.link.abort()
            raise
        if isinstance(settled, ConnectError):
            raise settled
        if self._gone:
            raise ConnectError(f"{self.address}: the connection was lost at once", retryable=True)

    async def close(self) -> None:
        """Write what is queued, then end; every session is gone."""
        self.flush()
        self.link.close()
        if not self._gone:
            self._tell(logging.DEBUG, "connection_closed", "closed: ended here", reason="ended")
        self._lose()
        await self.link.wait_closed()

    # What requests do, besides what they do with `core`.

    def wait_for(self, session: int) -> asyncio.Future[Outcome]:
        """What will come of the STEP that was just queued for `session`; sends it."""
        waiter = self._waiters[session] = self._loop.create_future()
        self.flush()
        return waiter

    def cancel(self, session: int) -> int:
        """Nobody waits for `session` any more: give its round up; the new generation."""
        self._waiters.pop(session, None)
        generation = self.core.cancel(session)
        self.flush_soon()
        return generation

    def close_session(self, session: int) -> None:
        """The request is over: end its session, and whoever waits for its round hears that there is none."""
        self.core.close(session)
        self.flush_soon()
        self._settle(session, None)

    async def ready_for_more(self) -> None:
        """Return once the worker has read enough of what was sent; one that does not is given up, like a late STEP."""
        if not self.link.is_congested:
            return
        try:
            async with asyncio.timeout(self._step_timeout):
                await self.link.drained()
        except TimeoutError:
            self.give_up("unread")

    def flush_soon(self) -> None:
        """Send what is queued at the end of this turn of the loop, so that a COMMIT and the next STEP share one write."""
        if self._flush_handle is None:
            self._flush_handle = self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what is queued, and watch the deadlines that came with it."""
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        if self._gone:
            return
        self.link.send(self.core.buffers_to_send())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.core.next_deadline()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def give_up(self, why: str) -> None:
        """Drop the connection for a reason of this side: `unread`, or that of an `Ended`."""
        if not self._gone:
            self.lost_for = _WHY.get(why, why)
            self._tell(logging.WARNING, "connection_closed", f"closed: {self.lost_for}", reason=why)
            self.link.abort()
            self._lose()

    # What the link tells.

    def link_made(self) -> None:
        """Offer."""
        self.core.start(self._loop.time())
        self.flush()

    def link_received(self, data: memoryview) -> None:
        """Judge bytes, tell who waits, answer."""
        if self._gone:
            return
        if self._agreement is None:
            self._answer.feed(data)
        try:
            with self._stages.timed("decode"):
                events = self.core.receive(data, self._loop.time())
        except PP1Error as error:
            self._fail(error)
            return
        self._follow(events)
        if self.core.error is not None:
            self._fail(self.core.error)

    def link_eof(self) -> None:
        """The worker is done, or gone."""
        if self._gone:
            return
        try:
            self.core.eof()
        except PP1Error as error:
            self._fail(error)
        else:
            self._lose(self._no_answer("closed the connection without an answer"))

    def link_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        what = "closed the connection without an answer"
        if error is not None:
            reason = str(getattr(error, "reason", None) or summary(error))
            what = f"connection lost: {reason}"
            self.lost_for = self.lost_for if self._gone else reason
        self._lose(self._no_answer(what, refused=is_refusal(error)))

    def link_congested(self, congested: bool) -> None:
        """Requests ask `ready_for_more` before they send, so nothing is to be done here."""

    def link_unrecorded(self, why: str) -> None:
        """The tap failed."""
        self._tell(logging.WARNING, "recording_failed", why)

    # Inside.

    def _check_deadlines(self) -> None:
        self._timer = None
        if not self._gone:
            self._follow(self.core.check_deadlines(self._loop.time()))

    def _follow(self, events: list[VerifierEvent]) -> None:
        for event in events:
            if isinstance(event, ProposalReady):
                self._settle(event.session, self._retained(event.proposal))
            elif isinstance(event, TargetOnly):
                self._settle(event.session, event)
            elif isinstance(event, Agreed):
                self._agreement = event.agreement
                self._settle_hello(event.agreement)
            elif isinstance(event, Ended):
                self._over(event.reason)
                return
        self.flush()

    def _tell(self, level: int, event: str, text: str, **fields: Any) -> None:
        self._log.tell(level, event, text, peer=str(self.address), **fields)

    def _over(self, reason: str) -> None:
        if self._agreement is not None:
            self.give_up(reason)
            return
        waited = f"did not answer the offer in {self._hello_timeout:g} s"
        self.link.abort()
        self._lose(ConnectError(f"{self.address} {waited}; is it a PP1 v2 worker?", retryable=True))

    def _retained(self, proposal: Proposal) -> Proposal | None:
        # So that its rows outlive the connection, should that be lost while they are being verified.
        try:
            return proposal.retain()
        except PP1Error:
            return None

    def _settle(self, session: int, outcome: Outcome) -> None:
        waiter = self._waiters.pop(session, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)
        elif isinstance(outcome, Proposal):
            outcome.release()

    def _settle_hello(self, outcome: Agreement | ConnectError) -> None:
        if not self._agreed.done():
            self._agreed.set_result(outcome)

    def _fail(self, error: PP1Error) -> None:
        if self._agreement is not None:
            self.lost_for = summary(error)
            self._tell(logging.WARNING, "connection_failed", f"closed: {self.lost_for}", **reject_fields(error))
        drop_frames(error)  # the core keeps it
        self.link.abort()
        self._lose(self._explain(error))

    def _lose(self, before_agreement: ConnectError | None = None) -> None:
        if self._gone:
            return
        self._gone = True
        for handle in (self._timer, self._flush_handle):
            if handle is not None:
                handle.cancel()
        if self.core.state not in (ConnectionState.ENDED, ConnectionState.FAILED):
            self.core.end()
        for session in list(self._waiters):
            self._settle(session, None)
        self._settle_hello(before_agreement or self._no_answer("connection closed"))
        self._on_lost(self)

    def _no_answer(self, what: str, *, refused: bool = False) -> ConnectError:
        if not self._tls:
            return ConnectError(f"{self.address}: {what}; is it a PP1 v2 worker, without TLS?", retryable=True)
        # In TLS 1.3 this end's handshake is over before the worker has judged its certificate, and a worker that refuses one
        # may close without a word. So silence means that, unless the certificate was good enough before.
        retryable = self._accepted_before and not refused
        return ConnectError(
            f"{self.address}: {what}; does it accept this certificate? Its log says", retryable=retryable
        )

    def _explain(self, error: PP1Error) -> ConnectError:
        """Why the HELLOs led to no agreement, and what to do."""
        if isinstance(error, RemoteProtocolError) and error.code is RejectCode.HELLO_REFUSED:
            reason = error.actual.removeprefix("refused for ")
            advice = _ADVICE.get(reason, "both ends need the same version of this package")
            answer = self._answer.read()
            unequal = differences(answer.refusal, self._own, answer) if answer is not None else ""
            return ConnectError(
                f"{self.address} refused the offer for {reason}: {advice}" + (f" ({unequal})" if unequal else ""),
                retryable=reason in _PASSING,
            )
        code = error.code if isinstance(error, RemoteProtocolError) else None
        if code in _FOREIGN:
            what = "does not speak PP1 v2" if not self._accepted_before else "no longer speaks PP1 v2"
            return ConnectError(f"{self.address} {what}: {summary(error)}", retryable=self._accepted_before)
        return ConnectError(f"{self.address}: {summary(error)}", retryable=code in _DAMAGED)
