"""Each end of a connection says of every vector what the offline judge says: code, scope, and what it costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pp1wire.capture.vectors import Vector, load_vectors
from pp1wire.protocol import Direction, TargetOnly
from pp1wire.wire import RemoteProtocolError, Reset, ResetReason, decode
from tests.schemas.replay import NOW, play_verifier, play_worker

# One exact frame is a matter of `decode`; the ends read streams.
VECTORS = [v for v in load_vectors() if not v.whole]
TO_WORKER = [v for v in VECTORS if v.sender is Direction.VERIFIER]
TO_VERIFIER = [v for v in VECTORS if v.sender is Direction.WORKER]


def reject_of(receive: Callable[[], object], end: Callable[[], object]) -> tuple[str, str, int, str] | None:
    try:
        receive()
        end()
    except RemoteProtocolError as error:
        return error.code.name.lower(), error.scope, error.offset, error.path
    return None


@pytest.mark.parametrize("vector", TO_WORKER, ids=lambda v: v.name)
def test_exact_code_at_the_worker(vector: Vector) -> None:
    """Whatever is wrong in what a worker receives ends the connection, and is told again by the next call."""
    worker = play_worker(vector.conversation)
    assert reject_of(lambda: worker.receive(vector.data), worker.eof) == vector.reject
    if vector.reject is not None:
        assert vector.reject[1] == "connection"
        assert worker.open_sessions == ()
        assert reject_of(lambda: worker.receive(b""), lambda: None) == vector.reject


@pytest.mark.parametrize("vector", TO_VERIFIER, ids=lambda v: v.name)
def test_exact_code_at_the_verifier(vector: Vector) -> None:
    verifier = play_verifier(vector.conversation)
    discards, dropped = verifier.counters.discards.copy(), verifier.counters.dropped.copy()
    scope = None if vector.reject is None else vector.reject[1]
    if scope not in ("proposal", "stale"):
        assert reject_of(lambda: verifier.receive(vector.data, NOW), verifier.eof) == vector.reject
        return
    assert vector.reject is not None
    code = vector.reject[0]
    events = verifier.receive(vector.data, NOW)
    assert verifier.error is None
    if scope == "stale":
        assert events == []
        assert verifier.counters.dropped[code] == dropped[code] + 1
        assert not verifier.has_data_to_send
        return
    generation = int.from_bytes(vector.data[40:44], "little")
    assert events == [TargetOnly(1, generation + 1, code)]
    assert verifier.counters.discards[code] == discards[code] + 1
    reset = decode(verifier.data_to_send(), verifier.agreement)
    assert isinstance(reset, Reset)
    assert reset.reason is ResetReason.FAULT


def test_ends_see_every_scope() -> None:
    """The tests above are no evidence unless they saw each scope."""
    assert {v.reject[1] for v in TO_VERIFIER if v.reject} == {"connection", "proposal", "stale"}
    assert {v.reject[1] for v in TO_WORKER if v.reject} == {"connection"}
