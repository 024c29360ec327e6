"""What the simulator needs of both ends alike: their HELLOs, and whether a refused call changed anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzz.simulator.scenario import Scenario
from fuzz.simulator.violation import violate
from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Verifier, Worker, hello
from pp1wire.wire import Hello, HelloRole, Representation

__all__ = ["expect_refused", "greeting", "snapshot"]


def greeting(scenario: Scenario, role: HelloRole, nonce: bytes, **smaller: int) -> Hello:
    """The HELLO of an end; `smaller` are capacities that differ from the scenario's."""
    both = scenario.both or role is HelloRole.ANSWER
    capacities = {
        "max_slots": scenario.slots,
        "max_depth": scenario.depth,
        "max_support": min(scenario.support, scenario.vocab),
        "max_prefix": scenario.max_prefix,
    } | smaller
    return hello(
        role,
        vocab_size=scenario.vocab,
        padded_vocab_size=scenario.padded,
        nonce=nonce,
        id_map_sha256=b"m" * 32,
        draft_checkpoint_sha256=b"d" * 32,
        draft_revision="toy",
        target_sha256=b"t" * 32,
        representations=tuple(Representation) if both else (scenario.representation,),
        max_slots=capacities["max_slots"],
        max_depth=capacities["max_depth"],
        max_support=capacities["max_support"],
        max_prefix=capacities["max_prefix"],
    )


def snapshot(end: Verifier | Worker) -> Any:
    """Everything about an end that a call could change."""
    live = end._live
    if live is None:
        return end.state, end.counters.as_dict()
    sessions = [
        (
            s.number, s.slot, s.generation, s.state, s.round, s.position, s.prefix.digest(), s.proposal_seed,
            s.context_version, None if s.current is None else (s.current.step, list(s.current.checksums)),
        )
        for s in live.sessions.open.values()
    ]  # fmt: skip
    slots = [None if s is None else s.number for s in live.sessions.slots]
    return end.state, end.counters.as_dict(), sessions, live.sessions.last, slots, end._sequence, len(end._outgoing)


def expect_refused(end: Verifier | Worker, what: str, call: Callable[[], Any]) -> None:
    """Make a call that is not allowed: it raises LocalProtocolError and changes nothing."""
    before = snapshot(end)
    try:
        result = call()
    except LocalProtocolError:
        pass
    else:
        violate("refused", f"{what} was not refused: {result!r}")
    if snapshot(end) != before:
        violate("refused", f"{what} was refused, but changed something")
