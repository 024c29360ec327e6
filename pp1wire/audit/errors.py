"""Errors of the audit's own files."""

from __future__ import annotations

from pp1wire.errors import PP1Error

__all__ = ["AuditError"]


class AuditError(PP1Error):
    """A file of logits or of seeds cannot be used: which one, where, and why."""
