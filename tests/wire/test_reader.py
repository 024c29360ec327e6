"""Corners of the readers that no single property reaches."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from pp1wire.errors import LocalProtocolError, PP1Error
from pp1wire.wire import (
    Agreement,
    Completion,
    FrameReader,
    FrameSplitter,
    MessageType,
    RejectCode,
    RemoteProtocolError,
    Representation,
    decode_frame,
    decode_replies,
    encode,
    read_rows,
    rows,
)
from pp1wire.wire._schema_v2 import DIRECTIONS
from pp1wire.wire.checksums import header_checksum
from pp1wire.wire.limits import Limits
from tests.wire.frames import DENSE, SPARSE, changed, completion, drain, encode_all, hello, reply, step

both = pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])


@both
def test_a_frame_is_decoded_with_the_agreement_it_was_split_with(agreement: Agreement) -> None:
    for message in (step(agreement), reply(agreement)):
        [frame] = FrameSplitter(agreement).feed(encode(message, agreement, 0))
        assert decode_frame(frame, agreement) == message
        with pytest.raises(LocalProtocolError, match="agreement"):
            decode_frame(frame, None)


@both
def test_rows_of_many_frames_are_one_batch_wherever_they_lie(agreement: Agreement) -> None:
    wanted = [reply(agreement, position=i) for i in range(4)]
    frames = FrameSplitter(agreement).feed(encode_all(wanted, agreement))
    for chosen in (frames, frames[1:], frames[::2], frames[::-1], [frames[3], frames[0]]):
        batch, error = read_rows(chosen, agreement)
        assert error is None
        assert [batch[i] for i in range(len(batch))] == [wanted[frames.index(f)] for f in chosen]
    batch, error = read_rows([], agreement)
    assert (len(batch), error) == (0, None)


@both
def test_a_stream_that_ends_behind_an_undelivered_message(agreement: Agreement) -> None:
    parts = [
        encode(completion(agreement), agreement, 0),
        changed(encode(reply(agreement), agreement, 1), agreement, reply__entry_count=0),
        encode(completion(agreement), agreement, 2),
    ]
    reader = FrameReader(agreement, 0)
    assert reader.feed(b"".join(parts)) == [completion(agreement)]
    with pytest.raises(RemoteProtocolError) as caught:
        reader.feed(b"")
    assert caught.value.code is RejectCode.MISSING_Q
    reader.close()
    assert reader.feed(b"") == [completion(agreement)]
    assert reader.agreement is agreement


def test_a_row_judged_bad_without_a_reason_is_reported_and_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two judgements cannot disagree; if they ever do, nothing passes."""
    monkeypatch.setattr(rows, "row_fault", lambda *_, **__: None)
    good = encode_all([reply(SPARSE)] * 2, SPARSE)
    frame = len(good) // 2
    bad = good[:frame] + changed(good[frame:], SPARSE, reply__entry_count=0)
    with pytest.raises(PP1Error, match="please report"):
        decode_replies(bad, SPARSE)
    with pytest.raises(PP1Error, match="please report"):
        read_rows(FrameSplitter(SPARSE).feed(bad), SPARSE)


def test_the_scope_of_every_code_is_one_of_three_and_says_what_it_means() -> None:
    for code in RejectCode:
        assert code.scope in ("connection", "proposal", "stale")
        assert code.meaning.endswith(".")
        assert code.stage
    for kind in MessageType:
        error = RemoteProtocolError(
            RejectCode.VALUE_OUT_OF_BOUNDS, offset=1, path="x", expected=b"a", actual=2, message_type=kind
        )
        assert error.scope == ("proposal" if DIRECTIONS[kind] == "worker_to_verifier" else "connection")
        assert str(error) == f"value_out_of_bounds at byte 1, x: expected b'a', got 2 ({error.scope} scope)"


@pytest.mark.parametrize("representation", Representation)
def test_limits_are_the_bytes_of_real_frames(representation: Representation) -> None:
    limits = Limits(vocab_size=500, padded_vocab_size=512, support=16, depth=3, slots=2)
    agreement = Agreement(1, representation, 500, 512, 2, 3, 16, 8)
    assert limits.reply_frame_bytes(representation) == agreement.reply_frame_bytes
    assert limits.row_bytes(representation) == agreement.payload_bytes
    done = encode(completion(agreement, slot=0), agreement, 0)
    assert limits.round_bytes(representation) == 3 * agreement.reply_frame_bytes + len(done)


@both
@pytest.mark.parametrize("alternating", [False, True], ids=["rows only", "rows between completions"])
def test_chunking_rejecting_many_rows_judges_each_a_bounded_number_of_times(
    agreement: Agreement, alternating: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = 0

    def counting(frames, agreed):
        nonlocal judged
        judged += len(frames)
        return read_rows(frames, agreed)

    monkeypatch.setattr("pp1wire.wire.reader.read_rows", counting)
    good = encode_all([reply(agreement, position=0)], agreement)
    bad = changed(good, agreement, reply__reserved_2=b"\1" + bytes(7))
    many = 1_000
    stream = bytearray()
    for number in range(many):
        row = changed(bad, agreement, header__sequence=number * (1 + alternating))
        stream += row
        if alternating:
            stream += encode(completion(agreement), agreement, 2 * number + 1)
    reader, errors, messages = FrameReader(agreement), 0, 0
    data = bytes(stream)
    while True:
        try:
            got = reader.feed(data)
        except RemoteProtocolError as error:
            errors += error.code is RejectCode.RESERVED_NOT_ZERO
        else:
            messages += len(got)
            if not got:
                break
        data = b""
    assert (errors, messages) == (many, many * alternating)
    assert judged <= 2 * many


def test_early_refusal_errors_that_wait_are_bytes_and_not_objects() -> None:
    """Ten thousand bad frames in one call: memory stays within three times their bytes, and each is told in its turn."""
    bad = changed(encode(completion(SPARSE), SPARSE, 0), SPARSE, completion__rows=6)
    good = encode(completion(SPARSE), SPARSE, 0)
    stream = bytearray()
    for number in range(10_000):
        frame = bytearray(bad if number % 5 else good)
        frame[8:16] = number.to_bytes(8, "little")
        frame[56:64] = header_checksum(frame).to_bytes(8, "little")
        stream += frame
    reader = FrameReader(SPARSE, 0)
    tracemalloc.start()
    assert len(reader.feed(stream)) == 1
    with pytest.raises(RemoteProtocolError):
        reader.feed(b"")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 3 * len(stream) + 2**20
    for source in (bytes(stream), stream):
        outcomes = drain(FrameReader(SPARSE, 0), [source])
        errors = [outcome.code for outcome in outcomes if isinstance(outcome, RemoteProtocolError)]
        assert errors == [RejectCode.VALUE_OUT_OF_BOUNDS] * 8_000
        assert len(outcomes) == 10_000


def test_own_bytes_what_waits_behind_an_error_is_not_the_callers() -> None:
    bad = changed(encode(completion(SPARSE), SPARSE, 0), SPARSE, completion__rows=6)
    frames = [bad] * 2 + [encode(completion(SPARSE), SPARSE, 0)] * 600
    stream = bytearray()
    for number, data in enumerate(frames):
        frame = bytearray(data)
        frame[8:16] = number.to_bytes(8, "little")
        frame[56:64] = header_checksum(frame).to_bytes(8, "little")
        stream += frame
    reader = FrameReader(SPARSE, 0)
    with pytest.raises(RemoteProtocolError):
        reader.feed(stream)
    stream[:] = bytes(len(stream))
    stream.clear()
    outcomes = drain(reader, [])
    assert isinstance(outcomes[0], RemoteProtocolError)
    assert outcomes[1:] == [completion(SPARSE)] * 600
    reader.close()


def test_what_follows_a_hello_waits_and_is_cut_without_an_agreement() -> None:
    stream = encode(hello(), None, 0) + encode(step(SPARSE), SPARSE, 1)
    reader = FrameReader()
    assert len(reader.feed(stream)) == 1
    with pytest.raises(RemoteProtocolError) as caught:
        reader.close()
    assert caught.value.code is RejectCode.TRUNCATED
    reader.agreement = SPARSE
    assert reader.feed(b"") == [step(SPARSE)]
    reader.close()


def bad_completion(sequence: int) -> bytes:
    return changed(encode(completion(SPARSE), SPARSE, sequence), SPARSE, completion__rows=6)


def test_chunking_what_was_read_leaves_nothing_in_the_queue() -> None:
    """However errors are drained, a call looks at what it takes and not at all that waits."""
    reader, data = FrameReader(SPARSE, 0), b"".join(map(bad_completion, range(600)))
    for _ in range(300):
        with pytest.raises(RemoteProtocolError):
            reader.feed(data)
        data = b""
    assert len(reader._input) <= 1
    reader = FrameReader(SPARSE, 0)
    for number in range(0, 400, 2):
        with pytest.raises(RemoteProtocolError):
            reader.feed(bad_completion(number) + bad_completion(number + 1))
    assert len(reader._input) <= 200 * 208 // 4096 + 1
    reader = FrameReader(SPARSE, 0)
    with pytest.raises(RemoteProtocolError):
        reader.feed(bad_completion(0) + bad_completion(1))


def test_close_swallows_no_message() -> None:
    reader = FrameReader(None, 0)
    assert reader.feed(encode(hello(), None, 0) + encode(step(SPARSE), SPARSE, 1)) == [hello()]
    reader.agreement = SPARSE
    with pytest.raises(RemoteProtocolError) as caught:
        reader.close()
    assert caught.value.code is RejectCode.TRUNCATED


def test_truncated_behind_a_hello_names_what_a_header_needs() -> None:
    data, texts = encode(hello(), None, 0), set()
    for cut in (0, 100):
        splitter = FrameSplitter(None, 0)
        splitter.feed(data[:cut])
        assert len(splitter.feed(data[cut:] + b"PP1W")) == 1
        with pytest.raises(RemoteProtocolError) as caught:
            splitter.close()
        texts.add(caught.value.expected)
    assert texts == {f"64 bytes of the frame at byte {len(data)}"}


def test_one_family_under_bb_whatever_hashes_collide() -> None:
    """A peer that chose a session number equal to the hash of a digest would make `python -bb` compare the two."""
    code = """
import os
from pp1wire.wire import FrameReader, encode
from tests.wire.frames import SPARSE, completion
digest = next(d for d in iter(lambda: os.urandom(16), None) if 0 < hash(d) < 2**61 - 1)
message = completion(SPARSE, rows_checksum=digest, session=hash(digest))
assert FrameReader(SPARSE, 0).feed(encode(message, SPARSE, 0)) == [message]
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-bb", "-c", code], capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr


def test_early_refusal_reads_of_a_stream_of_small_distinct_messages_take_no_memory_with_them() -> None:
    """Twenty thousand messages that share nothing, in reads of 64 KiB: what one read needs, whatever the length."""

    def one(number: int) -> Completion:
        return completion(
            SPARSE, session=2**63 + number, generation=2**31 + number, round=2**30 + number, position=2**29 + number,
            rows_checksum=number.to_bytes(16, "little"),
        )  # fmt: skip

    stream = b"".join(encode(one(number), SPARSE, number) for number in range(20_000))
    reader, found = FrameReader(SPARSE, 0), 0
    tracemalloc.start()
    for start in range(0, len(stream), 65_536):
        found += len(reader.feed(stream[start : start + 65_536]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == 20_000
    assert peak <= 2**20
