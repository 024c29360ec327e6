"""Verifiers with one weakness each: exactly the cases that are about it fail, and the report names them."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from pp1wire.net.verifier_connection import VerifierConnection
from pp1wire.protocol import TargetOnly, worker_messages
from pp1wire.protocol.worker_messages import WorkerMessages
from pp1wire.wire import Frame, RejectCode, read_rows
from pp1wire.wire.checksums import body_checksum
from pp1wire.wire.header import seal
from pp1wire.wire.rows import row_layout
from tests.attack.ends import Patient, run, verifier_report, wrong

RULES = ("valid", "stale", "fresh", "order", "sparse-row", "sparse-completion", "dense-row")


@pytest.fixture
def weak(monkeypatch):
    """Puts a class in the place of what judges the worker's messages in an end; the attack's own judge keeps the real one."""
    return lambda cls: monkeypatch.setattr("pp1wire.protocol.endpoint.WorkerMessages", cls)


class WithoutTickets(WorkerMessages):
    """Takes any token that has q for one that was drawn from it."""

    def _rows(self, runs, frames):
        with patch.object(worker_messages, "tickets_agree", lambda counts, *_: np.ones(len(counts), np.bool_)):
            return iter(list(super()._rows(runs, frames)))


def test_a_verifier_without_tickets(weak):
    weak(WithoutTickets)
    assert wrong(run(verifier_report(only=RULES))) == {
        "sparse-row/ticket": "accepted", "dense-row/ticket": "accepted",
    }  # fmt: skip


class Renormalising(WorkerMessages):
    """Gives the first entry of a sparse row what is missing of its mass, or takes what is too much."""

    def _rows(self, runs, frames):
        with patch.object(worker_messages, "read_rows", _repaired_rows):
            return iter(list(super()._rows(runs, frames)))


def _repaired_rows(frames, agreement):
    batch, error = read_rows(frames, agreement)
    if error is None or error.code is not RejectCode.Q_MASS_MISMATCH or not agreement.id_entries:
        return batch, error
    checksums = [frame.header.body_checksum for frame in frames]
    repaired = [*frames[: len(batch)], _repaired(frames[len(batch)], agreement), *frames[len(batch) + 1 :]]
    batch, error = _repaired_rows(repaired, agreement)
    return replace(batch, row_checksums=np.array(checksums[: len(batch)], np.uint64)), error


def _repaired(frame, agreement):
    data = bytearray(frame.data)
    row = np.frombuffer(data, row_layout(agreement).dtype)
    row["q"][0, 0] = 1 - row["q"][0, 1:].sum()
    header = frame.header
    seal(
        data, header.message_type, sequence=header.sequence, agreement_id=header.agreement_id, session=header.session,
        slot=header.slot, generation=header.generation, round=header.round,
    )  # fmt: skip
    view = memoryview(bytes(data))
    sealed = header._replace(body_checksum=body_checksum(view))
    return Frame(sealed, view, frame.offset, view, 0)


def test_a_verifier_that_renormalises_instead_of_checking_the_mass(weak):
    weak(Renormalising)
    found = wrong(run(verifier_report(only=RULES)))
    # Twice the mass leaves less than nothing for the first entry, so that is found as another fault.
    assert found == {"sparse-row/mass-short": "accepted", "sparse-row/mass-over": "accepted"}


class Forgetful(WorkerMessages):
    """Takes every answer for one to the round that is open, whatever generation, round or session it names."""

    def judge(self, frames):
        return super().judge([self._relabelled(frame) for frame in frames])

    def _relabelled(self, frame):
        open_ones = [s for s in self.sessions.open.values() if s.current is not None]
        if not open_ones:
            return frame
        session = self.sessions.open.get(frame.header.session, open_ones[0])
        header = frame.header._replace(
            session=session.number, slot=session.slot, generation=session.generation, round=session.step_round
        )
        return Frame(header, frame.data, frame.offset, frame.source, frame.start)


def test_a_verifier_that_accepts_late_rows(weak):
    weak(Forgetful)
    found = wrong(run(verifier_report(only=("valid", "stale", "fresh"), settle=1.0)))
    assert found == {
        "stale/older-generation": "accepted", "stale/older-round": "accepted", "stale/closed-session": "accepted",
        # Rows that were really drawn for another round fail their tickets, and so cost the open one.
        "stale/replayed-proposal": "discarded",
        "fresh/session-never-issued": "accepted", "fresh/generation-never-issued": "accepted",
        "fresh/round-never-issued": "accepted", "fresh/completion-generation-never-issued": "accepted",
        "fresh/completion-round-never-issued": "accepted", "fresh/slot": "accepted",
    }  # fmt: skip


class Unhashed(WorkerMessages):
    """Does not compute the checksum of a body."""

    def judge(self, frames):
        unhashed = [
            Frame(f.header._replace(body_checksum=body_checksum(f.data)), f.data, f.offset, f.source, f.start)
            for f in frames
        ]
        return super().judge(unhashed)


def test_a_verifier_that_skips_the_body_checksum(weak):
    weak(Unhashed)
    assert wrong(run(verifier_report(only=RULES))) == {
        "sparse-row/body-checksum": "accepted", "sparse-row/moved": "accepted", "dense-row/body-checksum": "accepted",
        "dense-row/moved": "accepted", "sparse-completion/body-checksum": "accepted",
        # Its rounds are what that case spoils in this way.
        "fresh/too-many-discards": "accepted",
    }  # fmt: skip


class Impatient(WorkerMessages):
    """Ends the connection for what costs a round."""

    def _discard(self, session, error, offset):
        self.discards_in_a_row = 7
        return super()._discard(session, error, offset)


def test_a_verifier_that_closes_for_what_costs_a_round(weak):
    weak(Impatient)
    report = run(verifier_report(only=("valid", "sparse-completion", "order")))
    assert wrong(report) == {
        r.case: "closed" for r in report.results if r.case.startswith(("sparse-completion/", "order/"))
    }
    assert len(wrong(report)) == 14


class Enduring(WorkerMessages):
    """Never has enough of rejected rounds."""

    def _discard(self, session, error, offset):
        self.discards_in_a_row = 0
        return super()._discard(session, error, offset)


def test_a_verifier_that_never_has_enough_of_rejected_rounds(weak):
    weak(Enduring)
    report = run(verifier_report(only=("valid", "fresh")))
    assert wrong(report) == {"fresh/too-many-discards": "discarded"}


def test_a_verifier_that_waits_for_what_is_too_long(monkeypatch):
    monkeypatch.setattr("pp1wire.protocol.endpoint.FrameSplitter", Patient)
    found = wrong(run(verifier_report(only=("hello/oversized", "hello/short", "frame"), timeout=0.7)))
    assert found == {"hello/oversized": "hung", "frame/oversized": "hung"}


def test_a_verifier_that_resets_and_then_closes(monkeypatch):
    follow = VerifierConnection._follow

    def leaving(self, events):
        follow(self, events)
        if any(isinstance(event, TargetOnly) for event in events):
            self.give_up("one fault is enough")

    monkeypatch.setattr(VerifierConnection, "_follow", leaving)
    report = run(verifier_report(only=("order", "valid/given-up-internal")))
    assert wrong(report) == {r.case: "closed" for r in report.results}
    assert {r.detail for r in report.results} == {"discarded, and then ended the connection"}
