"""[own bytes] [chunking] What an end is given stays its giver's, and its end is told however its bytes are split."""

from __future__ import annotations

import pytest

from pp1wire.protocol import Draft, Ended
from pp1wire.wire import CompletionStatus, RemoteProtocolError
from tests.protocol.util import pair
from tests.wire.frames import sealed


@pytest.mark.parametrize("behind", [False, True], ids=["error-alone", "behind-events"])
@pytest.mark.parametrize("end", ["verifier", "worker"])
def test_own_bytes_an_error_of_receive_leaves_the_buffer_to_its_owner(end, behind):
    p = pair()
    session = p.verifier.open([1, 2, 3], 5)
    if end == "verifier":
        p.verifier.step(session, 0.0, depth=2)
        p.to_worker()
        p.answer_all()
        data, receive = p.worker.data_to_send(), lambda given: p.verifier.receive(given, 0.0)
    else:
        data, receive = p.verifier.data_to_send(), p.worker.receive
    buffer = bytearray((data if behind else b"") + b"GARBAGE" * 20)
    if behind:
        assert receive(buffer)
        buffer.clear()
    else:
        with pytest.raises(RemoteProtocolError):
            receive(buffer)
        buffer.clear()
    with pytest.raises(RemoteProtocolError):
        receive(b"")


def last_generation(behind):
    """A verifier whose round fails in its last generation, and what its worker sends: that, and something behind it."""
    p = pair()
    p.verifier.step(p.verifier.open([1, 2, 3], 5, generation=2**32 - 1), 0.0, depth=2)
    draft = next(e for e in p.to_worker() if isinstance(e, Draft))
    p.worker.fail(draft.step, CompletionStatus.MODEL_ERROR)
    first = p.worker.data_to_send()
    if behind == "frame":
        frame = bytearray(first)
        frame[8:16] = (int.from_bytes(first[8:16], "little") + 1).to_bytes(8, "little")
        return p.verifier, first, sealed(frame)
    return p.verifier, first, b"X" * 100


@pytest.mark.parametrize("behind", ["frame", "garbage"])
@pytest.mark.parametrize("cut", [0, 50])
def test_chunking_an_end_by_generation_exhausted_is_told_however_the_bytes_are_split(cut, behind):
    verifier, first, rest = last_generation(behind)
    events = verifier.receive(first[:cut], 0.0) if cut else []
    events += verifier.receive(first[cut:] + rest, 0.0)
    assert events == [Ended("generation_exhausted")]
