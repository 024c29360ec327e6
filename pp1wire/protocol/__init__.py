"""Both ends of PP1 v2 without I/O: negotiation, tables, freshness, slots, tickets, counters, and the passive judge.

Nothing here reads a clock, opens a socket or draws a random number of its own.
"""

from __future__ import annotations

from pp1wire.protocol.counters import Counters
from pp1wire.protocol.events import (
    Agreed,
    Closed,
    Committed,
    Draft,
    Ended,
    Opened,
    ProposalReady,
    Refused,
    ResetTo,
    TargetOnly,
    VerifierEvent,
    WorkerEvent,
)
from pp1wire.protocol.judge import Conversation
from pp1wire.protocol.judge_batch import Piece
from pp1wire.protocol.judged import Direction, Judged
from pp1wire.protocol.negotiation import agree, answer_to, hello
from pp1wire.protocol.notices import MessageDropped, Notice, RoundDiscarded, SessionReset
from pp1wire.protocol.slots import Proposal, SlotPool, required_bytes, row_views
from pp1wire.protocol.tables import ConnectionState, Role, SessionState
from pp1wire.protocol.verifier import Verifier
from pp1wire.protocol.worker import Worker

__all__ = [
    "Agreed",
    "Closed",
    "Committed",
    "ConnectionState",
    "Conversation",
    "Counters",
    "Direction",
    "Draft",
    "Ended",
    "Judged",
    "MessageDropped",
    "Notice",
    "Opened",
    "Piece",
    "Proposal",
    "ProposalReady",
    "Refused",
    "ResetTo",
    "Role",
    "RoundDiscarded",
    "SessionReset",
    "SessionState",
    "SlotPool",
    "TargetOnly",
    "Verifier",
    "VerifierEvent",
    "Worker",
    "WorkerEvent",
    "agree",
    "answer_to",
    "hello",
    "required_bytes",
    "row_views",
]
