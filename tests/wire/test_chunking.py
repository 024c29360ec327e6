"""[chunking] However a stream is split, it says the same; and buffering a byte costs the same however much came before."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pp1wire.wire.frames as frames_module
from pp1wire.wire import (
    Agreement,
    FrameReader,
    FrameSplitter,
    RejectCode,
    RemoteProtocolError,
    ReplyBatch,
    Representation,
    encode,
    encode_replies,
)
from tests.wire.frames import DENSE, SPARSE, completion, drain, facts, frame_of, hello, reply, sealed, step
from tests.wire.strategies import agreements, messages


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(c for c in cuts if c <= len(stream)), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


def said(agreement: Agreement | None, pieces: list[bytes]) -> list[object]:
    return [facts(outcome) for outcome in drain(FrameReader(agreement, 0), pieces)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[Agreement, bytes]:
    """Good frames, with perhaps one of them damaged, re-sealed or cut, or noise behind."""
    agreement = draw(agreements())
    sent = draw(st.lists(messages(agreement), min_size=1, max_size=5))
    stream = bytearray()
    victim = draw(st.integers(-1, len(sent) - 1))
    for number, message in enumerate(sent):
        frame = frame_of(message, agreement, number)
        if number == victim:
            at = draw(st.integers(0, len(frame) - 1))
            frame[at] ^= draw(st.integers(1, 255))
            if draw(st.booleans()):
                frame = bytearray(sealed(frame))
        stream += frame
    if draw(st.booleans()):
        stream = stream[: draw(st.integers(0, len(stream)))]
    return agreement, bytes(stream) + draw(st.sampled_from([b"", b"P", b"PP1", b"PX", b"GET / HTTP/1.1\r\n\r\n"]))


@given(streams(), st.lists(st.integers(0, 900), max_size=12))
def test_chunking_any_split_says_the_same(stream: tuple[Agreement, bytes], cuts: list[int]) -> None:
    agreement, data = stream
    whole = said(agreement, [data])
    assert said(agreement, pieces_of(data, cuts)) == whole
    assert said(agreement, [data[i : i + 1] for i in range(len(data))]) == whole


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_chunking_every_two_piece_split(agreement: Agreement) -> None:
    good = [encode(m(agreement), agreement, i) for i, m in enumerate((reply, completion, reply))]
    for third in (
        b"",
        good[2][:-1] + b"\x55",
        b"PP2W" + good[2][4:],
        good[2][:4] + b"\x01" + good[2][5:],
        good[2][:70],
    ):
        stream = b"".join(good[:2]) + third
        whole = said(agreement, [stream])
        for cut in range(len(stream) + 1):
            assert said(agreement, [stream[:cut], stream[cut:]]) == whole


@pytest.mark.parametrize("start", [b"G", b"PX", b"PP2", b"PP1X", b"PP1W\x01", b"HTTP/1.1 400 Bad Request\r\n"])
def test_chunking_another_protocol_is_told_at_its_first_wrong_byte(start: bytes) -> None:
    wrong = next(i for i, byte in enumerate(start) if byte != (b"PP1W\x02\x00" + bytes(99))[i])
    expected = (RejectCode.BAD_MAGIC, 0) if wrong < 4 else (RejectCode.UNSUPPORTED_VERSION, 4)
    data = start.ljust(6, b"\0")
    for agreement in (None, SPARSE):
        for pieces in ([data], [data[i : i + 1] for i in range(6)], [data[:wrong], data[wrong:]]):
            # Of a version, both bytes are needed.
            told_at = {1: 0, 2: 1, 6: wrong if wrong < 4 else 5}[len(pieces)]
            reader = FrameReader(agreement)
            for piece in pieces[:told_at]:
                assert reader.feed(piece) == []
            with pytest.raises(RemoteProtocolError) as caught:
                reader.feed(pieces[told_at])
            assert (caught.value.code, caught.value.offset) == expected


def test_chunking_a_hello_waits_for_its_agreement() -> None:
    first, second = encode(hello(), None, 0), encode(step(SPARSE), SPARSE, 1)
    for cuts in ([], [len(first)], [10, 400], list(range(len(first + second)))):
        reader = FrameReader(None, 0)
        found = []
        for piece in pieces_of(first + second, cuts):
            found += reader.feed(piece)
            if found and reader.agreement is None:
                reader.agreement = SPARSE
        found += reader.feed(b"")
        assert found == [hello(), step(SPARSE)]
        reader.close()


def test_chunking_without_an_agreement_only_a_hello_may_come() -> None:
    reader = FrameReader(None)
    stream = encode(hello(), None, 0) + encode(step(SPARSE), SPARSE, 1)
    assert reader.feed(stream) == [hello()]
    with pytest.raises(RemoteProtocolError) as caught:
        reader.feed(b"")
    assert (caught.value.code, caught.value.offset) == (RejectCode.UNEXPECTED_MESSAGE, 376 + 6)


class CountingBuffer(bytearray):
    """Counts the bytes that the splitter copies."""

    copied = 0

    def __init__(self, data: bytes | memoryview = b"") -> None:
        super().__init__(data)
        CountingBuffer.copied += len(data)

    def __iadd__(self, data: bytes) -> CountingBuffer:  # type: ignore[override,misc]
        CountingBuffer.copied += len(data)
        super().__iadd__(data)
        return self


def batch_of(agreement: Agreement, n: int) -> ReplyBatch:
    row = reply(agreement)
    return ReplyBatch.from_replies([row] * n, agreement)


@pytest.mark.parametrize("size", [1, 7, 64, 1448])
@pytest.mark.parametrize("kind", ["wide", "small"])
def test_chunking_copies_each_byte_at_most_twice(size: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear by construction: counted, not timed."""
    monkeypatch.setattr(frames_module, "bytearray", CountingBuffer, raising=False)
    for scale in (1, 4):
        if kind == "wide":
            agreement = Agreement(1, Representation.DENSE, 2000 * scale, 2000 * scale, 1, 5, 1, 1)
            ids, counts = np.array([5], np.int32), np.array([2**24], np.int32)
            batch = ReplyBatch.from_rows(
                agreement, session=1, slot=0, generation=1, round=1, position=0, tokens=[5], rows=[(ids, counts)]
            )
        else:
            agreement, batch = SPARSE, batch_of(SPARSE, 60 * scale)
        stream = bytes(encode_replies(batch, agreement, 0))
        CountingBuffer.copied = 0
        splitter = FrameSplitter(agreement, 0)
        found = [f for i in range(0, len(stream), size) for f in splitter.feed(stream[i : i + size])]
        splitter.close()
        assert len(found) == len(batch)
        assert b"".join(f.data for f in found) == stream
        assert CountingBuffer.copied <= 2 * len(stream)


def test_chunking_parses_a_waiting_header_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long body in small pieces: the header is judged when it is there and when the frame is whole, not at each piece."""
    calls = []
    judge = frames_module.check_header
    monkeypatch.setattr(frames_module, "check_header", lambda *a, **k: calls.append(1) or judge(*a, **k))
    frame = encode(reply(DENSE), DENSE, 0)
    splitter = FrameSplitter(DENSE, 0)
    found = [f for byte in frame for f in splitter.feed(bytes([byte]))]
    assert len(found) == 1
    assert len(calls) == 2


def test_chunking_holds_no_more_than_one_frame() -> None:
    stream = bytes(encode_replies(batch_of(SPARSE, 50), SPARSE, 0))
    splitter = FrameSplitter(SPARSE, 0)
    held = 0
    for i in range(0, len(stream), 100):
        splitter.feed(stream[i : i + 100])
        held = max(held, splitter.pending_bytes)
        assert splitter.offset + splitter.pending_bytes == min(i + 100, len(stream))
    assert held < SPARSE.reply_frame_bytes


@pytest.mark.parametrize("kind", [FrameReader, FrameSplitter])
def test_chunking_sticky_errors_take_no_memory_with_them(kind: type[FrameReader] | type[FrameSplitter]) -> None:
    reader = kind(SPARSE, 0)
    with pytest.raises(RemoteProtocolError) as caught:
        reader.feed(b"x" * 100)
    first = caught.value
    tracemalloc.start()
    try:
        for _ in range(200):
            with pytest.raises(RemoteProtocolError) as caught:
                reader.feed(b"y" * 10_000)
            assert caught.value is first
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    depth, trace = 0, first.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth < 5
