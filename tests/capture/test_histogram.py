"""Lengths of time in bounded memory: quantiles to a hundredth, and parts that add up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pp1wire.capture.histogram import Histogram


@given(st.lists(st.integers(-5, 2**62), min_size=1, max_size=60))
def test_quantiles_are_right_to_a_hundredth(values):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    clipped = sorted(max(value, 0) for value in values)
    assert (histogram.count, histogram.least, histogram.most) == (len(values), clipped[0], clipped[-1])
    for share in (0.5, 0.9, 0.99, 1.0):
        right = next(v for i, v in enumerate(clipped) if (i + 1) / len(clipped) >= share)
        assert right <= histogram.quantile(share) <= right * 1.01
    assert histogram.mean == sum(clipped) // len(clipped)
    points = histogram.points()
    assert [share for _, share in points] == sorted({share for _, share in points})
    assert points[-1] == (clipped[-1], 1.0)


@given(st.lists(st.lists(st.integers(0, 2**40), max_size=20), max_size=5))
def test_parts_add_up_to_the_whole(parts):
    whole, added = Histogram(), Histogram()
    for part in parts:
        one = Histogram()
        for value in part:
            whole.add(value)
            one.add(value)
        added.add_all(one)
    assert added.to_json() == whole.to_json()
    assert added.points() == whole.points()
