"""Both ends and a passive judge in lock step, over any history and any delay of the bytes between them.

Nothing that honest ends do may be judged wrong, whatever crosses on the way; and whenever the wires are empty, everybody
holds the same state: [prefix] the worker's is exactly what the verifier has committed.
"""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pp1wire.protocol import Conversation, Direction, Draft, ProposalReady, SessionState, TargetOnly, Verifier, Worker
from pp1wire.wire import CommitKind, CompletionStatus, Representation
from tests.protocol.util import VOCAB, answer, draft, offer, snapshot

CUTS = st.one_of(st.integers(0, 600), st.just(10**6))
FAILURES = [s for s in CompletionStatus if s is not CompletionStatus.OK]


class LockStep(RuleBasedStateMachine):
    @initialize(representation=st.sampled_from(list(Representation)), slots=st.integers(1, 4))
    def greet(self, representation, slots):
        self.verifier = Verifier(
            offer(representations=(representation,), max_slots=slots, max_prefix=64), step_timeout=1.0
        )
        self.worker = Worker(answer())
        self.judge = Conversation()
        self.downstream, self.upstream = b"", b""
        self.now = 0.0
        self.drafts, self.ready, self.held = [], {}, []
        self.keys = set()
        self.verifier.start(self.now)
        self.carry()
        self.settle()
        for seed in range(slots):
            self.verifier.open([seed], seed)

    # The wires.

    def carry(self):
        sent = self.verifier.data_to_send()
        assert all(v.error is None for v in self.judge.feed(Direction.VERIFIER, sent))
        self.downstream += sent
        self.upstream += self.worker.data_to_send()

    def to_worker(self, count):
        data, self.downstream = self.downstream[:count], self.downstream[count:]
        self.drafts += [e for e in self.worker.receive(data) if isinstance(e, Draft)]
        self.carry()

    def to_verifier(self, count):
        data, self.upstream = self.upstream[:count], self.upstream[count:]
        for verdict in self.judge.feed(Direction.WORKER, data):
            assert verdict.error is None or verdict.error.scope == "stale"
        for event in self.verifier.receive(data, self.now):
            if isinstance(event, ProposalReady):
                self.ready[event.session] = event.proposal
                self.honest(event.proposal)
            elif isinstance(event, TargetOnly):
                self.ready.pop(event.session, None)
        self.carry()

    def settle(self):
        while self.downstream or self.upstream or self.verifier.has_data_to_send or self.worker.has_data_to_send:
            self.carry()
            self.to_worker(len(self.downstream))
            self.to_verifier(len(self.upstream))

    @rule(down=CUTS, up=CUTS)
    def deliver(self, down, up):
        self.to_worker(down)
        self.to_verifier(up)

    @rule()
    def answer_everything(self):
        self.settle()
        for event in self.drafts:
            if self.worker.awaits(event.step) and not self.worker._session(event.session).latest.rows:
                self.worker.reply(
                    event.step, *draft(event.step, self.worker.prefix_ids(event.session), event.tickets())
                )
        self.drafts.clear()
        self.settle()

    # The verifier.

    def choose(self, data, *states):
        fitting = [n for n in self.verifier.open_sessions if self.verifier.session_state(n) in states]
        return data.draw(st.sampled_from(fitting)) if fitting else None

    @rule(length=st.integers(0, 5), seed=st.integers(0, 2**64 - 1), context=st.integers(0, 3))
    def open(self, length, seed, context):
        free = self.verifier.agreement.max_slots - len(self.verifier.open_sessions)
        if free and any(
            self.verifier._pool.can_lease(i) for i, s in enumerate(self.verifier._live.sessions.slots) if s is None
        ):
            self.verifier.open(np.arange(length), seed, context)
            self.carry()

    @rule(data=st.data(), depth=st.integers(1, 5))
    def ask(self, data, depth):
        self.step(data, depth)

    def step(self, data, depth):
        number = self.choose(data, SessionState.IDLE)
        if number is None or len(self.verifier.prefix_ids(number)) + depth + 1 > 64:
            return
        if not self.verifier._pool.can_lease(self.verifier._session(number).slot):
            return
        self.verifier.step(number, self.now, depth=depth)
        step = self.verifier._session(number).latest.step
        key = (number, step.generation, step.round)
        assert key not in self.keys
        self.keys.add(key)
        self.carry()

    @rule(data=st.data(), depth=st.integers(1, 5))
    def round(self, data, depth):
        self.step(data, depth)
        self.answer_everything()

    @rule(data=st.data(), hold=st.booleans())
    def commit(self, data, hold):
        number = self.choose(data, SessionState.READY)
        if number is None:
            return
        proposal = self.ready.pop(number)
        if hold:
            self.held.append((proposal.retain(), proposal.q.copy()))
        accepted = data.draw(st.integers(0, proposal.depth))
        tokens = proposal.tokens[:accepted].tolist()
        kind = CommitKind.BONUS if accepted == proposal.depth else CommitKind.CORRECTION
        if accepted and data.draw(st.integers(0, 4)) == 0:
            self.verifier.commit(number, accepted, CommitKind.NONE, tokens)
            self.verifier.close(number)
        else:
            self.verifier.commit(number, accepted, kind, [*tokens, data.draw(st.integers(0, VOCAB - 1))])
        self.carry()

    @precondition(lambda self: getattr(self, "held", None))
    @rule()
    def release(self):
        proposal, q = self.held.pop(0)
        assert np.array_equal(proposal.q, q)
        proposal.release()

    @rule(data=st.data(), token=st.integers(0, VOCAB - 1))
    def target_only(self, data, token):
        number = self.choose(data, SessionState.IDLE)
        if number is not None and len(self.verifier.prefix_ids(number)) < 64:
            self.verifier.target_only(number, token)
            self.carry()

    @rule(data=st.data(), way=st.sampled_from(["cancel", "close", "change", "discard"]))
    def give_up(self, data, way):
        number = self.choose(data, *SessionState)
        if number is None:
            return
        if (
            way == "discard"
            and number not in self.ready
            and self.verifier.session_state(number) is not SessionState.DRAFTING
        ):
            return
        self.ready.pop(number, None)
        if way == "cancel":
            self.verifier.cancel(number)
        elif way == "change":
            self.verifier.cancel(number, prefix_ids=[5, 6], proposal_seed=1, context_version=9)
        elif way == "discard":
            self.verifier.discard(number)
        else:
            self.verifier.close(number)
        self.carry()

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.3, 2.0]))
    def wait(self, seconds):
        self.now += seconds
        for event in self.verifier.check_deadlines(self.now):
            assert event.reason == "deadline"
        self.carry()

    # The worker.

    @precondition(lambda self: getattr(self, "drafts", None))
    @rule(data=st.data(), way=st.sampled_from(["whole", "whole", "rows", "one row", "fail"]))
    def answer(self, data, way):
        index = data.draw(st.integers(0, len(self.drafts) - 1))
        step, awaited = self.drafts[index].step, self.worker.awaits(self.drafts[index].step)
        rows = 0
        if awaited:
            rows = self.worker._session(step.session).latest.rows
        prefix = self.worker.prefix_ids(step.session) if awaited else []
        tokens, q = draft(step, prefix, self.drafts[index].tickets())
        if way == "one row" and rows < step.depth:
            assert self.worker.reply_row(step, tokens[rows], *q[rows]) is awaited
            self.carry()
            return
        self.drafts.pop(index)
        if way == "fail":
            sent = self.worker.fail(step, data.draw(st.sampled_from(FAILURES)))
        elif way == "whole" and rows == 0:
            sent = self.worker.reply(step, tokens, q)
        else:
            for i in range(rows, step.depth):
                self.worker.reply_row(step, tokens[i], *q[i])
            sent = self.worker.complete(step)
        assert sent is awaited
        self.carry()

    def honest(self, proposal):
        """The proposal is what the model drafts in this place: nothing of another round or slot."""
        session = self.verifier._session(proposal.session)
        tokens, _ = draft(session.latest.step, self.verifier.prefix_ids(proposal.session), session.latest.tickets)
        assert proposal.tokens.tolist() == tokens

    @rule(data=st.data(), up=CUTS)
    def cross(self, data, up):
        """The verifier gives up while answers are on their way, some of them perhaps read already."""
        self.step(data, 3)
        self.to_worker(10**6)
        for event in self.drafts:
            if self.worker.awaits(event.step) and not self.worker._session(event.session).latest.rows:
                self.worker.reply(
                    event.step, *draft(event.step, self.worker.prefix_ids(event.session), event.tickets())
                )
        self.drafts.clear()
        self.carry()
        self.to_verifier(up)
        if number := self.choose(data, SessionState.DRAFTING):
            self.verifier.cancel(number)
            self.carry()

    # What always holds.

    @invariant()
    def nobody_is_wrong(self):
        if not hasattr(self, "verifier"):
            return
        assert self.verifier.error is None
        assert self.worker.error is None
        assert self.verifier.imbalance() == self.worker.imbalance() == []
        rounds = sum(s.open_round() is not None for s in self.verifier._live.sessions.open.values())
        assert self.verifier._pool.held() <= rounds + len(self.held)

    def teardown(self):
        if not hasattr(self, "verifier"):
            return
        self.settle()
        states = {n: self.verifier.session_state(n) for n in self.verifier.open_sessions}
        if SessionState.DRAFTING not in states.values():
            assert snapshot(self.verifier) == snapshot(self.worker)
        for number in self.verifier.open_sessions:
            seen = self.judge.sessions.open[number]
            own = self.verifier._session(number)
            assert np.array_equal(self.verifier.prefix_ids(number), self.worker.prefix_ids(number))
            assert (seen.generation, seen.round, seen.state, seen.prefix.digest()) == (
                own.generation, own.round, own.state, own.prefix.digest(),
            )  # fmt: skip
        assert self.judge.counters.committed == self.verifier.counters.committed == self.worker.counters.committed
        assert self.judge.counters.tokens == self.verifier.counters.tokens
        assert self.worker.counters.bytes_sent == self.verifier.counters.bytes_received
        for end in (self.verifier, self.worker):
            assert not any(end.counters.failures.values())


TestLockStep = LockStep.TestCase
TestLockStep.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
