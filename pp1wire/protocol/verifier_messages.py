"""What a verifier may send: RESET, STEP and COMMIT, judged against the sessions. Every fault here costs the connection.

The worker runs this on what it receives, the verifier on what it is about to send, the offline judge on what was recorded.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from pp1wire.protocol.places import Place
from pp1wire.protocol.session import OpenRound, Session, Sessions
from pp1wire.protocol.tables import COMMIT_EVENTS, RESET_EVENTS, SessionEvent, SessionState
from pp1wire.wire import (
    Commit,
    CommitKind,
    Frame,
    Header,
    MessageType,
    RejectCode,
    RemoteProtocolError,
    Reset,
    ResetReason,
    Step,
    decode_frame,
)

__all__ = ["VerifierMessages"]


class VerifierMessages:
    """Judges and applies the messages of a verifier, in their order.

    Args:
        sessions: the state to judge against and to move.
        answers_seen: False if the worker's messages are not at hand (a one-way recording): then a COMMIT tells that
            its round was completed, and its accepted ids cannot be compared with the proposal.
    """

    def __init__(self, sessions: Sessions, *, answers_seen: bool = True) -> None:
        self.sessions = sessions
        self.answers_seen = answers_seen

    def judge(self, frame: Frame) -> Step | Commit | Reset:
        """Check one message and apply it; a message that fails changes nothing.

        Raises:
            RemoteProtocolError: the first rule broken, in the order of checks of docs/wire.md. What a RESET says of
                a session that is not open depends on its reason, so that is judged behind its body.
        """
        header = frame.header
        if header.message_type not in (MessageType.STEP, MessageType.COMMIT, MessageType.RESET):
            raise Place.of(frame).header(
                RejectCode.WRONG_DIRECTION, "message_type", "STEP, COMMIT or RESET", header.message_type.name
            )
        session = self._session(frame, header)
        message = cast("Step | Commit | Reset", decode_frame(frame, self.sessions.agreement))
        if isinstance(message, Reset):
            self._check_reset(frame, session, message)
            self._apply_reset(session, message)
            self.sessions.tell_reset(message)
        elif isinstance(message, Step):
            self._check_step(frame, cast(Session, session), message)
            self._apply_step(cast(Session, session), message)
        else:
            self._check_commit(frame, cast(Session, session), message)
            self._apply_commit(cast(Session, session), message)
        return message

    # Identity: what the header alone tells.

    def _session(self, frame: Frame, header: Header) -> Session | None:
        session = self.sessions.open.get(header.session)
        if session is None:
            if header.message_type is MessageType.RESET:
                return None
            raise Place.of(frame).header(RejectCode.SESSION_NOT_OPEN, "session", self._open_sessions(), header.session)
        if header.slot != session.slot:
            raise Place.of(frame).header(RejectCode.SLOT_MISMATCH, "slot", session.slot, header.slot)
        expected = session.generation + (header.message_type is MessageType.RESET)
        if header.generation != expected:
            raise Place.of(frame).header(RejectCode.GENERATION_NOT_NEXT, "generation", expected, header.generation)
        if header.message_type is MessageType.STEP:
            self._check_step_round(frame, session, header)
        elif header.message_type is MessageType.COMMIT:
            self._check_commit_round(frame, session, header)
        return session

    def _check_step_round(self, frame: Frame, session: Session, header: Header) -> None:
        if header.round != session.next_round:
            raise Place.of(frame).header(RejectCode.ROUND_NOT_NEXT, "round", session.next_round, header.round)
        if self.sessions.next_state(session, SessionEvent.STEP) is not None:
            return
        if session.state is SessionState.STOPPED:
            raise self._unlisted(frame, session, "STEP")
        raise Place.of(frame).header(
            RejectCode.ROUND_STILL_OPEN, "round", f"a COMMIT or RESET of round {session.round} first", header.round
        )

    def _check_commit_round(self, frame: Frame, session: Session, header: Header) -> None:
        # A COMMIT closes the round of the last STEP; with none open it is a target-only token of a fresh round.
        fresh = session.state is SessionState.IDLE
        expected = session.next_round if fresh else session.round
        if header.round != expected:
            raise Place.of(frame).header(RejectCode.ROUND_NOT_NEXT, "round", expected, header.round)
        if session.state in (SessionState.VOID, SessionState.STOPPED) or (
            session.state is SessionState.DRAFTING and self.answers_seen
        ):
            raise self._unlisted(frame, session, "COMMIT")

    # Meaning: what the body says of the session.

    def _check_reset(self, frame: Frame, session: Session | None, reset: Reset) -> None:
        opens = reset.reason is ResetReason.OPEN
        if session is None:
            if not opens:
                if reset.session > self.sessions.last and reset.generation == 1:
                    # Only an opening RESET begins at generation 1, so it is the reason that is wrong.
                    raise Place.of(frame).body(
                        RejectCode.RESET_REASON_MISMATCH, "reason", "open", reset.reason.name.lower()
                    )
                raise Place.of(frame).header(
                    RejectCode.SESSION_NOT_OPEN, "session", self._open_sessions(), reset.session
                )
            if reset.session <= self.sessions.last:
                expected = f"above {self.sessions.last}"
                raise Place.of(frame).header(RejectCode.SESSION_NOT_RISING, "session", expected, reset.session)
            holder = self.sessions.slots[reset.slot]
            if holder is not None:
                expected = f"a free slot; session {holder.number} holds this one"
                raise Place.of(frame).header(RejectCode.SLOT_OCCUPIED, "slot", expected, reset.slot)
            return
        if self.sessions.next_state(session, RESET_EVENTS[reset.reason]) is None:
            expected = f"fault, cancel or close in state {session.state}"
            raise Place.of(frame).body(RejectCode.RESET_REASON_MISMATCH, "reason", expected, reset.reason.name.lower())
        if reset.reason is ResetReason.CLOSE:
            # It carries no ids that could disagree with its own position and digest, so they are held to the session's.
            self._check_prefix(frame, session, reset.position, reset.prefix_digest)

    def _check_step(self, frame: Frame, session: Session, step: Step) -> None:
        self._check_prefix(frame, session, step.position, step.prefix_digest)
        if session.proposal_seed not in (None, step.proposal_seed):
            raise Place.of(frame).body(
                RejectCode.PROPOSAL_SEED_CHANGED, "proposal_seed", session.proposal_seed, step.proposal_seed
            )
        if session.context_version not in (None, step.context_version):
            raise Place.of(frame).body(
                RejectCode.CONTEXT_CHANGED, "context_version", session.context_version, step.context_version
            )

    def _check_commit(self, frame: Frame, session: Session, commit: Commit) -> None:
        fresh = session.state is SessionState.IDLE
        if fresh != (commit.kind is CommitKind.TARGET_ONLY):
            raise self._unlisted(frame, session, f"COMMIT({commit.kind.name.lower()})")
        self._check_prefix(frame, session, commit.position, commit.prefix_digest)
        current = session.current
        if not fresh and current is not None:
            self._check_accepted(frame, current, commit)
        limit = self.sessions.agreement.max_prefix
        if commit.new_position > limit:
            raise Place.of(frame).body(
                RejectCode.VALUE_OUT_OF_BOUNDS,
                "new_position",
                f"at most {limit}, the agreed prefix",
                commit.new_position,
            )
        digest = session.prefix.digest_after(commit.tokens)
        if commit.new_digest != digest:
            raise Place.of(frame).body(
                RejectCode.COMMIT_DIGEST_MISMATCH, "new_digest", digest.hex(), commit.new_digest.hex()
            )

    def _check_accepted(self, frame: Frame, current: OpenRound, commit: Commit) -> None:
        depth, accepted = current.step.depth, commit.accepted
        least = depth if commit.kind is CommitKind.BONUS else 0
        most = depth - 1 if commit.kind is CommitKind.CORRECTION else depth
        if not least <= accepted <= most:
            expected = f"{least} to {most} of {depth} drafted, for {commit.kind.name.lower()}"
            raise Place.of(frame).body(RejectCode.COMMIT_OVER_DEPTH, "accepted", expected, accepted)
        for index in range(accepted if self.answers_seen else 0):
            if commit.tokens[index] != current.tokens[index]:
                raise Place.of(frame).body(
                    RejectCode.COMMIT_TOKEN_MISMATCH, "tokens", f"{current.tokens[index]}, as proposed",
                    int(commit.tokens[index]), index,
                )  # fmt: skip

    def _check_prefix(self, frame: Frame, session: Session, position: int, digest: bytes) -> None:
        if position != session.position:
            raise Place.of(frame).body(RejectCode.POSITION_MISMATCH, "position", session.position, position)
        own = session.prefix.digest()
        if digest != own:
            raise Place.of(frame).body(RejectCode.PREFIX_DIGEST_MISMATCH, "prefix_digest", own.hex(), digest.hex())

    def _unlisted(self, frame: Frame, session: Session, what: str) -> RemoteProtocolError:
        expected = f"no {what} in state {session.state}"
        return Place.of(frame).header(RejectCode.UNEXPECTED_MESSAGE, "message_type", expected, what)

    def _open_sessions(self) -> str:
        numbers = ", ".join(str(n) for n in self.sessions.open)
        return f"an open session ({numbers or 'none is'})"

    # Application: nothing below can fail.

    def _apply_reset(self, session: Session | None, reset: Reset) -> None:
        if session is None:
            prefix = self.sessions.prefix(reset.prefix_ids)
            self.sessions.add(Session(reset.session, reset.slot, reset.generation, prefix))
            return
        self.sessions.move(session, RESET_EVENTS[reset.reason])
        session.generation, session.round, session.current = reset.generation, 0, None
        session.proposal_seed = session.context_version = None
        if reset.reason is not ResetReason.CLOSE:
            session.prefix = self.sessions.prefix(reset.prefix_ids)

    def _apply_step(self, session: Session, step: Step) -> None:
        self.sessions.move(session, SessionEvent.STEP)
        session.round, session.current = step.round, OpenRound(step)
        session.proposal_seed, session.context_version = step.proposal_seed, step.context_version
        self.sessions.counters.steps += 1

    def _apply_commit(self, session: Session, commit: Commit) -> None:
        if session.state is SessionState.DRAFTING:
            self.sessions.move(session, SessionEvent.COMPLETION_OK)
        self.sessions.move(session, COMMIT_EVENTS[commit.kind])
        session.round = commit.round
        session.prefix.extend(np.asarray(commit.tokens))
        counters = self.sessions.counters
        counters.tokens += len(commit.tokens)
        if commit.kind is CommitKind.TARGET_ONLY:
            counters.target_only += 1
        else:
            counters.commits += 1
            counters.count_committed(commit.accepted)
