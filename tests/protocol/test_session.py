"""Tickets of rounds: the same numbers however many rounds are at hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.protocol.session import _FEW_TICKETS, step_tickets
from pp1wire.sampling import proposal_tickets
from pp1wire.wire import Step, SupportPolicy

U32 = st.integers(1, 2**32 - 1)


@st.composite
def steps(draw):
    depth = draw(st.integers(1, 8))
    return Step(
        session=1, slot=0, generation=draw(U32), round=draw(U32), position=draw(st.integers(0, 2**32 - 9)),
        prefix_digest=bytes(16), depth=depth, support_policy=SupportPolicy.TOP_K, support=4, temperature=1.0,
        proposal_seed=draw(st.integers(0, 2**64 - 1)), context_version=1,
    )  # fmt: skip


@given(st.lists(steps(), min_size=1, max_size=12))
def test_tickets_are_the_same_for_few_and_for_many(asked):
    for step, tickets in zip(asked, step_tickets(asked), strict=True):
        positions = np.arange(step.position, step.position + step.depth)
        expected = proposal_tickets(np.uint64(step.proposal_seed), step.generation, step.round, positions)
        assert tickets.dtype == np.int64
        assert tickets.tolist() == expected.tolist()


@given(steps())
def test_tickets_agree_on_both_sides_of_the_switch(step):
    many = [step] * (_FEW_TICKETS // step.depth + 1)
    few = many[:-1]
    assert sum(s.depth for s in few) <= _FEW_TICKETS < sum(s.depth for s in many)
    assert step_tickets(few)[0].tolist() == step_tickets(many)[0].tolist()
