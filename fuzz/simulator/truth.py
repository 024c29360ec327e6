"""What must be so, from what the ends put on the wire and from nothing that they say of themselves.

The frames of a verifier are read as it makes them, before anything happens to them: they say which sessions, generations and
rounds there are, and what is committed. What a proposal must be follows from the STEP, the committed prefix and the toy models.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuzz.simulator.toys import Expected, Toys
from fuzz.simulator.violation import violate
from pp1wire.protocol import Counters, MessageDropped, Notice, RoundDiscarded
from pp1wire.wire import (
    Agreement,
    Commit,
    CommitKind,
    CompletionStatus,
    Frame,
    MessageType,
    Reset,
    ResetReason,
    Step,
    decode_frame,
)
from pp1wire.wire._schema_v2 import BODY_FIELDS

_STATUS = 64 + next(spec.offset for spec in BODY_FIELDS[MessageType.COMPLETION] if spec.name == "status")

__all__ = ["LineTruth", "RequestTruth", "SessionTruth", "Tally", "identity_of"]


@dataclass(slots=True)
class RequestTruth:
    """A request over all of its connections.

    Attributes:
        text: prompt, and everything committed.
        generation: of its latest RESET.
        step_key, coin_key: (generation, round) of the latest STEP, and of the latest use of the verifier's coins.
    """

    text: list[int]
    generation: int = 0
    step_key: tuple[int, int] = (0, 0)
    coin_key: tuple[int, int] = (0, 0)

    def coins(self, generation: int, round: int) -> None:
        """The verifier's coins of this round are used."""
        if (generation, round) <= self.coin_key:
            violate("rising", f"coins of {(generation, round)} are used after those of {self.coin_key}")
        self.coin_key = (generation, round)


@dataclass(slots=True)
class SessionTruth:
    """A session as the verifier's frames tell it. `step` and `expected` are those of the open round."""

    number: int
    slot: int
    generation: int
    request: RequestTruth
    step: Step | None = None
    expected: Expected | None = None
    ready: bool = False
    """Whether the open round's proposal was published."""
    texts: dict[int, list[int]] = field(default_factory=dict)
    """Generation -> its whole text."""
    floors: dict[int, int] = field(default_factory=dict)
    """Generation -> how many ids its RESET carried."""

    def begin(self, generation: int, base: list[int]) -> None:
        """A RESET: a new generation on this prefix."""
        self.generation = generation
        self.texts[generation] = base
        self.floors[generation] = len(base)

    def prefix_fits(self, generation: int, prefix: list[int]) -> bool:
        """Whether a worker in this generation may hold this prefix: its base, and some of what was committed behind it."""
        text = self.texts.get(generation)
        return text is not None and self.floors[generation] <= len(prefix) and text[: len(prefix)] == prefix

    @property
    def text(self) -> list[int]:
        """The whole committed prefix."""
        return self.texts[self.generation]


@dataclass(slots=True)
class Tally:
    """Counted beside the product's counters, from frames and events."""

    steps: int = 0
    commits: int = 0
    target_only: int = 0
    tokens: int = 0
    stops: int = 0
    opens: int = 0
    resets: int = 0
    closes: int = 0
    ready: int = 0
    ready_lost: int = 0
    accepted: int = 0
    """Drafted tokens that verification accepted."""
    discards: dict[str, int] = field(default_factory=lambda: dict(Counters().discards))
    dropped: dict[str, int] = field(default_factory=lambda: dict(Counters().dropped))
    """By reason, as the end's watcher heard of them."""

    def hear(self, notice: Notice) -> None:
        """A watcher for an end."""
        if isinstance(notice, RoundDiscarded):
            self.discards[notice.reason] += 1
        elif isinstance(notice, MessageDropped):
            self.dropped[notice.reason] += 1


class LineTruth:
    """One connection of a verifier.

    Args:
        toys: the models.
        owners: session -> its request.
    """

    def __init__(self, toys: Toys, owners: dict[int, RequestTruth]) -> None:
        self._toys = toys
        self._owners = owners
        self.agreement: Agreement | None = None
        self.sessions: dict[int, SessionTruth] = {}
        """Open ones."""
        self.all: dict[int, SessionTruth] = {}
        self.tally = Tally()
        self.honest: dict[tuple[int, int, int], list[int]] = {}
        """(session, generation, round) -> the body checksums of the rows that an honest worker made for it."""
        self.completed: set[tuple[int, int, int]] = set()
        """Rounds whose honest COMPLETION ok was sent."""
        self._completions: dict[tuple[int, int, int], int] = {}

    def verifier_made(self, frame: Frame) -> None:
        """A frame of the verifier."""
        if frame.header.message_type is MessageType.HELLO:
            return
        message = decode_frame(frame, self.agreement)
        if isinstance(message, Reset):
            self._reset(message)
        elif isinstance(message, Step):
            self._step(message)
        elif isinstance(message, Commit):
            self._commit(message)
        else:
            violate("refused", f"a verifier made {message!r}")

    def worker_made(self, frame: Frame) -> None:
        """A frame of the worker."""
        self.worker_would_make([bytes(frame.data)])

    def worker_would_make(self, frames: list[bytes]) -> None:
        """Frames of an honest answer: one that the worker made, or one that a lie stands for."""
        for frame in frames:
            if frame[6] == MessageType.REPLY:
                self.honest.setdefault(identity_of(frame), []).append(_body_checksum(frame))
            elif frame[6] == MessageType.COMPLETION and frame[_STATUS] == CompletionStatus.OK:
                self._completions[identity_of(frame)] = _body_checksum(frame)

    def worker_sent(self, frame: bytes) -> None:
        """A frame on its way to the verifier, whoever made it."""
        if frame[6] == MessageType.COMPLETION and self._completions.get(identity_of(frame)) == _body_checksum(frame):
            self.completed.add(identity_of(frame))

    def ends(self) -> None:
        """The connection is over."""
        for session in self.sessions.values():
            self._lose_round(session)

    def _lose_round(self, session: SessionTruth) -> None:
        self.tally.ready_lost += session.ready
        session.step, session.expected, session.ready = None, None, False

    def _reset(self, reset: Reset) -> None:
        number, request = reset.session, self._owners[reset.session]
        if reset.generation <= request.generation:
            violate("rising", f"RESET of generation {reset.generation} after generation {request.generation}")
        request.generation = reset.generation
        if reset.reason is ResetReason.OPEN:
            held = [s.number for s in self.sessions.values() if s.slot == reset.slot]
            if number in self.all or held:
                violate("slots", f"session {number} opens on slot {reset.slot}, which {held} holds")
            self.sessions[number] = self.all[number] = SessionTruth(number, reset.slot, reset.generation, request)
            self.tally.opens += 1
        session = self.sessions[number]
        self._lose_round(session)
        if reset.reason is ResetReason.CLOSE:
            self.tally.closes += 1
            session.begin(reset.generation, list(session.text))
            del self.sessions[number]
            return
        self.tally.resets += reset.reason is not ResetReason.OPEN
        ids = reset.prefix_ids.tolist()
        if ids != request.text:
            violate("committed", f"RESET of session {number} carries {ids}, committed are {request.text}")
        session.begin(reset.generation, ids)

    def _step(self, step: Step) -> None:
        session = self.sessions[step.session]
        key = (step.generation, step.round)
        if key <= session.request.step_key:
            violate("rising", f"STEP of {key} after one of {session.request.step_key}")
        session.request.step_key = key
        if step.position != len(session.text) or session.step is not None:
            violate(
                "committed", f"STEP at {step.position} of session {step.session}, whose text has {len(session.text)}"
            )
        session.step = step
        session.expected = self._toys.expected(
            session.text[-1], step.position, step.depth, step.temperature, step.support, step.proposal_seed,
            step.generation, step.round,
        )  # fmt: skip
        self.tally.steps += 1

    def _commit(self, commit: Commit) -> None:
        session = self.sessions[commit.session]
        tokens = commit.tokens.tolist()
        if commit.position != len(session.text) or commit.generation != session.generation:
            violate("committed", f"COMMIT at {commit.position}, but the text has {len(session.text)}")
        drafted = tokens[: commit.accepted]
        expected = [] if session.expected is None else list(session.expected.tokens[: commit.accepted])
        if drafted != expected:
            violate("committed", f"COMMIT of {drafted} as accepted, but {expected} were drafted")
        session.texts[session.generation] = session.text + tokens
        session.request.text = session.request.text + tokens
        tally = self.tally
        tally.tokens += len(tokens)
        if commit.kind is CommitKind.TARGET_ONLY:
            tally.target_only += 1
        else:
            tally.commits += 1
            tally.stops += commit.kind is CommitKind.NONE
        session.step, session.expected, session.ready = None, None, False


def identity_of(frame: bytes) -> tuple[int, int, int]:
    """Session, generation and round in a header."""
    parts = (frame[32:40], frame[40:44], frame[44:48])
    session, generation, round_ = (int.from_bytes(part, "little") for part in parts)
    return session, generation, round_


def _body_checksum(frame: bytes) -> int:
    return int.from_bytes(frame[48:56], "little")
