"""[one family] Any bytes give messages or RemoteProtocolError, and nothing else, whatever flags Python runs with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pp1wire.wire import (
    Agreement,
    FrameReader,
    FrameSplitter,
    RejectCode,
    RemoteProtocolError,
    decode,
    decode_replies,
    encode,
)
from tests.wire.frames import (
    DENSE,
    EVERY_KIND,
    SPARSE,
    changed,
    commit,
    completion,
    drain,
    encode_all,
    frame_of,
    reply,
    sealed,
    set_bits,
    step,
)

ROOT = Path(__file__).parents[2]


@st.composite
def mangled(draw: st.DrawFn) -> tuple[Agreement | None, bytes]:
    """Noise, or one or two frames with bytes overwritten, cut out and put in, checksums repaired more often than not."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, SPARSE, DENSE])), draw(st.binary(max_size=300))
    _, agreement, message = draw(st.sampled_from(EVERY_KIND))
    data = b""
    for number in range(draw(st.integers(1, 2))):
        frame = frame_of(message, agreement, number)
        for _ in range(draw(st.integers(0, 4))):
            at, size = draw(st.integers(0, len(frame))), draw(st.sampled_from([1, 2, 4, 8]))
            noise = draw(st.binary(max_size=size) | st.sampled_from([b"\xff" * size, bytes(size)]))
            frame[at : at + (0 if draw(st.integers(0, 4)) == 0 else size)] = noise
        if len(frame) >= 64 and draw(st.integers(0, 3)):
            if draw(st.booleans()):
                frame[16:20] = (len(frame) - 64).to_bytes(4, "little")
            frame[:6] = b"PP1W\2\0"
            frame = bytearray(sealed(frame))
        data += bytes(frame)
    return agreement, data


def survives(agreement: Agreement | None, data: bytes) -> int:
    """Run every decoder over `data`; how many messages it gave."""
    outcomes = drain(FrameReader(agreement), [data])
    for read in (decode, decode_replies) if agreement else (decode,):
        try:
            read(data, agreement)
        except RemoteProtocolError as error:
            outcomes.append(error)
    for outcome in outcomes:
        if isinstance(outcome, RemoteProtocolError):
            assert 0 <= outcome.offset <= len(data)
            assert "\n" not in str(outcome)
        else:
            assert decode(encode(outcome, agreement, 0), agreement) == outcome
    return sum(not isinstance(o, RemoteProtocolError) for o in outcomes)


@settings(max_examples=max(400, settings.default.max_examples))
@given(mangled())
def test_one_family_of_any_bytes(case: tuple[Agreement | None, bytes]) -> None:
    survives(*case)


def test_one_family_without_asserts_and_with_every_warning() -> None:
    """The same over ten thousand mutations in `python -O -X dev -bb`, where asserts are gone and warnings are errors."""
    script = Path(__file__).with_name("hostile.py")
    done = subprocess.run(
        [sys.executable, "-O", "-X", "dev", "-bb", "-W", "error", str(script), "10000"],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    refused, accepted = map(int, done.stdout.split())
    assert refused > 5000
    assert accepted > 100
    assert done.stderr == ""


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_one_family_connection_errors_are_sticky(agreement: Agreement) -> None:
    good = encode(completion(agreement), agreement, 0)
    bad_step = changed(encode(step(agreement), agreement, 1), agreement, step__depth=0)
    for trouble in (b"nonsense", bad_step, encode(completion(agreement), agreement, 2), good):
        reader = FrameReader(agreement, 0)
        assert reader.feed(good + trouble) == [completion(agreement)]
        errors = []
        for more in (b"", encode(completion(agreement), agreement, 1), b"x" * 100):
            with pytest.raises(RemoteProtocolError) as caught:
                reader.feed(more)
            errors.append(caught.value)
        with pytest.raises(RemoteProtocolError) as caught:
            reader.close()
        errors.append(caught.value)
        assert all(e is errors[0] for e in errors)
        assert errors[0].scope == "connection"
        assert errors[0].offset >= len(good)


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_one_family_proposal_errors_cost_only_their_frame(agreement: Agreement) -> None:
    rows = [encode(reply(agreement, position=i), agreement, i) for i in range(6)]
    rows[1] = changed(rows[1], agreement, reply__token=-1)
    rows[4] = rows[4][:-1] + b"\x77"
    done = changed(encode(completion(agreement), agreement, 6), agreement, completion__status=99)
    last = encode(completion(agreement), agreement, 7)
    reader = FrameReader(agreement, 0)
    outcomes = drain(reader, [b"".join(rows) + done + last])
    good = [reply(agreement, position=i) for i in (0, 2, 3, 5)]
    assert [o for o in outcomes if not isinstance(o, RemoteProtocolError)] == [*good, completion(agreement)]
    codes = {i: (o.code, o.scope) for i, o in enumerate(outcomes) if isinstance(o, RemoteProtocolError)}
    assert codes == {
        1: (RejectCode.TOKEN_OUT_OF_RANGE, "proposal"),
        4: (RejectCode.BODY_CHECKSUM_MISMATCH, "proposal"),
        6: (RejectCode.UNKNOWN_VALUE, "proposal"),
    }
    reader.close()
    assert reader.feed(encode(commit(agreement), agreement, 8)) == [commit(agreement)]


@pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_one_family_messages_before_an_error_come_first(agreement: Agreement) -> None:
    stream = encode_all([reply(agreement), completion(agreement)], agreement)
    for trouble in (b"garbage", changed(encode(reply(agreement), agreement, 2), agreement, reply__entry_count=0)):
        reader = FrameReader(agreement, 0)
        assert reader.feed(stream + trouble) == [reply(agreement), completion(agreement)]
        with pytest.raises(RemoteProtocolError):
            reader.close()
        with pytest.raises(RemoteProtocolError):
            reader.feed(b"")


def test_one_family_scope_of_what_the_worker_receives_is_the_connection() -> None:
    """The same code costs a round in a worker's message, and the connection in a verifier's."""
    for agreement in (SPARSE, DENSE):
        bad = changed(encode(commit(agreement), agreement, 0), agreement, commit__reserved_1=b"\0\0\0\0\1")
        with pytest.raises(RemoteProtocolError) as caught:
            decode(bad, agreement)
        assert (caught.value.code.scope, caught.value.scope) == ("proposal", "connection")
        token = set_bits(encode(commit(agreement), agreement, 0), 64 + 48, -1)
        with pytest.raises(RemoteProtocolError) as caught:
            decode(token, agreement)
        assert caught.value.scope == "connection"
        assert caught.value.identity == (7, 3, 5)


def test_one_family_empty_feeds_and_feeds_after_close() -> None:
    for agreement in (SPARSE, DENSE):
        reader = FrameReader(agreement, 0)
        for empty in (b"", bytearray(), memoryview(b""), memoryview(b"ab")[1:1]):
            assert reader.feed(empty) == []
        reader.close()
        frame = encode(completion(agreement), agreement, 0)
        assert reader.feed(frame[:70]) == []
        for _ in range(2):
            with pytest.raises(RemoteProtocolError) as caught:
                reader.close()
            assert (caught.value.code, caught.value.offset) == (RejectCode.TRUNCATED, 70)
        assert reader.feed(b"") == []
        assert reader.feed(frame[70:]) == [completion(agreement)]


def test_one_family_numbers_at_their_ends() -> None:
    top = {"session": 2**64 - 1, "generation": 2**32 - 1, "round": 2**32 - 1}
    for agreement in (SPARSE, DENSE):
        message = completion(agreement, **top, reply_bytes=2**64 - 1, position=2**32 - 1)
        last = encode(message, agreement, 2**64 - 1)
        reader = FrameReader(agreement, 2**64 - 1)
        assert reader.feed(last) == [message]
        for number in (0, 2**64 - 1):
            again = FrameReader(agreement, 2**64 - 1)
            assert again.feed(last + encode(message, agreement, number)) == [message]
            with pytest.raises(RemoteProtocolError) as caught:
                again.feed(b"")
            assert caught.value.code is RejectCode.SEQUENCE_MISMATCH
        row = reply(agreement, **top, position=2**32 - 1)
        pair = encode(row, agreement, 2**64 - 1) + encode(row, agreement, 0)
        for sequence in (None, 2**64 - 1):
            assert decode_replies(pair[: len(pair) // 2], agreement, sequence)[0] == row
            with pytest.raises(RemoteProtocolError) as caught:
                decode_replies(pair, agreement, sequence)
            assert (caught.value.code, caught.value.offset) == (RejectCode.SEQUENCE_MISMATCH, len(pair) // 2 + 8)


def test_one_family_stream_joined_midway_takes_the_first_number() -> None:
    frames = [encode(completion(SPARSE), SPARSE, n) for n in (41, 42, 44)]
    splitter = FrameSplitter(SPARSE, offset=1000)
    assert [f.header.sequence for f in splitter.feed(frames[0] + frames[1])] == [41, 42]
    with pytest.raises(RemoteProtocolError) as caught:
        splitter.feed(frames[2])
    assert (caught.value.code, caught.value.offset) == (RejectCode.SEQUENCE_MISMATCH, 1000 + 2 * len(frames[0]) + 8)
