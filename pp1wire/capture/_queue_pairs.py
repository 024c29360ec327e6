"""One RoCEv2 connection: two directions, whose packets come out by sequence number and in causal order.

Packets say how long they are, but sequence numbers (PSN) count packets. So a gap is a number of packets; how many bytes
they held is not known, and stream offsets behind it count each as one byte.

No packet says what its sender had received. So a packet comes out once the other direction's next one is there, too,
which shows that nothing is missing in between, and of the two the earlier. Where one is missing, acknowledgements show
by when it had been received.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, TypeAlias

from pp1wire.capture._pieces import OVERHEAD, differing, owned
from pp1wire.capture.events import (
    Chunk,
    Connection,
    Direction,
    Ended,
    EndReason,
    FindingCode,
    Opened,
    StreamEvent,
    StreamFinding,
)
from pp1wire.capture.packets import Endpoint
from pp1wire.capture.rocev2 import PSN_BITS, Operation, RocePacket

__all__ = ["QueuePair", "Talk", "TalkMemory", "Way", "WayKey"]

_HALF, _MASK = 1 << (PSN_BITS - 1), (1 << PSN_BITS) - 1
_WINDOW: Final = 1 << 20  # packets: far more than a queue pair has in flight
_MAX_ACKS: Final = 4096

_Moment: TypeAlias = tuple[int, int]
WayKey: TypeAlias = tuple[bytes, bytes, int]
"""Source, destination, and the destination's queue pair."""


class QueuePair(Endpoint):
    """One end of a RoCEv2 connection; `port` is the queue pair's number."""

    __slots__ = ()

    def __str__(self) -> str:
        host = super().__str__().rpartition(":")[0]
        return f"{host} queue pair {self.port}"


class _Item(NamedTuple):
    """A packet that has not come out."""

    payload: memoryview
    length: int
    moment: _Moment
    packet: int
    time_ns: int | None
    is_data: bool
    conflict: tuple[int, int, int, int | None] | None = None
    """First byte and length of a difference, and the packet and time of who differs."""

    @property
    def cost(self) -> int:
        return OVERHEAD + len(self.payload)


class _Sent(NamedTuple):
    """A packet that has come out."""

    offset: int
    payload: memoryview
    length: int
    packet: int


class TalkMemory:
    """What all connections hold together."""

    def __init__(self, max_recent: int) -> None:
        self._max_recent = max_recent
        self._recent: deque[tuple[dict[int, _Sent], int, int]] = deque()
        self._recent_size = 0
        self.held = 0
        """Bytes held back, about."""
        self.unchecked = 0
        """Repeated bytes that could no longer be compared."""

    def remember(self, recent: dict[int, _Sent], index: int, sent: _Sent) -> None:
        """Keep a packet that has come out, to compare repetitions with; forget the oldest of any stream."""
        recent[index] = sent
        cost = OVERHEAD + len(sent.payload)
        self._recent.append((recent, index, cost))
        self._recent_size += cost
        while self._recent_size > self._max_recent:
            old, number, size = self._recent.popleft()
            self._recent_size -= size
            old.pop(number, None)


class Way:
    """One direction. Packets are numbered from 0 in the order of their PSNs, without wrapping."""

    def __init__(self, key: WayKey) -> None:
        self.key = key
        self.direction = Direction.TO_SERVER
        self.base: int | None = None  # PSN of packet 0
        self.next = 0  # every packet before it has come out
        self.offset = 0  # in bytes, of the next packet
        self.held: dict[int, _Item] = {}
        self.acks: deque[tuple[_Moment, int]] = deque()  # when every packet before that had been received
        self.recent: dict[int, _Sent] = {}

    def locate(self, psn: int) -> int:
        """Number of a packet: of all that fit modulo 2^24, the one nearest to where the stream is."""
        return self.next + ((psn - (self.base or 0) - self.next + _HALF) & _MASK) - _HALF

    def acknowledged_at(self) -> _Moment | None:
        """When the packet that comes next had been received, if an acknowledgement shows that."""
        while self.acks and self.acks[0][1] <= self.next:
            self.acks.popleft()
        return self.acks[0][0] if self.acks else None


class Talk:
    """The state of one connection whose two ways are known. `events` receives what becomes known."""

    def __init__(
        self, up: Way, down: Way, ends: tuple[QueuePair, QueuePair], memory: TalkMemory, events: list[StreamEvent]
    ) -> None:
        self.up, self.down = up, down
        down.direction = Direction.TO_CLIENT
        self._ends = ends
        self._memory = memory
        self._events = events
        self._connection: Connection | None = None
        self.over = False  # one end has said that it disconnects

    @property
    def waits(self) -> bool:
        """Whether it holds anything back."""
        return bool(self.up.held or self.down.held)

    def open(self, number: int, from_start: bool, packet: int, time_ns: int | None) -> None:
        """Events begin."""
        self._connection = Connection(number, *self._ends, from_start)
        self._events.append(Opened(self._connection, packet, time_ns))

    def miss_beginning(self, way: Way, packet: int | None, time_ns: int | None) -> None:
        """Nothing shows where this way begins; `packet` is the first that is there."""
        self._find(way, FindingCode.MID_STREAM, 0, 0, packet, time_ns, "the stream's beginning is not in the capture")

    def accept(self, packet: RocePacket, number: int, time_ns: int | None) -> None:
        """Take in one packet of either way."""
        mine = self.up if packet.source == self.up.key[0] and packet.queue_pair == self.up.key[2] else self.down
        other = self.down if mine is self.up else self.up
        moment = (-1 if time_ns is None else time_ns, number)
        if packet.operation is Operation.ACKNOWLEDGE:
            self._acknowledge(other, packet.psn, moment)
        elif packet.operation is Operation.RESPONSE:
            if other.base is not None:
                self._take(other, packet, moment, number, time_ns)
        else:
            if mine.base is None:
                mine.base = packet.psn
            self._take(mine, packet, moment, number, time_ns)
        self._release()

    @staticmethod
    def _acknowledge(way: Way, psn: int, moment: _Moment) -> None:
        if way.base is None or len(way.acks) >= _MAX_ACKS:
            return
        index = way.locate(psn)
        if way.next < index < way.next + _WINDOW and (not way.acks or index > way.acks[-1][1]):
            way.acks.append((moment, index))

    def _take(self, way: Way, packet: RocePacket, moment: _Moment, number: int, time_ns: int | None) -> None:
        index = way.locate(packet.psn)
        if not -_WINDOW < index - way.next < _WINDOW:
            message = f"packet sequence number {packet.psn} is 2^20 or more away from the stream's position"
            self._find(way, FindingCode.OUTSIDE_WINDOW, way.offset, packet.length, number, time_ns, message)
            return
        is_data = packet.operation is Operation.SEND
        payload = owned(packet.payload) if is_data else memoryview(b"")
        length = packet.length if is_data else 0
        if index < way.next:
            self._repeat(way, index, payload, length, number, time_ns)
        elif (old := way.held.get(index)) is not None:
            if old.conflict is None and (found := _difference(old.payload, old.length, payload, length)) is not None:
                way.held[index] = old._replace(conflict=(*found, number, time_ns))
        else:
            # A packet captured late was sent before those that follow it.
            after = way.held.get(index + 1)
            moment = moment if after is None else min(moment, after.moment)
            item = _Item(payload, length, moment, number, time_ns, is_data)
            way.held[index] = item
            self._memory.held += item.cost
            before = index - 1
            while (earlier := way.held.get(before)) is not None and earlier.moment > moment:
                way.held[before] = earlier._replace(moment=moment)
                before -= 1

    def _repeat(self, way: Way, index: int, payload: memoryview, length: int, number: int, time_ns: int | None) -> None:
        sent = way.recent.get(index)
        if sent is None:
            self._memory.unchecked += length
        elif (found := _difference(sent.payload, sent.length, payload, length)) is not None:
            self._conflict(way, sent.offset, sent.packet, (*found, number, time_ns))

    def _release(self, *, force: bool = False) -> None:
        """Let out what the other direction's next packet allows, and with `force` one packet or gap more."""
        while True:
            heads = [(way, way.held.get(way.next)) for way in (self.up, self.down)]
            for way, head in heads:
                if head is not None and not head.is_data:
                    self._emit(way, head)  # it waits for nothing
                    break
            else:
                ready = [(head.moment, way, head) for way, head in heads if head is not None]
                if len(ready) < len(heads):
                    if not force:
                        return
                    force = False
                    if not ready or self._skips_before(ready[0][1], ready[0][0]):
                        continue
                _, way, head = min(ready, key=lambda r: r[0])
                self._emit(way, head)

    def _skips_before(self, way: Way, moment: _Moment) -> bool:
        """Whether the other direction lacks packets that may have been sent before this moment; then that is a gap."""
        other = self.down if way is self.up else self.up
        known = other.acknowledged_at()
        if (known is not None and moment < known) or (known is None and not other.held):
            return False
        self._gap(other, min(other.held) if other.held else other.acks[0][1])
        return True

    def _emit(self, way: Way, item: _Item) -> None:
        del way.held[way.next]
        self._memory.held -= item.cost
        if item.is_data and self._connection is not None:
            self._memory.remember(way.recent, way.next, _Sent(way.offset, item.payload, item.length, item.packet))
            if item.conflict is not None:
                self._conflict(way, way.offset, item.packet, item.conflict)
            captured = len(item.payload)
            if captured:
                place = (self._connection, way.direction, way.offset)
                self._events.append(Chunk(*place, item.payload, item.packet, item.time_ns))
            if captured < item.length:
                rest = item.length - captured
                message = f"{rest} bytes of packet {item.packet} were not captured (snapshot length)"
                offset = way.offset + captured
                self._find(way, FindingCode.CUT, offset, rest, item.packet, item.time_ns, message)
            way.offset += item.length
        way.next += 1

    def force(self) -> None:
        """Make one step past what blocks a connection that `waits`."""
        heads = [way for way in (self.up, self.down) if way.next in way.held]
        if not heads:  # both lack something: the one whose next packet was captured first goes on
            way = min((w for w in (self.up, self.down) if w.held), key=lambda w: w.held[min(w.held)].moment)
            self._gap(way, min(way.held))
        self._release(force=bool(heads))

    def close(self) -> None:
        """Let everything out, and end both directions."""
        while self.waits:
            self.force()
        for way in (self.up, self.down):
            if way.acknowledged_at() is not None:
                self._gap(way, way.acks[-1][1])
            if self._connection is not None:
                reason = EndReason.FIN if self.over else EndReason.MISSING
                self._events.append(Ended(self._connection, way.direction, way.offset, reason, None, None))

    def _gap(self, way: Way, stop: int) -> None:
        """Skip the packets that are missing before number `stop`."""
        shown_by = way.held.get(stop)
        count, first = stop - way.next, ((way.base or 0) + way.next) & _MASK
        numbers = f"packet {first} is" if count == 1 else f"{count} packets from number {first} on are"
        message = f"{numbers} not in the capture; offsets behind count each as one byte"
        packet, time_ns = (None, None) if shown_by is None else (shown_by.packet, shown_by.time_ns)
        self._find(way, FindingCode.GAP, way.offset, count, packet, time_ns, message)
        way.next, way.offset = stop, way.offset + count

    def _conflict(self, way: Way, offset: int, old: int, found: tuple[int, int, int, int | None]) -> None:
        first, length, number, time_ns = found
        message = f"packets {old} and {number} hold different bytes"
        self._find(way, FindingCode.CONFLICT, offset + first, length, number, time_ns, message)

    def _find(
        self,
        way: Way,
        code: FindingCode,
        offset: int,
        length: int,
        packet: int | None,
        time_ns: int | None,
        message: str,
    ) -> None:
        if self._connection is not None:
            place = (self._connection, way.direction, offset, length)
            self._events.append(StreamFinding(code, *place, packet, time_ns, message))


def _difference(one: memoryview, one_length: int, two: memoryview, two_length: int) -> tuple[int, int] | None:
    """First byte and length of what differs between two copies of a packet, where both were captured."""
    shared = min(len(one), len(two))
    if one[:shared] != two[:shared]:
        first, last = differing(bytes(one[:shared]), bytes(two[:shared]))
        return first, last - first + 1
    if one_length != two_length:
        shorter, longer = sorted((one_length, two_length))
        return shorter, longer - shorter
    return None
