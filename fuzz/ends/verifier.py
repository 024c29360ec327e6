"""A Verifier under test: the verifier's frames of a script are commands, the worker's are bytes of a hostile peer."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import xxhash

from fuzz.ends.under_test import MAX_HELLO_IDS, EndUnderTest
from fuzz.independent import Fields, draw, fields_of, frame_problem, frames_of, row_of, ticket
from fuzz.outcome import Violation
from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import Agreed, Direction, Proposal, ProposalReady, SessionState, TargetOnly, Verifier
from pp1wire.wire import Agreement, CommitKind, CompletionStatus, Hello, MessageType, ResetReason

__all__ = ["VerifierUnderTest"]

_Key = tuple[int, int, int]
_GIVEN_UP = {f"completion_{status.name.lower()}" for status in CompletionStatus}


class VerifierUnderTest(EndUnderTest):
    """A real Verifier.

    Args:
        offer: its HELLO.
        plan: the commands to come, in order: a RESET does not carry the seed, so it is read off the STEP that follows.
        retain: whether to hold every proposal until the end, as a slow consumer does.
    """

    own: ClassVar[Direction] = Direction.VERIFIER
    peer: ClassVar[Direction] = Direction.WORKER

    def __init__(self, offer: Hello, plan: Sequence[Fields], retain: bool) -> None:
        self.verifier = Verifier(offer)
        super().__init__(self.verifier)
        self._plan = deque(plan)
        self.now = 0.0
        self.retain = retain
        self._steps: dict[_Key, Fields] = {}
        self._held: list[tuple[Proposal, bytes]] = []
        self.command(lambda: self.verifier.start(self.now), "offer")

    def own_turn(self, fields: Fields) -> None:
        """Do what a frame asks for, with whatever numbers it has."""
        self._plan.popleft()
        verifier, session = self.verifier, fields["header.session"]
        match fields["header.message_type"]:
            case MessageType.STEP:
                wanted = {"depth": fields["depth"], "temperature": fields["temperature"], "support": fields["support"]}
                self.command(lambda: verifier.step(session, self.now, **wanted), "STEP")
            case MessageType.COMMIT:
                self.command(lambda: self._commit(fields), "COMMIT")
            case MessageType.RESET:
                self.command(lambda: self._reset(fields), "RESET")

    def peer_turn(self, data: bytes) -> None:
        """Let the worker send `data`."""
        rows = self.verifier.counters.rows
        events = self.take(data, lambda d: self.verifier.receive(d, self.now))
        self.words += ["REPLY"] * (self.verifier.counters.rows - rows)
        for event in events:
            if isinstance(event, Agreed):
                self.words.append("HELLO")
            elif isinstance(event, ProposalReady):
                self.words.append("COMPLETION")
                self._check_proposal(event.proposal)
            elif isinstance(event, TargetOnly):
                if event.reason in _GIVEN_UP:
                    self.words.append("COMPLETION")
                self._check_target_only(event)
        self.flush()

    def is_fresh(self, frame: bytes) -> bool:
        """Whether a frame names the latest STEP of its session."""
        fields = fields_of(frame)
        session = fields["header.session"]
        steps = [key for key in self._steps if key[0] == session]
        return steps[-1:] == [_key(fields)]

    def clock_turn(self) -> None:
        """A second passes: every round is late."""
        self.now += 1.0
        for event in self.verifier.check_deadlines(self.now):
            if isinstance(event, TargetOnly):
                self._check_target_only(event)
                self.words.append("deadline")
        self.flush()

    def flush(self) -> bytes:
        """Send what is queued, and note the STEPs."""
        sent = super().flush()
        for frame in frames_of(sent):
            if frame[6] == MessageType.STEP:
                fields = fields_of(frame)
                self._steps[_key(fields)] = fields
        return sent

    def end_of_input(self) -> None:
        """The worker sends nothing more; what a consumer held is still there."""
        self.finish(self.verifier.eof)
        for proposal, rows in self._held:
            if _rows(proposal) != rows:
                raise Violation(f"{proposal} changed while it was held")
            proposal.release()
        pool = self.verifier._pool
        if pool is not None and pool.held():
            raise Violation(f"{pool.held()} buffers are held behind the end")

    # Commands.

    def _commit(self, fields: Fields) -> None:
        session, tokens = fields["header.session"], fields["tokens"][: fields["token_count"]]
        if fields["kind"] == CommitKind.TARGET_ONLY and len(tokens) == 1:
            self.verifier.target_only(session, tokens[0])
        else:
            self.verifier.commit(session, fields["accepted"], fields["kind"], tokens)

    def _reset(self, fields: Fields) -> None:
        session, ids = fields["header.session"], fields["prefix_ids"]
        following = (
            f for f in self._plan if f["header.message_type"] == MessageType.STEP and f["header.session"] == session
        )
        step = next(following, None)
        seed, context = (step["proposal_seed"], step["context_version"]) if step is not None else (0, 0)
        match fields["reason"]:
            case ResetReason.OPEN:
                self.verifier.open(ids, seed, context, generation=fields["header.generation"])
            case ResetReason.FAULT:
                self.verifier.discard(session)
            case ResetReason.CANCEL:
                self.verifier.cancel(session, prefix_ids=ids, proposal_seed=seed, context_version=context)
            case _:
                self.verifier.close(session)

    # Checks.

    def _check_target_only(self, event: TargetOnly) -> None:
        if self.over:
            return
        end, request = self.verifier, self.verifier._requests[event.session]
        after = end.session_state(event.session), end.generation(event.session)
        if after != (SessionState.IDLE, event.generation) or request.lease is not None:
            raise Violation(f"{event} came, but the session is {after}")

    def _check_proposal(self, proposal: Proposal) -> None:
        """Every rule of a proposal, from the bytes that were received."""
        agreement = self.verifier.agreement
        step = self._steps.get((proposal.session, proposal.generation, proposal.round))
        if agreement is None or step is None:
            raise Violation(f"{proposal} was never asked for")
        rows, end = self._answer(step)
        checked = [_row(row, step, i, agreement) for i, row in enumerate(rows)]
        if len(checked) != step["depth"] or proposal.tokens.tolist() != [token for token, _ in checked]:
            raise Violation(f"{proposal} has tokens {proposal.tokens.tolist()}, received were {checked}")
        _check_completion(end, rows, step, agreement)
        if self.over:
            # What followed it in the same bytes ended the connection, and with it the hold on the rows.
            if proposal.live:
                raise Violation(f"{proposal} is held by nobody, and its rows can be read")
            return
        if _rows(proposal) != b"".join(columns for _, columns in checked):
            raise Violation(f"{proposal} has other rows than were received")
        if self.retain:
            self._held.append((proposal.retain(), _rows(proposal)))

    def _answer(self, step: Fields) -> tuple[list[bytes], bytes]:
        """The REPLYs of a STEP up to its COMPLETION, and that."""
        rows: list[bytes] = []
        for frame in self.received:
            if frame[6] in (MessageType.REPLY, MessageType.COMPLETION) and _key(fields_of(frame)) == _key(step):
                if frame[6] == MessageType.COMPLETION:
                    return rows, frame
                rows.append(frame)
        raise Violation(f"a proposal without a COMPLETION after {len(rows)} rows")


@lru_cache(maxsize=256)
def own_offer(hello: Hello | None, default: Hello) -> Hello:
    """The offer of a script if a Verifier can make it and it is small, else `default`."""
    if hello is None or max(hello.padded_vocab_size, hello.max_support) > MAX_HELLO_IDS:
        return default
    try:
        Verifier(hello).start(0.0)
    except LocalProtocolError:
        return default
    return hello


def _key(fields: Fields) -> _Key:
    return fields["header.session"], fields["header.generation"], fields["header.round"]


def _rows(proposal: Proposal) -> bytes:
    pairs: list[Any] = [*zip(proposal.ids, proposal.q, strict=True)]
    return b"".join(ids.tobytes() + q.tobytes() for ids, q in pairs)


def _row(frame: bytes, step: Fields, index: int, agreement: Agreement) -> tuple[int, bytes]:
    """The token and columns of a row that is right in all respects."""
    problem, fields = frame_problem(frame, agreement), fields_of(frame)
    row = row_of(fields, agreement)
    if problem is not None or isinstance(row, str):
        raise Violation(f"row {index} of a proposal has a wrong {problem or row}")
    position = step["position"] + index
    number = ticket(step["proposal_seed"], step["header.generation"], step["header.round"], position)
    if fields["position"] != position or fields["header.slot"] != step["header.slot"]:
        raise Violation(f"row {index} of a proposal is at position {fields['position']}, not {position}")
    if agreement.id_entries and len(row[0]) > step["support"]:
        raise Violation(f"row {index} of a proposal has {len(row[0])} candidates, asked were {step['support']}")
    if draw(*row, number) != fields["token"]:
        raise Violation(f"row {index} of a proposal has token {fields['token']}, its ticket draws {draw(*row, number)}")
    return fields["token"], frame[96:]


def _check_completion(frame: bytes, rows: list[bytes], step: Fields, agreement: Agreement) -> None:
    end = fields_of(frame)
    sums = struct.pack(f"<{len(rows)}Q", *(int.from_bytes(row[48:56], "little") for row in rows))
    wanted = {
        "status": 0, "rows": len(rows), "position": step["position"], "context_version": step["context_version"],
        "reply_bytes": sum(map(len, rows)), "rows_checksum": xxhash.xxh3_128_digest(sums), "header.slot": step["header.slot"],
    }  # fmt: skip
    wrong = [name for name, value in wanted.items() if end[name] != value]
    if wrong or frame_problem(frame, agreement) is not None:
        raise Violation(f"a proposal was completed with a wrong {wrong or frame_problem(frame, agreement)}")
