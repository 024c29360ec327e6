"""The verifier's part against a worker: one conversation, whose legal frames are in `asked_frames`."""

from __future__ import annotations

import asyncio
import hashlib

import numpy as np
import numpy.typing as npt

from pp1wire.attack.channel import Channel
from pp1wire.attack.crafting import AttackError, identity_of
from pp1wire.attack.outcomes import Outcome
from pp1wire.attack.talk import Heard, Talk
from pp1wire.protocol import Direction
from pp1wire.protocol.session import Session
from pp1wire.protocol.tables import SessionState
from pp1wire.wire import Hello, HelloStatus, Message, MessageType, decode, encode

__all__ = ["PROMPT_IDS", "Asker", "SetupError"]

PROMPT_IDS = 3


class SetupError(AttackError):
    """The worker did not come into the state that a case begins in; `outcome` says what it did instead."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(f"the worker {message}")
        self.outcome = outcome


class Asker(Talk):
    """A connection to a worker.

    Args:
        channel: the socket.
        offer: the HELLO that is sent.
        seed: of prompts and proposal seeds.
        timeout: seconds for a reaction to what is wrong.
        wait: seconds for an answer to what is right.
    """

    def __init__(self, channel: Channel, offer: Hello, *, seed: int, timeout: float, wait: float) -> None:
        super().__init__(channel, Direction.VERIFIER, offer)
        self.seed = seed
        self.timeout = timeout
        self.wait = wait
        self.session: Session | None = None
        """The session in use; kept when it is closed."""
        self.due: set[tuple[int, int, int]] = set()
        """(session, generation, round) of the STEPs whose answers may still come."""
        self.said: dict[str, bytes] = {}
        """Frames that were said, by name."""
        self._pending: list[bytes] = []

    # What is sent.

    def say(self, frame: bytes, name: str = "") -> None:
        """Queue a legal frame: it goes out with what follows it, in one write. By `name` it can be said again."""
        self.said[name] = frame
        self.require_legal(frame)
        self.sequence += 1
        self._pending.append(frame)
        if frame[6] == MessageType.STEP:
            self.due.add(identity_of(frame))
        elif frame[6] == MessageType.RESET:
            self.session = self.sessions.open.get(identity_of(frame)[0], self.session)

    def say_offer(self) -> None:
        """Queue the offer."""
        self.say(encode(self.hello, None, 0), "hello")

    async def flush(self, *more: bytes) -> None:
        """Send what is queued, and `more` behind it."""
        pieces, self._pending = [*self._pending, *more], []
        await self.channel.send(b"".join(pieces))

    async def flush_bytewise(self) -> None:
        """Send what is queued, one byte at a time."""
        pieces, self._pending = self._pending, []
        await self.channel.send_bytewise(b"".join(pieces))

    def encoded(self, message: Message) -> bytes:
        """`message` as the next frame."""
        return encode(message, self.agreed, self.sequence)

    @property
    def open_session(self) -> Session:
        """The session in use. Raises AttackError before it was opened."""
        if self.session is None:
            raise AttackError("no session was opened")
        return self.session

    def prompt(self, length: int = PROMPT_IDS) -> npt.NDArray[np.int32]:
        """Token ids that follow from the seed, int32 [length]."""
        digest = hashlib.shake_256(f"pp1wire attack {self.seed}".encode()).digest(4 * length)
        return (np.frombuffer(digest, "<u4") % np.uint32(self.hello.vocab_size)).astype(np.int32)

    # What comes back.

    async def hear_hello(self) -> Hello:
        """The worker's answer to the offer. Raises SetupError."""
        await self.flush()
        heard = await self.hear(self.wait)
        if heard is None:
            raise SetupError("did not answer the offer", Outcome.HUNG)
        if not heard:
            raise SetupError("closed the connection without an answer", Outcome.CLOSED)
        frame = heard[0].frame
        answer = None if frame is None else decode(frame.data, None)
        if not isinstance(answer, Hello):
            raise SetupError(f"answered the offer with no HELLO: {heard[0].error}", Outcome.BROKE)
        if answer.status is HelloStatus.ACCEPTED and heard[0].error is not None:
            raise SetupError(f"broke a rule in its answer: {heard[0].error}", Outcome.BROKE)
        return answer

    async def agree(self) -> None:
        """Offer, and be accepted. Raises SetupError."""
        self.say_offer()
        answer = await self.hear_hello()
        if answer.status is HelloStatus.REFUSED:
            raise SetupError(f"refused the offer for {answer.refusal.name.lower()}", Outcome.REFUSED)

    async def hear_proposal(self) -> None:
        """The proposal of the latest STEP, checked by every rule. Raises SetupError."""
        await self.flush()
        latest = self.open_session.latest.step
        awaited = (latest.session, latest.generation, latest.round)
        loop = asyncio.get_running_loop()
        until = loop.time() + self.wait
        # Rounds that were given up need no answer, but may have one on its way.
        while awaited in self.due:
            heard = await self.hear(until - loop.time())
            if heard is None:
                raise SetupError("did not answer a STEP", Outcome.HUNG)
            if not heard:
                raise SetupError("closed the connection instead of answering a STEP", Outcome.CLOSED)
            for one in heard:
                if one.error is not None and one.error.scope != "stale":
                    raise SetupError(f"broke a rule in its answer: {one.error}", Outcome.BROKE)
                self.take_due(one)
        if self.open_session.state is not SessionState.READY:
            raise SetupError("gave up a round that it was asked for", Outcome.DISCARDED)

    def take_due(self, heard: Heard) -> bool:
        """Whether a frame belongs to an answer that is due; its COMPLETION is the last."""
        if heard.frame is None or heard.frame.header.identity not in self.due:
            return False
        if heard.frame.header.message_type is MessageType.COMPLETION:
            self.due.discard(heard.frame.header.identity)
        return heard.frame.header.message_type in (MessageType.REPLY, MessageType.COMPLETION)
