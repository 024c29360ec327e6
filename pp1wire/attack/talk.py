"""One live conversation in an attacker's hands: both directions are judged, so what is legal next is known at any time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pp1wire.attack.case import Case
from pp1wire.attack.channel import Channel
from pp1wire.attack.crafting import AttackError, Facts
from pp1wire.protocol import Conversation, Direction
from pp1wire.protocol.session import Sessions
from pp1wire.wire import Agreement, Frame, FrameSplitter, Hello, RejectCode, RemoteProtocolError

__all__ = ["Heard", "Talk"]


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame of the endpoint, or what is wrong with its bytes."""

    frame: Frame | None
    error: RemoteProtocolError | None = None
    """What the judge of the conversation says of it, if anything."""


class Talk:
    """A conversation over a channel.

    Args:
        channel: the socket.
        role: whose part is played here.
        hello: the HELLO that is sent.
    """

    def __init__(self, channel: Channel, role: Direction, hello: Hello) -> None:
        self.channel = channel
        self.hello = hello
        self.judge = Conversation(keep_ids=True)
        self.spoiled = False
        """Whether the two ends no longer agree on where they are: nothing more can be made of this connection."""
        self.sequence = 0
        """Number of the next frame that is sent."""
        self._role = role
        self._peer = Direction.WORKER if role is Direction.VERIFIER else Direction.VERIFIER
        self._splitter = FrameSplitter(None, 0)

    @property
    def agreement(self) -> Agreement | None:
        """The connection's, once there is one."""
        return self.judge.agreement

    @property
    def agreed(self) -> Agreement:
        """The connection's. Raises AttackError if there is none."""
        return self.facts.agreed

    @property
    def facts(self) -> Facts:
        """What changes of fields may depend on."""
        return Facts(self.hello, self.agreement)

    @property
    def sessions(self) -> Sessions:
        """The sessions as the judge has them. Raises AttackError without an agreement."""
        if self.judge.sessions is None:
            raise AttackError("there is no agreement yet")
        return self.judge.sessions

    def require_legal(self, data: bytes) -> None:
        """Let the judge hear frames that are meant to be legal.

        Raises:
            AttackError: they are not, so the attack itself is wrong.
        """
        codes = self.judged(data)
        if codes:
            raise AttackError(f"a frame that was meant to be legal is not: {codes[0].name.lower()}")

    def require_code(self, case: Case, data: bytes, *, end: bool = False) -> None:
        """Hold a case's claim against the judge, before a byte is sent.

        Args:
            case: with the code that it says the bytes deserve.
            data: the bytes.
            end: whether the stream ends behind them.

        Raises:
            AttackError: they deserve another one, or none.
        """
        codes = self.judged(data, end=end)
        found = codes[0] if codes else None
        if found is not case.code and found not in case.also:
            told = "nothing" if found is None else found.name.lower()
            raise AttackError(f"{case.name} cannot be played here: of its bytes {told} is wrong")

    def judged(self, data: bytes, *, end: bool = False) -> list[RejectCode]:
        """Let the judge hear what is about to be sent, and say what it rejects.

        Args:
            data: the bytes.
            end: whether the stream ends behind them.
        """
        verdicts = self.judge.feed(self._role, data)
        if end:
            verdicts += self.judge.close(self._role)
        errors = [v.error for v in verdicts if v.error is not None]
        self.spoiled |= any(error.scope == "connection" for error in errors)
        return [error.code for error in errors]

    async def hear(self, seconds: float) -> list[Heard] | None:
        """The next frames of the endpoint; none once it has ended the connection, None after silence."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            data = await self.channel.receive(until - loop.time())
            if data is None or not data:
                return None if data is None else []
            heard = self._heard(data)
            if heard:
                return heard

    def _heard(self, data: bytes) -> list[Heard]:
        heard: list[Heard] = []
        self._splitter.agreement = self._splitter.agreement or self.agreement
        try:
            frames = self._splitter.feed(data)
            while frames:
                heard += [Heard(frame, self._fault(frame)) for frame in frames]
                if self._splitter.agreement is not None or self.agreement is None:
                    break
                # What came behind a HELLO can be told apart only now.
                self._splitter.agreement = self.agreement
                frames = self._splitter.feed(b"")
        except RemoteProtocolError as error:
            heard.append(Heard(None, error))
        if self._splitter.error is not None and not (heard and heard[-1].frame is None):
            heard.append(Heard(None, self._splitter.error))
        return heard

    def _fault(self, frame: Frame) -> RemoteProtocolError | None:
        verdicts = self.judge.feed(self._peer, bytes(frame.data))
        return next((v.error for v in verdicts if v.error is not None), None)
