"""The output law is the target's under faults that cannot see a token; one that can is found out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.simulator.law import LAW, measure, with_control
from pp1wire.wire import Representation

SEEDS = range(12)
CONTROL = 2
"""The negative control spoils rounds that drafted a token below this one."""


def evidence(law):
    assert not law.failures, [(o.seed, o.invariant, o.detail) for o in law.failures]
    assert law.seen["proposals"] > 1000
    assert min(law.seen["accepted"], law.seen["rejected"]) > 300
    assert min(law.seen["discards"], law.seen["faults"]) > 100


@pytest.mark.parametrize("representation", list(Representation))
def test_exact_law_under_faults_that_do_not_depend_on_drawn_tokens(representation):
    law = measure(replace(LAW, representation=representation), SEEDS)
    print(f"{representation.name.lower()}: z {law.z:.2f}, {law.tokens} tokens in {law.rounds} rounds, {dict(law.seen)}")
    evidence(law)
    assert law.tokens > 5000
    assert law.z < 3


def test_exact_law_negative_control_a_fault_that_depends_on_the_drawn_token_is_seen():
    law = measure(with_control(LAW, CONTROL), SEEDS)
    print(f"control: z {law.z:.2f}, {law.tokens} tokens in {law.rounds} rounds, {dict(law.seen)}")
    evidence(law)
    assert law.z > 5
