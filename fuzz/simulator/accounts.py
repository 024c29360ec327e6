"""Counters add up: each end's own equations (`Counters.imbalance`), and its counters against what was counted beside it.

The equations compare an end with itself. What it says of messages, bytes, proposals and discards is compared here with the frames
that it made, the events and notices that it told, and the bytes that went through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.simulator.violation import violate
from pp1wire.protocol import Verifier, Worker
from pp1wire.protocol.counters import CANCELLED, CONNECTION_LOST, VERIFIER_DISCARDED

if TYPE_CHECKING:
    from fuzz.simulator.line import Line
    from fuzz.simulator.truth import Tally
    from fuzz.simulator.workers import Seat

__all__ = ["verifier_adds_up", "worker_adds_up"]


_WITHOUT_VOID = (CANCELLED, CONNECTION_LOST, VERIFIER_DISCARDED)
"""Discards that a RESET or the end brings, so the session is never void."""


def verifier_adds_up(line: Line) -> None:
    """Raise Violation unless the counters of this verifier do."""
    counters, tally = line.end.counters, line.truth.tally
    _shared(line.end, tally)
    _equal("proposals = proposals published", counters.proposals, tally.ready)
    _equal("unused = proposals published and lost", counters.unused, tally.ready_lost)
    _equal("bytes_sent = bytes given to the network", counters.bytes_sent, line.taken)
    _equal("bytes_received = bytes taken from it", counters.bytes_received, line.received)
    frame = 0 if line.end.agreement is None else line.end.agreement.reply_frame_bytes
    _equal("row_bytes = rows * frame", counters.row_bytes, counters.rows * frame)
    _equal("accepted", sum(counters.accepted), tally.accepted)
    _equal("failures = 1 if there is an error", sum(counters.failures.values()), line.end.error is not None)


def worker_adds_up(seat: Seat) -> None:
    """Raise Violation unless the counters of this worker, whose connection is open, do."""
    counters = seat.end.counters
    _shared(seat.end, seat.tally)
    _equal("bytes_sent = bytes given to the network", counters.bytes_sent, seat.taken)
    _equal("bytes_received = bytes taken from it", counters.bytes_received, seat.received)


def _shared(end: Verifier | Worker, tally: Tally) -> None:
    """What both ends count of the verifier's messages, and of discards, and both by the same rules."""
    counters, states = end.counters, end.counters.states
    for broken in end.imbalance():
        violate("counters", broken)
    _equal("steps = STEPs", counters.steps, tally.steps)
    _equal("commits = COMMITs of proposals", counters.commits, tally.commits)
    _equal("target_only = COMMITs without", counters.target_only, tally.target_only)
    _equal("tokens = ids committed", counters.tokens, tally.tokens)
    _equal("session.stopped = COMMITs of kind none", states["session.stopped"], tally.stops)
    _equal("session.closed = RESETs that close", states["session.closed"], tally.closes)
    # What a failed end had queued, a RESET perhaps, was never sent, so nobody saw it.
    if end.error is None:
        _equal(
            "idle + stopped = opens + resets + commits + target_only",
            states["session.idle"] + states["session.stopped"],
            tally.opens + tally.resets + tally.commits + tally.target_only,
        )
    without = sum(counters.discards[reason] for reason in _WITHOUT_VOID)
    _equal(
        "session.void = discards but by RESET and end",
        states["session.void"],
        sum(counters.discards.values()) - without,
    )
    if counters.discards != tally.discards:
        violate("counters", f"discards are {_differences(counters.discards, tally.discards)}, as told to the watcher")
    if counters.dropped != tally.dropped:
        violate("counters", f"drops are {_differences(counters.dropped, tally.dropped)}, as told to the watcher")


def _differences(own: dict[str, int], told: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}, not {told[reason]}" for reason, count in own.items() if count != told[reason])


def _equal(equation: str, left: int, right: int) -> None:
    if left != right:
        violate("counters", f"{equation}: {left} != {right}")
