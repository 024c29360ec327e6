"""What a worker may send: REPLY and COMPLETION, judged against the STEPs that the verifier issued.

The verifier runs this on what it receives, the offline judge on what was recorded, and the worker judges its own rows by the same
rules before it sends them. A fault costs the connection, the round, or nothing (stale), by the scope of its code.

Rows are judged one after another, each in the order of checks of docs/wire.md, so that the first fault does not depend
on how the bytes were cut; but all rows at hand are computed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pp1wire.protocol.places import Place
from pp1wire.protocol.session import OpenRound, Session, Sessions, draw_tickets
from pp1wire.protocol.tables import COMPLETION_EVENTS, SessionEvent, SessionState
from pp1wire.sampling import tickets_agree
from pp1wire.wire import (
    Agreement,
    Completion,
    CompletionStatus,
    Frame,
    Header,
    MessageType,
    RejectCode,
    RemoteProtocolError,
    ReplyBatch,
    Representation,
    decode_frame,
    read_rows,
    rows_checksum,
)
from pp1wire.wire._schema_v2 import MAX_DISCARDS_IN_A_ROW

__all__ = ["Completed", "Discarded", "Dropped", "Outcome", "RowRun", "RowsAccepted", "WorkerMessages", "first_fault"]


_WORKERS: Final = (MessageType.REPLY, MessageType.COMPLETION)

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowsAccepted:
    """Rows start … stop − 1 of `batch` passed every check; they are rows `first` … of the session's open round.

    The batch may view the received bytes: copy what outlives the next `feed`.
    """

    session: Session
    first: int
    batch: ReplyBatch
    start: int
    stop: int
    offset: int
    """Of the first row's frame in the stream."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A COMPLETION was checked and applied; with status ok the round's rows are a proposal."""

    session: Session
    completion: Completion
    offset: int


@dataclass(frozen=True, slots=True)
class Discarded:
    """A reject of proposal scope: the session's open round is void."""

    session: Session
    error: RemoteProtocolError
    offset: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A stale message: nothing changed."""

    error: RemoteProtocolError
    offset: int


Outcome = RowsAccepted | Completed | Discarded | Dropped


@dataclass(frozen=True, slots=True)
class RowRun:
    """Rows start … stop − 1 of a batch, all of one session's open round, from its row `first` on."""

    session: Session
    round: OpenRound
    first: int
    start: int
    stop: int


class WorkerMessages:
    """Judges and applies the messages of a worker, in their order.

    Args:
        sessions: the state to judge against and to move.
    """

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.discards_in_a_row = 0
        self._row_size = sessions.agreement.reply_frame_bytes

    def judge(self, frames: Sequence[Frame]) -> Iterator[Outcome]:
        """Check frames and apply them, one outcome at a time; the caller may move the sessions between two outcomes.

        Raises:
            RemoteProtocolError: of connection scope; the outcomes before it were yielded. One rejected round too many in a
                row is TOO_MANY_DISCARDS instead of its own code.
        """
        index = 0
        while index < len(frames):
            frame = frames[index]
            try:
                session = self._fresh(frame)
            except RemoteProtocolError as error:
                yield self._drop(error, frame.offset)
                index += 1
                continue
            if frame.header.message_type is MessageType.COMPLETION:
                yield from self._completion(session, frame)
                index += 1
                continue
            runs, taken = self._row_runs(frames, index)
            for outcome in self._rows(runs, frames[index : index + taken]):
                yield outcome
                if isinstance(outcome, Discarded):
                    break
            else:
                index += taken
                continue
            # Behind a discarded row the freshness of everything is judged anew.
            index = next(i for i in range(index, len(frames)) if frames[i].offset == outcome.offset) + 1

    def discard(self, session: Session) -> None:
        """The open round of `session` is void."""
        self.sessions.move(session, SessionEvent.DISCARD)

    # Identity: what the header alone tells.

    def awaited(self, number: int, slot: int, generation: int, round_: int) -> Session | None:
        """The session with this identity, if it is open and its round is being drafted."""
        session = self.sessions.open.get(number)
        if (
            session is None
            or session.state is not SessionState.DRAFTING
            or session.generation != generation
            or session.slot != slot
            or session.step_round != round_
        ):
            return None
        return session

    def _fresh(self, frame: Frame) -> Session:
        header = frame.header
        session = self.awaited(header.session, header.slot, header.generation, header.round)
        if session is not None and header.message_type in _WORKERS:
            return session
        raise self._not_fresh(frame)

    def _not_fresh(self, frame: Frame) -> RemoteProtocolError:
        header, place = frame.header, Place.of(frame)
        if header.message_type not in _WORKERS:
            return place.header(
                RejectCode.WRONG_DIRECTION, "message_type", "REPLY or COMPLETION", header.message_type.name
            )
        if header.session > self.sessions.last:
            expected = f"at most {self.sessions.last}"
            return place.header(RejectCode.SESSION_NEVER_ISSUED, "session", expected, header.session)
        session = self.sessions.open.get(header.session)
        if session is None:
            return place.header(RejectCode.STALE_SESSION, "session", "an open session", header.session)
        if header.slot != session.slot:
            return place.header(RejectCode.SLOT_MISMATCH, "slot", session.slot, header.slot)
        if header.generation != session.generation:
            above = header.generation > session.generation
            code = RejectCode.GENERATION_NEVER_ISSUED if above else RejectCode.STALE_GENERATION
            return place.header(code, "generation", session.generation, header.generation)
        if header.round != session.step_round:
            above = header.round > session.step_round
            code = RejectCode.ROUND_NEVER_ISSUED if above else RejectCode.STALE_ROUND
            return place.header(code, "round", session.step_round, header.round)
        return place.header(RejectCode.STALE_ROUND, "round", "a round that is being drafted", header.round)

    def _drop(self, error: RemoteProtocolError, offset: int) -> Dropped:
        if error.scope != "stale":
            raise error
        self.sessions.count_drop(*(error.identity or (0, 0, 0)), error.code.name.lower(), error)
        return Dropped(error, offset)

    # Rows.

    def _row_runs(self, frames: Sequence[Frame], index: int) -> tuple[list[RowRun], int]:
        """The fresh REPLYs from `index` on, as runs of one session each, and how many they are."""
        runs: list[RowRun] = []
        rows: dict[int, int] = {}
        end = index
        while end < len(frames) and frames[end].header.message_type is MessageType.REPLY:
            try:
                session = self._fresh(frames[end])
            except RemoteProtocolError:
                break  # judged again, and told, when its turn comes
            start, key = end, _key(frames[end].header)
            while end < len(frames) and _key(frames[end].header) == key:
                end += 1
            current = session.latest
            first = rows.setdefault(session.number, current.rows)
            rows[session.number] += end - start
            runs.append(RowRun(session, current, first, start - index, end - index))
        return runs, end - index

    def _rows(self, runs: list[RowRun], frames: Sequence[Frame]) -> Iterator[Outcome]:
        agreement = self.sessions.agreement
        batch, error = read_rows(frames, agreement)
        good = len(batch)
        fault = first_fault(batch, runs, [f.offset for f in frames], agreement)
        if fault is not None:
            good, error = fault
        for run in runs:
            stop = min(run.stop, good)
            if stop > run.start:
                yield self._accept(run, batch, stop, frames[run.start].offset)
            if run.start <= good < run.stop and error is not None:
                yield self._discard(run.session, error, frames[good].offset)
                return

    def _accept(self, run: RowRun, batch: ReplyBatch, stop: int, offset: int) -> RowsAccepted:
        self.record_rows(run, batch, stop)
        return RowsAccepted(run.session, run.first, batch, run.start, stop, offset)

    def record_rows(self, run: RowRun, batch: ReplyBatch, stop: int) -> None:
        """Enter rows that passed into their round."""
        rows = slice(run.start, stop)
        self.enter_rows(run.round, batch.tokens[rows].tolist(), batch.row_checksums[rows].tolist())

    def enter_rows(self, current: OpenRound, tokens: list[int], checksums: list[int]) -> None:
        """Enter rows into their round."""
        size, counters = self._row_size * len(tokens), self.sessions.counters
        current.tokens += tokens
        current.checksums += checksums
        current.reply_bytes += size
        counters.rows += len(tokens)
        counters.row_bytes += size

    # COMPLETION.

    def _completion(self, session: Session, frame: Frame) -> Iterator[Outcome]:
        try:
            completion = self.read_completion(session, frame)
        except RemoteProtocolError as error:
            yield self._discard(session, error, frame.offset)
            return
        self.complete(session, completion)
        yield Completed(session, completion, frame.offset)

    def read_completion(self, session: Session, frame: Frame) -> Completion:
        """The COMPLETION of an awaited round. Raises RemoteProtocolError unless it fits the rows."""
        completion = cast(Completion, decode_frame(frame, self.sessions.agreement))
        _check_completion(Place.of(frame), session.latest, completion)
        return completion

    def complete(self, session: Session, completion: Completion) -> None:
        """Apply a COMPLETION that passed."""
        self.sessions.move(session, COMPLETION_EVENTS[completion.status])
        if completion.status is CompletionStatus.OK:
            self.discards_in_a_row = 0
            self.sessions.counters.proposals += 1
        else:
            self.sessions.count_discard(session.latest, f"completion_{completion.status.name.lower()}")

    # Discards.

    def _discard(self, session: Session, error: RemoteProtocolError, offset: int) -> Discarded:
        self.discard(session)
        self.sessions.count_discard(session.latest, error.code.name.lower(), error)
        self.discards_in_a_row += 1
        if self.discards_in_a_row < MAX_DISCARDS_IN_A_ROW:
            return Discarded(session, error, offset)
        raise RemoteProtocolError(
            RejectCode.TOO_MANY_DISCARDS,
            offset=error.offset,
            path=error.path,
            expected=f"fewer than {MAX_DISCARDS_IN_A_ROW} rejected rounds in a row",
            actual=f"{self.discards_in_a_row}, the last for {error.code.name.lower()}",
            message_type=error.message_type,
            identity=error.identity,
        )


def first_fault(
    batch: ReplyBatch, runs: Sequence[RowRun], offsets: Sequence[int], agreement: Agreement
) -> tuple[int, RemoteProtocolError] | None:
    """The first row of canonical rows that breaks a rule of its round: position, support, ticket. None if all are right.

    Args:
        batch: n canonical rows, whose tokens have q above zero.
        runs: which rows belong to which open round; what lies behind row n is ignored.
        offsets: [≥ n], where each row's frame stands in the stream.
        agreement: gives the representation.
    """
    n = len(batch)
    if n == 0:
        return None
    draw_tickets(run.round for run in runs)
    expected, support, tickets = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for run in runs:
        stop = min(run.stop, n)
        size, step = stop - run.start, run.round.step
        if size <= 0:
            break
        expected[run.start : stop] = np.arange(run.first, run.first + size) + step.position
        support[run.start : stop] = step.support
        drawn = cast(Int64, run.round.tickets)[run.first : run.first + size]
        tickets[run.start : run.start + len(drawn)] = drawn
        # Rows behind the depth have no ticket; their position gives them away first.
        expected[run.start + len(drawn) : stop] = -1
    sparse = agreement.representation is Representation.SPARSE
    placed = batch.positions == expected
    within = batch.entry_counts <= support if sparse else np.ones(n, np.bool_)
    drawn_with = tickets_agree(
        batch.counts if sparse else batch.q, tickets, batch.tokens, batch.ids if sparse else None
    )
    bad = np.flatnonzero(~(placed & within & drawn_with))
    if not bad.size:
        return None
    index = int(bad[0])
    run = next(r for r in runs if index < r.stop)
    place = Place(offsets[index], MessageType.REPLY, (run.session.number, run.session.generation, run.round.step.round))
    if not placed[index]:
        return index, _position_fault(place, run, int(batch.positions[index]), index - run.start)
    if not within[index]:
        entries, most = int(batch.entry_counts[index]), int(support[index])
        return index, place.body(RejectCode.SUPPORT_OVER_STEP, "entry_count", f"at most {most}", entries)
    expected_token = f"the token that owns ticket {int(tickets[index])}"
    return index, place.body(RejectCode.TICKET_MISMATCH, "token", expected_token, int(batch.tokens[index]))


def _position_fault(place: Place, run: RowRun, position: int, behind: int) -> RemoteProtocolError:
    step = run.round.step
    following = step.position + run.first + behind
    if step.position <= position < following:
        return place.body(RejectCode.REPLY_POSITION_DUPLICATE, "position", following, position)
    end = step.position + step.depth
    if position >= end:
        return place.body(RejectCode.TOO_MANY_ROWS, "position", f"below {end}", position)
    return place.body(RejectCode.REPLY_POSITION_MISMATCH, "position", following, position)


def _check_completion(place: Place, current: OpenRound, completion: Completion) -> None:
    step = current.step
    if completion.position != step.position:
        raise place.body(RejectCode.COMPLETION_POSITION_MISMATCH, "position", step.position, completion.position)
    if completion.context_version != step.context_version:
        raise place.body(
            RejectCode.COMPLETION_CONTEXT_MISMATCH, "context_version", step.context_version, completion.context_version
        )
    if completion.rows != current.rows:
        raise place.body(RejectCode.COMPLETION_ROWS_MISMATCH, "rows", f"{current.rows} received", completion.rows)
    if completion.status is CompletionStatus.OK and completion.rows != step.depth:
        raise place.body(RejectCode.COMPLETION_ROWS_MISMATCH, "rows", f"the depth, {step.depth}", completion.rows)
    if completion.reply_bytes != current.reply_bytes:
        raise place.body(
            RejectCode.COMPLETION_BYTES_MISMATCH, "reply_bytes", current.reply_bytes, completion.reply_bytes
        )
    checksum = rows_checksum(current.checksums)
    if completion.rows_checksum != checksum:
        raise place.body(
            RejectCode.COMPLETION_CHECKSUM_MISMATCH, "rows_checksum", checksum.hex(), completion.rows_checksum.hex()
        )


def _key(header: Header) -> tuple[int, int, int, int, int]:
    return header.message_type, header.session, header.slot, header.generation, header.round
