"""Workers with one weakness each: exactly the cases that are about it fail, and the report names them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pp1wire.attack import Report, Target, Verdict, attack_worker
from pp1wire.net.drafting import Drafter
from pp1wire.net.worker_connection import WorkerConnection
from pp1wire.protocol import Draft, Worker, answer_to
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.wire import CompletionStatus, FrameSplitter, HelloStatus, RefusalReason, RejectCode, RemoteProtocolError
from tests.attack.ends import PADDED, Patient, run, settings, worker_report, wrong
from tests.net.toys import serving, terms

QUICK = {"timeout": 0.15}
RULES = ("valid", "frame", "reset", "step", "commit")


class WithoutDigests(VerifierMessages):
    """Takes the verifier's word for what the prefix is."""

    def _check_prefix(self, place, session, position, digest):
        super()._check_prefix(place, session, position, session.prefix.digest())

    def _check_commit(self, place, session, commit):
        try:
            super()._check_commit(place, session, commit)
        except RemoteProtocolError as error:
            if error.code is not RejectCode.COMMIT_DIGEST_MISMATCH:
                raise


def test_a_worker_without_digests(monkeypatch):
    monkeypatch.setattr("pp1wire.protocol.endpoint.VerifierMessages", WithoutDigests)
    assert wrong(run(worker_report(only=RULES, **QUICK))) == {
        "commit/digest": "accepted", "commit/new-digest": "accepted", "commit/target-only-digest": "accepted",
        "reset/close-digest": "accepted", "step/digest": "accepted",
    }  # fmt: skip


class WithoutConstants(VerifierMessages):
    """Lets seed and context change within a generation."""

    def _check_step(self, place, session, step):
        self._check_prefix(place, session, step.position, step.prefix_digest)


def test_a_worker_that_lets_the_seed_change(monkeypatch):
    monkeypatch.setattr("pp1wire.protocol.endpoint.VerifierMessages", WithoutConstants)
    assert wrong(run(worker_report(only=RULES, **QUICK))) == {
        "step/seed-changed": "accepted", "step/context-changed": "accepted",
    }  # fmt: skip


def test_a_worker_that_drops_stale_generations_instead_of_closing(monkeypatch):
    frames = Worker._frames

    def dropping(self, got, live, events):
        for frame in got:
            try:
                frames(self, [frame], live, events)
            except RemoteProtocolError as error:
                if error.code is not RejectCode.GENERATION_NOT_NEXT:
                    raise

    monkeypatch.setattr(Worker, "_frames", dropping)
    found = wrong(run(worker_report(only=RULES, **QUICK)))
    assert set(found) == {
        "commit/generation-ahead", "commit/generation-stale", "reset/generation-falls", "reset/generation-repeated",
        "reset/generation-skipped", "reset/generation-wraps-to-1", "step/generation-ahead", "step/generation-stale",
    }  # fmt: skip
    assert found["step/generation-stale"] == "ignored"


class Unnumbered(FrameSplitter):
    """Does not count frames."""

    next_sequence = property(lambda self: None, lambda self, number: None)


def test_a_worker_that_does_not_count_frames(monkeypatch):
    monkeypatch.setattr("pp1wire.protocol.endpoint.FrameSplitter", Unnumbered)
    assert wrong(run(worker_report(only=(*RULES, "hello"), **QUICK))) == {
        "hello/sequence": "accepted", "frame/sequence-repeated": "accepted", "frame/sequence-skipped": "accepted",
        "frame/sequence-zero": "accepted",
    }  # fmt: skip


def test_a_worker_that_waits_for_what_is_too_long(monkeypatch):
    monkeypatch.setattr("pp1wire.protocol.endpoint.FrameSplitter", Patient)
    assert wrong(run(worker_report(only=("hello", "frame"), **QUICK))) == {
        "hello/oversized": "hung", "frame/oversized": "hung", "frame/oversized-by-one-id": "hung",
    }  # fmt: skip


def test_a_worker_that_dies_of_garbage_is_named_and_the_rest_is_not_run(monkeypatch):
    fail = WorkerConnection._fail

    async def main():
        async with serving(own=terms(**PADDED)) as server:

            def dying(self, error):
                fail(self, error)
                if error.code is RejectCode.BAD_MAGIC:
                    server._server.close()

            monkeypatch.setattr(WorkerConnection, "_fail", dying)
            report = Report(Target.WORKER, str(server.address), 0)
            await attack_worker(settings(server.address, only=("fault",), wait=0.5), report, None, lambda _: None)
            return report

    report = run(main())
    assert wrong(report) == {"fault/garbage-first": "died"}
    (result,) = report.wrong
    assert "nobody listens there" in result.detail
    before = [r.verdict for r in report.results if r.case.startswith("fault/cut-")]
    assert before == [Verdict.RIGHT] * 6
    after = report.results[report.results.index(result) + 1 :]
    assert {(r.verdict, r.detail) for r in after} == {
        (Verdict.NOT_RUN, "nobody was served any more after fault/garbage-first")
    }
    assert not report.complete


def test_a_worker_that_refuses_for_the_wrong_reason(monkeypatch):
    monkeypatch.setattr("pp1wire.protocol.worker.answer_to", _always_for_the_target)
    found = run(worker_report(given=terms(**PADDED), only=("hello",), **QUICK))
    assert set(wrong(found)) == {
        r.case for r in found.results if r.expected == ("refused",) and r.code != "target_mismatch" and r.observed
    }  # fmt: skip
    assert {r.observed for r in found.wrong} == {"refused"}
    assert "for target instead of id_map" in {r.detail for r in found.wrong}


def _always_for_the_target(offer, own, **options):
    answer = answer_to(offer, own, **options)
    if answer.status is HelloStatus.REFUSED:
        return replace(answer, refusal=RefusalReason.TARGET)
    return answer


class Declining(VerifierMessages):
    """Leaves it to its owner what to do about a STEP with another prefix."""

    def _check_step(self, place, session, step):
        super()._check_step(place, session, replace(step, prefix_digest=session.prefix.digest()))


def test_a_worker_may_decline_a_foreign_prefix_by_the_status_that_there_is_for_it(monkeypatch):
    follow = WorkerConnection._follow

    def declining(self, event):
        if isinstance(event, Draft) and event.step.prefix_digest != self.core._session(event.session).prefix.digest():
            self.core.fail(event.step, CompletionStatus.PREFIX_MISMATCH)
        else:
            follow(self, event)

    monkeypatch.setattr("pp1wire.protocol.endpoint.VerifierMessages", Declining)
    monkeypatch.setattr(WorkerConnection, "_follow", declining)
    report = run(worker_report(only=("step/digest", "step/position")))
    assert wrong(report) == {}
    assert [(r.observed, r.detail) for r in report.results] == [
        ("closed", "code not visible"),
        ("discarded", "answered with COMPLETION(prefix_mismatch), and went on"),
    ]


def test_a_worker_that_uses_its_noise_twice_breaks_a_rule_itself(monkeypatch):
    draft = Drafter.draft

    def repeating(self, step, prefix, gone):
        first = draft(self, replace(step, round=1), prefix, gone)
        return replace(first, rounds=np.full(len(first), step.round, np.uint32))

    monkeypatch.setattr(Drafter, "draft", repeating)
    monkeypatch.setattr("pp1wire.protocol.worker.first_fault", lambda *_: None)
    report = run(worker_report(only=("valid",)))
    assert wrong(report) == {"valid/second-round": "broke"}
    assert "ticket_mismatch" in report.wrong[0].detail
