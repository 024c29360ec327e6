"""What a peer can cost that sends small frames, hostile frames, or much of both: time and memory.

Compared by the best turns: a bound on what the code does, which whatever else the machine does must not blur.
"""

from __future__ import annotations

import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from pp1wire.capture.vectors import Vector, load_vectors
from pp1wire.protocol import Conversation
from pp1wire.wire import (
    Agreement,
    Commit,
    CommitKind,
    Completion,
    CompletionStatus,
    FrameReader,
    Message,
    MessageType,
    RemoteProtocolError,
    Representation,
    Reset,
    ResetReason,
    Step,
    SupportPolicy,
    decode,
    encode,
)
from pp1wire.wire.checksums import body_checksum, header_checksum, prefix_digest

from . import data
from .harness import QUICK, Outcome, race

SMALL_FRAMES = 200_000
ROW_AT = 64 + 32  # header, row header
ALLOWANCE = 512 * 1024
"""Bytes that do not grow with the input: a group of frames as objects, tables, the interpreter's own."""


def sealed(frame: bytes | bytearray, sequence: int | None = None) -> bytes:
    """`frame` with both checksums made right."""
    out = bytearray(frame)
    if sequence is not None:
        out[8:16] = sequence.to_bytes(8, "little")
    out[48:56] = body_checksum(bytes(out)).to_bytes(8, "little")
    out[56:64] = header_checksum(bytes(out)).to_bytes(8, "little")
    return bytes(out)


def small_messages(number: int) -> dict[str, Message]:
    """One of each small message, as round `number` of a conversation would have it."""
    digest, position = prefix_digest([number]), 12 + 6 * number
    here = {"session": 2**40, "slot": 0, "generation": 700}
    return {
        "STEP": Step(
            **here, round=number, position=position, depth=5, support_policy=SupportPolicy.TOP_K, temperature=0.7,
            proposal_seed=2**60, prefix_digest=digest, support=32, context_version=1,
        ),
        "COMPLETION": Completion(
            **here, round=number, position=position, context_version=1, reply_bytes=1760, rows_checksum=digest,
            status=CompletionStatus.OK, rows=5,
        ),
        "COMMIT": Commit(
            **here, round=number, position=position, new_position=position + 6, prefix_digest=digest,
            new_digest=prefix_digest([number + 1]), accepted=5, kind=CommitKind.BONUS, tokens=np.arange(6, dtype=np.int32),
        ),
        "RESET": Reset(
            session=number, slot=0, generation=700, reason=ResetReason.CLOSE, position=0, prefix_digest=digest,
            prefix_ids=np.zeros(0, np.int32),
        ),
    }  # fmt: skip


def stream_of(name: str, agreed: Agreement, frames: int, different: int = 1000) -> bytes:
    """That many frames of one message, with rounds, positions and digests that change."""
    encoded = [encode(small_messages(number + 1)[name], agreed, 0) for number in range(min(different, frames))]
    return b"".join(sealed(encoded[number % len(encoded)], number) for number in range(frames))


def small_frames(seconds: float) -> Outcome:
    """Small frames in one call, to messages: COMPLETION, as a worker sends no smaller one; the others for comparison."""
    share = 40 if seconds < QUICK else 10
    agreed, count = data.agreement(Representation.SPARSE), SMALL_FRAMES // share
    streams = {name: stream_of(name, agreed, count) for name in small_messages(1)}
    times = race({name: _reading(stream, agreed) for name, stream in streams.items()}, seconds=seconds)
    note = "200,000 of each: " + ", ".join(f"{name} {t.best * share:.2f} s" for name, t in times.items())
    title = f"{SMALL_FRAMES:,} small frames in one call, to messages (COMPLETION)"
    return Outcome(title, "s", times["COMPLETION"].best * share, 1.0, True, times, note)


def _reading(stream: bytes, agreed: Agreement) -> Callable[[], object]:
    return lambda: FrameReader(agreed, 0).feed(stream)


def _refused(frame: bytes, agreed: Agreement | None) -> RemoteProtocolError | None:
    try:
        decode(frame, agreed)
    except RemoteProtocolError as error:
        return error
    return None


def _refusals(frames: list[tuple[str, bytes, Agreement | None]]) -> dict[str, Callable[[], object]]:
    return {name: lambda frame=frame, agreed=agreed: _refused(frame, agreed) for name, frame, agreed in frames}


def hostile_control_frames(seconds: float) -> Outcome:
    """Every invalid vector that its bytes alone refuse, against a valid one of its type and size."""
    groups: defaultdict[tuple[int, int], list[tuple[str, bytes, Agreement | None]]] = defaultdict(list)
    for vector in load_vectors():
        if len(vector.data) >= 64 and vector.data[6] != MessageType.REPLY and not vector.whole:
            groups[vector.data[6], len(vector.data)].append((vector.name, vector.data, _agreement(vector)))
    worst, at, shown, raced = 0.0, "", {}, 0
    for group in groups.values():
        bad = [given for given in group if _refused(*given[1:])]
        good = [given for given in group if not _refused(*given[1:])]
        if not (bad and good):
            continue
        times = race(_refusals(bad + good), seconds=seconds / 4)
        name, like = (max((n for n, _, _ in some), key=lambda n: times[n].best) for some in (bad, good))
        ratio, raced = times[name].best / times[like].best, raced + len(bad)
        if ratio > worst:
            worst, at, shown = ratio, name, {"rejected": times[name], "accepted": times[like]}
    title = f"rejecting a control frame, the worst of {raced} vectors"
    return Outcome(title, "× accepting one of its size", worst, 1.0, True, shown, f"worst: {at}")


def _agreement(vector: Vector) -> Agreement | None:
    """What the vector's frame is judged by; None for a HELLO."""
    if vector.data[6] == MessageType.HELLO:
        return None
    judge = Conversation()
    for sent in vector.conversation:
        judge.feed(sent.sender, sent.data)
    return judge.agreement


def hostile_rows(seconds: float) -> Iterator[Outcome]:
    """One row, wrong in each way that is found late, against the right one."""
    for representation, name in ((Representation.SPARSE, "sparse, k=32"), (Representation.DENSE, "dense, V = 129,280")):
        agreed = data.agreement(representation)
        good = data.round_frames(agreed)[: agreed.reply_frame_bytes]
        bad = {what: sealed(frame) for what, frame in wrong_rows(good, agreed).items()}
        for what, frame in bad.items():
            if _refused(frame, agreed) is None:
                raise AssertionError(f"{what} is accepted")
        bad["a body of other bytes"] = good[:-1] + bytes([good[-1] ^ 1])
        frames = [(what, frame, agreed) for what, frame in ({"accepted": good} | bad).items()]
        times = race(_refusals(frames), seconds=seconds)
        worst = max(bad, key=lambda what: times[what].best)
        ratio = times[worst].best / times["accepted"].best
        shown = {"rejected": times[worst], "accepted": times["accepted"]}
        title = f"rejecting a row, {name}, the worst of {len(bad)} faults"
        yield Outcome(title, "× accepting it", ratio, 1.0, True, shown, f"worst: {worst}")


def wrong_rows(good: bytes, agreed: Agreement) -> dict[str, bytearray]:
    """A REPLY frame with one fault each, unsealed."""
    made: dict[str, bytearray] = {}

    def wrong(what: str, at: int, pattern: int) -> None:
        made[what] = bytearray(good)
        made[what][at : at + 4] = pattern.to_bytes(4, "little")

    last = len(good) - 4
    q = np.frombuffer(good, dtype="<f4", offset=ROW_AT + 4 * agreed.id_entries)
    place = ROW_AT + 4 * agreed.id_entries + 4 * int(q.argmax())
    wrong("a last q that is no number", last, 0x7FC00000)
    wrong("a last q of half a count", last, 0x33000000)
    wrong("a last q of minus zero", last, 0x80000000)
    wrong("a last q above 1", last, 0x40000000)
    wrong("a mass that is short", place, int((q.max() - np.float32(2**-24)).view(np.uint32)))
    wrong("a token beyond the vocabulary", 64 + 4, 2**31 - 1)
    if agreed.id_entries:
        wrong("a last id that does not rise", ROW_AT + 4 * agreed.id_entries - 4, 0)
    return made


def memory(share: int = 1) -> Outcome:
    """Peak memory beyond the input and the messages returned, for inputs that ask for the most, or a `share`th of them."""
    worst, at, most, by = 0.0, "", 0.0, ""
    for name, (given, agreed) in greedy_inputs(share).items():
        peak, returned = _peak(given, agreed)
        share = (peak - returned - ALLOWANCE) / len(given)
        if share > worst:
            worst, at = share, name
        if returned / len(given) > most:
            most, by = returned / len(given), name
    title = f"peak memory of any input of n bytes, beyond it, the messages and {ALLOWANCE // 1024} KiB"
    note = f"worst: {at}; the largest messages are {most:.1f} n: {by}, no two alike, in one call"
    return Outcome(title, "n", worst, 3.0, True, {}, note)


def greedy_inputs(share: int = 1) -> dict[str, tuple[bytes, Agreement]]:
    """Streams that a reader could be made to pay for, by name; a `share`th of the small frames."""
    sparse, dense = data.agreement(Representation.SPARSE), data.agreement(Representation.DENSE)
    made = {
        f"{name} frames": (stream_of(name, sparse, 5_000 // share, different=5_000), sparse)
        for name in small_messages(1)
    }
    bad = bytearray(encode(small_messages(1)["COMPLETION"], sparse, 0))
    bad[64 + 33] = 6
    made["bad COMPLETION frames"] = b"".join(sealed(bad, number) for number in range(20_000 // share)), sparse
    prefix = np.arange(4_096, dtype=np.int32)
    reset = Reset(
        session=1, slot=0, generation=1, reason=ResetReason.OPEN, position=len(prefix), prefix_digest=prefix_digest(prefix),
        prefix_ids=prefix,
    )  # fmt: skip
    made["long RESET frames"] = (
        b"".join(sealed(encode(reset, sparse, 0), number) for number in range(200 // share)),
        sparse,
    )
    row = data.round_frames(sparse)[: sparse.reply_frame_bytes]
    made["sparse rows"] = b"".join(sealed(row, number) for number in range(5_000 // share)), sparse
    made["bad sparse rows"] = b"".join(sealed(row[:-4] + bytes(4), number) for number in range(5_000 // share)), sparse
    made["dense rows"] = data.round_frames(dense), dense
    cut = made["dense rows"][0][: dense.reply_frame_bytes * 3 // 2]
    made["a dense row and a half"] = cut, dense
    made["a magic and nothing more"] = cut[:64] + bytes(len(cut) - 64), dense
    return made


def _peak(given: bytes, agreed: Agreement) -> tuple[int, int]:
    reader, held = FrameReader(agreed), []
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for piece in (given, b"", b""):
            with suppress(RemoteProtocolError):
                held.append(reader.feed(piece))
        after, peak = tracemalloc.get_traced_memory()
        held.clear()
        return peak - before, after - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def hostile(seconds: float) -> Iterator[Outcome]:
    yield small_frames(seconds)
    yield hostile_control_frames(seconds)
    yield from hostile_rows(seconds)
    yield memory(10 if seconds < QUICK else 1)
