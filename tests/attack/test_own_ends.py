"""Our own ends pass every case, under every agreement and transport."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pp1wire.attack import Outcome, Target, Verdict, verifier_cases, worker_cases
from pp1wire.net import client_tls, server_tls
from pp1wire.wire import CompletionStatus, RejectCode, Representation
from pp1wire.wire._schema_v2 import MAX_DISCARDS_IN_A_ROW
from tests.attack.ends import run, skipped, verifier_report, worker_report, wrong
from tests.net.test_tls import Files
from tests.net.toys import terms

SPARSE, DENSE = Representation.SPARSE, Representation.DENSE
BOTH_SERVED = {
    "hello/sparse-not-served": "this worker makes sparse rows, too",
    "hello/dense-not-served": "this worker makes dense rows, too",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


def times(cases):
    """How often each code is the right one, over these cases."""
    return Counter(case.code.name.lower() for case in cases)


def seen(counts):
    return {code: count for code, count in counts.items() if count}


def test_a_worker_passes_every_case_and_finds_exactly_the_codes_that_the_cases_name():
    counted = {}
    report = run(worker_report(counted=counted))
    assert wrong(report) == {}
    assert skipped(report) == BOTH_SERVED
    assert [r.case for r in report.results] == [case.name for case in worker_cases()]
    assert report.complete
    assert report.counts()["right"] == len(report.results) - 2
    assert report.target is Target.WORKER
    # An offer that differs is refused, which is no fault.
    faults = [case for case in worker_cases() if case.code is not None and case.refusal is None]
    assert seen(counted["failures"]) == times(faults)


def test_a_verifier_passes_every_case_and_finds_exactly_the_codes_that_the_cases_name():
    counted = {}
    report = run(verifier_report(victim={"counted": counted}))
    assert wrong(report) == {}
    assert skipped(report) == {}
    assert [r.case for r in report.results] == [case.name for case in verifier_cases()]
    assert {r.verdict for r in report.results} == {Verdict.RIGHT}
    cases = [case for case in verifier_cases() if case.code is not None]
    fatal = [case for case in cases if Outcome.CLOSED in case.expect]
    assert seen(counted["failures"]) == times(fatal)
    discarded = times(case for case in cases if Outcome.DISCARDED in case.expect)
    # One case is made of eight rounds that are rejected for this.
    discarded["body_checksum_mismatch"] += MAX_DISCARDS_IN_A_ROW
    given_up = {f"completion_{s.name.lower()}": 1 for s in CompletionStatus if s is not CompletionStatus.OK}
    # And some rounds are given up only to come to a second generation, or are cut off with their connection.
    for reason in ("completion_model_error", "connection_lost"):
        given_up[reason] = counted["discards"][reason]
    assert seen(counted["discards"]) == discarded | given_up
    assert set(seen(counted["dropped"])) == {"stale_session", "stale_generation", "stale_round"}


def test_a_worker_with_one_representation_and_the_smallest_terms_passes_what_fits_it(tmp_path):
    own = terms(DENSE, vocab_size=3, max_slots=1, max_depth=1, max_prefix=16)
    report = run(
        worker_report(own, address=f"unix:{tmp_path}/w", only=("hello", "frame", "reset", "step", "commit", "valid"))
    )
    assert wrong(report) == {}
    assert set(skipped(report)) == {
        "hello/dense-not-served", "hello/sparse-reply-does-not-fit", "step/support-0", "step/support-over",
        "reset/id-padded", "commit/token-padded", "reset/slot", "step/slot", "commit/slot", "commit/bonus-early",
    }  # fmt: skip
    assert not [why for why in skipped(report).values() if "cannot be played here" in why]


def test_a_verifier_with_one_representation_and_several_requests_passes_what_fits_it(tmp_path):
    own = terms(SPARSE, max_support=3, vocab_size=6)
    report = run(
        verifier_report(
            own, address=f"unix:{tmp_path}/v", victim={"requests": 3, "support": 3},
            only=("valid", "stale", "fresh", "order", "sparse-row", "sparse-completion", "hello/dense-reply-does-not-fit"),
        )
    )  # fmt: skip
    assert wrong(report) == {}
    assert set(skipped(report)) == {
        "valid/dense-proposal", "hello/dense-reply-does-not-fit", "sparse-row/token-padded", "sparse-row/id-padded",
        "sparse-row/padding-id", "sparse-row/padding-q", "sparse-row/padding-minus-zero", "sparse-row/support-over-step",
    }  # fmt: skip


ACROSS_TLS = ("valid", "hello/magic", "hello/cut-half", "hello/other-target", "frame/oversized", "fault")


def test_a_worker_passes_across_tls(files):
    report = run(
        worker_report(
            server={"tls": files.server_context()}, tls=client_tls(files.ca, *files.client), only=ACROSS_TLS,
        )
    )  # fmt: skip
    assert wrong(report) == {}
    assert skipped(report) == {}


def test_a_verifier_passes_across_tls(files):
    report = run(
        verifier_report(
            victim={"tls": client_tls(files.ca, *files.client)}, tls=server_tls(*files.server, files.ca), only=ACROSS_TLS,
        )
    )  # fmt: skip
    assert wrong(report) == {}
    assert skipped(report) == {}


def test_the_same_seed_gives_the_same_report():
    only = ("reset", "fault/garbage-first", "fault/garbage-later")
    first, second = (run(worker_report(only=only, seed=5)).to_json() for _ in range(2))
    first["address"] = second["address"] = ""
    assert first == second


def test_what_the_worker_is_bound_to_is_learned_from_its_refusal_or_given():
    own = terms(representations=(SPARSE, DENSE), padded_vocab_size=20, max_slots=3)
    learned = run(worker_report(own, only=("valid/round",)))
    given = run(worker_report(own, own, only=("valid/round",)))
    assert learned.terms == given.terms
    assert learned.terms["vocab_size"] == 16
    assert learned.terms["padded_vocab_size"] == 20
    assert learned.terms["target_sha256"] == (b"t" * 32).hex()
    assert learned.terms["representations"] == ["dense", "sparse"]


def test_a_worker_that_takes_one_connection_at_a_time_is_given_the_time_to_notice_that_it_is_free():
    report = run(worker_report(server={"max_connections": 1}, only=("valid", "fault"), timeout=0.6))
    assert wrong(report) == {}
    assert skipped(report) == dict.fromkeys(
        ("fault/stalled-hello", "fault/stalled-step", "fault/silent-connections"),
        "the worker takes no more connections at once",
    )


@pytest.mark.parametrize(
    ("attack", "name", "report"),
    [
        ("worker_attack.worker_cases", "step/digest", worker_report),
        ("worker_attack.worker_cases", "hello/magic", worker_report),
        ("worker_attack.worker_cases", "hello/other-target", worker_report),
        ("worker_attack.worker_cases", "fault/http", worker_report),
        ("verifier_attack.verifier_cases", "sparse-row/ticket", verifier_report),
        ("verifier_attack.verifier_cases", "hello/magic", verifier_report),
        ("verifier_attack.verifier_cases", "stale/older-round", verifier_report),
        ("verifier_attack.verifier_cases", "fault/cut-row-body", verifier_report),
    ],
)
def test_a_case_whose_bytes_are_not_what_it_says_is_not_held_against_the_endpoint(monkeypatch, attack, name, report):
    cases = worker_cases() if report is worker_report else verifier_cases()
    (case,) = [case for case in cases if case.name == name]
    monkeypatch.setattr(f"pp1wire.attack.{attack}", lambda: iter([replace(case, code=RejectCode.SLOT_OCCUPIED)]))
    (result,) = run(report()).results
    assert result.verdict is Verdict.SKIPPED
    assert "cannot be played here" in result.detail
