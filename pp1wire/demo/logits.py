"""What the demo's models computed, written down for `pp1wire audit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pp1wire.audit import Kind, RoundKey, metadata
from pp1wire.audit.logit_writer import Spool, Spooled, read_spool, write_logits
from pp1wire.capture.observing import Seen
from pp1wire.demo.settings import Settings
from pp1wire.net import DraftModel, LogitTarget, TargetModel
from pp1wire.net.errors import TargetModelError
from pp1wire.sampling import proposal_seed, verification_seed
from pp1wire.wire import Commit, CommitKind, Step, prefix_digest

__all__ = ["Logits", "SpoolingDraft", "SpoolingTarget"]

Tokens = npt.NDArray[np.int32]
_Name = tuple[str, str, tuple[int, ...]]


class SpoolingDraft:
    """A draft model that writes down every row it returns; `model` must return float32 arrays."""

    def __init__(self, model: DraftModel, spool: Spool) -> None:
        self._model, self._spool = model, spool

    def open(self, capacity: int, /) -> _Draft:
        """A request's state."""
        return _Draft(self._model.open(capacity), self._spool)


class _Draft:
    def __init__(self, state: Any, spool: Spool) -> None:
        self._state, self._spool = state, spool

    def logits(self, prefix: Tokens, drafted: Sequence[int], /) -> Any:
        row = self._state.logits(prefix, drafted)
        self._spool.add(Kind.DRAFT, prefix_digest(prefix), drafted, row[None, :])
        return row


class SpoolingTarget:
    """A target model that writes down every row it returns; `model` must return float32 logits."""

    def __init__(self, model: TargetModel, spool: Spool) -> None:
        self._model, self._spool = model, spool

    def open(self, capacity: int, /) -> _Target:
        """A request's state."""
        state = self._model.open(capacity)
        if not isinstance(state, LogitTarget):
            raise TargetModelError("target model: expected a state with logits")
        return _Target(state, self._spool)


class _Target:
    def __init__(self, state: LogitTarget, spool: Spool) -> None:
        self._state, self._spool = state, spool

    def logits(self, prefix: Tokens, drafted: Tokens, /) -> Any:
        rows = self._state.logits(prefix, drafted)
        self._spool.add(Kind.TARGET, prefix_digest(prefix), drafted.tolist(), rows)
        return rows


class Logits:
    """The spools of one run beside the file that they become, and the rounds that their rows belong to.

    The rounds are read off the recording, as an observer of its judging: the models know none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spools: list[Path] = []
        self._roots: list[int] = []
        self._steps: dict[tuple[int, int], tuple[Step, list[int]]] = {}
        self._names: dict[str, list[_Name]] = {}

    def new_spool(self) -> Path:
        """The path of another spool."""
        path = self._path.with_name(f"{self._path.name}.spool{len(self._spools)}")
        self._spools.append(path)
        return path

    def add_root(self, root: int) -> None:
        """A request has this root seed."""
        self._roots.append(root)

    def __call__(self, seen: Seen) -> None:
        """Take the next verdict on the recording."""
        verdict, message = seen.verdict, seen.verdict.message
        if verdict.batch is not None and verdict.step is not None:
            step = verdict.step
            tokens = self._steps.setdefault((seen.connection, step.session), (step, []))[1]
            for index in range(verdict.start, verdict.stop):
                name = (str(Kind.DRAFT), step.prefix_digest.hex(), tuple(tokens))
                self._names.setdefault(_array(Kind.DRAFT, seen, step), []).append(name)
                tokens.append(int(verdict.batch.tokens[index]))
        elif isinstance(message, Step):
            self._steps[seen.connection, message.session] = message, []
        elif isinstance(message, Commit):
            alone = message.kind is CommitKind.TARGET_ONLY
            drafted = () if alone else tuple(self._steps[seen.connection, message.session][1])
            name = (str(Kind.TARGET), message.prefix_digest.hex(), drafted)
            self._names[_array(Kind.TARGET, seen, message)] = [name]

    def write(self, settings: Settings) -> None:
        """Write the file."""
        records: dict[_Name, Spooled] = {}
        for path in self._spools:
            if path.exists():
                records.update(((one.kind, one.prefix, one.drafted), one) for one in read_spool(path))
        arrays = {}
        for array, names in self._names.items():
            if all(name in records for name in names):
                arrays[array] = [records[name] for name in names]
        seeds = [(proposal_seed(root), verification_seed(root)) for root in dict.fromkeys(self._roots)]
        about = metadata(
            model=settings.model, temperature=settings.temperature, support=settings.support, precision="float32",
            weights="draft logits before, and target logits after their temperature; a STEP carries the draft's",
        )  # fmt: skip
        write_logits(self._path, arrays, np.array(seeds, np.uint64).reshape(-1, 2), about)

    def clean(self) -> None:
        """Remove the spools."""
        for path in self._spools:
            path.unlink(missing_ok=True)


def _array(kind: Kind, seen: Seen, message: Step | Commit) -> str:
    key = RoundKey(seen.connection, message.session, message.generation, message.round)
    return "/".join(str(part) for part in (kind, *key))
