"""An attack on verifiers that connect here: cases share a connection as long as it lives, with a valid round between them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from pp1wire.attack.answering import Answerer, Broke, Gone, Silent
from pp1wire.attack.case import Case, unmet
from pp1wire.attack.channel import Channel
from pp1wire.attack.crafting import AttackError
from pp1wire.attack.outcomes import Observation, Outcome, Result
from pp1wire.attack.report import Report, judged, not_run, skipped
from pp1wire.attack.settings import Clock, Progress, Settings, Unreachable, chosen
from pp1wire.attack.terms import PLACEHOLDER, terms_data, terms_of
from pp1wire.attack.verifier_cases import verifier_cases
from pp1wire.attack.verifier_faults import VerifierScene
from pp1wire.attack.verifier_play import Unfit, play, play_hello, valid_round
from pp1wire.net import Address, UnixAddress
from pp1wire.net.sockets import bound_address, listen, unlink_if_ours
from pp1wire.wire import Representation

__all__ = ["attack_verifier"]

_MOST_WAITING = 64
_TRIES = 5


async def attack_verifier(
    settings: Settings, report: Report, tell: Progress, listening: Callable[[Address], None]
) -> None:
    """Listen, run the chosen cases against who connects, and add their results to `report` as they come.

    Args:
        settings: where and how.
        report: for a verifier.
        tell: is told where the attack is.
        listening: is told the address, with the port that the system chose.

    Raises:
        Unreachable: no verifier connected, or a valid round with it fails.
        NetError: it is not possible to listen at the address.
        AttackError: `settings.only` names no case.
    """
    cases = chosen(list(verifier_cases()), settings.only)
    async with _Door(settings) as door:
        listening(door.address)
        report.address = str(door.address)
        attack = _Attack(settings, door)
        try:
            await attack.begin()
            report.terms = terms_data(attack.terms)
            await attack.run(cases, report, tell)
        finally:
            await attack.leave()


class _Door:
    """Where verifiers connect. Those that wait for their turn are heard in the order in which they came."""

    def __init__(self, settings: Settings) -> None:
        self.address = settings.address
        self._settings = settings
        self._waiting: asyncio.Queue[Channel] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._inode: int | None = None

    async def __aenter__(self) -> _Door:
        sock = listen(self.address)
        self.address = bound_address(sock, self.address)
        if isinstance(self.address, UnixAddress):
            self._inode = os.stat(self.address.path).st_ino  # noqa: PTH116 - one call, no Path needed
        start = asyncio.start_unix_server if isinstance(self.address, UnixAddress) else asyncio.start_server
        self._server = await start(self._enter, sock=sock, ssl=self._settings.tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        unlink_if_ours(self.address, self._inode)
        while not self._waiting.empty():
            await self._waiting.get_nowait().close()

    async def next(self, seconds: float) -> Channel:
        """The next connection. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            return await self._waiting.get()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer, self._settings.timeout)
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put_nowait(channel)
        else:
            await channel.close()


class _Attack:
    def __init__(self, settings: Settings, door: _Door) -> None:
        self.settings = settings
        self.clock = Clock(settings)
        self._door = door
        self._answerer: Answerer | None = None
        self._representation = Representation.SPARSE
        self.terms = PLACEHOLDER

    async def begin(self) -> None:
        """Have one valid round. Raises Unreachable."""
        try:
            answerer = await self._offered()
            self.terms = terms_of(answerer.offered)
            self._representation = self.terms.representations[-1]
            await answerer.agree(self._representation)
            seen = await valid_round(answerer)
        except (Gone, Silent, Broke) as error:
            raise Unreachable(f"{self._door.address}: no valid conversation: {error}") from None
        if seen.outcome is not Outcome.ACCEPTED:
            raise Unreachable(f"{self._door.address}: a valid proposal was not committed: {seen.outcome} {seen.detail}")

    async def run(self, cases: list[Case], report: Report, tell: Progress) -> None:
        """Every case, as long as there is time and somebody there."""
        for number, case in enumerate(cases, 1):
            tell(f"{number}/{len(cases)} {case.name}")
            try:
                async with asyncio.timeout_at(self.clock.end):
                    result = await self._result(case)
            except TimeoutError:
                report.results += [not_run(left, "the time was up") for left in cases[number - 1 :]]
                return
            report.results.append(result)
            if result.observed == Outcome.DIED:
                report.results += [
                    not_run(left, f"nobody was there any more after {case.name}") for left in cases[number:]
                ]
                return

    async def leave(self) -> None:
        """End the connection."""
        if self._answerer is not None:
            await self._answerer.channel.close()
            self._answerer = None

    async def _result(self, case: Case) -> Result:
        representation = case.representation or self._representation
        if representation not in self.terms.representations:
            return skipped(case, f"this verifier takes no {representation.name.lower()} rows")
        try:
            seen = await (self._at_hello(case) if case.state == "offered" else self._in_round(case))
        except Broke as error:
            await self.leave()
            seen = Observation(Outcome.BROKE, str(error))
        except (Gone, Silent) as error:
            seen = Observation(Outcome.DIED, str(error))
        except Unfit as error:
            return skipped(case, str(error))
        except AttackError as error:
            await self.leave()
            return skipped(case, str(error))
        return judged(case, seen)

    async def _at_hello(self, case: Case) -> Observation:
        await self.leave()
        answerer = await self._offered()
        representation = case.representation or self._representation
        if case.script is None:
            seen = await play_hello(answerer, case, representation)
        else:
            seen = await self._played(case, answerer)
        await self.leave()
        return await self._healthy(seen)

    async def _in_round(self, case: Case) -> Observation:
        for _ in range(_TRIES):
            answerer = await self._connected(case.representation)
            reason = unmet(case, answerer.facts)
            if reason is not None:
                raise Unfit(reason)
            try:
                seen = await self._played(case, answerer)
            except Gone:
                # Its request was over before the STEP that the case needs, or whatever it was: nothing was wrong yet.
                await self.leave()
                continue
            except Silent as error:
                if case.state == "asked":
                    raise
                await self.leave()
                raise AttackError(str(error)) from None
            if seen.outcome in (Outcome.CLOSED, Outcome.HUNG) or answerer.spoiled or answerer.channel.closed:
                await self.leave()
            return await self._healthy(seen)
        raise AttackError(f"the verifier ended {_TRIES} connections before it sent a STEP that the case needs")

    async def _played(self, case: Case, answerer: Answerer) -> Observation:
        if case.script is None:
            return await play(answerer, case)
        return await case.script(VerifierScene(case, answerer, self.settings.seed, self.settings.settle))

    async def _healthy(self, seen: Observation) -> Observation:
        """`seen`, unless no valid round can be had behind it."""
        if self._answerer is not None:
            try:
                return _with(seen, await valid_round(self._answerer))
            except Gone:
                if not self._answerer.ended_politely:
                    seen = Observation(Outcome.CLOSED, f"{_told(seen)}, and then ended the connection", fits=False)
                await self.leave()
        before = _told(seen)
        for _ in range(_TRIES):
            try:
                return _with(seen, await valid_round(await self._connected(None)))
            except Gone:
                await self.leave()
            except Broke as error:
                await self.leave()
                return Observation(Outcome.BROKE, f"first {before}; then {error}")
            except Silent as error:
                return Observation(Outcome.DIED, f"first {before}; then {error}")
        return Observation(Outcome.DIED, f"first {before}; then it ended {_TRIES} connections before a valid round")

    # Connections.

    async def _connected(self, representation: Representation | None) -> Answerer:
        """A connection on which `representation` is agreed. Raises Gone, Silent or Broke."""
        wanted = representation or self._representation
        answerer = self._answerer
        if answerer is not None and not answerer.channel.closed:
            agreed = answerer.agreed.representation
            if representation is None or agreed is representation:
                return answerer
        await self.leave()
        answerer = await self._offered()
        await answerer.agree(wanted)
        return answerer

    async def _offered(self) -> Answerer:
        """The next connection on which something is offered. Raises Silent or Broke."""
        settings, loop = self.settings, asyncio.get_running_loop()
        await self.clock.pace()
        until = loop.time() + settings.wait
        while True:
            try:
                channel = await self._door.next(until - loop.time())
            except TimeoutError:
                raise Silent(f"no verifier connected for {settings.wait:g} s") from None
            answerer = Answerer(channel, timeout=settings.timeout, wait=settings.wait)
            self._answerer = answerer
            with suppress(Gone, Silent):  # it left while it waited for its turn, or is nobody
                await answerer.hear_offer()
                return answerer
            await self.leave()


def _told(seen: Observation) -> str:
    return f"{seen.outcome} ({seen.detail})" if seen.detail else str(seen.outcome)


def _with(seen: Observation, after: Observation) -> Observation:
    """`seen`, if the valid round behind it was committed."""
    if after.outcome is Outcome.ACCEPTED and after.fits:
        return seen
    return Observation(Outcome.HUNG, f"first {_told(seen)}; then a valid proposal was {_told(after)}")
