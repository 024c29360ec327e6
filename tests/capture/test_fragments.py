"""IP reassembly: any order gives the same datagram, contradictions give none, and memory is bounded."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.capture.events import PacketFinding
from pp1wire.capture.fragments import Fragments
from pp1wire.capture.ip import TCP, Datagram, Fragment
from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import Segment, SkipCode, Skipped
from tests.capture.packing import CLIENT, SERVER, captured, extension, fragments4, fragments6, ipv4, tcp_part

ENDS = (CLIENT.address, SERVER.address)
SECOND = 10**9


def fragment(
    offset: int, data: bytes, more: bool, *, number: int = 7, length: int | None = None, ends=ENDS
) -> Fragment:
    view = memoryview(data)
    return Fragment(*ends, TCP, number, offset, more, view, len(data) if length is None else length)


def put(fragments: Fragments, *parts: Fragment, times=None) -> list[Datagram | Skipped | None]:
    return [fragments.add(p, i, times and times[i - 1]) for i, p in enumerate(parts, 1)]


def cut_up(payload: bytes, places) -> list[Fragment]:
    bounds = [0, *sorted({p * 8 for p in places if 0 < p * 8 < len(payload)}), len(payload)]
    return [fragment(a, payload[a:b], b < len(payload)) for a, b in pairwise(bounds)]


@given(st.data(), st.binary(min_size=9, max_size=200), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_order_of_split_repeated_and_overlapping_fragments_gives_the_datagram(data, payload, six) -> None:
    ends = (bytes(16), bytes(15) + b"\1") if six else ENDS
    parts = []
    for _ in range(data.draw(st.integers(1, 3))):  # several ways to cut it: they overlap
        parts += cut_up(payload, data.draw(st.lists(st.integers(1, 25), max_size=6)))
    parts = [p._replace(source=ends[0], destination=ends[1]) for p in parts if len(parts) > 1]
    parts += data.draw(st.lists(st.sampled_from(parts), max_size=4)) if parts else []
    fragments = Fragments()
    found = put(fragments, *data.draw(st.permutations(parts)))
    whole = [f for f in found if f is not None]
    if parts:
        assert whole == [Datagram(*ends, TCP, memoryview(payload), len(payload))]
    assert fragments.finish() == []
    assert fragments.held == 0


@pytest.mark.parametrize("name", ["IPv4", "IPv6", "IPv6 with options behind the fragment header"])
def test_honest_fragmented_packets_are_read_as_the_whole_one(name) -> None:
    payload = bytes(range(250))
    body = tcp_part(payload)
    if name == "IPv4":
        packets = fragments4(body, [8, 24, 200])
    elif name == "IPv6":
        packets = fragments6(body, [8, 24, 200])
    else:
        packets = fragments6(extension(6) + body, [8, 24, 200], following=60)
    for order in (packets, packets[::-1]):
        layers = Layers()
        found = [layers.add(captured(data, n)) for n, data in enumerate(order, 1)]
        assert found[:-1] == [None] * 3
        assert isinstance(found[-1], Segment)
        assert (found[-1].payload, found[-1].length) == (payload, 250)
        assert layers.finish() == []


@pytest.mark.parametrize("last_first", [False, True])
def test_any_order_conflicts_are_told_and_never_the_last_or_first_wins(last_first) -> None:
    parts = [fragment(0, b"a" * 16, True), fragment(8, b"aaaaaaab", True), fragment(16, b"end", False)]
    if last_first:
        parts = parts[::-1]
    fragments = Fragments()
    found = put(fragments, *parts)
    assert [f for f in found if isinstance(f, Datagram)] == []
    (conflict,) = [f for f in found if f is not None]
    assert conflict.code is SkipCode.CONFLICT
    assert "contradicts others of its datagram, which is dropped" in conflict.message
    # The same bytes again do not revive it, and nothing is told twice.
    assert put(fragments, *parts) == [None] * 3
    assert fragments.finish() == []
    assert fragments.held == 0


CONTRADICTIONS = {
    "two ends": [fragment(8, b"x" * 8, False), fragment(8, b"x" * 16, False)],
    "bytes behind the end": [fragment(8, b"x" * 8, False), fragment(16, b"x" * 8, True)],
    "an end before bytes": [fragment(16, b"x" * 8, True), fragment(8, b"x" * 8, False)],
    "an end inside": [fragment(8, b"x" * 24, True), fragment(8, b"x" * 16, False)],
    "other bytes at the front": [fragment(8, b"abcdefgh", True), fragment(0, b"x" * 9 + b"bcdefgh", True)],
    "other bytes at the end": [fragment(0, b"abcdefgh" * 2, True), fragment(8, b"abcdefgX" + b"y" * 8, True)],
}


@pytest.mark.parametrize("parts", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_conflict_of_every_kind_drops_the_datagram(parts) -> None:
    for order in (parts, parts[::-1]):
        found = put(Fragments(), *order)
        assert found[0] is None
        assert isinstance(found[1], Skipped)
        assert found[1].code is SkipCode.CONFLICT


def test_conflict_with_a_datagram_that_has_come_out_is_told_too() -> None:
    fragments = Fragments()
    first, second = fragment(0, b"a" * 8, True), fragment(8, b"b" * 8, False)
    found = put(fragments, first, second, first, second, fragment(0, b"A" * 8, True), fragment(8, b"b" * 4, False))
    assert found[1] == Datagram(*ENDS, TCP, memoryview(b"a" * 8 + b"b" * 8), 16)
    assert found[2:4] == [None, None]
    assert [f.code for f in found[4:]] == [SkipCode.CONFLICT] * 2
    assert fragments.finish() == []


def test_a_number_is_used_again_a_minute_later() -> None:
    fragments = Fragments()
    old = [fragment(0, b"a" * 8, True), fragment(8, b"b" * 8, False)]
    new = [fragment(0, b"A" * 8, True), fragment(8, b"B" * 8, False)]
    times = [0, 1, 61 * SECOND, 61 * SECOND]
    assert [bytes(f.payload) for f in put(fragments, *old, *new, times=times) if f] == [
        b"a" * 8 + b"b" * 8,
        b"A" * 8 + b"B" * 8,
    ]
    # One that stayed incomplete is given up, and nothing of it gets into the new one.
    fragments = Fragments()
    found = put(fragments, old[0], *new, times=[0, 61 * SECOND, 61 * SECOND])
    assert [f and bytes(f.payload) for f in found] == [None, None, b"A" * 8 + b"B" * 8]
    assert [f.packet for f in fragments.take_lost()] == [1]


def test_honest_fragments_cut_by_a_snapshot_length_leave_the_bytes_before_the_cut() -> None:
    cut = fragment(8, b"bb", True, length=8)
    for order in ([0, 1, 2], [2, 1, 0]):
        parts = [fragment(0, b"a" * 8, True), cut, fragment(16, b"c" * 8, False)]
        found = put(Fragments(), *(parts[i] for i in order))[-1]
        assert found == Datagram(*ENDS, TCP, memoryview(b"a" * 8 + b"bb"), 24)


def test_gaps_missing_fragments_are_told_with_their_first_packet() -> None:
    layers = Layers()
    packets = fragments4(tcp_part(bytes(100)), [40, 80])
    assert [layers.add(captured(p, n, time_ns=n)) for n, p in enumerate((packets[2], packets[0]), 5)] == [None, None]
    message = "of 120 bytes of an IP datagram, fragments hold only 80"
    assert layers.finish() == [PacketFinding(SkipCode.MISSING_FRAGMENT, 5, 5, message)]
    layers.add(captured(packets[0], 1))
    (lost,) = layers.finish()
    assert lost.message == "of an unknown number of bytes of an IP datagram, fragments hold only 40"


def test_datagrams_are_told_apart_by_ends_protocol_and_number() -> None:
    fragments = Fragments()
    keys = [{}, {"number": 8}, {"ends": ENDS[::-1]}, {"ends": (bytes(16), bytes(16))}]
    for n, key in enumerate(keys):
        assert fragments.add(fragment(0, bytes([n]) * 8, True, **key), 1, None) is None
    for n, key in enumerate(keys):
        found = fragments.add(fragment(8, b"end", False, **key), 1, None)
        assert isinstance(found, Datagram)
        assert found.payload == bytes([n]) * 8 + b"end"


MALFORMED = {
    "a length that is no multiple of 8": (fragment(0, b"x" * 9, True), "length: expected a multiple of 8, got 9"),
    "nothing": (fragment(8, b"", False), "length: expected at least 1, got 0"),
    "nothing before more": (fragment(8, b"", True), "length: expected a multiple of 8, got 0"),
    "too long": (fragment(65_528, b"x" * 8, False), "end: expected at most 65535, got 65536"),
}


@pytest.mark.parametrize(("part", "message"), MALFORMED.values(), ids=MALFORMED)
def test_impossible_fragments_are_malformed(part, message) -> None:
    (found,) = put(Fragments(), part)
    assert found == (SkipCode.MALFORMED, f"IP fragment's {message}")


def test_caps_reached_by_the_largest_datagram() -> None:
    payload = bytes(65_535)
    parts = [fragment(0, payload[:65_528], True), fragment(65_528, payload[65_528:], False)]
    assert put(Fragments(), *parts)[-1].length == 65_535


def test_other_protocols_and_fragments_in_fragments_are_not_held() -> None:
    layers = Layers()
    assert layers.add(captured(ipv4(bytes(16), more=True, protocol=17))) == (
        SkipCode.NOT_TCP,
        "fragment of IP protocol 17",
    )
    inner = fragments6(tcp_part(bytes(80)), [40])[0][40:]
    for packet in fragments6(inner, [16], following=44, identification=9):
        found = layers.add(captured(packet))
    assert found == (SkipCode.MALFORMED, "an IP fragment inside a fragmented datagram")
    assert layers.finish() == []


def test_caps_reached_memory_is_bounded_whatever_never_completes() -> None:
    fragments = Fragments(max_held=1 << 20, max_datagrams=50)
    tracemalloc.start()
    for number in range(3000):
        fragments.add(fragment(0, bytes(8000), True, number=number), number, None)
        assert fragments.held <= 1 << 20
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert [f.packet for f in fragments.take_lost()] == list(range(2950))
    # Complete ones are remembered within a bound, too.
    fragments = Fragments(max_recent=1 << 18)
    tracemalloc.start()
    for number in range(3000):
        put(fragments, fragment(0, bytes(8000), True, number=number), fragment(8000, b"end", False, number=number))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20
    assert fragments.finish() == []


def test_small_fragments_of_one_datagram_cost_no_more_than_they_are() -> None:
    """The smallest fragments, worst order: each is looked up, none walked past."""
    fragments = Fragments()
    count = 8191
    for index in range(count, 0, -1):
        assert fragments.add(fragment(index * 8, bytes(4 if index == count else 8), index < count), 1, None) is None
    found = fragments.add(fragment(0, bytes(8), True), 1, None)
    assert isinstance(found, Datagram)
    assert found.length == count * 8 + 4
