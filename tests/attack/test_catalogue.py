"""The catalogue is whole: every code that an end can give has a case, and what has none cannot be given."""

from __future__ import annotations

import pytest

from pp1wire.attack import NOT_APPLICABLE, AttackError, Outcome, Target, chosen, verifier_cases, worker_cases
from pp1wire.attack.case import NEEDS
from pp1wire.attack.verifier_play import STEP_NEEDS
from pp1wire.capture.vectors import load_vectors
from pp1wire.protocol import Direction
from pp1wire.wire import RejectCode
from schemas.generator.model import load

CASES = {Target.WORKER: list(worker_cases()), Target.VERIFIER: list(verifier_cases())}
SENDER = {Target.WORKER: Direction.VERIFIER, Target.VERIFIER: Direction.WORKER}
DIRECTION = {Target.WORKER: "worker_to_verifier", Target.VERIFIER: "verifier_to_worker"}
VECTORS = load_vectors()
TARGETS = list(Target)


def codes_with_cases(target):
    return {code for case in CASES[target] for code in (case.code, *case.also) if code is not None}


@pytest.mark.parametrize("target", TARGETS)
def test_every_code_has_a_case_or_a_reason(target):
    assert codes_with_cases(target) | set(NOT_APPLICABLE[target]) == set(RejectCode)
    assert not codes_with_cases(target) & set(NOT_APPLICABLE[target])


@pytest.mark.parametrize("target", TARGETS)
def test_a_code_without_a_case_is_given_to_no_vector_by_that_end(target):
    """`tests/schemas/test_ends.py` shows that both ends give exactly the codes of their vectors."""
    given = {
        RejectCode[v.reject[0].upper()]
        for v in VECTORS
        if v.reject is not None and v.sender is SENDER[target] and not v.whole
    }
    assert given
    assert not given & set(NOT_APPLICABLE[target])
    assert given <= codes_with_cases(target)


@pytest.mark.parametrize("target", TARGETS)
def test_the_reasons_are_those_of_the_schemas(target):
    """A code is said of the messages that list it as a rule: these are all sent by the end under test itself."""
    schema = load()
    for code, reason in NOT_APPLICABLE[target].items():
        messages = {m.direction for m in schema.messages if code.name.lower() in m.rules}
        if code is RejectCode.EXTRA_DATA:
            assert all(v.whole for v in VECTORS if v.reject is not None and v.reject[0] == "extra_data")
            continue
        assert messages <= {DIRECTION[target], "both"}, (code, messages)
        assert reason.endswith("only a worker sends" if target is Target.WORKER else "only a verifier sends")


@pytest.mark.parametrize("target", TARGETS)
def test_cases_have_names_comments_and_known_needs(target):
    cases = CASES[target]
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert case.comment.endswith((".", "?")), case.name
        assert case.expect, case.name
        assert all(need in NEEDS or need in STEP_NEEDS or need.startswith("no ") for need in case.needs), case.name


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_right_follows_from_the_scope_of_the_code(target):
    """The worker ends the connection, or refuses the offer; the verifier acts by the scope."""
    for case in CASES[target]:
        if case.code is None:
            continue
        scope = "connection" if target is Target.WORKER or case.frame == "hello" else case.code.scope
        allowed = {
            "connection": {Outcome.CLOSED, Outcome.REFUSED, Outcome.DISCARDED},
            "proposal": {Outcome.DISCARDED},
            "stale": {Outcome.IGNORED},
        }[scope]
        assert case.expect <= allowed, case.name
        assert Outcome.ACCEPTED not in case.expect, case.name


@pytest.mark.parametrize(
    ("only", "some", "not_some"),
    [
        (("step/depth-0",), "step/depth-0", "step/depth-6"),
        (("step",), "step/depth-0", "commit/digest"),
        (("step/",), "step/depth-0", "commit/digest"),
        (("depth_over_agreement",), "step/depth-over-agreement", "step/depth-0"),
        (("reset", "commit/digest"), "commit/digest", "commit/new-digest"),
    ],
)
def test_cases_are_chosen_by_name_group_or_code(only, some, not_some):
    names = [case.name for case in chosen(CASES[Target.WORKER], only)]
    assert some in names
    assert not_some not in names


def test_a_name_that_fits_nothing_is_told():
    with pytest.raises(AttackError, match="'steps'"):
        chosen(CASES[Target.WORKER], ("steps",))
