"""[early refusal] A length is refused at the header, and n bytes cost at most a + 3n bytes of memory, whatever they say."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from pp1wire.wire import (
    Agreement,
    Completion,
    FrameReader,
    FrameSplitter,
    RejectCode,
    RemoteProtocolError,
    Reply,
    Representation,
    Reset,
    decode,
    decode_replies,
    encode,
    prefix_digest,
)
from pp1wire.wire._schema_v2 import MAX_PREFIX, Q_TOTAL
from tests.wire.frames import (
    DENSE,
    KIND_NAMES,
    KINDS,
    SPARSE,
    changed,
    drain,
    encode_all,
    frame_of,
    q_of,
    reply,
    sealed,
)

CONSTANT = 400_000
"""Bytes that do not grow with the input: blocks of temporaries, caches, one error."""
WIDTH = 262_144
WIDE = Agreement(5, Representation.DENSE, WIDTH, WIDTH, 1, 1, 1, MAX_PREFIX)
DEEP = Agreement(5, Representation.SPARSE, WIDTH, WIDTH, 1, 1, WIDTH // 2, MAX_PREFIX)
IDENTITY = {"session": 1, "slot": 0, "generation": 1}


def peak(action: Callable[[], object]) -> tuple[int, object]:
    """(peak bytes above the start, the result or the error's code)."""
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        try:
            result = action()
        except RemoteProtocolError as error:
            result = error.code
        return tracemalloc.get_traced_memory()[1] - start, result
    finally:
        tracemalloc.stop()


def read_in(pieces: int, data: bytes, agreement: Agreement) -> list[object]:
    reader, found = FrameReader(agreement), []
    for start in range(0, len(data), pieces):
        found += reader.feed(data[start : start + pieces])
    return found


def wide_frames() -> dict[str, tuple[Agreement, bytes, RejectCode | None]]:
    q = np.full(WIDTH, 64 / Q_TOTAL, np.float32)
    dense = encode(Reply(**IDENTITY, round=1, position=0, token=5, ids=[], q=q), WIDE, 0)
    k = DEEP.max_support
    sparse = encode(
        Reply(**IDENTITY, round=1, position=0, token=5, ids=np.arange(k), q=np.full(k, 128 / Q_TOTAL, np.float32)),
        DEEP,
        0,
    )
    ids = np.full(MAX_PREFIX, 7)
    reset = encode(
        Reset(**IDENTITY, reason=1, position=len(ids), prefix_digest=prefix_digest(ids), prefix_ids=ids), WIDE, 0
    )

    def filled(frame: bytes, start: int, value: bytes) -> bytes:
        return sealed(frame[:start] + value * ((len(frame) - start) // 4))

    last = changed(dense, WIDE, **{"reply__q[262143]": -0.0})
    return {
        "dense": (WIDE, dense, None),
        "dense, wrong mass": (WIDE, filled(dense, 96, struct.pack("<f", 0.5)), RejectCode.Q_MASS_MISMATCH),
        "dense, NaN": (WIDE, filled(dense, 96, struct.pack("<f", float("nan"))), RejectCode.Q_NOT_FINITE),
        "dense, subnormal": (WIDE, filled(dense, 96, b"\1\0\0\0"), RejectCode.Q_NOT_DYADIC),
        "dense, last entry": (WIDE, last, RejectCode.Q_NEGATIVE_ZERO),
        "dense, body checksum": (WIDE, dense[:-1] + b"\x55", RejectCode.BODY_CHECKSUM_MISMATCH),
        "sparse": (DEEP, sparse, None),
        "sparse, no id": (DEEP, filled(sparse, 96, b"\xff\xff\xff\xff"), RejectCode.ID_OUT_OF_RANGE),
        "sparse, same ids": (DEEP, filled(sparse, 96, b"\3\0\0\0"), RejectCode.IDS_DUPLICATE),
        "sparse, wrong mass": (DEEP, filled(sparse, 96 + 4 * k, struct.pack("<f", 1)), RejectCode.Q_MASS_MISMATCH),
        "reset": (WIDE, reset, None),
        "reset, no id": (WIDE, filled(reset, 96, b"\xff\xff\xff\xff"), RejectCode.TOKEN_OUT_OF_RANGE),
        "reset, other ids": (WIDE, filled(reset, 96, b"\3\0\0\0"), RejectCode.PREFIX_DIGEST_MISMATCH),
    }


WIDE_FRAMES = wide_frames()


@pytest.mark.parametrize("name", WIDE_FRAMES)
def test_early_refusal_memory_of_the_widest_frames(name: str) -> None:
    agreement, data, code = WIDE_FRAMES[name]
    n, buffer = len(data), bytearray(data)
    ways: list[Callable[[], object]] = [
        lambda: decode(data, agreement),
        lambda: decode(buffer, agreement),
        lambda: FrameReader(agreement).feed(data),
        lambda: FrameReader(agreement).feed(buffer),
        lambda: read_in(1448, data, agreement),
        lambda: read_in(65536, data, agreement),
    ]
    if data[6] == 3:
        ways += [lambda: decode_replies(data, agreement), lambda: decode_replies(buffer, agreement)]
    for way in ways:
        used, result = peak(way)
        # Measured 2.3 n: one copy while a frame comes in pieces, and its counts.
        assert used <= CONSTANT + 2.5 * n
        assert (result == code) if code else result


@pytest.mark.parametrize("pieces", [1448, 65536])
def test_early_refusal_memory_of_a_stream_of_dense_rows(pieces: int) -> None:
    agreement = Agreement(5, Representation.DENSE, 20_000, 20_000, 1, 5, 1, 8)
    q = np.zeros(20_000, np.float32)
    q[7] = 1
    rows = [Reply(**IDENTITY, round=1, position=i, token=7, ids=[], q=q) for i in range(10)]
    stream = encode_all(rows, agreement)
    used, result = peak(lambda: read_in(pieces, stream, agreement))
    assert result == rows
    assert used <= CONSTANT + 3 * len(stream)
    used, batch = peak(lambda: decode_replies(stream, agreement))
    assert len(batch) == 10  # type: ignore[arg-type]
    assert used <= CONSTANT + 2 * len(stream)


def test_early_refusal_memory_of_many_small_rows() -> None:
    """Beside one judged row stands no cache that grows with what a peer sends."""
    agreement = Agreement(5, Representation.SPARSE, 9, 9, 1, 1, 1, 1)
    row = reply(agreement, slot=0, ids=[2], q=q_of(2**24))
    one = encode(row, agreement, 0)
    streams = [encode_all([row] * n, agreement) for n in range(700, 710)]
    decode_replies(one, agreement)

    def judge() -> None:
        for stream in streams:
            decode_replies(stream, agreement)
            decode_replies(bytearray(stream), agreement)

    tracemalloc.start()
    try:
        judge()
        kept, used = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 50_000
    assert used <= CONSTANT + 3 * len(streams[-1])


def test_early_refusal_memory_of_a_frame_with_a_mountain_behind_it() -> None:
    frame = bytes(frame_of(reply(SPARSE), SPARSE))
    mountain = frame + bytes(3_000_000)
    used, result = peak(lambda: decode(mountain, SPARSE))
    assert (used < CONSTANT, result) == (True, RejectCode.EXTRA_DATA)
    reader = FrameReader(SPARSE)
    used, result = peak(lambda: reader.feed(mountain))
    assert (used < CONSTANT, result) == (True, [reply(SPARSE)])


@pytest.mark.parametrize(("agreement", "message"), KINDS, ids=KIND_NAMES)
def test_early_refusal_at_the_header(agreement: Agreement | None, message: object) -> None:
    """The 64th byte is enough, and nothing is held of what was refused."""
    good = bytes(frame_of(message, agreement))  # type: ignore[arg-type]
    longest = 312 if agreement is None else agreement.longest_body
    for length in (longest + 1, 2**31, 2**32 - 1):
        header = changed(good, agreement, header__body_length=length)[:64]
        splitter = FrameSplitter(agreement)
        assert splitter.feed(header[:63]) == []
        with pytest.raises(RemoteProtocolError) as caught:
            splitter.feed(header[63:])
        assert (caught.value.code, caught.value.offset) == (RejectCode.OVERSIZED_BODY, 16)
        assert splitter.pending_bytes == 0
        used, code = peak(lambda: FrameReader(agreement).feed(header))  # noqa: B023
        assert (used < 20_000, code) == (True, RejectCode.OVERSIZED_BODY)


def test_early_refusal_a_promised_length_allocates_nothing() -> None:
    """A header may announce the longest body and send none of it."""
    _, data, _ = WIDE_FRAMES["reset"]
    reader = FrameReader(WIDE)
    used, result = peak(lambda: reader.feed(data[:64] + b"\1"))
    assert (used < 20_000, result) == (True, [])


def body_lengths() -> list[tuple[Agreement | None, int, int, set[int]]]:
    """(agreement, message type, limit, legal lengths near it)."""
    cases: list[tuple[Agreement | None, int, int, set[int]]] = [(None, 1, 312, {312})]
    for a in (SPARSE, DENSE):
        row, most = a.reply_frame_bytes - 64, 32 + 4 * a.max_prefix
        cases += [
            (a, 2, 48, {48}), (a, 3, row, {row}), (a, 4, 40, {40}), (a, 5, 72, {72}),
            (a, 6, 32, {32, 36, 40}), (a, 6, most, {most - 8, most - 4, most}),
            (a, 3, a.longest_body, {row} if abs(row - a.longest_body) <= 9 else set()),
        ]  # fmt: skip
    return cases


@pytest.mark.parametrize(("agreement", "kind", "limit", "legal"), body_lengths())
def test_caps_reached_lengths_around_each_limit(
    agreement: Agreement | None, kind: int, limit: int, legal: set[int]
) -> None:
    name = {1: "hello", 2: "step", 3: "reply", 4: "completion", 5: "commit", 6: "reset"}[kind]
    message = next(m for n, (a, m) in zip(KIND_NAMES, KINDS, strict=True) if n.startswith(name) and a is agreement)
    good = bytes(frame_of(message, agreement))
    longest = 312 if agreement is None else agreement.longest_body
    lengths = set(range(max(limit - 9, 0), limit + 10))
    refused = {}
    for length in lengths:
        header = changed(good, agreement, header__body_length=length)[:64]
        for outcome in drain(FrameReader(agreement), [header]):
            assert isinstance(outcome, RemoteProtocolError)
            if outcome.code is not RejectCode.TRUNCATED:
                refused[length] = (outcome.code, outcome.offset, outcome.path)
    assert lengths - set(refused) == legal
    for length, found in refused.items():
        code = RejectCode.OVERSIZED_BODY if length > longest else RejectCode.WRONG_BODY_LENGTH
        assert found == (code, 16, "header.body_length")


def test_caps_reached_a_body_of_no_bytes_more_than_the_longest_is_read() -> None:
    a = Agreement(5, Representation.SPARSE, 9, 9, 1, 1, 1, 30)
    assert a.longest_body == 32 + 4 * 30
    for n in (29, 30):
        ids = [3] * n
        message = Reset(**IDENTITY, reason=1, position=n, prefix_digest=prefix_digest(ids), prefix_ids=ids)
        assert decode(encode(message, a, 0), a) == message
    b = Agreement(5, Representation.SPARSE, 9, 9, 1, 1, 1, 31)
    ids = [3] * 31
    message = Reset(**IDENTITY, reason=1, position=31, prefix_digest=prefix_digest(ids), prefix_ids=ids)
    frame = encode(message, b, 0)
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frame, a)
    assert caught.value.code is RejectCode.OVERSIZED_BODY


def test_early_refusal_of_a_reader_between_hellos_and_agreements() -> None:
    """Before an agreement only a HELLO's 312 bytes are waited for."""
    header = changed(bytes(frame_of(Completion(
        session=1, slot=0, generation=1, round=1, position=0, context_version=0, reply_bytes=0, rows_checksum=bytes(16),
        status=0, rows=0), SPARSE)), SPARSE)[:64]  # fmt: skip
    with pytest.raises(RemoteProtocolError) as caught:
        FrameReader(None).feed(header)
    assert (caught.value.code, caught.value.offset) == (RejectCode.UNEXPECTED_MESSAGE, 6)
