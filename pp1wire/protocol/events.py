"""What the two ends tell their owners. Plain frozen records; errors are raised instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pp1wire.protocol.session import step_tickets
from pp1wire.protocol.slots import Proposal
from pp1wire.wire import Agreement, Commit, RefusalReason, ResetReason, Step

__all__ = [
    "Agreed",
    "Closed",
    "Committed",
    "Draft",
    "Ended",
    "Opened",
    "ProposalReady",
    "Refused",
    "ResetTo",
    "TargetOnly",
    "VerifierEvent",
    "WorkerEvent",
]


@dataclass(frozen=True, slots=True)
class Agreed:
    """Both: the HELLOs are settled and sessions can be opened."""

    agreement: Agreement


@dataclass(frozen=True, slots=True)
class ProposalReady:
    """Verifier: a proposal passed every check; verify it and `commit`."""

    session: int
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class TargetOnly:
    """Verifier: the open round was discarded, and a RESET that says so is queued.

    Go on from the committed prefix: with `target_only` for a token of the target alone, or with `step`.
    """

    session: int
    generation: int
    """The new generation."""
    reason: str
    """A reject code's name in lower case, `deadline`, or `completion_` and a status."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Both: the connection is over without a fault of the protocol; every session on it is gone.

    `reason` is closed (by the peer, or here), hello_deadline, refused, or generation_exhausted.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Worker: the offer was refused; the answer that says so is queued, then the connection closes."""

    reason: RefusalReason


@dataclass(frozen=True, slots=True)
class Opened:
    """Worker: a new session. Build the draft model's state from `prefix_ids` (int32 [n])."""

    session: int
    slot: int
    generation: int
    prefix_ids: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class ResetTo:
    """Worker: forget everything of the session but that it exists: its state is exactly `prefix_ids` (int32 [n])."""

    session: int
    slot: int
    generation: int
    reason: ResetReason
    prefix_ids: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Draft:
    """Worker: draft `step.depth` tokens, each drawn from its q with its ticket, and `reply`."""

    step: Step

    @property
    def session(self) -> int:
        """The session's number."""
        return self.step.session

    def tickets(self) -> npt.NDArray[np.int64]:
        """The ticket of each position, int64 [depth], in [0, 2^24): draw with these and nothing else."""
        return step_tickets([self.step])[0]


@dataclass(frozen=True, slots=True)
class Committed:
    """Worker: the session's prefix grew by `commit.tokens`."""

    commit: Commit

    @property
    def session(self) -> int:
        """The session's number."""
        return self.commit.session


@dataclass(frozen=True, slots=True)
class Closed:
    """Worker: the session is over and its slot free."""

    session: int
    slot: int


VerifierEvent = Agreed | ProposalReady | TargetOnly | Ended
WorkerEvent = Agreed | Refused | Opened | ResetTo | Draft | Committed | Closed | Ended
