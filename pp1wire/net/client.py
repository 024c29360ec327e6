"""The verifier's client: one connection to a worker at a time, made again when it is lost."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from pp1wire.net.address import Address, parse_address
from pp1wire.net.errors import ConnectError, NetError, summary
from pp1wire.net.logs import EventLog
from pp1wire.net.request import Request
from pp1wire.net.stages import Stages
from pp1wire.net.tally import Books, Tally
from pp1wire.net.tap import Tap
from pp1wire.net.terms import Terms
from pp1wire.net.verifier_connection import VerifierConnection
from pp1wire.wire import Agreement, HelloRole

__all__ = ["VerifierClient", "connect"]

_LONGEST_DELAY = 2.0


class VerifierClient:
    """A verifier's way to one worker; `async with` connects and ends it.

    While there is no connection, requests go on with the target alone, and a task tries to connect again: at most
    `reconnect_attempts` times, after delays that double. A request that begins later starts another such series.

    Args:
        address: the worker's: `host:port`, `unix:/path`, or an address.
        terms: what this end is bound to and can hold.
        tls: a client context, such as `client_tls` makes; None speaks plainly.
        server_hostname: what the worker's certificate must name, if not the address's host (`localhost` for Unix sockets).
        connect_timeout: seconds for the socket and TLS.
        hello_timeout: seconds for the answer to the offer.
        step_timeout: seconds for each proposal, drafting included.
        reconnect_attempts: 0 for never.
        reconnect_delay: seconds before the first attempt.
        tap: hears every connection.
    """

    def __init__(
        self,
        address: str | Address,
        terms: Terms,
        *,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        connect_timeout: float = 5.0,
        hello_timeout: float = 5.0,
        step_timeout: float = 5.0,
        reconnect_attempts: int = 8,
        reconnect_delay: float = 0.05,
        tap: Tap | None = None,
    ) -> None:
        self.address = parse_address(address)
        self.terms = terms
        self.stages = Stages("propose", "decode", "target", "verify")
        """Seconds by stage, over all requests and connections."""
        self.events = dict.fromkeys(
            ("connected", "connection_lost", "connect_failed", "commits_without_worker", "target_only_without_worker"),
            0,
        )
        """Counters of what no single connection can count."""
        self.fallbacks = dict.fromkeys(
            ("not_connected", "connection_lost", "prefix_limit", "no_slot", "smaller_terms"), 0
        )
        """Rounds for which no proposal was to be had, by reason; discards are in `counters()`."""
        self.log = EventLog("verifier")
        """What is logged, and how often it was not, because there was too much of it."""
        self._tls = tls
        self._server_hostname = server_hostname
        self._connect_timeout = connect_timeout
        self._hello_timeout = hello_timeout
        self._step_timeout = step_timeout
        self._attempts = reconnect_attempts
        self._delay = reconnect_delay
        self._tap = tap
        self._connection: VerifierConnection | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._slots: asyncio.Semaphore | None = None
        self._requests: set[Request] = set()
        self._books = Books()
        self._waiting = 0
        self._closing = False
        self._first: Agreement | None = None

    @property
    def is_connected(self) -> bool:
        """Whether proposals can be asked for now."""
        return self._live() is not None

    @property
    def agreement(self) -> Agreement | None:
        """The live connection's; None without one."""
        live = self._live()
        return None if live is None else live.agreement

    def counters(self) -> Tally:
        """The counters of all connections, added up; keys as of `pp1wire.protocol.Counters`."""
        return self._books.tally()

    def levels(self) -> dict[str, int]:
        """What is open now: the connection, requests and those that wait for a slot, sessions and slots, buffers, rounds."""
        live = self._live()
        return {
            "connections": int(live is not None),
            "requests": len(self._requests),
            "waiting_requests": self._waiting,
            "held_buffers": 0 if live is None else live.core.held_buffers,
        } | self._books.levels()

    def request(self, prefix_ids: npt.ArrayLike, *, root_seed: int | None = None, context_version: int = 0) -> Request:
        """A request that continues `prefix_ids`; enter it with `async with`, which waits for a free slot.

        Args:
            prefix_ids: token ids [n].
            root_seed: 64 bits; of `secrets` unless given. Distinct requests need distinct ones.
            context_version: of the target's processors, grammar and stop state.

        Raises:
            LocalProtocolError: an id is not in the vocabulary.
            SamplingError: the seed has more than 64 bits.
        """
        return Request(self, prefix_ids, secrets.randbits(64) if root_seed is None else root_seed, context_version)

    async def connect(self) -> None:
        """Connect for the first time.

        Raises:
            ConnectError: no agreement with a worker at the address.
        """
        if self._slots is not None or self._closing:
            raise NetError(f"the client of {self.address} was connected before")
        await self._connect()
        live = self._live()
        self._slots = asyncio.Semaphore(self.terms.max_slots if live is None else live.agreement.max_slots)
        self._first = None if live is None else live.agreement

    async def aclose(self) -> None:
        """End: sessions are gone, no attempt to connect goes on."""
        self._closing = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()
        self.log.flush()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # For requests.

    @property
    def has_first_terms(self) -> bool:
        """Whether the live connection's agreement is, but for its id, the one that the client began with."""
        now, first = self.agreement, self._first
        return now is not None and first is not None and replace(now, id=first.id) == first

    def _live(self) -> VerifierConnection | None:
        connection = self._connection
        return connection if connection is not None and connection.is_live else None

    async def _enter(self, request: Request) -> None:
        if self._slots is None or self._closing:
            raise NetError(
                f"the client of {self.address} is not connected; use it as `async with connect(…) as client:`"
            )
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._requests.add(request)
        self._start_reconnecting()

    def _exit(self, request: Request) -> None:
        self._requests.discard(request)
        if self._slots is not None:
            self._slots.release()

    # Connections.

    async def _connect(self) -> None:
        connection = VerifierConnection(
            self.address, self.terms.hello(HelloRole.OFFER), hello_timeout=self._hello_timeout,
            step_timeout=self._step_timeout, tap=self._tap, stages=self.stages, log=self.log,
            accepted_before=self.events["connected"] > 0, on_lost=self._on_lost,
        )  # fmt: skip
        self._books.open(connection.core)
        try:
            await connection.connect(self._connect_timeout, self._tls, self._server_hostname)
        except ConnectError as error:
            self.events["connect_failed"] += 1
            self._tell(logging.DEBUG, "connect_failed", f"not connected: {summary(error)}", retryable=error.retryable)
            raise
        finally:
            if not connection.is_live:
                self._books.close(connection.core)
        if connection.is_live:
            self._connection = connection
            self.events["connected"] += 1
            name = connection.agreement.representation.name.lower()
            self._tell(logging.INFO, "agreed", f"agreed on {name} rows", representation=name)

    def _tell(self, level: int, event: str, text: str, **fields: Any) -> None:
        self.log.tell(level, event, text, peer=str(self.address), **fields)

    def _on_lost(self, connection: VerifierConnection) -> None:
        self._books.close(connection.core)
        if connection is not self._connection:
            return
        self._connection = None
        for request in self._requests:
            request._lost(connection)
        if not self._closing:
            self.events["connection_lost"] += 1
            text = f"connection lost; requests go on with the target alone: {connection.lost_for}"
            self._tell(logging.WARNING, "connection_lost", text)
            self._start_reconnecting()

    def _start_reconnecting(self) -> None:
        busy = self._reconnecting is not None and not self._reconnecting.done()
        if self._attempts and not busy and not self._closing and self._connection is None:
            self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect())

    async def _reconnect(self) -> None:
        for attempt in range(self._attempts):
            await asyncio.sleep(min(self._delay * 2**attempt, _LONGEST_DELAY))
            try:
                await self._connect()
            except ConnectError as error:
                if not error.retryable or attempt + 1 == self._attempts:
                    text = f"gave up connecting again: {summary(error)}"
                    self._tell(logging.WARNING, "reconnect_given_up", text, retryable=error.retryable)
                    return
            else:
                return


connect = VerifierClient
"""`async with connect(address, terms) as client:` reads as what it does; it is the class itself."""
