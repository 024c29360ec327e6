"""The sum of −ln q(x) − H(q): its law under honest drawing, whatever the rows."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from pp1wire.audit.surprise import EVIDENCE, Surprise, row_surprise
from pp1wire.sampling import MASS


def row(*counts):
    return np.array([*counts, MASS - sum(counts)], np.int64)


@pytest.mark.parametrize("counts", [row(MASS // 4), row(1), row(MASS // 2, 3, 100_000), row()])
def test_mean_variance_and_cumulants_are_those_of_the_row(counts):
    rows = [row_surprise(counts, int(count)) for count in counts]
    q = counts / MASS
    assert math.fsum(q * [r.excess for r in rows]) == pytest.approx(0, abs=1e-12)
    assert rows[0].variance == pytest.approx(math.fsum(q * [r.excess**2 for r in rows]), abs=1e-12)
    # exp(λ·excess − K(λ)) has mean one: this is what the evidence rests on.
    mean = 0.0
    for share, one in zip(q, rows, strict=True):
        total = Surprise()
        total.add(one)
        mean += share * total.evidence
    assert mean == pytest.approx(1, rel=1e-12)


def test_the_sum_does_not_depend_on_the_order():
    rng = random.Random(1)
    rows = [row_surprise(c, int(c[0])) for c in (row(rng.randrange(1, MASS)) for _ in range(500))]
    sums = set()
    for _ in range(3):
        rng.shuffle(rows)
        total = Surprise()
        for one in rows:
            total.add(one)
        sums.add((total.sum, total.variance, total.evidence))
    assert len(sums) == 1


def test_a_rare_token_makes_z_wild_and_is_no_evidence():
    nearly = row(20)
    total = Surprise()
    for _ in range(999):
        total.add(row_surprise(nearly, int(nearly[1])))
    total.add(row_surprise(nearly, 20))
    assert total.z > 20
    assert not total.steered


@pytest.mark.parametrize("which", [0, 1])
def test_always_the_likelier_or_the_other_is_evidence(which):
    counts = row(MASS // 4)
    total = Surprise()
    for _ in range(200):
        total.add(row_surprise(counts, int(counts[which])))
    assert total.evidence > EVIDENCE
    assert (total.sum > 0) is (which == 0)


def test_rows_without_chance_say_nothing():
    total = Surprise()
    total.add(row_surprise(np.array([MASS]), MASS))
    assert (total.sum, total.variance, total.z, total.evidence) == (0, 0, None, 1)
