"""Errors of the sampler: each says what was refused, where, what was expected and what was found."""

from __future__ import annotations

from pp1wire.errors import PP1Error

__all__ = [
    "AllocationError",
    "BackendUnavailable",
    "FlushToZeroError",
    "ProposalRefused",
    "SamplingError",
    "TargetRefused",
]


class SamplingError(PP1Error, ValueError):
    """The sampler was given something that defines no probability law, or a key that is out of range."""


class AllocationError(SamplingError):
    """The integer allocation of a row contradicts itself; nothing is clipped or repaired."""


class BackendUnavailable(SamplingError):
    """The package or the device that a backend needs is not there; the message names the extra that brings it."""


class FlushToZeroError(SamplingError):
    """This thread flushes subnormal numbers to zero, so its counts would differ from those of other machines."""


class ProposalRefused(SamplingError):
    """A drafted token, or the q it came with, cannot be verified; the whole proposal must be discarded."""


class TargetRefused(SamplingError):
    """The target's own row is not a probability distribution; this is the verifier's fault, not its peer's."""
