"""Watches the judging of a capture, and recomputes what its rounds were made from."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pp1wire.audit.errors import AuditError
from pp1wire.audit.logit_files import Kind, LogitFiles, RoundKey
from pp1wire.audit.randomness import MOST_ROUNDS, Randomness
from pp1wire.audit.recompute import compare_row
from pp1wire.audit.replay import Wrong, replay_commit, replay_target_only
from pp1wire.audit.result import AuditCode, Findings, Result
from pp1wire.audit.surprise import Surprise, row_surprise
from pp1wire.capture.findings import Finding, Severity
from pp1wire.capture.observing import Seen
from pp1wire.capture.validate import Validator
from pp1wire.sampling import HostSampler, Key, SamplingError
from pp1wire.wire import Commit, CommitKind, Hello, Reset, Step

__all__ = ["Auditor", "audit"]

Row = tuple[npt.NDArray[Any], npt.NDArray[Any]]

_MOST_SESSIONS: Final = 1 << 14
"""Sessions followed at a time; beyond that the one silent for longest is forgotten, and its COMMITs are left out."""
_MOST_CONNECTIONS: Final = 1 << 12
"""Connections with a sum of their own."""
_MOST_HELD: Final = 256 << 20
"""Bytes of rows held for COMMITs to come."""


@dataclass(slots=True)
class _Session:
    proposal_seed: int | None = None
    step: Step | None = None
    rows: list[Row] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    size: int = 0
    given_up: bool = False
    drawn_before: bool = False
    repeats: bool = False


def audit(
    capture: str | os.PathLike[str],
    logits: Iterable[str | os.PathLike[str]] = (),
    *,
    backend: str = "numpy",
    seeds: Mapping[int, int] | None = None,
    ports: Collection[int] = (),
    max_findings: int = 1000,
    progress: Callable[[str, int], None] | None = None,
) -> Result:
    """Judge a capture, and recompute its rounds from files of logits.

    What is wrong with the capture is a finding, never an exception.

    Args:
        capture: pcapng, pcap, or a raw one-way stream, also compressed; "-" is the standard input.
        logits: npz or safetensors files (docs/audit.md has the layout); none, and only tickets and steering are looked at.
        backend: numpy, torch or triton: what recomputes; the result is the same.
        seeds: verification seeds by proposal seed, beside those of the files.
        ports: as of `pp1wire.capture.validate`.
        max_findings: kept of each severity; all are counted.
        progress: as of `pp1wire.capture.validate`.

    Raises:
        AuditError: a file of logits that cannot be opened, or is none.
        SamplingError: an unknown backend; BackendUnavailable where it is not installed.
    """
    sampler = HostSampler(backend)
    with LogitFiles(logits) as arrays:
        arrays.seeds.update(seeds or {})
        auditor = Auditor(arrays, sampler, max_findings=max_findings)
        validator = Validator(ports=ports, max_findings=max_findings, progress=progress, observe=auditor)
        return auditor.finish(validator, validator.add_path(capture).name)


class Auditor:
    """An observer of `Validator`; `finish` when the capture is over.

    Args:
        arrays: what rounds were made from.
        sampler: what recomputes.
        max_findings: kept of each severity.
        most_rounds: whose tickets are remembered.
        most_held: bytes of rows held for COMMITs to come.
    """

    def __init__(
        self,
        arrays: LogitFiles,
        sampler: HostSampler,
        *,
        max_findings: int = 1000,
        most_rounds: int = MOST_ROUNDS,
        most_held: int = _MOST_HELD,
    ) -> None:
        self._arrays = arrays
        self._sampler = sampler
        self._most_held = most_held
        self._held = 0
        self._sessions: OrderedDict[tuple[int, int], _Session] = OrderedDict()
        self._vocabularies: dict[int, int] = {}
        self._randomness = Randomness(most_rounds)
        self._result = Result(Validator().result, sampler.backend)
        self._findings = Findings(self._result, max_findings)
        self._targets = bool(arrays.kinds & {Kind.TARGET, Kind.TARGET_PROBABILITIES})

    def __call__(self, seen: Seen) -> None:
        """Take the next verdict."""
        verdict = seen.verdict
        message = verdict.message
        if verdict.batch is not None:
            for index in range(verdict.start, verdict.stop):
                self._row(seen, verdict.step, index)
        elif isinstance(message, Hello):
            if len(self._vocabularies) < _MOST_SESSIONS:
                self._vocabularies[seen.connection] = message.vocab_size
        elif isinstance(message, Step):
            self._step(seen, message)
        elif isinstance(message, Commit):
            self._commit(seen, message)
        elif isinstance(message, Reset):
            self._clear(self._session(seen.connection, message.session))
            if message.reason.name == "CLOSE":
                self._sessions.pop((seen.connection, message.session), None)

    def finish(self, validator: Validator, file: str) -> Result:
        """The result, once the capture was judged."""
        result = self._result
        result.validation = validator.result
        result.steps_not_compared = self._randomness.forgotten
        for name, one in (
            ("all rows", result.surprise),
            *((f"position {n} of a round", result.by_position[n]) for n in sorted(result.by_position)),
        ):
            if one.steered:
                way = "less" if one.sum > 0 else "more"
                message = (
                    f"{name}: the tokens are {way} likely than honest drawing makes them: "
                    f"Σ(−ln q(x) − H(q)) = {one.sum:+.3f} nats over {one.rows} rows, variance {one.variance:.3f}, "
                    f"evidence {one.evidence:.3g}; the worker picks q by its tickets"
                )
                self._findings.add(Finding(Severity.INVALID, AuditCode.STEERED, message, file, direction="worker"))
        for reason, count in sorted(result.left_out.items()):
            message = f"{count} × {reason}"
            self._findings.add(Finding(Severity.INCOMPLETE, AuditCode.NOT_AUDITED, message, file))
        unused = self._arrays.unused
        result.unused_arrays = len(unused)
        if unused:
            message = f"{len(unused)} arrays belong to no audited round of this capture, the first {unused[0]}"
            self._findings.add(Finding(Severity.INCOMPLETE, AuditCode.UNUSED_ARRAYS, message, file))
        self._findings.finish()
        return result

    # The worker's part.

    def _step(self, seen: Seen, step: Step) -> None:
        session = self._session(seen.connection, step.session)
        self._clear(session)
        session.step, session.proposal_seed = step, step.proposal_seed
        self._result.steps += 1
        before = self._randomness.add(seen.connection, step)
        session.drawn_before = before is not None
        if before is None:
            return
        self._result.steps_reused += 1
        where = f"connection {before.connection}, session {before.session}"
        if before.prefix != step.prefix_digest:
            message = (
                f"its tickets were drawn before, in {where}, behind other tokens: one seed, generation and round, and positions "
                f"{before.position} to {before.position + before.depth - 1}; two requests must have two root seeds"
            )
            self._find(seen, step, Severity.INVALID, AuditCode.REUSED_TICKETS, message, path="proposal_seed")
        elif not session.repeats:
            session.repeats = True
            message = f"a request that was there before, in {where}, with the same seed and the same tokens"
            self._find(seen, step, Severity.NOTE, AuditCode.REPEATED_REQUEST, message, path="proposal_seed")

    def _row(self, seen: Seen, step: Step | None, index: int) -> None:
        batch = seen.verdict.batch
        if batch is None:
            return
        result = self._result
        result.rows += 1
        row, token = batch.row(index), int(batch.tokens[index])
        place = None if step is None else int(batch.positions[index]) - step.position
        if step is None or not self._session(seen.connection, step.session).drawn_before:
            self._weigh(seen, row, token, place)
        if step is None or place is None:
            if self._arrays.kinds:
                result.left_out["row without its STEP in the capture"] += 1
            return
        self._keep(seen, step, place, row, token)
        if Kind.DRAFT not in self._arrays.kinds:
            return
        logits = self._array(seen, step, Kind.DRAFT, step.depth)
        if logits is None or place >= len(logits):
            result.left_out["row without draft logits in the files"] += 1
            return
        try:
            difference = compare_row(logits[place], step, place, row, token, self._sampler)
        except SamplingError as error:
            self._unusable(seen, step, f"{self._name(seen, step, Kind.DRAFT)}[{place}]: {error}")
            return
        result.rows_recomputed += 1
        if difference is not None:
            result.rows_wrong += 1
            code = AuditCode.WRONG_TOKEN if difference.id is None else AuditCode.WRONG_Q
            path = "token" if difference.id is None else f"count of id {difference.id}"
            self._find(
                seen, step, Severity.INVALID, code, f"position {step.position + place}: {difference.message}", path=path,
                expected=str(difference.expected), actual=str(difference.actual),
            )  # fmt: skip

    def _weigh(self, seen: Seen, row: Row, token: int, place: int | None) -> None:
        """Add a row to the sums. One with tickets that were drawn before tells nothing new, and would break their law."""
        ids, counts = row
        surprise = row_surprise(counts, int(counts[np.searchsorted(ids, token)]))
        result = self._result
        result.surprise.add(surprise)
        if place is not None:
            result.by_position.setdefault(place, Surprise()).add(surprise)
        if seen.connection in result.by_connection or len(result.by_connection) < _MOST_CONNECTIONS:
            result.by_connection.setdefault(seen.connection, Surprise()).add(surprise)

    def _keep(self, seen: Seen, step: Step, place: int, row: Row, token: int) -> None:
        """Hold a row for the COMMIT that decides about it."""
        session = self._session(seen.connection, step.session)
        if not self._targets or session.step != step or session.given_up:
            return
        size = row[0].nbytes + row[1].nbytes
        if place != len(session.rows) or self._held + size > self._most_held:
            self._clear(session)
            session.step, session.given_up = step, True
            return
        session.rows.append((row[0].copy(), row[1].copy()))
        session.tokens.append(token)
        session.size += size
        self._held += size

    # The verifier's part.

    def _commit(self, seen: Seen, commit: Commit) -> None:
        self._result.commits += 1
        session = self._session(seen.connection, commit.session)
        if self._targets:
            self._replay(seen, session, commit)
        self._clear(session)

    def _replay(self, seen: Seen, session: _Session, commit: Commit) -> None:
        result = self._result
        alone = commit.kind is CommitKind.TARGET_ONLY
        depth = 0 if alone else len(session.rows)
        if not alone and (session.step is None or depth != session.step.depth):
            result.left_out["COMMIT whose proposal is not all in the capture, or could not be held"] += 1
            return
        kind = next(
            (k for k in (Kind.TARGET, Kind.TARGET_PROBABILITIES) if self._arrays.has(k, _key(seen, commit))), None
        )
        if kind is None:
            result.left_out["COMMIT without target rows in the files"] += 1
            return
        seed = None if session.proposal_seed is None else self._arrays.seeds.get(session.proposal_seed)
        if seed is None:
            result.left_out["COMMIT without a verification seed"] += 1
            return
        target = self._array(seen, commit, kind, depth + 1)
        if target is None:
            result.left_out["COMMIT without usable target rows in the files"] += 1
            return
        key = Key(seed, commit.generation, commit.round, commit.position)
        by_logits = kind is Kind.TARGET
        wrong: Wrong | None
        try:
            if len(target) != depth + 1:
                raise AuditError(f"expected {depth + 1} rows, got {len(target)}")
            if alone:
                wrong = replay_target_only(target, key, commit, self._sampler, logits=by_logits)
            else:
                wrong = replay_commit(
                    target, session.rows, session.tokens, key, commit, self._sampler, logits=by_logits
                )
        except (SamplingError, AuditError) as error:
            self._unusable(seen, commit, f"{self._name(seen, commit, kind)}: {error}")
            return
        result.commits_replayed += 1
        if wrong is not None:
            result.commits_wrong += 1
            message = (
                f"position {wrong.position}: {wrong.field}: expected {wrong.expected}, got {wrong.actual}; {wrong.why}"
            )
            self._find(
                seen, commit, Severity.INVALID, AuditCode.WRONG_COMMIT, message, path=wrong.field, expected=wrong.expected,
                actual=wrong.actual,
            )  # fmt: skip

    # Both.

    def _session(self, connection: int, number: int) -> _Session:
        place = connection, number
        session = self._sessions.get(place)
        if session is None:
            session = self._sessions[place] = _Session()
            if len(self._sessions) > _MOST_SESSIONS:
                self._clear(self._sessions.popitem(last=False)[1])
        else:
            self._sessions.move_to_end(place)
        return session

    def _clear(self, session: _Session) -> None:
        self._held -= session.size
        session.step, session.rows, session.tokens, session.size, session.given_up = None, [], [], 0, False

    def _array(self, seen: Seen, message: Step | Commit, kind: Kind, most_rows: int) -> npt.NDArray[Any] | None:
        try:
            return self._arrays.read(kind, _key(seen, message), most_rows, self._vocabularies.get(seen.connection))
        except AuditError as error:
            self._unusable(seen, message, str(error))
            return None

    def _name(self, seen: Seen, message: Step | Commit, kind: Kind) -> str:
        return "/".join(str(part) for part in (kind, *_key(seen, message)))

    def _unusable(self, seen: Seen, message: Step | Commit, what: str) -> None:
        self._find(seen, message, Severity.UNREADABLE, AuditCode.UNUSABLE_ARRAY, what)

    def _find(
        self, seen: Seen, message: Step | Commit, severity: Severity, code: AuditCode, what: str, *, path: str | None = None,
        expected: str | None = None, actual: str | None = None,
    ) -> None:  # fmt: skip
        identity = message.session, message.generation, message.round
        self._findings.add(
            Finding(
                severity, code, what, seen.file, packet=seen.packet, time_ns=seen.time_ns, connection=seen.connection,
                endpoints=seen.endpoints, direction=str(seen.direction), offset=seen.verdict.offset, path=path, expected=expected,
                actual=actual, identity=identity, uncertain=seen.uncertain,
            )
        )  # fmt: skip


def _key(seen: Seen, message: Step | Commit) -> RoundKey:
    return RoundKey(seen.connection, message.session, message.generation, message.round)
