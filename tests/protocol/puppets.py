"""Real ends that are led through a recorded conversation: they must produce its very bytes, and judge what comes next."""

from __future__ import annotations

from pp1wire.protocol import Draft, Verifier, Worker
from pp1wire.wire import (
    Commit,
    CommitKind,
    CompletionStatus,
    FrameSplitter,
    Hello,
    Reply,
    Representation,
    ResetReason,
    Step,
    decode,
)


class VerifierPuppet:
    """A Verifier that sends what a recorded verifier sent."""

    def __init__(self):
        self.end = None
        self.queued = b""
        self.seed = {}
        self.events = []

    def send(self, data: bytes, ahead: list[bytes]):
        """Make the end send exactly `data`; `ahead` is what the recorded verifier sent later."""
        message = decode(data, self.end.agreement if self.end else None)
        if not self.queued:
            self._command(message, ahead)
            self.queued = self.end.data_to_send()
        assert self.queued[: len(data)] == data
        self.queued = self.queued[len(data) :]

    def receive(self, data: bytes):
        self.events = self.end.receive(data, 0.0)
        self.queued += self.end.data_to_send()
        return self.events

    def _command(self, message, ahead):
        end = self.end
        if isinstance(message, Hello):
            self.end = Verifier(message, step_timeout=None)
            self.end.start(0.0)
        elif isinstance(message, Step):
            end.step(
                message.session, 0.0, depth=message.depth, temperature=message.temperature, support=message.support
            )
        elif isinstance(message, Commit) and message.kind is CommitKind.TARGET_ONLY:
            end.target_only(message.session, int(message.tokens[0]))
        elif isinstance(message, Commit):
            end.commit(message.session, message.accepted, message.kind, message.tokens)
        elif message.reason is ResetReason.OPEN:
            seed, context = self._stream(message, ahead)
            assert end.open(message.prefix_ids, seed, context, generation=message.generation) == message.session
        elif message.reason is ResetReason.CLOSE:
            end.close(message.session)
        elif message.reason is ResetReason.CANCEL:
            seed, context = self._stream(message, ahead)
            end.cancel(message.session, prefix_ids=message.prefix_ids, proposal_seed=seed, context_version=context)
        else:
            end.discard(message.session)

    def _stream(self, reset, ahead):
        # A RESET does not carry the seed, so it is read off the STEP that follows.
        for data in ahead:
            later = decode(data, self.end.agreement)
            if isinstance(later, Step) and later.session == reset.session:
                return later.proposal_seed, later.context_version
        return 0, 0


class WorkerPuppet:
    """A Worker that sends what a recorded worker sent; it is told no sooner than it must be, as answers may cross commands."""

    def __init__(self, own: Hello):
        self.end = Worker(own, prefer=Representation(own.representations))
        self.steps = {}
        self.in_flight = []

    def send(self, data: bytes):
        """Make the end send exactly `data`."""
        header = FrameSplitter(self.end.agreement).feed(data)[0].header if self.end.agreement else None
        key = header.identity if header else None
        while self.in_flight and key not in self.steps:
            self.deliver()
        if header is not None:
            self._answer(decode(data, self.end.agreement), self.steps[key])
        assert self.end.data_to_send() == data

    def receive(self, data: bytes):
        self.in_flight.append(data)

    def deliver(self):
        events = self.end.receive(self.in_flight.pop(0))
        self.steps |= {(e.session, e.step.generation, e.step.round): e.step for e in events if isinstance(e, Draft)}

    def settle(self):
        while self.in_flight:
            self.deliver()

    def _answer(self, message, step):
        if isinstance(message, Reply):
            row = (message.q * 2**24).astype("int32")
            ids = message.ids if len(message.ids) else range(len(row))
            assert self.end.reply_row(step, message.token, ids, row)
        elif message.status is CompletionStatus.OK:
            assert self.end.complete(step)
        else:
            assert self.end.fail(step, message.status)
