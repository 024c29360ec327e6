"""IP reassembly: fragments in any order in, whole datagrams out.

Source: RFC 791 section 3.2 and RFC 8200 section 4.5; RFC 5722 and RFC 1858 tell what overlapping fragments are good for.

- Fragments that overlap must agree. Where they do not, that is a `conflict`, and the datagram is dropped: no choice
  between the two would be more than a guess at what its receiver chose.
- Nothing is filled in: of a datagram with fragments that were cut by a snapshot length, the bytes before the first cut
  are known, and its length.
- Memory is bounded by the arguments of `Fragments`. A datagram that had to be given up, or whose fragments do not all
  come, is told as `missing_fragment`.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from pp1wire.capture._pieces import Piece, Pieces
from pp1wire.capture.events import PacketFinding
from pp1wire.capture.ip import EXTENSIONS, TCP, Datagram, Fragment
from pp1wire.capture.packets import SkipCode, Skipped

__all__ = ["Fragments"]

_MAX_DATAGRAM = 65_535
_LIFETIME_NS: Final = 60_000_000_000  # RFC 8200: whoever waits longer for fragments must not
# RoCEv2 is not among them: its checksum covers the fields that fragmentation changes, so it is never in fragments.
_READ: Final = frozenset({TCP}) | EXTENSIONS

_Key: TypeAlias = tuple[bytes, bytes, int, int | None]


class _Open:
    """A datagram of which fragments are missing."""

    def __init__(self, packet: int, time_ns: int | None) -> None:
        self.packet = packet
        self.time_ns = time_ns
        self.protocol: int | None = None
        self.pieces = Pieces()
        self.covered = 0
        self.total: int | None = None
        self.cost = 0
        self.dropped = False  # after a conflict, which has been told


class _Whole(NamedTuple):
    """A datagram that has come out, to tell a repeated fragment from a new datagram."""

    payload: bytes
    total: int
    time_ns: int | None


class Fragments:
    """Puts datagrams together.

    Args:
        max_held: bytes held of incomplete datagrams, about; beyond that the oldest is given up.
        max_datagrams: how many of them, likewise.
        max_recent: bytes kept of complete datagrams, to compare repeated fragments with.
    """

    def __init__(self, *, max_held: int = 8 << 20, max_datagrams: int = 4096, max_recent: int = 2 << 20) -> None:
        self._max_held = max_held
        self._max_datagrams = max_datagrams
        self._max_recent = max_recent
        self._open: dict[_Key, _Open] = {}  # oldest first
        self._recent: dict[_Key, _Whole] = {}  # oldest first
        self._recent_size = 0
        self._lost: list[PacketFinding] = []
        self.held = 0
        """Bytes held of incomplete datagrams, with the objects around them, about."""

    def add(self, fragment: Fragment, packet: int, time_ns: int | None) -> Datagram | Skipped | None:
        """The datagram that this fragment, of packet number `packet`, completes; None where it completes none."""
        if fragment.protocol not in _READ:
            return Skipped(SkipCode.NOT_TCP, f"fragment of IP protocol {fragment.protocol}")
        stop = fragment.offset + fragment.length
        if fragment.length <= 0 or (fragment.more and fragment.length % 8):
            expected = "a multiple of 8" if fragment.more else "at least 1"
            return Skipped(SkipCode.MALFORMED, f"IP fragment's length: expected {expected}, got {fragment.length}")
        if stop > _MAX_DATAGRAM:
            return Skipped(SkipCode.MALFORMED, f"IP fragment's end: expected at most {_MAX_DATAGRAM}, got {stop}")
        # Of IPv6 only the first fragment has to know the protocol.
        protocol = fragment.protocol if len(fragment.source) == 4 else None
        key = (fragment.source, fragment.destination, fragment.identification, protocol)
        whole = self._recent.get(key)
        if whole is not None:
            if _is_near(whole.time_ns, time_ns):
                return self._repeated(whole, fragment)
            self._forget(key)
        datagram = self._open.get(key)
        if datagram is not None and not _is_near(datagram.time_ns, time_ns):
            self._give_up(key)
            datagram = None
        if datagram is None:
            datagram = self._open[key] = _Open(packet, time_ns)
        if datagram.dropped:
            return None
        if fragment.offset == 0:
            datagram.protocol = fragment.protocol
        if not self._fits(datagram, fragment) or not self._insert(datagram, fragment, packet, time_ns):
            self._drop(datagram)
            return _conflict(fragment)
        if datagram.covered == datagram.total and datagram.protocol is not None:
            return self._complete(key, datagram, datagram.total, datagram.protocol)
        while self.held > self._max_held or len(self._open) > self._max_datagrams:
            self._give_up(next(iter(self._open)))
        return None

    def finish(self) -> list[PacketFinding]:
        """The capture is over: what is still held is given up. Returns what `take_lost` would."""
        for key in list(self._open):
            self._give_up(key)
        return self.take_lost()

    def take_lost(self) -> list[PacketFinding]:
        """Datagrams given up since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def _fits(self, datagram: _Open, fragment: Fragment) -> bool:
        """Take note of where the datagram ends; False where its fragments contradict each other."""
        stop = fragment.offset + fragment.length
        if datagram.total is not None:
            return stop == datagram.total if not fragment.more else stop <= datagram.total
        if not fragment.more:
            datagram.total = stop
            return datagram.pieces.stop() <= stop
        return True

    def _insert(self, datagram: _Open, fragment: Fragment, packet: int, time_ns: int | None) -> bool:
        """Hold the bytes that are new; False where others differ from those held."""
        captured = len(fragment.payload)
        pieces = [Piece(fragment.offset, captured, fragment.payload, 0, packet, time_ns)] if captured else []
        if captured < fragment.length:
            rest = fragment.length - captured
            pieces.append(Piece(fragment.offset + captured, rest, None, 0, packet, time_ns))
        for piece in pieces:
            start = piece.offset
            for old in datagram.pieces.overlapping(start, piece.stop):
                if _differ(piece, old):
                    return False
                if old.offset > start:
                    self._hold(datagram, piece.part(start, old.offset))
                start = old.stop
            if start < piece.stop:
                self._hold(datagram, piece.part(start, piece.stop))
        return True

    def _hold(self, datagram: _Open, piece: Piece) -> None:
        datagram.pieces.add(piece)
        datagram.covered += piece.length
        datagram.cost += piece.cost
        self.held += piece.cost

    def _drop(self, datagram: _Open) -> None:
        self.held -= datagram.cost
        datagram.pieces, datagram.cost, datagram.dropped = Pieces(), 0, True

    def _complete(self, key: _Key, datagram: _Open, total: int, protocol: int) -> Datagram:
        parts: list[memoryview] = []
        for piece in datagram.pieces.overlapping(0, total):
            if piece.data is None:
                break
            parts.append(piece.data)
        del self._open[key]
        self.held -= datagram.cost
        whole = _Whole(b"".join(parts), total, datagram.time_ns)
        self._recent[key] = whole
        self._recent_size += len(whole.payload)
        while self._recent_size > self._max_recent or len(self._recent) > self._max_datagrams:
            self._forget(next(iter(self._recent)))
        return Datagram(key[0], key[1], protocol, memoryview(whole.payload), total)

    def _forget(self, key: _Key) -> None:
        self._recent_size -= len(self._recent.pop(key).payload)

    def _give_up(self, key: _Key) -> None:
        datagram = self._open.pop(key)
        if datagram.dropped:
            return
        self.held -= datagram.cost
        total = "an unknown number of" if datagram.total is None else str(datagram.total)
        message = f"of {total} bytes of an IP datagram, fragments hold only {datagram.covered}"
        self._lost.append(PacketFinding(SkipCode.MISSING_FRAGMENT, datagram.packet, datagram.time_ns, message))

    def _repeated(self, whole: _Whole, fragment: Fragment) -> Skipped | None:
        """A fragment of a datagram that has come out."""
        stop = fragment.offset + fragment.length
        known = whole.payload[fragment.offset : stop]
        shared = min(len(known), len(fragment.payload))
        ends = stop <= whole.total if fragment.more else stop == whole.total
        if ends and known[:shared] == fragment.payload[:shared]:
            return None
        return _conflict(fragment)


def _conflict(fragment: Fragment) -> Skipped:
    start, stop = fragment.offset, fragment.offset + fragment.length
    message = f"IP fragment of bytes {start} to {stop} contradicts others of its datagram, which is dropped"
    return Skipped(SkipCode.CONFLICT, message)


def _is_near(one: int | None, two: int | None) -> bool:
    """Whether fragments seen at these times may be of one datagram, as its number is used again later."""
    return one is None or two is None or abs(one - two) <= _LIFETIME_NS


def _differ(one: Piece, two: Piece) -> bool:
    """Whether two overlapping pieces hold different bytes where both were captured."""
    if one.data is None or two.data is None:
        return False
    start, stop = max(one.offset, two.offset), min(one.stop, two.stop)
    return bool(one.data[start - one.offset : stop - one.offset] != two.data[start - two.offset : stop - two.offset])
