"""Errors of the endpoints: one line each, naming the address and what to do."""

from __future__ import annotations

from pp1wire.errors import PP1Error

__all__ = ["CapacityError", "ConnectError", "NetError", "TargetModelError", "summary"]

_LONGEST = 300


class NetError(PP1Error):
    """An endpoint could not do what it was asked to."""


class ConnectError(NetError):
    """No agreement with a worker at this address.

    Attributes:
        retryable: whether trying again later can help (nobody listens, the worker is full or draining), or never will (the
            two ends disagree on what they are bound to, the worker does not accept this end's certificate, or the peer speaks
            another protocol).
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class TargetModelError(NetError):
    """The verifier's own model failed; its exception is the cause."""


class CapacityError(NetError):
    """For draft models to raise: no room for this request now. The round completes with status `capacity`."""


def summary(error: BaseException) -> str:
    """An exception on one line of bounded length, for logs: its type, unless it is ours, and its message."""
    text = " ".join(str(error).split())[:_LONGEST]
    name = type(error).__name__
    if isinstance(error, PP1Error):
        return text or name
    return f"{name}: {text}" if text else name
