"""One TCP connection: when it starts, which of its bytes are new, and in which order they come out."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

from pp1wire.capture._pieces import OVERHEAD, Memory, Piece, Pieces, Recent, differing, overlapping, owned
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
from pp1wire.capture.packets import Endpoint, Flags, Segment

__all__ = ["Arrival", "Conversation", "Stream"]

_WINDOW = 1 << 30  # the largest window that TCP can offer (RFC 7323): nothing in flight lies farther away
_FIN, _SYN, _RST, _ACK = int(Flags.FIN), int(Flags.SYN), int(Flags.RST), int(Flags.ACK)


def _signed(number: int) -> int:
    """The distance between two sequence numbers, taken the short way around."""
    return ((number + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def _after(sequence: int) -> int:
    return (sequence + 1) & 0xFFFFFFFF


def _occupies(segment: Segment) -> bool:
    """Whether the segment stands for a place in the stream, as a bare acknowledgement does not."""
    return bool(segment.length or segment.flags & _FIN)


class Arrival(NamedTuple):
    """A segment and where the capture has it."""

    segment: Segment
    packet: int
    time_ns: int | None


class _End(NamedTuple):
    offset: int
    reason: EndReason
    packet: int | None
    time_ns: int | None


class Stream:
    """One direction."""

    def __init__(self, source: Endpoint) -> None:
        self.source = source
        self.direction = Direction.TO_SERVER
        self.base: int | None = None  # sequence number of offset 0
        self.next = 0  # everything before it has come out
        self.acknowledged = 0
        self.held = Pieces()
        self.recent: Recent = deque()  # what came out last
        self.end: _End | None = None
        self.ended = False

    def locate(self, sequence: int) -> int:
        """Stream offset of a sequence number: of all that fit modulo 2^32, the one nearest to where the stream is."""
        return self.next + _signed(sequence - (self.base or 0) - self.next)


_Pair: TypeAlias = tuple[Stream, Stream]


def _is_ready(pair: _Pair) -> bool:
    stream, other = pair
    if not stream.held:
        return False
    head = stream.held.first()
    # An acknowledged FIN counts one number more than there are bytes, and may not have been captured.
    return head.offset == stream.next and head.gate <= other.next + 1


def _head_packet(pair: _Pair) -> int:
    return pair[0].held.first().packet


class Conversation:
    """The state of one connection. `events` receives what becomes known; `memory` is shared by all connections."""

    def __init__(self, first: Segment, memory: Memory, events: list[StreamEvent], start_window: int) -> None:
        self._memory = memory
        self._events = events
        self._start_window = start_window
        one, two = Stream(first.source), Stream(first.destination)
        self.pairs: tuple[_Pair, _Pair] = ((one, two), (two, one))
        self._client: Endpoint | None = None  # as the handshake says
        self._pending: list[Arrival] = []  # until the start is settled
        self.connection: Connection | None = None  # once settled
        self.is_calm = False
        """Settled, nothing held back, no end seen: see `look`."""
        self._reset = False

    @property
    def waits(self) -> bool:
        """Whether it holds anything back."""
        (one, two), _ = self.pairs
        return bool(self._pending or one.held or two.held)

    @property
    def settled(self) -> bool:
        """Whether it is known where both streams begin."""
        return self.connection is not None

    @property
    def is_bare(self) -> bool:
        """Whether only acknowledgements or resets were seen: the tail of a conversation from before the capture."""
        return not self.settled and self._client is None and not any(_occupies(a.segment) for a in self._pending)

    @property
    def latest_packet(self) -> int:
        """Number of the last packet of one that is not yet settled."""
        return self._pending[-1].packet

    def look(self) -> None:
        """See whether it is calm; it stays so until `accept` takes something in."""
        self.is_calm = self.settled and not any(s.base is None or s.held or s.end is not None for s, _ in self.pairs)

    def _pair(self, segment: Segment) -> _Pair:
        return self.pairs[0] if segment.source == self.pairs[0][0].source else self.pairs[1]

    # The start

    def is_another(self, segment: Segment) -> bool:
        """Whether the segment begins a new connection between the same two ports."""
        if not segment.flags & _SYN:
            return False
        stream, other = self._pair(segment)
        base = _after(segment.sequence)
        answers = segment.flags & _ACK and other.base is not None
        if stream.base is not None:
            # A server with SYN cookies may answer one SYN with several numbers; the client takes the first.
            return stream.base != base and not (answers and segment.acknowledgement == other.base)
        if answers and segment.acknowledgement != other.base:
            return True
        if self.settled:
            return not answers
        return not all(
            0 <= _signed(a.segment.sequence - base) < _WINDOW
            for a in self._pending
            if a.segment.source == segment.source and _occupies(a.segment)
        )

    def await_start(self, arrival: Arrival) -> bool:
        """Take in one of the first segments; True once the start can be settled."""
        segment = arrival.segment
        stream, other = self._pair(segment)
        if segment.flags & _SYN:
            if stream.base is None:
                stream.base = _after(segment.sequence)
            if segment.flags & _ACK:
                other.base = segment.acknowledgement if other.base is None else other.base
                self._client = segment.destination
            elif self._client is None:
                self._client = segment.source
        self._pending.append(arrival._replace(segment=segment._replace(payload=owned(segment.payload))))
        self._memory.held += OVERHEAD + len(segment.payload)
        known = stream.base is not None and other.base is not None
        return known or len(self._pending) >= self._start_window

    def drop(self) -> None:
        """Forget what is held of a connection that `is_bare`."""
        self._memory.held -= sum(OVERHEAD + len(a.segment.payload) for a in self._pending)
        self._pending = []

    def settle(self, number: int) -> None:
        """Decide roles and offsets by what has been seen, call it `number`, then take in what was held back."""
        pending = self._pending
        self.drop()
        (one, two), _ = self.pairs
        if self._client is not None:
            client = one if self._client == one.source else two
        else:
            client = one if one.source.port >= two.source.port else two
        server = two if client is one else one
        server.direction = Direction.TO_CLIENT
        self.connection = Connection(number, client.source, server.source, self._client is not None)
        self._events.append(Opened(self.connection, pending[0].packet, pending[0].time_ns))
        for stream in (one, two):
            if stream.base is None:
                self._guess_base(stream, pending)
        for arrival in pending:
            self.accept(arrival)

    def _guess_base(self, stream: Stream, pending: list[Arrival]) -> None:
        """The lowest sequence number seen; none where nothing of this direction was captured."""
        own = [a for a in pending if a.segment.source == stream.source and _occupies(a.segment)]
        if not own:
            return
        numbers = [a.segment.sequence for a in own]
        if self._client is not None:  # the peer's handshake was seen, so its acknowledgements begin at the beginning
            numbers += [
                a.segment.acknowledgement
                for a in pending
                if a.segment.source != stream.source and a.segment.flags & _ACK
            ]
        distances = [_signed(number - numbers[0]) for number in numbers]
        self._begin_mid_stream(stream, numbers[0] + min(d for d in distances if d > -_WINDOW), own[0])

    def _begin_mid_stream(self, stream: Stream, base: int, arrival: Arrival) -> None:
        stream.base = base & 0xFFFFFFFF
        message = "the stream's beginning is not in the capture"
        self._find(stream, FindingCode.MID_STREAM, 0, 0, arrival, message)

    # What comes in

    def accept(self, arrival: Arrival) -> None:
        """Take in one segment of a settled connection."""
        segment = arrival.segment
        flags = segment.flags
        stream, other = self._pair(segment)
        gate = 0
        if flags & _ACK and other.base is not None:
            acknowledged = other.locate(segment.acknowledgement)
            if acknowledged < other.next + _WINDOW:
                gate = acknowledged
                other.acknowledged = max(other.acknowledged, acknowledged)
        if flags & _RST:
            self._reset = True
            if stream.base is None:
                return  # a reset's number need not belong to any stream
        elif not _occupies(segment):
            return
        sequence = _after(segment.sequence) if flags & _SYN else segment.sequence
        if stream.base is None:
            self._begin_mid_stream(stream, sequence, arrival)
        start = stream.locate(sequence)
        if not -_WINDOW < start - stream.next < _WINDOW:
            if not flags & _RST:
                message = f"sequence number {segment.sequence} is 2^30 or more away from the stream's position"
                self._find(stream, FindingCode.OUTSIDE_WINDOW, start, segment.length, arrival, message)
            return
        self._take(stream, start, gate, arrival)
        if flags & (_FIN | _RST):
            self._set_end(stream, start + segment.length, arrival)
        self._release()

    def _take(self, stream: Stream, start: int, gate: int, arrival: Arrival) -> None:
        segment, packet, time_ns = arrival
        captured = len(segment.payload)
        if captured:
            self._insert(stream, Piece(start, captured, segment.payload, gate, packet, time_ns))
        if captured < segment.length:
            self._insert(stream, Piece(start + captured, segment.length - captured, None, gate, packet, time_ns))

    def _insert(self, stream: Stream, piece: Piece) -> None:
        """Hold the bytes of `piece` that are new, and compare the others."""
        start, stop = max(piece.offset, 0), piece.stop
        if stream.end is not None and stop > stream.end.offset:
            beyond = max(start, stream.end.offset)
            message = f"bytes beyond the stream's end at {stream.end.offset}"
            self._find(stream, FindingCode.AFTER_END, beyond, stop - beyond, piece, message)
            stop = stream.end.offset
        if start < min(stop, stream.next):
            known = min(stop, stream.next)
            compared = sum(self._compare(stream, piece, old) for old in overlapping(stream.recent, start, known))
            self._memory.unchecked += known - start - compared
            start = known
        for old in stream.held.overlapping(start, stop):
            if old.offset > start:
                self._hold(stream, piece.part(start, old.offset))
            self._compare(stream, piece, old)
            start = old.stop
        if start < stop:
            self._hold(stream, piece.part(start, stop))

    def _hold(self, stream: Stream, piece: Piece) -> None:
        stream.held.add(piece)
        self._memory.held += piece.cost

    def _compare(self, stream: Stream, new: Piece, old: Piece) -> int:
        """Report where two pieces differ; returns how many bytes they share."""
        start, stop = max(new.offset, old.offset, 0), min(new.stop, old.stop)
        if new.data is not None and old.data is not None:
            one = bytes(new.data[start - new.offset : stop - new.offset])
            two = bytes(old.data[start - old.offset : stop - old.offset])
            if one != two:
                first, last = differing(one, two)
                message = f"packets {old.packet} and {new.packet} hold different bytes"
                self._find(stream, FindingCode.CONFLICT, start + first, last - first + 1, new, message)
        return stop - start

    def _set_end(self, stream: Stream, offset: int, arrival: Arrival) -> None:
        highest = max(stream.next, stream.held.stop())
        if arrival.segment.flags & _RST:
            if stream.end is None:
                stream.end = _End(max(offset, highest), EndReason.RESET, arrival.packet, arrival.time_ns)
        elif offset < highest or (stream.end is not None and stream.end.offset != offset):
            seen = highest if stream.end is None else stream.end.offset
            message = f"the stream ends at {offset}, but was seen to reach {seen}"
            self._find(stream, FindingCode.AFTER_END, offset, 0, arrival, message)
        elif stream.end is None:
            stream.end = _End(offset, EndReason.FIN, arrival.packet, arrival.time_ns)

    # What comes out

    def _release(self) -> None:
        """Let out every piece whose turn has come, the earlier packet first."""
        while ready := [pair for pair in self.pairs if _is_ready(pair)]:
            self._emit(min(ready, key=_head_packet)[0])
        for stream, _ in self.pairs:
            if stream.end is not None and stream.next >= stream.end.offset:
                self._finish(stream, stream.end)

    def _emit(self, stream: Stream) -> None:
        piece = stream.held.pop_first()
        self._memory.held -= piece.cost
        stream.next = piece.stop
        if piece.data is None:
            message = f"{piece.length} bytes of packet {piece.packet} were not captured (snapshot length)"
            self._find(stream, FindingCode.CUT, piece.offset, piece.length, piece, message)
        elif self.connection is not None:
            place = (self.connection, stream.direction, piece.offset)
            chunk = Chunk(*place, piece.data, piece.packet, piece.time_ns)
            self._events.append(chunk)
            self._memory.remember(stream.recent, chunk)

    def force(self) -> None:
        """Make one step past what blocks a settled connection that `waits`."""
        blocked = [pair for pair in self.pairs if pair[0].held]
        holes = [pair for pair in blocked if pair[0].held.first().offset > pair[0].next]
        stream, other = min(holes or blocked, key=_head_packet)
        head = stream.held.first()
        if holes:
            self._gap(stream, head.offset, head)
        else:  # the head waits for bytes that its sender acknowledged, of which the capture has none
            target = head.gate if other.end is None else min(head.gate, other.end.offset)
            if target > other.next and not other.held:
                self._gap(other, target, head)
            else:
                stream.held.replace_first(head._replace(gate=0))
        self._release()

    def close(self) -> None:
        """Let everything out of a settled connection, and end both directions."""
        while self.waits:
            self.force()
        missing = EndReason.RESET if self._reset else EndReason.MISSING
        for stream, _ in self.pairs:
            end = stream.end
            # One acknowledged number more than there were bytes is a FIN, not a byte.
            known = stream.acknowledged - 1 if end is None else end.offset
            if known > stream.next:
                self._gap(stream, stream.acknowledged if end is None else end.offset, None)
            self._finish(stream, end or _End(stream.next, missing, None, None))

    def _gap(self, stream: Stream, stop: int, shown_by: Piece | None) -> None:
        length = stop - stream.next
        message = f"{length} bytes are not in the capture"
        self._find(stream, FindingCode.GAP, stream.next, length, shown_by, message)
        stream.next = stop

    def _finish(self, stream: Stream, end: _End) -> None:
        if not stream.ended and self.connection is not None:
            stream.ended = True
            place = (self.connection, stream.direction, stream.next)
            self._events.append(Ended(*place, end.reason, end.packet, end.time_ns))

    def _find(
        self,
        stream: Stream,
        code: FindingCode,
        offset: int,
        length: int,
        shown_by: Piece | Arrival | None,
        message: str,
    ) -> None:
        if self.connection is not None:
            packet, time_ns = (None, None) if shown_by is None else (shown_by.packet, shown_by.time_ns)
            place = (self.connection, stream.direction, offset, length)
            self._events.append(StreamFinding(code, *place, packet, time_ns, message))
