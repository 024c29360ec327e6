"""Every planted fault is found at its place, and honest runs pass."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

from pp1wire.audit import audit, schema
from pp1wire.protocol.session import step_tickets
from pp1wire.sampling import (
    MASS,
    VerdictKind,
    below,
    choice_root,
    dyadic_counts,
    logit_grid,
    sample,
    verify_chain,
)
from pp1wire.sampling.philox import Domain
from pp1wire.wire import CommitKind, Representation, encode
from tests.audit.runs import ROOT, Run, logits_after, write
from tests.capture.golden import WORKER, open_talk
from tests.protocol.util import VOCAB, replies_for

BOTH = [Representation.SPARSE, Representation.DENSE]


def codes(result):
    return [finding.code for finding in result.findings]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("representation", BOTH)
def test_an_honest_run_of_two_connections_with_equal_sessions_is_all_right(tmp_path, representation, suffix):
    run = Run(representation).connection().connection()
    result = audit(*_args(run.write(tmp_path, suffix)))
    assert (result.status, result.findings) == (0, [])
    assert (result.rows, result.rows_recomputed, result.rows_wrong) == (36, 36, 0)
    assert (result.commits, result.commits_replayed, result.commits_wrong) == (14, 14, 0)
    assert sorted(result.by_connection) == [1, 2]
    assert sorted(result.by_position) == [0, 1, 2]
    jsonschema.validate(json.loads(json.dumps(result.to_json())), schema())


def _args(paths):
    return paths[0], [paths[1]]


@pytest.mark.parametrize("representation", BOTH)
def test_torch_finds_the_same(tmp_path, representation):
    run = Run(representation).connection(rounds=2)
    result = audit(*_args(run.write(tmp_path)), backend="torch")
    assert (result.status, result.backend, result.rows_recomputed, result.commits_replayed) == (0, "torch", 12, 5)


MOVED = []
"""The first id that `moved` changed, and its count then."""


def moved(step, i, row, token, ticket):
    """In round 2 of session 2, one count goes from the likeliest id to the first one; the token stays its ticket's."""
    if (step.session, step.round, i) != (2, 2, 1):
        return row, token
    ids, counts = row[0], row[1].copy()
    likeliest = int(counts.argmax())
    other = 0 if likeliest else 1
    counts[likeliest] -= 1
    counts[other] += 1
    MOVED.append((int(ids[min(likeliest, other)]), int(counts[min(likeliest, other)])))
    return (ids, counts), sample(ids, counts, ticket)


@pytest.mark.parametrize("representation", BOTH)
def test_a_wrong_count_is_found_by_id_count_and_weight(tmp_path, representation):
    run = Run(representation).connection(draft=moved)
    result = audit(*_args(run.write(tmp_path)))
    assert (result.status, result.validation.status, codes(result)) == (1, 0, ["wrong_q"])
    (finding,) = result.findings
    assert finding.identity == (2, 1, 2)
    assert (finding.path, int(finding.actual)) == (f"count of id {MOVED[-1][0]}", MOVED[-1][1])
    assert int(finding.actual) - int(finding.expected) in (1, -1)
    assert "2 ids differ" in finding.message
    weight = int(finding.message.split("weight is ")[1].split("·")[0])
    share = float(finding.message.split("2^-38, ")[1].split(" ")[0])
    assert abs(share - int(finding.expected)) < 1
    assert 0 < weight <= 1 << 38


def test_other_logits_than_those_drafted_from_are_found_in_every_row(tmp_path):
    run = Run().connection(
        law=lambda step, i, logits, ticket: logits + np.float32(step.round == 3) * logits_after(9, i)
    )
    result = audit(*_args(run.write(tmp_path)))
    assert set(codes(result)) == {"wrong_q"}
    assert {finding.identity[2] for finding in result.findings} == {3}
    assert result.rows_wrong == 6


def test_a_token_of_another_ticket_is_told_by_the_judge_and_the_rows_before_it_are_audited(tmp_path):
    """A ticket used twice in a round: row 1 is drawn with that of row 0, by a worker that does not look at its own rows."""
    talk = open_talk()
    session = talk.verifier.open([1, 2, 3], 5, context_version=0)
    talk.verifier.step(session, 0.0, depth=2)
    talk.up()
    step, agreement = talk.drafts[0].step, talk.verifier.agreement
    replies = replies_for(step, [1, 2, 3], agreement)
    tickets = step_tickets([step])[0]
    again = sample(replies[1].ids, (replies[1].q * MASS).astype(np.int32), int(tickets[0]))
    assert again != replies[1].token
    replies[1] = replace(replies[1], token=again)
    talk.sent += [(WORKER, encode(reply, agreement, 1 + n)) for n, reply in enumerate(replies)]
    run = Run(talks=[talk])
    noted = np.random.default_rng([0, 3, 3]).normal(size=VOCAB).astype(np.float32) * 2
    run.arrays[f"draft/1/{session}/1/1"] = noted[None]
    capture, logits = run.write(tmp_path, arrays=run.arrays | {"seeds": np.zeros((1, 2), np.uint64)})
    result = audit(capture, [logits])
    assert result.status == 1
    assert "ticket_mismatch" in [finding.code for finding in result.validation.findings]
    assert (result.rows, result.rows_recomputed, result.findings) == (1, 1, [])


def test_tickets_of_another_text_are_found_and_a_repeated_request_is_a_note(tmp_path):
    root = choice_root(ROOT, 1)
    run = Run().connection(roots=[root]).connection(roots=[root], prefix=(4, 5, 6))
    run.seeds = run.seeds[:1]
    result = audit(*_args(run.write(tmp_path)))
    found = [f for f in result.findings if f.code == "reused_tickets"]
    assert result.status == 1
    assert found
    assert found[0].connection == 2
    assert found[0].identity == (1, 1, 1)
    repeated = Run().connection(roots=[root]).connection(roots=[root])
    (tmp_path / "again").mkdir()
    result = audit(*_args(repeated.write(tmp_path / "again")))
    assert (result.status, codes(result), result.steps_reused) == (0, ["repeated_request"], 3)
    assert result.surprise.rows == result.rows / 2


def from_p(step, decided, target, rows, tokens, key):
    """A correction drawn from p in place of max(p − q, 0)."""
    if decided.kind is not VerdictKind.CORRECTION:
        return decided.accepted, decided.token, CommitKind.BONUS
    grid = logit_grid(target)[decided.accepted]
    ticket = below(
        int(grid.sum()), key.seed, key.generation, key.round, key.position + decided.accepted, Domain.CORRECTION
    )
    token = int(np.searchsorted(np.cumsum(grid), ticket, side="right"))
    return decided.accepted, token, CommitKind.CORRECTION


@pytest.mark.parametrize("representation", BOTH)
def test_a_wrong_residual_is_found(tmp_path, representation):
    run = Run(representation).connection(rounds=6, verdict=from_p)
    result = audit(*_args(run.write(tmp_path)))
    assert (result.status, result.validation.status, set(codes(result))) == (1, 0, {"wrong_commit"})
    assert result.commits_wrong == len(result.findings) > 0
    for finding in result.findings:
        assert finding.path.startswith("tokens[")
        assert "max(p − q, 0)" in finding.message


def test_a_wrong_decision_is_found_with_its_coin(tmp_path):
    rejected = []

    def reject(step, decided, target, rows, tokens, key):
        if decided.accepted and not rejected:
            rejected.append((step.session, step.generation, step.round))
            return 0, decided.token, CommitKind.CORRECTION
        return decided.accepted, decided.token, CommitKind[decided.kind.name]

    run = Run().connection(verdict=reject)
    result = audit(*_args(run.write(tmp_path)))
    (finding,) = result.findings
    assert (finding.code, finding.path, finding.actual) == ("wrong_commit", "accepted", "0")
    assert [finding.identity] == rejected
    assert "is below p/q" in finding.message


def test_a_commit_that_a_stop_cuts_is_right_and_one_behind_a_rejection_is_not(tmp_path):
    def cut(step, decided, target, rows, tokens, key):
        return (max(decided.accepted, 1), decided.token, CommitKind.NONE) if step.round == 3 else (
            decided.accepted, decided.token, CommitKind[decided.kind.name])  # fmt: skip

    run = Run()
    run.alone = lambda *_: None  # a session stops behind such a COMMIT
    run.connection(verdict=cut)
    result = audit(*_args(run.write(tmp_path)))
    assert result.validation.status == 0
    wrong = [f for f in result.findings if f.code == "wrong_commit"]
    assert len(wrong) == result.commits_wrong
    assert all(f.expected == "0" and f.path == "accepted" for f in wrong)
    assert result.commits_replayed == result.commits == 6


def test_probabilities_replay_as_the_verifier_that_used_them_would(tmp_path):
    def by_probabilities(step, decided, target, rows, tokens, key):
        verdict = verify_chain(_softmax(target), rows, tokens, key)
        return verdict.accepted, verdict.token, CommitKind[verdict.kind.name]

    run = Run()
    run.alone = lambda *_: None
    run.connection(verdict=by_probabilities)
    arrays = {
        k.replace("target", "target_probabilities"): _softmax(a) if k[0] == "t" else a for k, a in run.arrays.items()
    }
    result = audit(*_args(run.write(tmp_path, arrays=arrays)))
    assert (result.status, result.commits_replayed) == (0, 6)


def _softmax(logits):
    e = np.exp(logits.astype(np.float64))
    return e / e.sum(axis=1, keepdims=True)


def test_what_is_missing_is_counted_and_what_is_too_much_is_told(tmp_path):
    run = Run().connection()
    arrays = dict(run.arrays)
    del arrays["draft/1/1/1/2"], arrays["target/1/2/1/1"]
    arrays["draft/7/1/1/1"] = arrays["draft/1/1/1/1"]
    result = audit(*_args(run.write(tmp_path, arrays=arrays)))
    assert result.status == 2
    assert result.left_out == {"row without draft logits in the files": 3, "COMMIT without target rows in the files": 1}
    assert result.unused_arrays == 1
    assert sorted(codes(result)) == ["not_audited", "not_audited", "unused_arrays"]


def test_without_seeds_no_decision_is_replayed(tmp_path):
    run = Run().connection()
    capture, logits = run.write(tmp_path, arrays=run.arrays | {"seeds": np.zeros((1, 2), np.uint64)})
    result = audit(capture, [logits])
    assert (result.status, result.left_out) == (2, {"COMMIT without a verification seed": 7})
    result = audit(capture, [logits], seeds=dict(run.seeds))
    assert (result.status, result.commits_replayed) == (0, 7)


def test_files_may_be_several_and_floats_narrower(tmp_path):
    run = Run()
    half = lambda step, i, logits, ticket: logits.astype(np.float16).astype(np.float32)  # noqa: E731
    run.connection(law=half)
    capture, logits = run.write(tmp_path, arrays={k: a for k, a in run.arrays.items() if k.startswith("target")})
    drafts = {k: a.astype(np.float16) for k, a in run.arrays.items() if k.startswith("draft")}
    result = audit(capture, [logits, write(tmp_path / "drafts.safetensors", drafts)])
    assert (result.status, result.rows_recomputed, result.commits_replayed) == (0, 18, 7)


def test_without_logits_tickets_and_steering_are_looked_at(tmp_path):
    run = Run().connection()
    result = audit(run.write(tmp_path)[0])
    assert (result.status, result.rows, result.rows_recomputed, result.commits_replayed) == (0, 18, 0, 0)
    assert result.surprise.rows == 18


def likeliest(step, i, logits, ticket):
    """A worker that knows its ticket, and gives the id that owns it more of q, where that is a likely one."""
    ids, counts = dyadic_counts(logits, step.temperature, step.support or None)
    best = int(ids[counts.argmax()])
    steered = logits.copy()
    steered[best] += np.float32(2)
    return (
        steered if sample(*dyadic_counts(steered, step.temperature, step.support or None), ticket) == best else logits
    )


def test_a_worker_that_steers_shows_and_honest_ones_do_not(tmp_path):
    run = Run().connection(rounds=60, sessions=4, depth=3, prefix=(1,), law=likeliest)
    result = audit(run.write(tmp_path)[0])
    assert result.validation.status == 0
    assert result.surprise.steered
    assert result.surprise.sum < 0
    assert "steered" in codes(result)
    for root in range(3):
        honest = Run(root=root).connection(rounds=60, sessions=4, depth=3, prefix=(1,))
        result = audit(honest.write(tmp_path)[0])
        assert (result.status, codes(result)) == (0, [])
        assert abs(result.surprise.z) < 5
