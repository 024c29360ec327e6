"""Logs what an end throws away: one event for each discard, each stale message and each RESET of one connection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pp1wire.net.errors import summary
from pp1wire.net.logs import EventLog
from pp1wire.protocol import MessageDropped, Notice, Role, RoundDiscarded
from pp1wire.protocol.counters import CANCELLED
from pp1wire.wire import RemoteProtocolError

__all__ = ["NoticeLog", "reject_fields"]

_HINT = "; the worker's log says why (more of these are told at level INFO)"


class NoticeLog:
    """The watcher of one end's core.

    Args:
        log: where to.
        role: whose core it is.
        peer: the other end's address, once there is one.
    """

    def __init__(self, log: EventLog, role: Role, peer: Callable[[], str]) -> None:
        self._log = log
        self._role = role
        self._peer = peer
        self._told: set[str] = set()

    def __call__(self, notice: Notice) -> None:
        """Log it."""
        if isinstance(notice, RoundDiscarded):
            self._discarded(notice)
        elif isinstance(notice, MessageDropped):
            fields = reject_fields(notice.error) | _identity(notice)
            why = notice.reason if notice.error is None else summary(notice.error)
            text = f"{_round(notice)}: dropped: {why}"
            self._log.tell(logging.DEBUG, "dropped", text, peer=self._peer(), reason=notice.reason, **fields)
        else:
            reason = notice.reason.name.lower()
            self._log.tell(
                logging.DEBUG, "reset",
                f"session {notice.session} generation {notice.generation}: reset: {reason}, at position {notice.position}",
                peer=self._peer(), session=notice.session, generation=notice.generation, slot=notice.slot,
                position=notice.position, reason=reason,
            )  # fmt: skip

    def _discarded(self, notice: RoundDiscarded) -> None:
        level, hint = self._level(notice)
        why = notice.reason if notice.error is None else summary(notice.error)
        self._log.tell(
            level, "discard", f"{_round(notice)}: round discarded: {why}{hint}",
            peer=self._peer(), slot=notice.slot, position=notice.position, depth=notice.depth, rows=notice.rows,
            reason=notice.reason, **(reject_fields(notice.error) | _identity(notice)),
        )  # fmt: skip

    def _level(self, notice: RoundDiscarded) -> tuple[int, str]:
        # Some reject codes begin like the statuses.
        given_up = notice.error is None and notice.reason.startswith("completion_")
        if notice.reason == CANCELLED:
            return logging.DEBUG, ""
        if self._role is Role.WORKER:
            # What a worker gave up itself was told with its cause.
            return (logging.DEBUG if given_up else logging.INFO), ""
        if given_up and notice.reason not in self._told:
            # Without a word here a broken draft shows as slow decoding alone.
            self._told.add(notice.reason)
            return logging.WARNING, _HINT
        return (logging.INFO if notice.error is None else logging.WARNING), ""


def reject_fields(error: BaseException | None) -> dict[str, Any]:
    """The fields of a reject, for a log record; none for anything else."""
    if not isinstance(error, RemoteProtocolError):
        return {}
    place = {"code": error.code.name.lower(), "scope": error.scope, "offset": error.offset, "path": error.path}
    names = ("session", "generation", "round")
    return place | (dict(zip(names, error.identity, strict=True)) if error.identity is not None else {})


def _identity(notice: RoundDiscarded | MessageDropped) -> dict[str, int]:
    return {"session": notice.session, "generation": notice.generation, "round": notice.round}


def _round(notice: RoundDiscarded | MessageDropped) -> str:
    return f"session {notice.session} generation {notice.generation} round {notice.round}"
