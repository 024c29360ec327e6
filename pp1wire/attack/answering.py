"""The worker's part against a verifier: one conversation, its proposals, and what the verifier makes of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from pp1wire.attack.channel import Channel
from pp1wire.attack.crafting import AttackError
from pp1wire.attack.outcomes import Observation, Outcome
from pp1wire.attack.proposals import completion_frame, row_frames
from pp1wire.attack.talk import Heard, Talk
from pp1wire.attack.terms import PLACEHOLDER, terms_of
from pp1wire.protocol import Direction
from pp1wire.wire import (
    Commit,
    CommitKind,
    CompletionStatus,
    Hello,
    HelloRole,
    Message,
    RemoteProtocolError,
    Representation,
    Reset,
    ResetReason,
    Step,
    decode,
    decode_frame,
    encode,
)

__all__ = ["Answerer", "Broke", "Gone", "Silent"]


class Gone(AttackError):
    """The verifier ended the connection."""


class Silent(AttackError):
    """The verifier did not do in time what it had to do next."""


class Broke(AttackError):
    """The verifier sent what no verifier may send."""


class Answerer(Talk):
    """A connection from a verifier.

    Args:
        channel: the socket.
        timeout: seconds for each reaction.
        wait: seconds for the next STEP.
    """

    def __init__(self, channel: Channel, *, timeout: float, wait: float) -> None:
        super().__init__(channel, Direction.WORKER, PLACEHOLDER.hello(HelloRole.ANSWER))
        self.timeout = timeout
        self.wait = wait
        self.offer: Hello | None = None
        self.latest: dict[int, list[bytes]] = {}
        """The latest valid proposal of each session: what a replay would bring again."""
        self.held: Step | None = None
        """The STEP that a script works on."""
        self._open: dict[int, Step] = {}
        self._waiting: deque[Heard] = deque()

    # HELLO.

    async def hear_offer(self) -> Hello:
        """The verifier's offer. Raises Gone, Silent or Broke."""
        heard = await self._next(asyncio.get_running_loop().time() + self.timeout)
        if heard is None:
            raise Silent(f"the verifier connected, and offered nothing for {self.timeout:g} s")
        message = None if heard.frame is None else decode(heard.frame.data, None)
        if heard.error is not None or not isinstance(message, Hello):
            raise Broke(f"the verifier's offer breaks a rule: {heard.error}")
        self.offer = message
        return message

    @property
    def offered(self) -> Hello:
        """The offer, once it was heard. Raises AttackError."""
        if self.offer is None:
            raise AttackError("nothing was offered")
        return self.offer

    def answer(self, representation: Representation) -> Hello:
        """The HELLO that accepts the offer whole, with these rows."""
        self.hello = replace(terms_of(self.offered), representations=(representation,)).hello(HelloRole.ANSWER)
        return self.hello

    async def agree(self, representation: Representation) -> None:
        """Accept the offer."""
        frame = encode(self.answer(representation), None, 0)
        self.require_legal(frame)
        await self.send([frame])

    # Rounds.

    async def asked(self, wanted: Callable[[Step], bool] = lambda _: True, *, fail_others: bool = False) -> Step:
        """The next STEP that is wanted; others are answered, or given up.

        Raises:
            Gone, Silent, Broke: there is none.
        """
        until = asyncio.get_running_loop().time() + self.wait
        while True:
            for step in list(self._open.values()):
                del self._open[step.session]
                if wanted(step):
                    return step
                await (self.give_up(step) if fail_others else self.propose(step))
            message = await self._message(until)
            if message is None:
                raise Silent(f"no STEP that the case needs came in {self.wait:g} s")

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send frames, whatever is in them; they count in the numbering."""
        self.sequence += len(frames)
        await self.channel.send(b"".join(frames))

    async def propose(self, step: Step) -> None:
        """Answer with a valid proposal."""
        frames = row_frames(self, step)
        frames.append(completion_frame(self, step, frames))
        self.require_legal(b"".join(frames))
        self.latest[step.session] = frames
        await self.send(frames)

    async def give_up(self, step: Step) -> None:
        """Answer that the draft model failed."""
        frame = completion_frame(self, step, [], CompletionStatus.MODEL_ERROR)
        self.require_legal(frame)
        await self.send([frame])

    async def watch(self, step: Step, seconds: float, *, hold_others: bool = False) -> Observation | None:
        """What becomes of the round of `step`; None if nothing does in time.

        Other rounds are answered meanwhile, or left for `asked`.
        """
        until = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                message = await self._message(until)
            except Gone:
                return Observation(Outcome.CLOSED)
            except Broke as error:
                self.spoiled = True
                return Observation(Outcome.BROKE, str(error))
            if message is None:
                return None
            seen = self._seen(step, message)
            if seen is not None:
                return seen
            if isinstance(message, Step) and message.session != step.session and not hold_others:
                await self.propose(self._open.pop(message.session))

    def _seen(self, step: Step, message: Message) -> Observation | None:
        if isinstance(message, Commit) and message.kind is not CommitKind.TARGET_ONLY and _same_round(message, step):
            what = f"committed {message.accepted} of {step.depth} drafted tokens, {message.kind.name.lower()}"
            return Observation(Outcome.ACCEPTED, what)
        if isinstance(message, Reset) and message.session == step.session and message.generation > step.generation:
            reason = "" if message.reason is ResetReason.FAULT else f"RESET({message.reason.name.lower()})"
            return Observation(Outcome.DISCARDED, reason)
        return None

    @property
    def ended_politely(self) -> bool:
        """Whether every session was closed, so that the end of the connection is nobody's fault."""
        return self.agreement is not None and not self.sessions.open

    # What comes.

    async def _message(self, until: float) -> Message | None:
        """The next message, entered into what is open; None after silence. Raises Gone or Broke."""
        heard = await self._next(until)
        if heard is None:
            return None
        message = self._decoded(heard)
        if isinstance(message, Step):
            self._open[message.session] = message
        elif isinstance(message, Reset):
            self._open.pop(message.session, None)
        if heard.error is not None:
            if isinstance(message, Commit):
                # It commits what it had to discard; the caller knows of which round.
                self.spoiled = True
                return message
            raise Broke(f"the verifier's own message breaks a rule: {heard.error}")
        return message

    def _decoded(self, heard: Heard) -> Message | None:
        if heard.frame is None:
            return None
        try:
            return decode_frame(heard.frame, self.agreement)
        except RemoteProtocolError:
            return None

    async def _next(self, until: float) -> Heard | None:
        if not self._waiting:
            heard = await self.hear(until - asyncio.get_running_loop().time())
            if heard is None:
                return None
            if not heard:
                raise Gone("the verifier ended the connection")
            self._waiting.extend(heard)
        return self._waiting.popleft()


def _same_round(commit: Commit, step: Step) -> bool:
    return (commit.session, commit.generation, commit.round) == (step.session, step.generation, step.round)
