"""This package's two ends over blocking sockets: STEPs out, proposals in, judged in full and lying in their slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pp1wire.protocol import Agreed, Draft, ProposalReady, Worker
from pp1wire.wire import Agreement, CommitKind, ReplyBatch, Representation, Step

from .. import data, ends
from . import precomputed
from .loopback import READ_BYTES, accepted, connected

NAME = "pp1wire"
AHEAD = 400
"""Rounds that are drafted behind the first one, which nobody times; any beyond these when they are asked for."""
_SEED, _TOKEN = 2**50, 7


def open_sessions(verifier: ends.Verifier) -> list[int]:
    return [verifier.open(list(range(ends.PREFIX)), _SEED + number) for number in range(data.REQUESTS)]


@cache
def exchanged_bytes() -> tuple[int, int]:
    """Bytes of a round there and back: four STEPs, and four proposals."""
    verifier, worker = ends.verifier(Representation.SPARSE), ends.worker(Representation.SPARSE)
    verifier.start(0.0)
    worker.receive(verifier.data_to_send())
    verifier.receive(worker.data_to_send(), 0.0)
    sessions = open_sessions(verifier)
    worker.receive(verifier.data_to_send())
    for session in sessions:
        verifier.step(session, 0.0)
    asked = verifier.data_to_send()
    answer(worker, asked, Drafted(), precomputed.batch()[0])
    return len(asked), len(worker.data_to_send())


class Drafted:
    """Proposals by session and round, drafted ahead of being asked for: every round rejects all and commits one token."""

    def __init__(self) -> None:
        self._ready: dict[tuple[int, int], ReplyBatch] = {}

    def ahead(self, step: Step, agreement: Agreement) -> None:
        later = [replace(step, round=step.round + n, position=step.position + n) for n in range(1, AHEAD)]
        for asked, drafted in zip(later, precomputed.proposals(later, agreement), strict=True):
            self._ready[asked.session, asked.round] = drafted

    def take(self, step: Step, agreement: Agreement) -> ReplyBatch:
        found = self._ready.pop((step.session, step.round), None)
        return precomputed.proposals([step], agreement)[0] if found is None else found


def answer(worker: Worker, asked: bytes | memoryview, drafted: Drafted, agreement: Agreement) -> list[Step]:
    """Queue the proposals for what is asked; the STEPs that were."""
    steps = [event.step for event in worker.receive(asked) if isinstance(event, Draft)]
    for step in steps:
        worker.reply_batch(step, drafted.take(step, agreement))
    return steps


def serve(tell: Callable[[str], None]) -> None:
    worker, drafted = ends.worker(Representation.SPARSE), Drafted()
    agreement: Agreement | None = None
    buffer = memoryview(bytearray(READ_BYTES))
    with accepted(tell) as sock:
        while size := sock.recv_into(buffer):
            if agreement is None:
                events = worker.receive(buffer[:size])
                agreement = next((e.agreement for e in events if isinstance(e, Agreed)), None)
                steps = []
            else:
                steps = answer(worker, buffer[:size], drafted, agreement)
            if pieces := worker.buffers_to_send():
                sock.sendmsg(pieces) if len(pieces) < 64 else sock.sendall(b"".join(pieces))
            for step in steps:
                if step.round == 1 and agreement is not None:
                    drafted.ahead(step, agreement)


class Client:
    def __init__(self, address: str) -> None:
        self._sock, self._verifier = connected(address), ends.verifier(Representation.SPARSE)
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._verifier.start(0.0)
        self._send()
        self._receive()
        self._sessions = open_sessions(self._verifier)
        self._send()
        self.trip()  # the worker drafts ahead behind its first round, and answers the next when it has
        self.settle()

    def trip(self) -> int:
        verifier, ready = self._verifier, []
        for session in self._sessions:
            verifier.step(session, 0.0)
        self._send()
        while len(ready) < len(self._sessions):
            ready += [event.proposal for event in self._receive() if isinstance(event, ProposalReady)]
        return sum(len(proposal.tokens) for proposal in ready)

    def settle(self) -> None:
        for session in self._sessions:
            self._verifier.commit(session, 0, CommitKind.CORRECTION, [_TOKEN])
        self._send()

    def close(self) -> None:
        self._sock.close()

    def _send(self) -> None:
        self._sock.sendall(self._verifier.data_to_send())

    def _receive(self) -> list[object]:
        size = self._sock.recv_into(self._buffer)
        if not size:
            raise ConnectionError("the worker is gone")
        return list(self._verifier.receive(self._buffer[:size], 0.0))
