"""Depth decided before the draw keeps the law; looking at the draw first does not, by exactly the published amounts."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from pp1wire.sampling import (
    MASS,
    FixedDepth,
    Key,
    Past,
    SamplingError,
    ThroughputPolicy,
    admit_chain,
    oracle,
    prefix_throughput,
    probability_grid,
    proposal_tickets,
    sample,
    target_only_token,
    verify_chain,
)
from tests.sampling.helpers import acceptance_share, chi_square_p, dense, grid_row, target_law

START = Past((5, 6), 0.5)


def test_policy_is_asked_before_each_draw_and_sees_only_the_past():
    """By construction: the argument is frozen, and the token decided on is drawn after the answer."""
    log = []

    class Spy:
        def admit(self, past):
            log.append(("ask", past))
            with pytest.raises(dataclasses.FrozenInstanceError):
                past.drawn = (9,)
            return len(past.drawn) < 3

    def draw(drawn):
        log.append(("draw", drawn))
        return 10 + len(drawn)

    assert admit_chain(draw, Spy(), START, 5) == (10, 11, 12)
    assert [kind for kind, _ in log] == ["ask", "draw", "ask", "draw", "ask", "draw", "ask"]
    asked = [past for kind, past in log if kind == "ask"]
    assert [past.drawn for past in asked] == [(), (10,), (10, 11), (10, 11, 12)]
    assert all((past.committed, past.load) == ((5, 6), 0.5) for past in asked)
    assert {field.name for field in dataclasses.fields(Past)} == {"committed", "load", "drawn"}


def test_stop_is_final_and_max_depth_is_reached():
    answers = iter([True, False, True, True])

    class Wavering:
        def admit(self, past):
            return next(answers)

    assert admit_chain(lambda drawn: 1, Wavering(), START, 5) == (1,)
    assert list(answers) == [True, True]
    assert admit_chain(lambda drawn: 1, FixedDepth(9), START, 5) == (1,) * 5
    assert admit_chain(lambda drawn: 1, FixedDepth(3), START, 5) == (1,) * 3
    assert admit_chain(lambda drawn: 1, FixedDepth(0), START, 5) == ()


def test_refused_admissions():
    with pytest.raises(SamplingError, match="past: expected no drawn tokens"):
        admit_chain(lambda drawn: 1, FixedDepth(1), Past((), 0.0, (1,)), 5)

    class Confident:
        def admit(self, past):
            return 0.9

    with pytest.raises(SamplingError, match=r"expected admit\(\) to return a bool, got float"):
        admit_chain(lambda drawn: 1, Confident(), START, 5)
    with pytest.raises(SamplingError, match="one more rate of steps than of acceptance, got 2 and 2"):
        ThroughputPolicy((1.0, 0.5), (0.8, 0.9))


# --- Counterexample 1: q = p uniform on two tokens, only token 0 admitted. ---


def test_regression_selective_admission_gives_three_quarters():
    p, q = grid_row([1, 1]), dense([MASS // 2, MASS // 2])
    kept = Fraction(int(q[0]), MASS) * acceptance_share(p, q, 0)
    law = kept + (1 - Fraction(int(q[0]), MASS)) * oracle.law([int(x) for x in p])[0]
    assert law == Fraction(3, 4)


def test_regression_selective_admission_is_seen_in_the_production_rounds():
    """4,000 rounds: admitted whole they fit p, admitted by the drawn token they give 3/4."""
    p = np.full((2, 2), 0.5)
    row = (np.array([0, 1], np.int32), np.array([MASS // 2] * 2, np.int32))
    trials = 4000
    tickets = proposal_tickets(1, 1, np.arange(trials), 10)
    honest, selective = np.zeros(2, int), np.zeros(2, int)
    for r in range(trials):
        token, key = sample(*row, int(tickets[r])), Key(2, 1, r, 10)
        verdict = verify_chain(p, [row], [token], key)
        first = token if verdict.accepted else verdict.token
        honest[first] += 1
        selective[first if token == 0 else target_only_token(p[0], key)] += 1
    assert chi_square_p(honest, np.full(2, trials / 2)) > 1e-3
    assert chi_square_p(selective, np.full(2, trials / 2)) < 1e-30
    assert chi_square_p(selective, np.array([3, 1]) * trials / 4) > 1e-3


# --- Counterexample 2: DSpark appendix A. ---

SPS = (Fraction(1), Fraction(1, 2), Fraction(45, 100))
A1 = Fraction(8, 10)
C2 = {0: Fraction(9, 10), 1: Fraction(0)}
P, Q = oracle.law([7, 3]), oracle.law([1, 1])


def test_regression_appendix_a_throughputs():
    assert prefix_throughput(SPS[0], ()) == 1
    assert prefix_throughput(SPS[1], (A1,)) == Fraction(9, 10)
    assert prefix_throughput(SPS[2], (A1, C2[0])) == Fraction(1134, 1000)
    assert prefix_throughput(SPS[2], (A1, C2[1])) < 1
    assert prefix_throughput(0.45, (0.8, 0.9)) == pytest.approx(1.134)
    assert sum(Q[x] * oracle.acceptance(P, Q, x) for x in (0, 1)) == A1


def test_regression_appendix_a_retrospective_choice_gives_85_percent():
    """Depth chosen by the best throughput after seeing x_1: token 0 is admitted, token 1 is not, and P(0) = .85."""

    def best_depth(first):
        scores = [
            prefix_throughput(SPS[0], ()),
            prefix_throughput(SPS[1], (A1,)),
            prefix_throughput(SPS[2], (A1, C2[first])),
        ]
        return scores.index(max(scores))

    assert [best_depth(x) for x in (0, 1)] == [2, 0]
    law = Fraction(0)
    for x in (0, 1):
        if best_depth(x):
            rate = oracle.acceptance(P, Q, x)
            law += Q[x] * (rate * (x == 0) + ((1 - rate) * oracle.residual(P, Q)[0] if rate < 1 else 0))
        else:
            law += Q[x] * P[0]
    assert law == Fraction(85, 100)
    assert P[0] == Fraction(7, 10)


def test_regression_appendix_a_sequential_policy_stops_before_the_first_draw():
    policy = ThroughputPolicy(tuple(float(s) for s in SPS), (0.8, 0.9))

    def draw(drawn):
        raise AssertionError("drawn after a stop")

    assert admit_chain(draw, policy, START, 2) == ()
    assert len(admit_chain(lambda drawn: 0, ThroughputPolicy((1.0, 0.9, 0.8, 0.1), (0.8, 0.9, 0.9)), START, 5)) == 2
    assert len(admit_chain(lambda drawn: 0, ThroughputPolicy((1.0, 0.9), (0.8,)), START, 5)) == 1


def test_exact_law_under_any_sequential_policy():
    """Conditional frequencies by enumeration: stop or go by any function of x_1 … x_(i−1), the joint law stays p."""
    rng = np.random.default_rng(4)
    prefixes = [(), *((a,) for a in range(3)), *((a, b) for a in range(3) for b in range(3))]
    target = {prefix: probability_grid(rng.dirichlet(np.ones(3))) for prefix in prefixes}
    q = {prefix: dense(list(oracle.allocate([int(x) for x in rng.integers(1, 50, 3)]))) for prefix in prefixes}
    policies = [
        lambda past: True,
        lambda past: not past.drawn,
        lambda past: past.drawn in {(), (1,)},
        lambda past: sum(past.drawn) % 2 == 0,
        lambda past: len(past.drawn) < past.load,
        lambda past: False,
    ]
    depths = set()
    for number, rule in enumerate(policies):
        policy = type("Policy", (), {"admit": staticmethod(rule)})()
        law = {}

        def settle(prefix, share, law=law):
            if len(prefix) == 2:
                law[prefix] = law.get(prefix, Fraction(0)) + share
                return
            for token, mass in enumerate(oracle.law([int(x) for x in target[prefix]])):
                settle((*prefix, token), share * mass, law)

        def step(prefix, share, policy=policy, settle=settle):
            """One more position of the tree, drafted only where admit_chain drafts it."""
            script = iter(prefix)
            drawn = admit_chain(lambda drawn, script=script: next(script, -1), policy, Past((), 1.0), len(prefix) + 1)
            stopped = len(drawn) == len(prefix) or len(prefix) == 2
            if stopped:
                depths.add(len(prefix))
                settle(prefix, share)
                return
            for token in range(3):
                drafted = share * Fraction(int(q[prefix][token]), MASS)
                rate = acceptance_share(target[prefix], q[prefix], token)
                step((*prefix, token), drafted * rate)
                if rate < 1:
                    exact = oracle.law([int(x) for x in target[prefix]]), oracle.law([int(x) for x in q[prefix]])
                    for other, rest in enumerate(oracle.residual(*exact)):
                        settle((*prefix, other), drafted * (1 - rate) * rest)

        step((), Fraction(1))
        assert law == target_law(target.__getitem__, 2), number
    assert depths == {0, 1, 2}
