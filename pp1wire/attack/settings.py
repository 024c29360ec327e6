"""What an operator can choose about an attack, and the clock that keeps it within it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pp1wire.attack.case import Case
from pp1wire.attack.crafting import AttackError
from pp1wire.net import Address

__all__ = ["Clock", "Progress", "Settings", "Unreachable", "chosen"]

Progress = Callable[[str], None]


class Unreachable(AttackError):
    """No valid conversation with the endpoint could be had, so nothing was attacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to attack.

    Attributes:
        address: the worker's, or where to listen for the verifier; `guard.guarded` gives it.
        tls: a context for this side; None speaks plainly.
        server_hostname: what a worker's certificate must name.
        seed: of prompts, proposal seeds and garbage. The same seed sends the same bytes, but for nonces.
        rate: most connections a second.
        timeout: seconds for each reaction to what is wrong.
        settle: seconds that a verifier is given to show that it took an answer that it had to drop.
        wait: seconds for each answer to what is right, and for an endpoint that is gone, or has not connected, to come back.
        max_seconds: for everything.
        only: names of cases, beginnings of names, or reject codes; none for all.
    """

    address: Address
    tls: ssl.SSLContext | None = None
    server_hostname: str | None = None
    seed: int = 0
    rate: float = 50.0
    timeout: float = 2.0
    settle: float = 0.25
    wait: float = 10.0
    max_seconds: float = 600.0
    only: tuple[str, ...] = ()


class Clock:
    """Paces connections, and says when the time is up."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.get_running_loop()
        self._gap = 1.0 / settings.rate
        self._next = self._loop.time()
        self.end = self._next + settings.max_seconds
        """When the time for everything is over, on the loop's clock."""

    async def pace(self) -> None:
        """Return when the next connection may be made."""
        now = self._loop.time()
        if now < self._next:
            await asyncio.sleep(self._next - now)
        self._next = max(now, self._next) + self._gap


def chosen(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """The cases that `only` names.

    Raises:
        AttackError: a name fits none.
    """
    if not only:
        return list(cases)
    for name in only:
        if not any(_fits(case, name) for case in cases):
            raise AttackError(f"no case, group or reject code is called {name!r}; --list shows all")
    return [case for case in cases if any(_fits(case, name) for name in only)]


def _fits(case: Case, name: str) -> bool:
    code = None if case.code is None else case.code.name.lower()
    return name in (case.name, code) or case.name.startswith(f"{name.rstrip('/')}/")
