"""Times on the axis: in order, idle stretches short, and back again to the nanosecond's neighbourhood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.capture.html.clock import Clock, duration_text

SPANS = st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**40)).map(lambda s: (s[0], s[0] + s[1])), min_size=1)


@given(SPANS)
def test_places_rise_with_times_and_lead_back(spans):
    clock = Clock(spans)
    times = sorted({time for span in spans for time in span})
    places = [clock.place(time) for time in times]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    assert (clock.begin, clock.end) == (times[0], times[-1])
    assert clock.time(0) == times[0]
    for begin, end in clock.idle:
        assert not any(first < end and begin < last for first, last in spans)
    if len(times) > 1:
        assert places[0] == 0
        assert places[-1] == 1


def test_an_idle_stretch_is_cut_short_and_a_short_one_is_not():
    clock = Clock([(0, 100), (101, 200), (10**12, 10**12 + 200)])
    assert clock.idle == [(200, 10**12)]
    assert clock.place(10**12) - clock.place(200) < 0.04
    assert clock.place(100) - clock.place(0) == pytest.approx(clock.place(10**12 + 200) - clock.place(10**12 + 100))


def test_times_outside_are_drawn_at_the_ends():
    clock = Clock([(10, 20)])
    assert (clock.place(5), clock.place(25)) == (0, 1)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"), (999, "999 ns"), (1_000, "1 µs"), (1_234, "1.23 µs"), (123_456, "123.5 µs"), (5_000_000, "5 ms"),
        (1_500_000_000, "1.5 s"), (61_000_000_000, "1 min 1 s"), (7_260_000_000_000, "2 h 1 min"), (-1_500, "-1.5 µs"),
        (100_000, "100 µs"), (-120_000_000_000, "-2 min 0 s"),
    ],
)  # fmt: skip
def test_lengths_have_a_unit_that_fits(nanoseconds, text):
    assert duration_text(nanoseconds) == text
