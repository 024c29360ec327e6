"""Messages on their way from an end to its network, before they are numbered.

What an end has queued is taken apart into frames, some of which are lost, repeated, put in another order, moved to another
round, changed or forged; what is left gets consecutive numbers and a right header checksum. So none of it shows in the
sequence: it is what a queue with a bug, a proxy, or an end that lies would send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from fuzz.simulator.network import Link, Pipe
from pp1wire.wire import Agreement, Frame, FrameSplitter, MessageType
from pp1wire.wire._schema_v2 import BODY_FIELDS, BODY_STRUCTS
from pp1wire.wire.checksums import body_checksum, header_checksum

if TYPE_CHECKING:
    from fuzz.simulator.world import World

__all__ = ["Outbox", "field", "resealed", "restamped"]

_HISTORY = 32
_BODY = 64
_IDENTITY = (slice(20, 22), slice(32, 48))
"""Slot, and session with generation and round, in a header."""
_HELD = 0.02

See = Callable[[Frame], None]


def field(message_type: MessageType, name: str) -> slice:
    """Where a field of a body lies in its frame."""
    spec = next(spec for spec in BODY_FIELDS[message_type] if spec.name == name)
    return slice(_BODY + spec.offset, _BODY + spec.offset + spec.size)


_POSITION = field(MessageType.REPLY, "position")
_TOKEN = field(MessageType.REPLY, "token")
_TOKEN_COUNT = field(MessageType.COMMIT, "token_count").start
_COMMIT_TOKENS = _BODY + BODY_STRUCTS[MessageType.COMMIT].size
_CHANGES = {
    kind: [field(kind, name).start for name in names]
    for kind, names in (
        (MessageType.STEP, ("proposal_seed", "position", "prefix_digest", "context_version")),
        # Not its position: two faults together could put it where its ticket happens to draw the same token.
        (MessageType.REPLY, ("token",)),
        (MessageType.COMPLETION, ("position", "context_version", "reply_bytes", "rows_checksum", "rows")),
    )
}


def resealed(frame: bytearray) -> bytes:
    """A frame with both checksums made right."""
    frame[48:56] = body_checksum(frame).to_bytes(8, "little")
    frame[56:64] = header_checksum(frame).to_bytes(8, "little")
    return bytes(frame)


def restamped(frame: bytes, identity: bytes) -> bytes:
    """A frame in the name of another's round: its header is right again, its body is as it was."""
    changed = bytearray(frame)
    for part in _IDENTITY:
        changed[part] = identity[part]
    changed[56:64] = header_checksum(changed).to_bytes(8, "little")
    return bytes(changed)


def _numbered(frame: bytes, sequence: int) -> bytes:
    number = sequence.to_bytes(8, "little")
    if frame[8:16] == number:
        return frame
    changed = bytearray(frame)
    changed[8:16] = number
    changed[56:64] = header_checksum(changed).to_bytes(8, "little")
    return bytes(changed)


class Outbox:
    """One direction's queue in front of its pipe.

    Args:
        see: told of every frame that the end itself made, before anything happens to it.
        passes: told of every frame that is sent in the end, whoever made it.
    """

    def __init__(
        self, world: World, link: Link, pipe: Pipe, see: See, passes: Callable[[bytes], None] | None = None
    ) -> None:
        self._world, self._link, self._pipe, self._see, self._passes = world, link, pipe, see, passes
        self._splitter = FrameSplitter(None, 0)
        self._sequence = 0
        self._history: deque[bytes] = deque(maxlen=_HISTORY)
        self._held: bytes | None = None
        self._greeted = False

    def put(self, data: bytes, agreement: Agreement | None) -> None:
        """Take what the end has queued; send what becomes of it."""
        frames: list[Frame] = []
        if not self._greeted:
            # A HELLO is read without an agreement, although its end may have one by now.
            frames, data, self._greeted = self._splitter.feed(data), b"", True
        if agreement is not None and self._splitter.agreement is None:
            self._splitter.agreement = agreement
        if data or agreement is not None:
            frames = frames + self._splitter.feed(data)
        sent: list[bytes] = []
        for frame in frames:
            self._see(frame)
            raw = bytes(frame.data)
            sent += self._treated(raw, frame.header.message_type)
            self._history.append(raw)
        self._send(sent)

    def forge(self, frames: Iterable[bytes], kind: str) -> None:
        """Send frames that the end never made."""
        self._link.fault(kind)
        self._send(frames)

    def history(self, message_type: MessageType) -> list[bytes]:
        """Frames of this type that were made lately."""
        return [frame for frame in self._history if frame[6] == message_type]

    def _send(self, frames: Iterable[bytes]) -> None:
        data = bytearray()
        for frame in frames:
            if self._passes is not None:
                self._passes(frame)
            data += _numbered(frame, self._sequence)
            self._sequence += 1
        if data:
            self._pipe.send(bytes(data))

    def _happens(self, kind: str) -> bool:
        if not self._world.chance(kind):
            return False
        self._link.fault(kind)
        return True

    def _treated(self, raw: bytes, kind: MessageType) -> list[bytes]:
        if kind is MessageType.HELLO:
            return [self._changed_hello(raw) if self._happens("hello_changed") else raw]
        if kind is MessageType.REPLY:
            raw = self._control(raw)
        released, self._held = ([] if self._held is None else [self._held]), None
        return self._one(raw, kind) + released

    def _one(self, raw: bytes, kind: MessageType) -> list[bytes]:
        rng = self._world.rng
        if self._happens("lost"):
            return []
        if self._happens("twice"):
            return [raw, raw]
        if self._happens("swapped"):
            self._held = raw
            self._world.clock.after(_HELD, self._release)
            return []
        if self._history and self._happens("replayed"):
            return [raw, rng.choice(self._history)]
        if self._happens("changed"):
            return [self._changed(raw, kind)]
        if self._happens("other_agreement"):
            changed = bytearray(raw)
            changed[24] ^= 1
            return [resealed(changed)]
        if kind is MessageType.REPLY:
            others = self._movable(raw)
            if others and self._happens("moved"):
                return [restamped(rng.choice(others), raw)]
        return [raw]

    def _release(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._send([held])

    def _movable(self, raw: bytes) -> list[bytes]:
        """Rows of other rounds at the same position, which only the checksum's seed tells from this one's."""
        return [
            old
            for old in self._history
            if old[6] == MessageType.REPLY and old[_POSITION] == raw[_POSITION] and old[32:48] != raw[32:48]
        ]

    def _control(self, raw: bytes) -> bytes:
        """The negative control's fault: it looks at the drafted token, which no fault of a network can do."""
        if int.from_bytes(raw[_TOKEN], "little") >= self._world.scenario.spoil_below:
            return raw
        self._link.fault("token_seen")
        self._world.faults["token_seen"] += 1
        return raw[:-1] + bytes([raw[-1] ^ 1])

    def _changed(self, raw: bytes, kind: MessageType) -> bytes:
        """Another message with right checksums, which a rule of the protocol must refuse."""
        frame = bytearray(raw)
        if kind is MessageType.COMMIT:
            last = slice(_COMMIT_TOKENS + 4 * (frame[_TOKEN_COUNT] - 1), _COMMIT_TOKENS + 4 * frame[_TOKEN_COUNT])
            token = (int.from_bytes(frame[last], "little") + 1) % self._world.scenario.vocab
            frame[last] = token.to_bytes(4, "little")
        elif kind is MessageType.RESET:
            frame[-4] ^= 1  # its last id; a RESET that closes has none, and then it is padding
        else:
            frame[self._world.rng.choice(_CHANGES[kind])] ^= 1
        return resealed(frame)

    def _changed_hello(self, raw: bytes) -> bytes:
        frame = bytearray(raw)
        frame[self._world.rng.randrange(_BODY, len(frame))] ^= 1 << self._world.rng.randrange(8)
        return resealed(frame)
