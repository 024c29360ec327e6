"""RoCEv2 reassembly: packets in any order in, the bytes of each direction's SENDs in order out.

A stream is the payloads of one queue pair's SENDs behind each other. What `pp1wire.capture.reassembly` promises of TCP
holds here, too, as far as the packets show it (`_queue_pairs` says what they do not).

A packet names its receiver's queue pair alone. Which two directions belong together, and where they begin, is known
where the capture holds the communication manager's handshake. Elsewhere it is guessed, and the beginning is told as
missing: two ways between the same hosts belong together where the acknowledgements of one fit the numbers of the other,
or where their UDP ports are the same, as long as only one choice is best.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple, TypeAlias, TypeVar

from pp1wire.capture._pieces import OVERHEAD, owned
from pp1wire.capture._queue_pairs import QueuePair, Talk, TalkMemory, Way, WayKey
from pp1wire.capture.events import StreamEvent
from pp1wire.capture.rocev2 import CmKind, CmMessage, Operation, RocePacket

__all__ = ["RoceReassembler"]

_NEAR: Final = 1 << 16  # packets between an acknowledgement and what it acknowledges, at most
_MAX_LOOSE: Final = 128  # ways compared with each other
_MASK, _HALF = (1 << 24) - 1, 1 << 23
_UNKNOWN: Final = 0  # a queue pair of management, never of a connection
_NUMBERED: Final = frozenset({Operation.SEND, Operation.OTHER})


_Moment: TypeAlias = tuple[int, int]
_Handshake: TypeAlias = tuple[bytes, bytes, int]
"""Who asked, who was asked, and the former's number for the connection."""
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _moment(number: int, time_ns: int | None) -> _Moment:
    return -1 if time_ns is None else time_ns, number


class _Arrival(NamedTuple):
    packet: RocePacket
    number: int
    time_ns: int | None

    @property
    def moment(self) -> _Moment:
        return _moment(self.number, self.time_ns)


def _by_moment(arrival: _Arrival) -> _Moment:
    return arrival.moment


class _Managed(NamedTuple):
    """Half of a handshake."""

    message: CmMessage
    number: int
    time_ns: int | None


class _Loose:
    """A way that is not known to belong to another."""

    def __init__(self, key: WayKey) -> None:
        self.key = key
        self.ends, self.reversed = key[:2], (key[1], key[0])
        self.arrivals: list[_Arrival] = []
        self.ports: set[int] = set()
        self.psns: set[int] = set()
        self.acks: set[int] = set()

    def add(self, arrival: _Arrival) -> None:
        self.arrivals.append(arrival)
        self.ports.add(arrival.packet.source_port)
        if arrival.packet.operation is Operation.ACKNOWLEDGE:
            self.acks.add(arrival.packet.psn)
        elif arrival.packet.operation is not Operation.RESPONSE:
            self.psns.add(arrival.packet.psn)

    def first(self) -> _Arrival:
        """The earliest packet."""
        return min(self.arrivals, key=_by_moment)

    def base(self) -> int | None:
        """The lowest sequence number seen; None without any."""
        if not self.psns:
            return None
        some = next(iter(self.psns))
        return min(self.psns, key=lambda psn: _distance(psn, some))


def _distance(psn: int, other: int) -> int:
    return ((psn - other + _HALF) & _MASK) - _HALF


def _fits(acks: set[int], psns: set[int]) -> int:
    """1 where acknowledgements are of these packets, -1 where they cannot be, 0 where nothing can be said."""
    if not acks or not psns:
        return 0
    if any((ack - 1) & _MASK in psns for ack in acks):
        return 1
    return 0 if any(abs(_distance(ack, psn)) < _NEAR for ack in acks for psn in psns) else -1


class RoceReassembler:
    """Turns packets, in capture order, into `StreamEvent`s. Arguments as of `Reassembler`.

    Args:
        numbers: of the connections; shared where a capture holds others.
    """

    def __init__(
        self,
        *,
        max_held: int = 16 << 20,
        max_recent: int = 8 << 20,
        max_connections: int = 4096,
        start_window: int = 64,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self._max_held = max_held
        self._max_connections = max_connections
        self._start_window = start_window
        self._numbers = count(1) if numbers is None else numbers
        self._memory = TalkMemory(max_recent)
        self._events: list[StreamEvent] = []
        self._requests: dict[_Handshake, _Managed] = {}
        self._replies: dict[_Handshake, _Managed] = {}
        self._goodbyes: dict[WayKey, _Moment] = {}
        self._loose: dict[WayKey, _Loose] = {}
        self._talks: dict[Talk, None] = {}  # least recently seen first
        self._ways: dict[WayKey, Talk] = {}
        self._waiting: dict[Talk, None] = {}  # those that hold something back, oldest first

    @property
    def held(self) -> int:
        """Bytes held back now, with the objects around them, about."""
        return self._memory.held

    @property
    def unchecked(self) -> int:
        """Repeated bytes that could no longer be compared with what came out."""
        return self._memory.unchecked

    def add(self, number: int, time_ns: int | None, packet: RocePacket | CmMessage) -> list[StreamEvent]:
        """What one more packet, of this number in the file, makes known."""
        if isinstance(packet, CmMessage):
            self._manage(packet, number, time_ns)
        else:
            self._take(packet, number, time_ns)
        while self._memory.held > self._max_held and (self._waiting or self._loose):
            if self._loose:
                self._settle(next(iter(self._loose)))
            else:
                oldest = next(iter(self._waiting))
                oldest.force()
                self._note_waiting(oldest)
        if len(self._talks) > self._max_connections:
            self._close(next(iter(self._talks)))
        return self._take_events()

    def finish(self) -> list[StreamEvent]:
        """The capture is over: what is held comes out, missing packets become gaps, every direction ends."""
        while self._loose:
            self._settle(next(iter(self._loose)))
        for talk in list(self._talks):
            self._close(talk)
        return self._take_events()

    def _take(self, packet: RocePacket, number: int, time_ns: int | None) -> None:
        key = (packet.source, packet.destination, packet.queue_pair)
        talk = self._ways.get(key)
        if talk is not None:
            self._talks.pop(talk)
            self._talks[talk] = None
            talk.accept(packet, number, time_ns)
            self._note_waiting(talk)
            return
        loose = self._loose.get(key)
        if loose is None:
            loose = self._loose[key] = _Loose(key)
        packet = packet._replace(payload=owned(packet.payload))
        loose.add(_Arrival(packet, number, time_ns))
        self._memory.held += OVERHEAD + len(packet.payload)
        if len(loose.arrivals) >= self._start_window:
            self._settle(key)
        elif len(self._loose) > _MAX_LOOSE:
            self._settle(next(iter(self._loose)))

    # Which ways belong together

    def _manage(self, message: CmMessage, number: int, time_ns: int | None) -> None:
        source, destination = message.source, message.destination
        if message.kind is CmKind.DISCONNECT:
            key = (source, destination, message.queue_pair)
            if key in self._ways:
                self._ways[key].over = True
            else:
                self._remember(self._goodbyes, key, _moment(number, time_ns))
            return
        managed = _Managed(message, number, time_ns)
        if message.kind is CmKind.REQUEST:
            handshake = (source, destination, message.local_id)
            old = self._requests.get(handshake)
            if old is not None and old.message != message:
                self._replies.pop(handshake, None)  # the number is used again
            self._remember(self._requests, handshake, managed)
        else:
            handshake = (destination, source, message.remote_id)
            self._remember(self._replies, handshake, managed)
        request, reply = self._requests.get(handshake), self._replies.get(handshake)
        if request is not None and reply is not None:
            self._agree(request, reply)

    def _agree(self, request: _Managed, reply: _Managed) -> None:
        """A handshake is there: each half says where the other begins to count."""
        client, server = request.message, reply.message
        up = Way((client.source, client.destination, server.queue_pair))
        down = Way((server.source, server.destination, client.queue_pair))
        up.base, down.base = server.psn, client.psn
        known = self._ways.get(up.key)
        same = known is not None and known is self._ways.get(down.key)
        if same and known is not None and (known.up.base, known.down.base) == (up.base, down.base):
            return  # one of the messages again
        for key in (up.key, down.key):
            if key in self._ways:
                self._close(self._ways[key])
        first = min(request, reply, key=lambda m: m.number)
        self._begin(up, down, from_start=True, number=first.number, time_ns=first.time_ns)

    def _remember(self, table: dict[_Key, _Value], key: _Key, value: _Value) -> None:
        table.pop(key, None)
        table[key] = value
        if len(table) > self._max_connections:
            del table[next(iter(table))]

    def _settle(self, key: WayKey) -> None:
        """Decide which way belongs to the one with this key, if any, and what held it back is over."""
        loose = self._loose[key]
        partner = self._partner(loose)
        first, second = loose, partner
        if partner is not None and partner.first().moment < loose.first().moment:
            first, second = partner, loose
        arrival = first.first()
        unknown = (*first.reversed, _UNKNOWN)
        keys = [first.key, unknown if second is None else second.key]
        if arrival.packet.operation in _NUMBERED:
            up, down = keys  # who speaks first is the client
        else:
            down, up = keys
        self._begin(Way(up), Way(down), from_start=False, number=arrival.number, time_ns=arrival.time_ns)

    def _partner(self, loose: _Loose) -> _Loose | None:
        """The way that fits best, if one alone does."""
        scores: list[tuple[tuple[int, bool], _Loose]] = []
        for other in self._loose.values():
            if other is loose or other.ends != loose.reversed:
                continue
            fits = (_fits(other.acks, loose.psns), _fits(loose.acks, other.psns))
            if min(fits) >= 0:
                scores.append(((sum(fits), bool(loose.ports & other.ports)), other))
        scores.sort(key=lambda s: s[0], reverse=True)
        if not scores or (len(scores) > 1 and scores[0][0] == scores[1][0]):
            return None
        return scores[0][1]

    def _begin(self, up: Way, down: Way, *, from_start: bool, number: int, time_ns: int | None) -> None:
        """A connection of these ways, and what was seen of it."""
        ends = QueuePair(up.key[0], down.key[2]), QueuePair(up.key[1], up.key[2])
        talk = Talk(up, down, ends, self._memory, self._events)
        arrivals: list[_Arrival] = []
        talk.open(next(self._numbers), from_start, number, time_ns)
        for way in (up, down):
            loose = self._loose.pop(way.key, None)
            first = None
            if loose is not None:
                arrivals += loose.arrivals
                first = min(
                    (a for a in loose.arrivals if a.packet.operation in _NUMBERED), key=_by_moment, default=None
                )
            if not from_start:
                way.base = None if loose is None else loose.base()
                talk.miss_beginning(
                    way, None if first is None else first.number, None if first is None else first.time_ns
                )
            goodbye = self._goodbyes.pop(way.key, None)
            talk.over = talk.over or (goodbye is not None and goodbye > _moment(number, time_ns))
            if way.key[2] != _UNKNOWN:
                self._ways[way.key] = talk
        self._memory.held -= sum(OVERHEAD + len(a.packet.payload) for a in arrivals)
        self._talks[talk] = None
        for arrival in sorted(arrivals, key=_by_moment):
            talk.accept(*arrival)
        self._note_waiting(talk)

    def _close(self, talk: Talk) -> None:
        self._waiting.pop(talk, None)
        del self._talks[talk]
        for way in (talk.up, talk.down):
            self._ways.pop(way.key, None)
        talk.close()

    def _note_waiting(self, talk: Talk) -> None:
        if talk.waits:
            self._waiting.setdefault(talk)
        else:
            self._waiting.pop(talk, None)

    def _take_events(self) -> list[StreamEvent]:
        events = self._events[:]
        self._events.clear()  # the connections share this list
        return events
