"""An attack on a worker: every case on a connection of its own, and a valid conversation behind each."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pp1wire.attack.asking import Asker, SetupError
from pp1wire.attack.case import Case, unmet
from pp1wire.attack.channel import Channel
from pp1wire.attack.crafting import AttackError, Facts
from pp1wire.attack.outcomes import Observation, Outcome, Result, Verdict
from pp1wire.attack.report import Report, judged, not_run, skipped
from pp1wire.attack.settings import Clock, Progress, Settings, Unreachable, chosen
from pp1wire.attack.terms import PLACEHOLDER, accepting, attack_terms, terms_data, terms_of
from pp1wire.attack.worker_cases import worker_cases
from pp1wire.attack.worker_faults import WorkerScene
from pp1wire.attack.worker_play import play, valid_round
from pp1wire.net import ConnectError, Terms
from pp1wire.protocol.negotiation import representation_bit
from pp1wire.wire import Agreement, Hello, HelloRole, HelloStatus, Representation

__all__ = ["attack_worker"]

_BETWEEN_TRIES = 0.1
_SHORTEST_PREFIX = 16


async def attack_worker(settings: Settings, report: Report, terms: Terms | None, tell: Progress) -> None:
    """Run the chosen cases, and add their results to `report` as they come.

    Args:
        settings: where and how.
        report: for a worker.
        terms: what it is bound to; None to learn it from its answer to an offer that it must refuse.
        tell: is told where the attack is.

    Raises:
        Unreachable: nobody listens, the worker does not agree, or a valid round with it fails.
        AttackError: `settings.only` names no case.
    """
    cases = chosen(list(worker_cases()), settings.only)
    attack = _Attack(settings)
    worker = await attack.learn(terms)
    report.terms = terms_data(terms_of(worker))
    for number, case in enumerate(cases, 1):
        tell(f"{number}/{len(cases)} {case.name}")
        try:
            async with asyncio.timeout_at(attack.clock.end):
                result = await attack.run(case)
        except TimeoutError:
            report.results += [not_run(left, "the time was up") for left in cases[number - 1 :]]
            return
        report.results.append(result)
        if result.verdict is Verdict.WRONG and not await attack.is_back():
            report.results += [
                not_run(left, f"nobody was served any more after {case.name}") for left in cases[number:]
            ]
            return


class _Attack:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = Clock(settings)
        self._terms = PLACEHOLDER
        self._served: tuple[Representation, ...] = ()
        self._worker = PLACEHOLDER.hello(HelloRole.ANSWER)

    # What the worker is bound to.

    async def learn(self, terms: Terms | None) -> Hello:
        """The worker's HELLO as it accepts, naming everything that it can make. Raises Unreachable."""
        try:
            known = terms or terms_of(await self._answer(PLACEHOLDER))
            for representation in Representation:
                answer = await self._answer(attack_terms(replace(known, representations=(representation,))))
                if answer.status is HelloStatus.ACCEPTED:
                    self._served += (representation,)
                    self._worker = answer
            if not self._served:
                raise Unreachable(
                    f"{self.settings.address} refused the offer for {answer.refusal.name.lower()}; "
                    "its HELLO does not say what it is bound to: give --terms"
                )
            self._terms = attack_terms(known)
            if self._worker.max_prefix < _SHORTEST_PREFIX:
                raise Unreachable(f"{self.settings.address}: a prefix of {self._worker.max_prefix} ids is too short")
            mask = sum(map(representation_bit, self._served))
            self._worker = accepting(replace(self._worker, representations=mask))
            await self.serves()
        except (ConnectError, SetupError) as error:
            hint = (
                "see the worker's log"
                if self.settings.tls
                else "if it speaks TLS, give --tls-ca, --tls-cert and --tls-key"
            )
            raise Unreachable(f"{self.settings.address}: no valid conversation: {error}; {hint}") from None
        return self._worker

    async def _answer(self, terms: Terms) -> Hello:
        asker = await self.another(terms)
        try:
            asker.say_offer()
            return await asker.hear_hello()
        finally:
            await asker.channel.close()

    # Connections.

    async def another(self, terms: Terms | None = None, representation: Representation | None = None) -> Asker:
        """A new connection on which nothing was sent. Raises ConnectError."""
        settings = self.settings
        await self.clock.pace()
        channel = await Channel.connect(
            settings.address, settings.tls, settings.server_hostname, wait=settings.wait, timeout=settings.timeout
        )
        offered = (representation,) if representation is not None else self._served or None
        terms = terms or self._terms
        offer = (replace(terms, representations=offered) if offered and terms is self._terms else terms).hello(
            HelloRole.OFFER
        )
        return Asker(channel, offer, seed=settings.seed, timeout=settings.timeout, wait=settings.wait)

    async def serves(self) -> None:
        """A valid conversation on a connection of its own. Raises ConnectError or SetupError."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.timeout
        while True:
            try:
                await self._converse()
            except SetupError as error:
                # A worker that is full may not have noticed yet that the last connection is gone.
                if error.outcome is not Outcome.REFUSED or loop.time() >= until:
                    raise
                await asyncio.sleep(_BETWEEN_TRIES)
            else:
                return

    async def _converse(self) -> None:
        asker = await self.another()
        try:
            await valid_round(asker)
        finally:
            await asker.channel.close()

    async def is_back(self) -> bool:
        """Whether the worker serves, or serves again within `settings.wait`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.wait
        while True:
            try:
                await self.serves()
            except (ConnectError, SetupError):
                if loop.time() >= until:
                    return False
                await asyncio.sleep(_BETWEEN_TRIES)
            else:
                return True

    # Cases.

    async def run(self, case: Case) -> Result:
        """Play one case, and see that others are served behind it."""
        reason = self._unfit(case)
        if reason is not None:
            return skipped(case, reason)
        try:
            seen = await self._play(case)
        except SetupError as error:
            # What it did was no answer to the case, so it is never right, whatever it was.
            seen = Observation(error.outcome, str(error), fits=False)
        except AttackError as error:
            return skipped(case, str(error))
        except ConnectError as error:
            seen = Observation(Outcome.DIED, str(error))
        if seen.outcome is not Outcome.DIED:
            try:
                await self.serves()
            except (ConnectError, SetupError) as error:
                before = f"first {seen.outcome}" + (f" ({seen.detail})" if seen.detail else "")
                seen = Observation(Outcome.DIED, f"{before}; then no valid conversation: {error}")
        return judged(case, seen)

    async def _play(self, case: Case) -> Observation:
        asker = await self.another(representation=case.representation)
        try:
            if case.script is None:
                worker = self._worker if case.representation is None else self._only(case.representation)
                return await play(asker, case, worker, self.serves)
            return await case.script(
                WorkerScene(case, asker, self.serves, lambda: self.another(representation=case.representation))
            )
        finally:
            await asker.channel.close()

    def _only(self, representation: Representation) -> Hello:
        return replace(self._worker, representations=representation_bit(representation))

    def _unfit(self, case: Case) -> str | None:
        if case.representation is not None and case.representation not in self._served:
            return f"this worker makes no {case.representation.name.lower()} rows"
        for name in case.needs:
            if name.startswith("no ") and Representation[name.removeprefix("no ").upper()] in self._served:
                return f"this worker makes {name.removeprefix('no ')} rows, too"
        return unmet(case, Facts(self._terms.hello(HelloRole.OFFER), self._shape(case.representation)))

    def _shape(self, representation: Representation | None) -> Agreement:
        """What will be agreed, but for its id."""
        own, other = self._terms, self._worker
        return Agreement(
            0, representation or self._served[-1], own.vocab_size, other.padded_vocab_size, min(own.max_slots, other.max_slots),
            min(own.max_depth, other.max_depth), min(own.max_support, other.max_support), min(own.max_prefix, other.max_prefix),
        )  # fmt: skip
