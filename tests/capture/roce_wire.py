"""RoCEv2 packets laid out by hand, and whole conversations of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from pp1wire.protocol import Direction
from tests.capture.golden import MICRO, NOW
from tests.capture.packing import CLIENT, SERVER, ipv4

FIRST, MIDDLE, LAST, LAST_IMMEDIATE, ONLY, ONLY_IMMEDIATE, LAST_INVALIDATE, ONLY_INVALIDATE = 0, 1, 2, 3, 4, 5, 22, 23
WRITE_ONLY, READ, READ_FIRST, READ_MIDDLE, READ_LAST, ACK, COMPARE = 10, 12, 13, 14, 15, 17, 19
UD_SEND, CONGESTION = 0x64, 0x81
REQUEST, REPLY, READY, DISCONNECT = 0x10, 0x13, 0x14, 0x15
UP, DOWN = Direction.VERIFIER, Direction.WORKER
ENDS = {UP: (CLIENT, SERVER), DOWN: (SERVER, CLIENT)}


def transport(opcode: int, queue_pair: int, psn: int, payload: bytes = b"", *, port: int = 50_000) -> bytes:
    """A UDP packet."""
    padding = -len(payload) % 4
    header = struct.pack(">BBHII", opcode, padding << 4, 0xFFFF, queue_pair, psn % 2**24 | 1 << 31)
    body = header + payload + bytes(padding) + b"icrc"
    return struct.pack(">HHHH", port, 4791, len(body) + 8, 0) + body


def packet(way: Direction, opcode: int, queue_pair: int, psn: int, payload: bytes = b"", **options) -> bytes:
    """An IPv4 packet, as the sender of this direction sends it."""
    return ipv4(transport(opcode, queue_pair, psn, payload, **options), protocol=17, ends=ENDS[way])


def management(way: Direction, kind: int, *, local: int, remote: int = 0, queue_pair: int = 0, psn: int = 0) -> bytes:
    message = bytearray(232)
    struct.pack_into(">II", message, 0, local, remote)
    pair, start = {REQUEST: (32, 44), REPLY: (12, 20)}.get(kind, (8, 100))
    message[pair : pair + 3] = queue_pair.to_bytes(3, "big")
    message[start : start + 3] = psn.to_bytes(3, "big")
    header = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 99, kind, 0, 0)
    deth = struct.pack(">II", 0x80010000, 1)
    return packet(way, UD_SEND, 1, 5, deth + header + bytes(message))


def acknowledgement(way: Direction, queue_pair: int, psn: int, syndrome: int = 31, **options) -> bytes:
    return packet(way, ACK, queue_pair, psn, bytes([syndrome, 0, 0, 1]), **options)


@dataclass
class Link:
    """Writes a conversation as two queue pairs would. Times rise by a microsecond a packet."""

    mtu: int = 256
    pairs: tuple[int, int] = (0x11, 0x22)  # the client's and the server's
    psns: dict = field(default_factory=lambda: {UP: 2**24 - 3, DOWN: 2**24 - 5})
    acks: bool = True
    port: int = 50_000
    time: int = NOW
    packets: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = dict(self.psns)

    def pair(self, way: Direction) -> int:
        """Of who receives."""
        return self.pairs[1] if way is UP else self.pairs[0]

    def put(self, data: bytes) -> None:
        self.time += MICRO
        self.packets.append((self.time, data))

    def handshake(self) -> None:
        self.put(management(UP, REQUEST, local=7, queue_pair=self.pairs[0], psn=self.start[DOWN]))
        self.put(management(DOWN, REPLY, local=8, remote=7, queue_pair=self.pairs[1], psn=self.start[UP]))
        self.put(management(UP, READY, local=7, remote=8))

    def goodbye(self) -> None:
        self.put(management(UP, DISCONNECT, local=7, remote=8, queue_pair=self.pairs[1]))

    def send(self, way: Direction, data: bytes) -> None:
        parts = [data[at : at + self.mtu] for at in range(0, len(data), self.mtu)]
        for index, part in enumerate(parts):
            opcode = (ONLY if len(parts) == 1 else FIRST) if index == 0 else LAST if index == len(parts) - 1 else MIDDLE
            self.put(packet(way, opcode, self.pair(way), self.psns[way], part, port=self.port))
            self.psns[way] = (self.psns[way] + 1) % 2**24
        if self.acks:
            back = DOWN if way is UP else UP
            self.put(acknowledgement(back, self.pair(back), self.psns[way] - 1, port=self.port))


def conversation(sent, *, handshake: bool = True, goodbye: bool = True, **options) -> list[tuple[int, bytes]]:
    """These exchanges as (time, packet)."""
    link = Link(**options)
    if handshake:
        link.handshake()
    for who, data in sent:
        link.send(who, data)
    if goodbye:
        link.goodbye()
    return link.packets
