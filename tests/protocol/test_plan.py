"""The source design's tables of sizes and lower bounds, and refusals before anything is allocated."""

from __future__ import annotations

import pytest

from pp1wire import Limits, LocalProtocolError
from pp1wire.protocol.plan import plan
from pp1wire.wire import Representation
from pp1wire.wire.limits import wire_seconds

DENSE, SPARSE = Representation.DENSE, Representation.SPARSE


def test_dense_sizes_of_the_deployment():
    limits = Limits()
    assert limits.row_bytes(DENSE) == 517_120
    assert limits.request_bytes(DENSE) == 2_585_600
    assert limits.batch_bytes(DENSE) == 10_342_400
    assert limits.pool_bytes(DENSE) == 20_684_800
    assert limits.fan_out_bytes(DENSE) == 10_342_400
    assert limits.shard_request_bytes() == 1_292_800
    assert limits.shard_batch_bytes() == 5_171_200


@pytest.mark.parametrize(
    ("k", "request_bytes", "batch_bytes"),
    [(16, 640, 2_560), (32, 1_280, 5_120), (64, 2_560, 10_240), (256, 10_240, 40_960)],
)
def test_sparse_sizes_of_the_deployment(k, request_bytes, batch_bytes):
    limits = Limits(support=k)
    assert limits.request_bytes(SPARSE) == request_bytes
    assert limits.batch_bytes(SPARSE) == batch_bytes


def test_lower_bounds_of_a_40_gigabit_link():
    result = plan(Limits(), link_gigabits=40.0)
    dense = next(layout for layout in result.layouts if layout.representation == "dense")
    assert f"{dense.request_seconds * 1e3:.3f}" == "0.517"
    assert f"{dense.batch_seconds * 1e3:.3f}" == "2.068"
    assert f"{result.shard_request_seconds * 1e3:.3f}" == "0.259"


def test_sizes_do_not_overflow_and_allocate_nothing():
    limits = Limits(vocab_size=262_144, support=262_144, ranks=3)
    assert limits.pool_bytes(SPARSE) == 2 * 4 * 5 * 8 * 262_144
    assert limits.shard_request_bytes() == 5 * 4 * 87_382  # the largest of three shards


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"vocab_size": 0}, "vocab_size"),
        ({"vocab_size": 262_145}, "vocab_size"),
        ({"padded_vocab_size": 129_279}, "padded_vocab_size"),
        ({"padded_vocab_size": 262_145}, "padded_vocab_size"),
        ({"support": 0}, "support"),
        ({"vocab_size": 31, "support": 32}, "support: expected 1 to 31, got 32"),
        ({"depth": 6}, "depth"),
        ({"depth": 0}, "depth"),
        ({"slots": 5}, "slots"),
        ({"ranks": 0}, "ranks"),
    ],
)
def test_refuses_a_shape_outside_the_fixed_limits(arguments, named):
    with pytest.raises(LocalProtocolError, match=named):
        Limits(**arguments)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_refuses_a_link_without_speed(speed):
    with pytest.raises(LocalProtocolError, match="link"):
        wire_seconds(1, speed)


def test_says_what_fits_and_by_how_much_it_does_not():
    exact = plan(Limits(), buffer_bytes=20_684_800)
    assert exact.fits is True
    short = plan(Limits(), buffer_bytes=20_684_799)
    assert short.fits is False
    assert [layout.fits for layout in short.layouts] == [False, True]
    assert any("short of 1 B" in line for line in short.lines())
    assert short.as_data()["layouts"][0]["pool"] == 20_684_800
    assert plan(Limits()).fits is None
    assert plan(Limits()).as_data()["fits"] is None


def test_times_are_in_a_unit_that_shows_them():
    text = "\n".join(plan(Limits()).lines())
    for time in ("0.517 ms", "2.068 ms", "0.259 ms", "0.256 µs", "1.024 µs"):
        assert time in text
