"""Judging many messages of both directions at once, for who has a recording: the contents of all rows in one pass.

Everything is tried on a copy of the sessions, by the functions that judge one message after another; only the contents of
rows are put off to the end, where those of all rounds are computed together. That is right because it is an attempt: if all rows
pass, the order in which they were looked at does not matter, and if anything does not, nothing has happened, and the caller goes
through the messages one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pp1wire.protocol.endpoint import Live
from pp1wire.protocol.judged import Direction, Judged
from pp1wire.protocol.session import OpenRound, Session
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.protocol.worker_messages import RowRun, WorkerMessages, first_fault
from pp1wire.wire import Agreement, Frame, FrameSplitter, MessageType, RemoteProtocolError, ReplyBatch
from pp1wire.wire.frame_columns import FrameColumns, read_columns
from pp1wire.wire.rows import read_rows_together

__all__ = ["Piece", "judge_batch"]

_REPLY: Final = int(MessageType.REPLY)
_COMPLETION: Final = int(MessageType.COMPLETION)


class Piece(NamedTuple):
    """The next bytes of one direction."""

    direction: Direction
    data: bytes | memoryview


def judge_batch(
    live: Live, verifier: FrameSplitter, worker: FrameSplitter, pieces: Sequence[Piece], *, each_row: bool
) -> list[tuple[int, Judged]] | None:
    """Judge pieces of both directions; None if not all is as it should be, and then nothing has happened.

    Args:
        live: the judge of messages, whose sessions move on.
        verifier, worker: hold what came before, and move on.
        pieces: in the order in which they were captured.
        each_row: one verdict a row in place of one for all rows of a round, at the first.

    Returns:
        Verdicts, each with the index of the piece that settles it, in the order of the pieces.
    """
    streams = [_Stream.of(Direction.VERIFIER, verifier, pieces), _Stream.of(Direction.WORKER, worker, pieces)]
    asked, answered = (stream.columns(live.agreement) for stream in streams)
    if asked is None or answered is None:
        return None
    pieces_of = np.concatenate(
        [stream.completed_by(columns) for stream, columns in zip(streams, (asked, answered), strict=True)]
    )
    # A piece is of one direction, so the order of the pieces is all that there is to say.
    turns = np.argsort(pieces_of, kind="stable").tolist()
    attempt = _Attempt(
        live, _Frames(asked, verifier.offset, live.agreement), _Frames(answered, worker.offset, live.agreement)
    )
    try:
        verdicts = attempt.judge(turns, pieces_of.tolist(), each_row=each_row)
    except RemoteProtocolError:
        return None
    if verdicts is not None:
        attempt.keep()
        streams[0].pass_over(asked)
        streams[1].pass_over(answered)
    return verdicts


@dataclass(slots=True)
class _Stream:
    """One direction: what waits in its splitter, and the pieces behind that."""

    splitter: FrameSplitter
    places: list[int]
    """Which of all pieces are of this direction."""
    parts: list[bytes | memoryview]

    @classmethod
    def of(cls, direction: Direction, splitter: FrameSplitter, pieces: Sequence[Piece]) -> _Stream:
        places = [place for place, piece in enumerate(pieces) if piece.direction is direction]
        return cls(splitter, places, [pieces[place].data for place in places])

    def columns(self, agreement: Agreement) -> FrameColumns | None:
        return read_columns(b"".join((self.splitter.held, *self.parts)), agreement, self.splitter.next_sequence)

    def completed_by(self, columns: FrameColumns) -> npt.NDArray[np.intp]:
        """The piece that brought each frame's last byte."""
        ends = self.splitter.pending_bytes + np.cumsum([len(part) for part in self.parts], dtype=np.intp)
        places = np.array(self.places, np.intp)
        return places[np.searchsorted(ends, np.array(columns.bounds[1:], np.intp))]

    def pass_over(self, columns: FrameColumns) -> None:
        sequence = columns.sequences[-1] + 1 if columns.sequences else self.splitter.next_sequence
        size = columns.bounds[-1]
        self.splitter.pass_over(size, sequence, columns.data[size:])


class _Frames:
    """The frames of one direction."""

    def __init__(self, columns: FrameColumns, offset: int, agreement: Agreement) -> None:
        self.columns = columns
        self._offset = offset
        self._agreement = agreement
        self._view = memoryview(columns.data)

    def offset(self, index: int) -> int:
        return self._offset + self.columns.bounds[index]

    def __getitem__(self, index: int) -> Frame:
        return self.columns.frame(index, self._view, self._offset, self._agreement)


@dataclass(slots=True, eq=False)
class _Run:
    """The rows of one round that came in this batch."""

    session: Session
    round: OpenRound
    identity: tuple[int, int, int, int]
    """(session, slot, generation, round) of each."""
    first: int
    frames: list[int] = field(default_factory=list)


class _Put(NamedTuple):
    """A verdict on rows, until their contents are judged: rows from `place` of the run on."""

    offset: int
    run: _Run
    place: int


class _Attempt:
    """Judges on a copy of the sessions."""

    def __init__(self, live: Live, asked: _Frames, answered: _Frames) -> None:
        self._live = live
        self._sessions = live.sessions.copy()
        self._verifier = VerifierMessages(self._sessions, answers_seen=live.from_verifier.answers_seen)
        self._worker = WorkerMessages(self._sessions)
        self._worker.discards_in_a_row = live.from_worker.discards_in_a_row
        self._asked = asked
        self._answered = answered
        self._runs: list[_Run] = []
        self._latest: dict[int, _Run] = {}  # by session: rows still come

    def keep(self) -> None:
        """What was tried is so."""
        self._live.sessions.become(self._sessions)
        self._live.from_worker.discards_in_a_row = self._worker.discards_in_a_row

    def judge(self, turns: list[int], pieces: list[int], *, each_row: bool) -> list[tuple[int, Judged]] | None:
        """The verdicts; None or RemoteProtocolError if not all is right.

        Args:
            turns: frames in their order, those of the worker counted behind those of the verifier.
            pieces: which one completed each frame.
            each_row: see `judge_batch`.
        """
        asked = len(self._asked.columns.types)
        columns, latest = self._answered.columns, self._latest
        types = columns.types
        identities = list(zip(columns.sessions, columns.slots, columns.generations, columns.rounds, strict=True))
        verdicts: list[tuple[int, Judged | _Put]] = []
        for turn in turns:
            piece, index = pieces[turn], turn - asked
            if index < 0:
                frame = self._asked[turn]
                self._end(frame.header.session)
                verdicts.append((piece, Judged(Direction.VERIFIER, frame.offset, self._verifier.judge(frame))))
                continue
            identity = identities[index]
            number = identity[0]
            run = latest.get(number)
            is_row = types[index] == _REPLY
            if run is None or run.identity != identity or not is_row:
                self._end(number)
                session = self._worker.awaited(*identity)
                if session is None:
                    return None
                if types[index] == _COMPLETION:
                    verdicts.append((piece, self._completion(session, index)))
                    continue
                if not is_row:
                    return None
                run = self._begin(session, identity)
            # Its contents are judged with those of all others.
            run.frames.append(index)
            if each_row or len(run.frames) == 1:
                verdicts.append((piece, _Put(self._answered.offset(index), run, len(run.frames) - 1)))
        for number in list(latest):
            self._end(number)
        batch = self._contents()
        if batch is None:
            return None
        starts = dict(zip(self._runs, accumulate((len(r.frames) for r in self._runs), initial=0), strict=False))
        return [(p, _rows(v, batch, starts, each_row) if isinstance(v, _Put) else v) for p, v in verdicts]

    def _completion(self, session: Session, index: int) -> Judged:
        frame = self._answered[index]
        completion = self._worker.read_completion(session, frame)
        step = session.latest.step
        self._worker.complete(session, completion)
        return Judged(Direction.WORKER, frame.offset, completion, step=step)

    def _begin(self, session: Session, identity: tuple[int, int, int, int]) -> _Run:
        run = _Run(session, session.latest, identity, session.latest.rows)
        self._latest[session.number] = run
        self._runs.append(run)
        return run

    def _end(self, number: int) -> None:
        """Enter the rows of a session into its round, before a message that looks at them or ends it."""
        run = self._latest.pop(number, None)
        if run is not None:
            columns = self._answered.columns
            sums = columns.body_sums
            self._worker.enter_rows(
                run.round, [columns.row_token(i) for i in run.frames], [sums[i] for i in run.frames]
            )

    def _contents(self) -> ReplyBatch | None:
        """All rows, run by run; None if one is not as it should be."""
        frames = [index for run in self._runs for index in run.frames]
        agreement = self._live.agreement
        batch = read_rows_together(self._answered.columns, frames, agreement)
        if batch is None:
            return None
        runs, start = [], 0
        for run in self._runs:
            stop = start + len(run.frames)
            runs.append(RowRun(run.session, run.round, run.first, start, stop))
            start = stop
        return batch if first_fault(batch, runs, [0] * len(frames), agreement) is None else None


def _rows(put: _Put, batch: ReplyBatch, starts: dict[_Run, int], each_row: bool) -> Judged:
    start = starts[put.run] + put.place
    stop = start + 1 if each_row else start + len(put.run.frames)
    return Judged(Direction.WORKER, put.offset, batch=batch, start=start, stop=stop, step=put.run.round.step)
