"""Every error this package raises on purpose derives from `PP1Error`."""

from __future__ import annotations

__all__ = ["LocalProtocolError", "PP1Error"]


class PP1Error(Exception):
    """Base of every error that pp1wire raises on purpose."""


class LocalProtocolError(PP1Error):
    """The caller asked for something the protocol does not allow; nothing was changed and nothing was sent."""
