"""Recomputes a capture: q and tokens from draft logits, a verifier's decisions from target rows, and signs of steering."""

from pp1wire.audit.auditor import Auditor, audit
from pp1wire.audit.errors import AuditError
from pp1wire.audit.logit_files import FORMAT, Kind, LogitFiles, RoundKey, metadata, read_roots
from pp1wire.audit.result import AuditCode, Result, schema

__all__ = [
    "FORMAT",
    "AuditCode",
    "AuditError",
    "Auditor",
    "Kind",
    "LogitFiles",
    "Result",
    "RoundKey",
    "audit",
    "metadata",
    "read_roots",
    "schema",
]
