"""The whole protocol as tables: state → event → next state.

A connection has one table a role, a session has one table for everybody: the verifier, the worker and whoever judges a
recorded conversation walk through the same states, because every event is a message that crossed the wire (or, for
DISCARD, the verdict on one). A missing key is the error, and the state stays.

Rules that compare numbers (freshness, positions, digests, tickets) are not here; they decide whether a message is the event
it claims to be, in `pp1wire.protocol.verifier_messages` and `pp1wire.protocol.worker_messages`.

The diagrams of docs/protocol.md are drawn from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pp1wire.wire import CommitKind, CompletionStatus, ResetReason

__all__ = [
    "COMMIT_EVENTS",
    "COMPLETION_EVENTS",
    "CONNECTION",
    "RESET_EVENTS",
    "SESSION",
    "ConnectionEvent",
    "ConnectionState",
    "Role",
    "SessionEvent",
    "SessionState",
]


class Role(StrEnum):
    """Who looks at the connection. A passive observer reads what the worker reads, so it uses the worker's table."""

    VERIFIER = "verifier"
    WORKER = "worker"


class ConnectionState(StrEnum):
    """States of a connection."""

    START = "start"
    """Nothing was sent."""
    OFFERED = "offered"
    """The offer was sent; not a byte follows it until it is answered."""
    OPEN = "open"
    """Agreed: session messages flow."""
    ENDED = "ended"
    """Refused, or closed by either side."""
    FAILED = "failed"
    """A rule of connection scope was broken; nothing more is read or sent."""


class ConnectionEvent(StrEnum):
    """What can happen to a connection."""

    OFFER = "offer"
    ACCEPT = "accept"
    REFUSE = "refuse"
    VERIFIER_MESSAGE = "verifier message"
    """STEP, COMMIT or RESET."""
    WORKER_MESSAGE = "worker message"
    """REPLY or COMPLETION."""
    END = "end"
    """End of the byte stream, a deadline on HELLO, or the owner's wish."""
    FAIL = "fail"
    """A reject of connection scope."""


class SessionState(StrEnum):
    """States of a session: one request on one connection."""

    ABSENT = "absent"
    """Not opened."""
    IDLE = "idle"
    """Both ends hold the same committed prefix; no round is open."""
    DRAFTING = "drafting"
    """A STEP was sent; rows may come, and nothing of them is consumable."""
    READY = "ready"
    """COMPLETION ok was checked: the rows are the proposal, and a COMMIT says what became of it."""
    VOID = "void"
    """The round was discarded, or the worker gave it up: only a RESET goes on from here."""
    STOPPED = "stopped"
    """A COMMIT of kind none ended the request; RESET(close) follows."""
    CLOSED = "closed"
    """The slot is free again; the number is never used again."""


class SessionEvent(StrEnum):
    """What can happen to a session."""

    RESET_OPEN = "RESET(open)"
    RESET_FAULT = "RESET(fault)"
    RESET_CANCEL = "RESET(cancel)"
    RESET_CLOSE = "RESET(close)"
    STEP = "STEP"
    REPLY = "REPLY"
    COMPLETION_OK = "COMPLETION(ok)"
    COMPLETION_FAILED = "COMPLETION(failed)"
    DISCARD = "discard"
    """A reject of proposal scope: of the open round, whole."""
    COMMIT = "COMMIT"
    """With a correction or a bonus token."""
    COMMIT_NONE = "COMMIT(none)"
    COMMIT_TARGET_ONLY = "COMMIT(target_only)"


RESET_EVENTS: Final[Mapping[ResetReason, SessionEvent]] = MappingProxyType(
    {
        ResetReason.OPEN: SessionEvent.RESET_OPEN,
        ResetReason.FAULT: SessionEvent.RESET_FAULT,
        ResetReason.CANCEL: SessionEvent.RESET_CANCEL,
        ResetReason.CLOSE: SessionEvent.RESET_CLOSE,
    }
)
COMMIT_EVENTS: Final[Mapping[CommitKind, SessionEvent]] = MappingProxyType(
    {
        CommitKind.NONE: SessionEvent.COMMIT_NONE,
        CommitKind.CORRECTION: SessionEvent.COMMIT,
        CommitKind.BONUS: SessionEvent.COMMIT,
        CommitKind.TARGET_ONLY: SessionEvent.COMMIT_TARGET_ONLY,
    }
)
COMPLETION_EVENTS: Final[Mapping[CompletionStatus, SessionEvent]] = MappingProxyType(
    {
        status: SessionEvent.COMPLETION_OK if status is CompletionStatus.OK else SessionEvent.COMPLETION_FAILED
        for status in CompletionStatus
    }
)

_C, _CE = ConnectionState, ConnectionEvent

_AFTER_OFFER: Final = {
    _C.OFFERED: {_CE.ACCEPT: _C.OPEN, _CE.REFUSE: _C.ENDED, _CE.END: _C.ENDED, _CE.FAIL: _C.FAILED},
    _C.OPEN: {
        _CE.VERIFIER_MESSAGE: _C.OPEN,
        _CE.WORKER_MESSAGE: _C.OPEN,
        _CE.END: _C.ENDED,
        _CE.FAIL: _C.FAILED,
    },
    _C.ENDED: {},
    _C.FAILED: {},
}

CONNECTION: Final[Mapping[Role, Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]]]] = {
    # The verifier speaks first, so until it has, nothing it receives can be right or wrong.
    Role.VERIFIER: {_C.START: {_CE.OFFER: _C.OFFERED, _CE.END: _C.ENDED}, **_AFTER_OFFER},
    Role.WORKER: {_C.START: {_CE.OFFER: _C.OFFERED, _CE.END: _C.ENDED, _CE.FAIL: _C.FAILED}, **_AFTER_OFFER},
}

_S, _SE = SessionState, SessionEvent

# A RESET carries the whole prefix, so it can follow anything: afterwards nothing older matters.
_RESETS: Final = {_SE.RESET_FAULT: _S.IDLE, _SE.RESET_CANCEL: _S.IDLE, _SE.RESET_CLOSE: _S.CLOSED}

SESSION: Final[Mapping[SessionState, Mapping[SessionEvent, SessionState]]] = {
    _S.ABSENT: {_SE.RESET_OPEN: _S.IDLE},
    _S.IDLE: {_SE.STEP: _S.DRAFTING, _SE.COMMIT_TARGET_ONLY: _S.IDLE, **_RESETS},
    _S.DRAFTING: {
        _SE.REPLY: _S.DRAFTING,
        _SE.COMPLETION_OK: _S.READY,
        _SE.COMPLETION_FAILED: _S.VOID,
        _SE.DISCARD: _S.VOID,
        **_RESETS,
    },
    # A consumer may still refuse a proposal (its q at a drafted token, a failing rank), so READY can be discarded too.
    _S.READY: {_SE.COMMIT: _S.IDLE, _SE.COMMIT_NONE: _S.STOPPED, _SE.DISCARD: _S.VOID, **_RESETS},
    _S.VOID: {**_RESETS},
    _S.STOPPED: {**_RESETS},
    _S.CLOSED: {},
}
