"""TCP reassembly: segments in any order in, the bytes of each direction in order out.

Source: RFC 9293 (sequence numbers, acknowledgements, FIN, RST). What it promises:

- The bytes of a direction come out once, in stream order, with the packet that carried them. Nothing is invented:
  bytes that the capture lacks are a `gap` (or `cut`, where a snapshot length took them), never zeros.
- Segments that overlap must agree. Where they do not, that is a `conflict`; the copy captured first is kept, and the
  range is named.
- Both directions of a connection come out in causal order: bytes are held until everything that their sender had
  acknowledged has come out, so that an answer never precedes its question, whatever the order of the packets in the
  file.
- Memory is bounded: see the arguments of `Reassembler`. A hole is believed to be a gap when the bound is reached or
  the capture ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from pp1wire.capture._conversation import Arrival, Conversation
from pp1wire.capture._lane import Key, Lane
from pp1wire.capture._pieces import Memory
from pp1wire.capture.events import (
    Chunk,
    Connection,
    Direction,
    Ended,
    EndReason,
    Event,
    FindingCode,
    Opened,
    PacketFinding,
    StreamEvent,
    StreamFinding,
)
from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import Segment, SkipCode, Skipped
from pp1wire.capture.pcapng import CapturedPacket, CaptureError, Truncated
from pp1wire.capture.roce import RoceReassembler

__all__ = [
    "Chunk",
    "Connection",
    "Direction",
    "EndReason",
    "Ended",
    "Event",
    "FindingCode",
    "Opened",
    "PacketFinding",
    "Reassembler",
    "StreamEvent",
    "StreamFinding",
    "stream_events",
]


class Reassembler:
    """Turns segments, in capture order, into `StreamEvent`s.

    Args:
        max_held: bytes held, over all connections, while a hole may still be filled; beyond that the connection that
            has waited longest has its first hole declared a gap.
        max_recent: bytes kept of what has come out, over all connections, so that repetitions can be compared; a
            repetition of older bytes is dropped and counted in `unchecked`.
        max_connections: connections remembered; beyond that the one silent for longest is ended.
        start_window: packets of a connection to wait for a handshake that the file may hold out of order.
    """

    def __init__(
        self,
        *,
        max_held: int = 32 << 20,
        max_recent: int = 16 << 20,
        max_connections: int = 16_384,
        start_window: int = 64,
    ) -> None:
        self._max_held = max_held
        self._max_connections = max_connections
        self._start_window = start_window
        self._memory = Memory(max_recent)
        self._events: list[StreamEvent] = []
        self._table: dict[Key, Conversation] = {}  # least recently seen first
        self._waiting: dict[Conversation, None] = {}  # those that hold something back, oldest first
        self.lane = Lane(self._table, self._memory)
        """The short way, for packets that need no `add`."""
        self.numbers: Iterator[int] = count(1)
        """Of connections yet to come."""

    @property
    def held(self) -> int:
        """Bytes held back now, with the objects around them, about."""
        return self._memory.held

    @property
    def unchecked(self) -> int:
        """Repeated bytes that could no longer be compared with what came out."""
        return self._memory.unchecked

    def add(self, packet: int, time_ns: int | None, segment: Segment) -> list[StreamEvent]:
        """What one more segment, of packet number `packet`, makes known."""
        key = (segment.source, segment.destination)
        if segment.destination < segment.source:
            key = (segment.destination, segment.source)
        conversation = self._table.pop(key, None)
        if conversation is not None and conversation.is_another(segment):
            self._close(conversation)
            conversation = None
        if conversation is None:
            conversation = Conversation(segment, self._memory, self._events, self._start_window)
        self._table[key] = self.lane.latest = conversation
        arrival = Arrival(segment, packet, time_ns)
        if conversation.settled:
            conversation.accept(arrival)
        elif conversation.await_start(arrival):
            self._settle(conversation)
        self._note_waiting(conversation)
        conversation.look()
        if conversation.is_calm:
            self.lane.open(key, conversation)
        while self._memory.held > self._max_held and self._waiting:
            oldest = next(iter(self._waiting))
            if oldest.settled:
                oldest.force()
            else:
                self._settle(oldest)
            self._note_waiting(oldest)
        if len(self._table) > self._max_connections:
            self._close(self._table.pop(next(iter(self._table))))
        return self._take_events()

    def finish(self) -> list[StreamEvent]:
        """The capture is over: what is held comes out, holes become gaps, every open direction ends."""
        conversations = list(self._table.values())
        self._table.clear()
        for conversation in conversations:
            self._close(conversation)
        return self._take_events()

    def _settle(self, conversation: Conversation) -> None:
        conversation.settle(next(self.numbers))

    def _close(self, conversation: Conversation) -> None:
        self._waiting.pop(conversation, None)
        self.lane.close(conversation)
        if conversation.is_bare:
            conversation.drop()
            return
        if not conversation.settled:
            self._settle(conversation)
        conversation.close()

    def _note_waiting(self, conversation: Conversation) -> None:
        if conversation.waits:
            self._waiting.setdefault(conversation)
        else:
            self._waiting.pop(conversation, None)

    def _take_events(self) -> list[StreamEvent]:
        events = self._events[:]
        self._events.clear()  # the conversations share this list
        return events


def stream_events(
    packets: Iterable[CapturedPacket | Truncated],
    reassembler: Reassembler | None = None,
    roce: RoceReassembler | None = None,
) -> Iterator[Event]:
    """Everything that a capture's packets make known, in the order in which it becomes known.

    Args:
        packets: what a capture reader yields.
        reassembler: a new one with its default bounds unless given.
        roce: of RoCEv2; a new one with its default bounds that shares `reassembler.numbers` unless given.

    Raises the reader's `CaptureError`, after everything that the packets before it made known. Packets of other protocols
    yield nothing; those that may carry TCP or RoCEv2 but cannot be read yield a `PacketFinding`.
    """
    reassembler = Reassembler() if reassembler is None else reassembler
    layers = Layers()
    roce = RoceReassembler(numbers=reassembler.numbers) if roce is None else roce
    take = reassembler.lane.take
    try:
        for item in packets:
            if isinstance(item, Truncated):
                yield item
                continue
            if (chunk := take(item)) is not False:
                if chunk is not True:
                    yield chunk
                continue
            found = layers.add(item)
            if isinstance(found, Segment):
                yield from reassembler.add(item.number, item.time_ns, found)
            elif found is None:
                yield from layers.take_lost()
            elif not isinstance(found, Skipped):
                yield from roce.add(item.number, item.time_ns, found)
            elif found.code is not SkipCode.NOT_TCP:
                yield PacketFinding(found.code, item.number, item.time_ns, found.message)
    except CaptureError:
        yield from _rest(layers, reassembler, roce)
        raise
    yield from _rest(layers, reassembler, roce)


def _rest(layers: Layers, reassembler: Reassembler, roce: RoceReassembler) -> Iterator[Event]:
    yield from layers.finish()
    yield from reassembler.finish()
    yield from roce.finish()
