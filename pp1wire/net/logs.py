"""What the ends log: a fixed set of events, each one line for people with fields for programs, and never a flood.

Standard `logging`, under the names `pp1wire.net.worker` and `pp1wire.net.verifier`; every record has `event` and the fields
that `EVENTS` lists, as attributes, where they are known. What a peer can cause as often as it likes is limited: of one event,
with one reason, from one host, so many lines an interval, and then one that says how many more there were. No line holds a
prompt, a token, q or a seed. `docs/operations.md` says what each event means.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

__all__ = ["EVENTS", "FIELDS", "INTERVAL", "KEYS", "LIMIT", "SUPPRESSED", "Event", "EventLog", "RateLimit"]

LIMIT: Final = 10
"""Lines of one event, with one reason, of one host, in an interval."""
INTERVAL: Final = 30.0
"""Seconds."""
KEYS: Final = 128
"""Combinations of event, reason and host told apart at a time; those beyond it share one for each event."""
SUPPRESSED: Final = "suppressed"

Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Event:
    """Which ends log it, at which levels, and which fields it can have."""

    ends: str
    levels: str
    fields: str = ""


_ROUND = "peer session generation round"
_REJECT = "code scope offset path"

EVENTS: Final[Mapping[str, Event]] = MappingProxyType(
    {
        "serving": Event("worker", "INFO", "address"),
        "stopped": Event("worker", "INFO", "address"),
        "connection_opened": Event("worker", "DEBUG", "peer"),
        "connection_refused": Event("worker", "WARNING", "peer reason"),
        "offer_refused": Event("worker", "WARNING", "peer reason"),
        "agreed": Event("worker verifier", "INFO", "peer representation"),
        "connect_failed": Event("verifier", "DEBUG", "peer retryable"),
        "reconnect_given_up": Event("verifier", "WARNING", "peer retryable"),
        "connection_closed": Event("worker verifier", "DEBUG WARNING", "peer reason"),
        "connection_failed": Event("worker verifier", "WARNING", f"{_ROUND} {_REJECT}"),
        "connection_lost": Event("worker verifier", "INFO WARNING", "peer"),
        "discard": Event(
            "worker verifier", "DEBUG INFO WARNING", f"{_ROUND} slot position depth rows reason {_REJECT}"
        ),
        "dropped": Event("worker verifier", "DEBUG", f"{_ROUND} reason {_REJECT}"),
        "reset": Event("worker verifier", "DEBUG", "peer session generation slot position reason"),
        "draft_failed": Event("worker", "WARNING", f"{_ROUND} reason"),
        "draft_traceback": Event("worker", "DEBUG", f"{_ROUND} reason"),
        "preflight_failed": Event("worker", "WARNING", "peer"),
        "proposal_refused": Event("verifier", "WARNING", _ROUND),
        "recording_failed": Event("worker verifier", "WARNING", "peer"),
        SUPPRESSED: Event("worker verifier", "DEBUG INFO WARNING", "peer reason suppressed suppressed_event seconds"),
    }
)
"""Every event. Names and fields are stable: there may come more, but none changes its meaning."""

FIELDS: Final = ("event", *sorted({name for event in EVENTS.values() for name in event.fields.split()}))
"""Every attribute that a record can have beside those of `logging`."""


@dataclass(slots=True)
class _Window:
    ends: float
    passed: int = 0
    held: int = 0
    level: int = 0
    """The highest of those that did not pass."""


class RateLimit:
    """So many of each key in an interval, in bounded memory.

    Args:
        limit: of each key, in each interval.
        interval: seconds, from a key's first.
        keys: told apart at a time; those beyond share one for each first element of a key.
    """

    def __init__(self, limit: int, interval: float, keys: int) -> None:
        self._limit = limit
        self._interval = interval
        self._keys = keys
        self._windows: dict[Key, _Window] = {}  # all are equally long, so they end in the order of this dict

    def __len__(self) -> int:
        return len(self._windows)

    def admit(self, key: Key, now: float, level: int = 0) -> bool:
        """Whether this one passes; `ended` must have been called for `now` before."""
        window = self._windows.get(key)
        if window is None and len(self._windows) >= self._keys:
            key = (key[0], "", "")
            window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(now + self._interval)
        passes = window.passed < self._limit
        window.passed += passes
        if not passes:
            window.held += 1
            window.level = max(window.level, level)
        return passes

    def ended(self, now: float) -> list[tuple[Key, int, int]]:
        """Forget the intervals that are over; the keys of which some did not pass, how many, and their highest level."""
        over = []
        for key, window in self._windows.items():
            if window.ends > now:
                break
            over.append((key, window.held, window.level))
        for key, *_ in over:
            del self._windows[key]
        return [(key, held, level) for key, held, level in over if held]

    def next_end(self) -> float | None:
        """When the first interval ends in which some did not pass; None if there is none."""
        return next((window.ends for window in self._windows.values() if window.held), None)


class EventLog:
    """The events of one end.

    Args:
        end: `worker` or `verifier`.
        clock: seconds that never go back.
        limit, interval, keys: of `RateLimit`.
    """

    def __init__(
        self,
        end: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        limit: int = LIMIT,
        interval: float = INTERVAL,
        keys: int = KEYS,
    ) -> None:
        self._logger = logging.getLogger(f"pp1wire.net.{end}")
        self._clock = clock
        self._interval = interval
        self._limit = RateLimit(limit, interval, keys)
        self._timer: asyncio.TimerHandle | None = None
        self.suppressed = 0
        """Lines that were not logged, over all time."""

    def tell(self, level: int, event: str, text: str, *, exc_info: BaseException | None = None, **fields: Any) -> None:
        """Log an event, unless there were too many like it.

        Args:
            level: of `logging`.
            event: a key of `EVENTS`.
            text: for people, one line; the peer is put before it.
            exc_info: an exception whose traceback is logged, too.
            fields: of that event. The limit counts by `peer`, without its port, and by `code` or `reason`.
        """
        if not self._logger.isEnabledFor(level):
            return
        now = self._clock()
        self._summarise(now)
        peer = str(fields.get("peer", ""))
        key = (event, str(fields.get("code") or fields.get("reason") or ""), _host(peer))
        if not self._limit.admit(key, now, level):
            self.suppressed += 1
            self._arm(now)
            return
        self._write(level, event, f"{peer}: {text}" if peer else text, exc_info, fields)

    def flush(self) -> None:
        """Say now what was suppressed: at the end of the endpoint."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._summarise(float("inf"))

    def _summarise(self, now: float) -> None:
        for (event, reason, host), held, level in self._limit.ended(now):
            what = f"{event} ({reason})" if reason else event
            text = f"{host or 'several peers'}: {what}: suppressed={held} more lines of the last {self._interval:g} s"
            fields = {"suppressed": held, "suppressed_event": event, "seconds": self._interval}
            fields |= {name: value for name, value in (("peer", host), ("reason", reason)) if value}
            self._write(level, SUPPRESSED, text, None, fields)

    def _write(
        self, level: int, event: str, text: str, exc_info: BaseException | None, fields: Mapping[str, Any]
    ) -> None:
        extra = {"event": event, **fields}
        self._logger.log(level, text, exc_info=exc_info, extra=extra, stacklevel=3)

    def _arm(self, now: float) -> None:
        """Have a summary come when the interval ends, even if nothing happens any more; without a loop, with the next event."""
        end = self._limit.next_end()
        if self._timer is not None or end is None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._timer = loop.call_later(max(0.0, end - now), self._due)

    def _due(self) -> None:
        self._timer = None
        now = self._clock()
        self._summarise(now)
        self._arm(now)


def _host(peer: str) -> str:
    """The peer without its port, which changes with every connection."""
    return peer if peer.startswith("unix:") else peer.rpartition(":")[0] or peer
