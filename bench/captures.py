"""Big captures that are valid to the last byte, as the deployment would leave them.

One conversation of the real ends is made once: vocabulary 129,280, depth 5, four requests in flight, sparse rows of k = 32 or
dense rows. The worker sends a whole proposal at once, as `pp1wire.net` does, or each row when it is drawn. It is then written
again and again, as connections of other ports, so that a gigabyte takes seconds and no memory. Two shapes: the packets of
`pp1wire record` (a packet a send), and what tcpdump shows on Ethernet (segments of at most 1,460 bytes, each send acknowledged
by a bare ACK).

    python -m bench.captures --rows 100000 sparse.pcapng
    python -m bench.captures --dense --rows 400 --ethernet dense.pcap
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pp1wire.capture.recorder import Recorder
from pp1wire.protocol import Agreed, Direction, Draft, ProposalReady
from pp1wire.sampling import dyadic_counts, sample
from pp1wire.wire import CommitKind, Representation

from . import ends
from .data import DEPTH, REQUESTS, VOCAB

SEGMENT = 1_460
_START = 1_800_000_000_000_000_000
_STEP_NS = 20_000

Exchange = tuple[Direction, bytes]


@lru_cache(maxsize=1)
def conversation(representation: Representation, rows: int, *, row_by_row: bool = False) -> tuple[Exchange, ...]:
    """What both ends send, in order, for at least `rows` rows; with `row_by_row` each position of all requests by itself."""
    verifier, worker = ends.verifier(representation), ends.worker(representation)
    sent: list[Exchange] = []
    drafts: list[Draft] = []
    ready: list[ProposalReady] = []

    def up() -> None:
        if data := verifier.data_to_send():
            sent.append((Direction.VERIFIER, bytes(data)))
            drafts.extend(e for e in worker.receive(data) if isinstance(e, Draft))

    def down() -> None:
        if data := worker.data_to_send():
            sent.append((Direction.WORKER, bytes(data)))
            events = verifier.receive(data, 0.0)
            ready.extend(e for e in events if isinstance(e, ProposalReady))
            if not any(isinstance(e, ProposalReady | Agreed) for e in events) and events:
                raise RuntimeError(f"expected nothing but proposals, got {events}")

    verifier.start(0.0)
    up()
    down()
    sessions = [verifier.open(list(range(ends.PREFIX)), seed) for seed in range(1, REQUESTS + 1)]
    distributions = _distributions(representation)
    made = 0
    while made < rows:
        for session in sessions:
            verifier.step(session, 0.0)
            up()
        tickets = [draft.tickets() for draft in drafts]
        laws = [distributions[(made + place) % len(distributions)] for place in range(DEPTH)]
        proposals = [[sample(*law, int(t)) for law, t in zip(laws, drawn, strict=True)] for drawn in tickets]
        for place in range(DEPTH if row_by_row else 0):
            for draft, tokens in zip(drafts, proposals, strict=True):
                worker.reply_row(draft.step, tokens[place], *laws[place])
                down()
        for draft, tokens in zip(drafts, proposals, strict=True):
            if row_by_row:
                worker.complete(draft.step)
            else:
                worker.reply(draft.step, tokens, laws)
            down()
        drafts.clear()
        for session, event in zip(sessions, ready, strict=True):
            drafted = event.proposal.tokens.tolist()
            accepted = (made // REQUESTS) % (DEPTH + 1)
            kind = CommitKind.BONUS if accepted == DEPTH else CommitKind.CORRECTION
            verifier.commit(session, accepted, kind, [*drafted[:accepted], 7])
            up()
        ready.clear()
        made += REQUESTS * DEPTH
    for session in sessions:
        verifier.close(session)
    up()
    return tuple(sent)


def _distributions(representation: Representation) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(20_240_501)
    top = ends.SUPPORT if representation is Representation.SPARSE else None
    return [dyadic_counts(rng.normal(size=VOCAB).astype(np.float32) * 3, 1.0, top) for _ in range(7)]


def write_recorded(file: BinaryIO, exchanges: Sequence[Exchange], connections: int) -> None:
    """As `pp1wire record` would have written `connections` such conversations, one after the other."""
    recorder = Recorder(file, flush_every=1_024)
    now = _START
    for number in range(connections):
        connection = recorder.open(_client(number), ("10.0.0.2", 9_009), now)
        for sender, data in exchanges:
            now += _STEP_NS
            send = connection.client_sent if sender is Direction.VERIFIER else connection.server_sent
            send(data, now)
        connection.close(now)
    recorder.flush()


def write_ethernet(file: BinaryIO, exchanges: Sequence[Exchange], connections: int) -> None:
    """As tcpdump would have written them, as pcap on Ethernet: full segments, and an ACK without data for each send."""
    file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1))
    now = _START
    for number in range(connections):
        for time_ns, packet in _segments(exchanges, _client(number)[1], now):
            now = time_ns
            file.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(packet), len(packet)) + packet)


def _client(number: int) -> tuple[str, int]:
    return "10.0.0.1", 10_000 + number % 50_000


def _segments(exchanges: Sequence[Exchange], port: int, now: int) -> Iterator[tuple[int, bytes]]:
    ports = {Direction.VERIFIER: (port, 9_009), Direction.WORKER: (9_009, port)}
    hosts = {Direction.VERIFIER: b"\x0a\0\0\x01\x0a\0\0\x02", Direction.WORKER: b"\x0a\0\0\x02\x0a\0\0\x01"}
    sequence = {Direction.VERIFIER: 1_000, Direction.WORKER: 2_000}
    other = {Direction.VERIFIER: Direction.WORKER, Direction.WORKER: Direction.VERIFIER}

    def packet(sender: Direction, flags: int, data: bytes = b"") -> bytes:
        acknowledged = sequence[other[sender]] if flags & 0x10 else 0
        tcp = struct.pack(
            ">HHIIBBHHH", *ports[sender], sequence[sender] & 0xFFFFFFFF, acknowledged & 0xFFFFFFFF, 0x50, flags, 0xFFFF, 0, 0
        )  # fmt: skip
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0x4000, 64, 6, 0) + hosts[sender]
        sequence[sender] += len(data) + bool(flags & 0x03)
        return bytes(12) + b"\x08\0" + ip + tcp + data

    yield now, packet(Direction.VERIFIER, 0x02)
    yield now, packet(Direction.WORKER, 0x12)
    yield now, packet(Direction.VERIFIER, 0x10)
    for sender, data in exchanges:
        now += _STEP_NS
        for start in range(0, len(data), SEGMENT):
            yield now, packet(sender, 0x18, data[start : start + SEGMENT])
        yield now, packet(other[sender], 0x10)
    for sender in Direction:
        yield now, packet(sender, 0x11)
    yield now, packet(Direction.VERIFIER, 0x10)


def make(
    file: BinaryIO,
    representation: Representation,
    rows: int,
    *,
    ethernet: bool = False,
    row_by_row: bool = False,
    connections: int = 0,
) -> int:
    """Write a capture of at least `rows` rows, and say how many they are; unless given, a connection has 2,000 (dense: 40)."""
    each = 2_000 if representation is Representation.SPARSE else 40
    number = connections or -(-rows // each)
    rows_each = -(-rows // (number * REQUESTS * DEPTH)) * REQUESTS * DEPTH
    exchanges = conversation(representation, rows_each, row_by_row=row_by_row)
    (write_ethernet if ethernet else write_recorded)(file, exchanges, number)
    return rows_each * number


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.captures", description="Writes a big capture.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dense", action="store_true")
    parser.add_argument("--ethernet", action="store_true", help="pcap of Ethernet, as tcpdump writes it")
    parser.add_argument("--row-by-row", action="store_true", help="a send for each row, in place of a whole proposal's")
    parser.add_argument(
        "--connections", type=int, default=0, help="default: one for each 2,000 sparse or 40 dense rows"
    )
    asked = parser.parse_args()
    representation = Representation.DENSE if asked.dense else Representation.SPARSE
    shape = {"ethernet": asked.ethernet, "row_by_row": asked.row_by_row, "connections": asked.connections}
    with asked.file.open("wb") as file:
        rows = make(file, representation, asked.rows, **shape)
    print(f"{asked.file}: {rows:,} rows, {asked.file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
