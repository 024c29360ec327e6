"""What is checked of either end: errors, what they leave behind, bounds, and what a passive judge makes of the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final

from fuzz.independent import HEADER, frames_of
from fuzz.outcome import CODES, Violation
from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import ConnectionState, Conversation, Direction, Verifier, Worker
from pp1wire.wire import RemoteProtocolError

__all__ = ["MAX_HELLO_IDS", "EndUnderTest", "snapshot"]

MAX_HELLO_IDS: Final = 64
"""An own HELLO of an input with a larger vocabulary or support is not used: it would cost memory, and show nothing more."""
_HELLO_FRAME: Final = 376
_JUDGED: Final = (
    "dropped",
    "failures",
    "rows",
    "row_bytes",
    "proposals",
    "steps",
    "commits",
    "target_only",
    "tokens",
    "committed",
)


def snapshot(end: Verifier | Worker) -> dict[int, tuple[Any, ...]]:
    """Everything about each open session that a message or a command could change."""
    live = end._live
    if live is None:
        return {}
    return {
        number: (
            s.slot, s.generation, s.state, s.round, len(s.prefix), s.prefix.digest(), s.proposal_seed, s.context_version,
            None if s.current is None else (s.current.step, tuple(s.current.tokens), tuple(s.current.checksums)),
            _request(end, number),
        )
        for number, s in live.sessions.open.items()
    }  # fmt: skip


def _request(end: Verifier | Worker, number: int) -> tuple[Any, ...] | None:
    if not isinstance(end, Verifier):
        return None
    request = end._requests[number]
    return request.proposal_seed, request.context_version, request.deadline, request.lease is None


class EndUnderTest:
    """One end with a judge at its side.

    Args:
        end: the real one.
        peer: who sends the bytes.
    """

    own: ClassVar[Direction]
    peer: ClassVar[Direction]

    def __init__(self, end: Verifier | Worker) -> None:
        self.end = end
        self.words: list[str] = []
        self.received: list[bytes] = []
        """Every whole frame so far, by its length alone: the end has believed it, or is over."""
        self._rest = b""
        self.judge = Conversation()
        self.judged = True
        """Whether the judge saw the same order: behind two frames at once it knows less than the end, which answers between."""

    @property
    def over(self) -> bool:
        """Whether the end takes nothing more."""
        return self.end.state in (ConnectionState.ENDED, ConnectionState.FAILED)

    # Commands of the owner.

    def command(self, act: Callable[[], object], word: str) -> None:
        """Do something that the end may refuse; then nothing has changed."""
        before, rounds = snapshot(self.end), self.end.open_rounds
        state, counters = self.end.state, self.end.counters.as_dict()
        try:
            act()
        except LocalProtocolError:
            after = snapshot(self.end), self.end.open_rounds, self.end.state
            if after != (before, rounds, state):
                raise Violation(f"a refused {word} changed {before} to {after[0]}") from None
            if self.end.has_data_to_send:
                raise Violation(f"a refused {word} is sent") from None
            if self.end.counters.as_dict() != counters:
                raise Violation(f"a refused {word} was counted") from None
            return
        self.words.append(word)
        self.flush()

    def flush(self) -> bytes:
        """Send what is queued, past the judge, who finds nothing wrong in it."""
        sent = self.end.data_to_send()
        if sent and self.judged:
            for verdict in self.judge.feed(self.own, sent):
                if verdict.error is not None and verdict.error.code.name != "HELLO_REFUSED":
                    raise Violation(f"the {self.own} sent what is wrong: {verdict.error}")
        return sent

    # Bytes of the peer.

    def take(self, data: bytes, receive: Callable[[bytes], list[Any]]) -> list[Any]:
        """Let the peer send `data`; the events."""
        before, counted = snapshot(self.end), _rejects(self.end)
        frames = self.end._splitter.next_sequence or 0
        whole = frames_of(self._rest + data)
        self._rest = (self._rest + data)[sum(map(len, whole)) :]
        self.received += whole
        try:
            events = receive(data)
        except RemoteProtocolError as error:
            if error is not self.end.error:
                raise Violation(f"raised {error}, but kept {self.end.error}") from None
            events = []
        taken = (self.end._splitter.next_sequence or 0) - frames
        self.judged &= taken <= 1
        if self.judged:
            self.judge.feed(self.peer, data)
        self.words += [name for name, n in (_rejects(self.end) - counted).items() for _ in range(n)]
        self._check_bounds()
        if self.end.error is not None:
            self._check_failed(receive)
        elif not self.over:
            # Of several frames at once, one may make the next one fresh.
            touching = [frame for frame in whole if len(whole) > 1 or self.is_fresh(frame)]
            self._check_others(before, {int.from_bytes(frame[32:40], "little") for frame in touching})
        return events

    def finish(self, eof: Callable[[], list[Any]]) -> None:
        """The peer sends nothing more."""
        if not self.over:
            try:
                eof()
            except RemoteProtocolError as error:
                self.words.append(error.code.name)
            if self.judged:
                self.judge.close(self.peer)
        if not self.over:
            raise Violation(f"at the end of the stream the {self.own} is {self.end.state}")
        self._check_bounds()
        if self.judged:
            self._check_judge()

    def is_fresh(self, frame: bytes) -> bool:
        """Whether a frame may change its session."""
        return True

    # Checks.

    def _check_bounds(self) -> None:
        end, agreement = self.end, self.end.agreement
        most = _HELLO_FRAME if agreement is None else HEADER + agreement.longest_body
        if end._splitter.pending_bytes > most and not self.over:
            raise Violation(f"{end._splitter.pending_bytes} bytes are held of a frame that has {most} at most")
        if end.imbalance():
            raise Violation(f"counters do not add up: {end.imbalance()}")
        if agreement is None or end._live is None:
            return
        sessions = end._live.sessions
        if len(sessions.open) > agreement.max_slots:
            raise Violation(f"{len(sessions.open)} sessions are open in {agreement.max_slots} slots")
        slots = [s.slot for s in sessions.open.values()]
        if sorted(slots) != sorted(i for i, s in enumerate(sessions.slots) if s is not None):
            raise Violation(f"slots {slots} are held, but noted are {sessions.slots}")
        for s in sessions.open.values():
            if s.current is not None and s.current.rows > s.current.step.depth:
                raise Violation(f"session {s.number} has {s.current.rows} rows of {s.current.step.depth}")
            if len(s.prefix) > agreement.max_prefix:
                raise Violation(
                    f"session {s.number} has a prefix of {len(s.prefix)}, agreed were {agreement.max_prefix}"
                )

    def _check_failed(self, receive: Callable[[bytes], list[Any]]) -> None:
        """After an error of connection scope nothing more is delivered, and the same error is raised."""
        end, error = self.end, self.end.error
        if error is None or error.scope != "connection" or end.state is not ConnectionState.FAILED:
            raise Violation(f"{error} left the connection {end.state}")
        if end.open_sessions or end.has_data_to_send:
            raise Violation(f"behind {error} there are sessions {end.open_sessions}, or bytes to send")
        for again in (b"", b"".join(self.received[-2:])):
            try:
                receive(again)
            except RemoteProtocolError as second:
                if second is error:
                    continue
            raise Violation(f"behind {error} the end goes on")

    def _check_others(self, before: dict[int, tuple[Any, ...]], touched: set[int]) -> None:
        """What concerns one session leaves all others as they are."""
        after = snapshot(self.end)
        for number in (before.keys() | after.keys()) - touched:
            if before.get(number) != after.get(number):
                raise Violation(
                    f"session {number} changed by messages of others, or stale ones; fresh are {sorted(touched)}"
                )

    def _check_judge(self) -> None:
        own, judged = self.end.counters, self.judge.counters
        for name in _JUDGED:
            mine, his = getattr(own, name), getattr(judged, name)
            if name in _OWN_VIEW:
                mine, his = mine | _OWN_VIEW[name], his | _OWN_VIEW[name]
            if mine != his:
                raise Violation(f"counted {name} {_shown(mine)}, but the judge {_shown(his)}")
        for code in CODES:
            key = code.lower()
            if own.discards.get(key) != judged.discards.get(key):
                raise Violation(f"discards by {key}: {own.discards.get(key)}, but the judge {judged.discards.get(key)}")


def _rejects(end: Verifier | Worker) -> Counter[str]:
    """Rejects counted so far, by code."""
    counters = end.counters
    groups = [group for group in (counters.dropped, counters.discards, counters.failures) if any(group.values())]
    return Counter({_NAMES[key]: n for group in groups for key, n in group.items() if n and key in _NAMES})


def _shown(value: Any) -> Any:
    return {k: v for k, v in value.items() if v} if isinstance(value, dict) else value


_NAMES: Final = {code.lower(): code for code in CODES}
# A judge cannot see an answer that was not sent; and who refuses an offer has not failed, while the judge sees who was refused.
_OWN_VIEW: Final = {"dropped": {"late_answer": 0}, "failures": {"hello_refused": 0}}
