"""A Worker under test: the worker's frames of a script are commands, the verifier's are bytes of a hostile peer."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from fuzz.ends.under_test import MAX_HELLO_IDS, EndUnderTest
from fuzz.independent import Fields, digest, fields_of, frame_problem
from fuzz.outcome import Violation
from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import (
    Agreed,
    Closed,
    Committed,
    ConnectionState,
    Direction,
    Draft,
    Opened,
    Refused,
    ResetTo,
    Worker,
)
from pp1wire.wire import CompletionStatus, Hello, MessageType, Representation, ResetReason, Step

__all__ = ["WorkerUnderTest"]

_EVENTS = {
    ResetReason.OPEN: Opened, ResetReason.FAULT: ResetTo, ResetReason.CANCEL: ResetTo, ResetReason.CLOSE: Closed,
}  # fmt: skip


class WorkerUnderTest(EndUnderTest):
    """A real Worker.

    Args:
        own: its HELLO.
    """

    own: ClassVar[Direction] = Direction.WORKER
    peer: ClassVar[Direction] = Direction.VERIFIER

    def __init__(self, own: Hello) -> None:
        prefer = Representation.DENSE if own.representations == 1 else Representation.SPARSE
        self.worker = Worker(own, prefer=prefer)
        super().__init__(self.worker)
        self._prefixes: dict[int, list[int]] = {}
        """The committed ids of each open session, from the frames alone."""
        self._steps: list[Step] = []
        self._told = 0

    def own_turn(self, fields: Fields) -> None:
        """Answer the latest STEP that a frame names, or the latest of all, with whatever the frame has."""
        key = fields["header.session"], fields["header.generation"], fields["header.round"]
        steps = [s for s in self._steps if (s.session, s.generation, s.round) == key] or self._steps
        if steps and fields["header.message_type"] == MessageType.REPLY:
            used = fields["entry_count"]
            counts = [_count(word) for word in fields["q"][:used]]
            ids = fields["ids"][:used] if fields["ids"] else [*range(len(counts))]
            self.command(
                lambda: self.worker.reply_row(steps[-1], fields["token"], _int32(ids), _int32(counts)), "REPLY"
            )
        elif steps and fields["header.message_type"] == MessageType.COMPLETION:
            status = CompletionStatus(fields["status"] % len(CompletionStatus))
            done = status is CompletionStatus.OK
            self.command(
                lambda: self.worker.complete(steps[-1]) if done else self.worker.fail(steps[-1], status), "COMPLETION"
            )

    def peer_turn(self, data: bytes) -> None:
        """Let the verifier send `data`."""
        for event in self.take(data, self.worker.receive):
            if isinstance(event, (Agreed, Refused)):
                self.words += ["HELLO"] if isinstance(event, Agreed) else ["refused", event.reason.name.lower()]
                self._told += 1
            else:
                frame = self.received[self._told]
                self._told += 1
                self.words.append(MessageType(frame[6]).name)
                self._apply(frame, event)
        self.flush()
        self._check_sessions()

    def clock_turn(self) -> None:
        """A worker has no clock."""

    def end_of_input(self) -> None:
        """The verifier sends nothing more."""
        self.finish(self.worker.eof)

    # A second reading of what the verifier said.

    def _apply(self, frame: bytes, event: Any) -> None:
        problem, v = frame_problem(frame, self.worker.agreement), fields_of(frame)
        if problem is not None:
            raise Violation(f"a verifier's message was accepted with a wrong {problem}")
        session = v["header.session"]
        ids = self._prefixes.get(session)
        kind = MessageType(frame[6])
        if kind is MessageType.RESET:
            self._reset(v, event)
            return
        if ids is None or v["position"] != len(ids) or v["prefix_digest"] != digest(ids):
            raise Violation(f"a {kind.name} for another prefix than {ids} was accepted")
        if kind is MessageType.STEP:
            self._draft(v, event)
            return
        if not isinstance(event, Committed):
            raise Violation(f"a COMMIT gave {event}")
        ids += v["tokens"][: v["token_count"]]
        if event.commit.tokens.tolist() != v["tokens"][: v["token_count"]] or v["new_digest"] != digest(ids):
            raise Violation(f"a COMMIT of {v['tokens']} gave {event}")

    def _reset(self, v: Fields, event: Any) -> None:
        session, ids = v["header.session"], v["prefix_ids"]
        if type(event) is not _EVENTS[v["reason"]] or (v["reason"] == ResetReason.OPEN) == (session in self._prefixes):
            raise Violation(f"a RESET with reason {v['reason']} gave {event}")
        if isinstance(event, Closed):
            del self._prefixes[session]
            return
        if not isinstance(event, Opened | ResetTo) or event.prefix_ids.tolist() != ids:
            raise Violation(f"a RESET to {ids} gave {event}")
        self._prefixes[session] = list(ids)

    def _draft(self, v: Fields, event: Any) -> None:
        if not isinstance(event, Draft):
            raise Violation(f"a STEP gave {event}")
        step = event.step
        got = (step.session, step.generation, step.round, step.position, step.depth, step.support, step.proposal_seed)
        names = ("header.session", "header.generation", "header.round", "position", "depth", "support", "proposal_seed")
        if got != tuple(v[name] for name in names):
            raise Violation(f"a STEP gave {event}")
        self._steps.append(step)

    def _check_sessions(self) -> None:
        if self.worker.state is not ConnectionState.OPEN:
            return
        held = {number: self.worker.prefix_ids(number).tolist() for number in self.worker.open_sessions}
        if held != self._prefixes:
            raise Violation(f"the worker holds {held}, it was sent {self._prefixes}")


@lru_cache(maxsize=256)
def own_answer(hello: Hello | None, default: Hello) -> Hello:
    """The answer of a script if a Worker can make it and it is small, else `default`."""
    if hello is None or max(hello.padded_vocab_size, hello.max_support) > MAX_HELLO_IDS:
        return default
    try:
        Worker(hello)
    except LocalProtocolError:
        return default
    return hello


def _count(word: bytes) -> int:
    bits = int.from_bytes(word, "little")
    # NaN, infinities, negatives and what no count can be become one that is refused.
    return int(struct.unpack("<f", word)[0] * 2**24) if bits <= 0x3F800000 else -1


def _int32(values: list[int]) -> Any:
    return np.array(values, np.int32)
