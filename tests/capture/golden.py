"""Conversations of the real ends over memory, written down by the recorder and as raw streams."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

from pp1wire.capture.recorder import Recorder
from pp1wire.protocol import Direction, Draft, ProposalReady, Verifier, Worker
from pp1wire.wire import CommitKind, Representation
from tests.protocol.util import answer, draft, offer

CLIENT, SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 9_009)
NOW = 1_800_000_000_000_000_000
MICRO = 1_000
VERIFIER, WORKER = Direction.VERIFIER, Direction.WORKER


@dataclass
class Talk:
    """Both ends; every exchange is noted as (who, bytes) in order."""

    verifier: Verifier
    worker: Worker
    sent: list[tuple[Direction, bytes]] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    events: list = field(default_factory=list)

    def up(self):
        data = self.verifier.data_to_send()
        if data:
            self.sent.append((VERIFIER, data))
            self.drafts += [e for e in self.worker.receive(data) if isinstance(e, Draft)]

    def down(self):
        data = self.worker.data_to_send()
        if data:
            self.sent.append((WORKER, data))
            events = self.verifier.receive(data, 0.0)
            self.events += events
            return events
        return []

    def answer_all(self):
        for event in self.drafts:
            step = event.step
            self.worker.reply(step, *draft(step, self.worker.prefix_ids(step.session), event.tickets()))
        self.drafts.clear()

    def round(self, session, **options):
        self.verifier.step(session, 0.0, **options)
        self.up()
        self.answer_all()
        return next(e.proposal for e in self.down() if isinstance(e, ProposalReady))

    def stream(self, who: Direction) -> bytes:
        return b"".join(data for sender, data in self.sent if sender is who)


def open_talk(representation=Representation.SPARSE) -> Talk:
    talk = Talk(Verifier(offer(representations=(representation,)), step_timeout=None), Worker(answer()))
    talk.verifier.start(0.0)
    talk.up()
    talk.down()
    return talk


def flip_row(data: bytes) -> bytes:
    """The first row of these bytes changed in one bit."""
    return data[:130] + bytes([data[130] ^ 1]) + data[131:]


def golden(representation=Representation.SPARSE, rounds=3, *, fault=False) -> Talk:
    """Two sessions; `rounds` proposals on each, with all kinds of COMMIT, a cancelled round, and an end.

    With `fault` a first round on the first session arrives with a damaged row, and the verifier goes on without it.
    """
    talk = open_talk(representation)
    sessions = [talk.verifier.open([1, 2, 3], seed, context_version=7) for seed in (11, 12)]
    if fault:
        talk.verifier.step(sessions[0], 0.0, depth=2)
        talk.up()
        talk.answer_all()
        data = flip_row(talk.worker.data_to_send())
        talk.sent.append((WORKER, data))
        talk.events += talk.verifier.receive(data, 0.0)
    for turn in range(rounds):
        for session in sessions:
            proposal = talk.round(session, depth=2 + turn % 3)
            drafted = proposal.tokens.tolist()
            if turn % 2:
                talk.verifier.commit(session, len(drafted), CommitKind.BONUS, [*drafted, 5])
            else:
                talk.verifier.commit(session, 1, CommitKind.CORRECTION, [drafted[0], 9])
    talk.verifier.target_only(sessions[0], 4)
    talk.verifier.step(sessions[0], 0.0)
    talk.up()
    talk.drafts.clear()
    talk.verifier.cancel(sessions[0])
    drafted = talk.round(sessions[1], depth=3).tokens.tolist()
    talk.verifier.commit(sessions[1], 2, CommitKind.NONE, drafted[:2])
    for session in sessions:
        talk.verifier.close(session)
    talk.up()
    return talk


def capture(sent, *, end="close", client=CLIENT, server=SERVER, piece=None, recorder=None) -> bytes:
    """A pcapng file of these exchanges, in pieces of `piece` bytes."""
    file = io.BytesIO()
    recorder = recorder or Recorder(file)
    connection = recorder.open(client, server, NOW)
    now = NOW
    for sender, data in sent:
        write = connection.client_sent if sender is VERIFIER else connection.server_sent
        for start in range(0, len(data), piece or len(data)):
            now += MICRO
            write(data[start : start + (piece or len(data))], now)
    if end == "close":
        connection.close(now + MICRO)
    elif end == "abort":
        connection.abort(now + MICRO)
    return file.getvalue()
