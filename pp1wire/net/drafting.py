"""One round on the worker: the model's logits, the chain drawn from them, and the rows in columns. Runs in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pp1wire.net.errors import CapacityError, NetError, summary
from pp1wire.net.models import DraftModel, DraftState, Tokens
from pp1wire.sampling import HostSampler, Key, SamplingError
from pp1wire.wire import Agreement, CompletionStatus, ReplyBatch, Step

__all__ = ["DraftFailed", "Drafter", "Superseded"]


class DraftFailed(NetError):
    """The round has no proposal; `status` is its COMPLETION's."""

    def __init__(self, status: CompletionStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Superseded(NetError):
    """The round is gone, so nobody waits for its proposal."""


class Drafter:
    """One session's draft. Used by one thread at a time.

    Args:
        model: opened when the first round needs it.
        agreement: the connection's.
        sampler: draws the chains; numpy's unless given.
    """

    def __init__(self, model: DraftModel, agreement: Agreement, sampler: HostSampler | None = None) -> None:
        self._model = model
        self._agreement = agreement
        self._sampler = sampler or HostSampler()
        self._state: DraftState | None = None

    def draft(self, step: Step, prefix: Tokens, gone: Callable[[], bool]) -> ReplyBatch:
        """The whole proposal of `step`, drawn with its seed's tickets.

        Args:
            step: what is asked.
            prefix: the committed ids, int32 [n].
            gone: asked before each position; True gives the round up.

        Raises:
            DraftFailed: the model raised, or what it returned is not a law; the cause has the traceback.
            Superseded: `gone` said so.
        """
        prefix.flags.writeable = False
        cause: BaseException
        try:
            return self._draft(step, prefix, gone)
        except Superseded:
            raise
        except (CapacityError, MemoryError) as error:
            cause, failed = error, DraftFailed(CompletionStatus.CAPACITY, f"draft model: {summary(error)}")
        except SamplingError as error:
            what = f"draft model returned unusable {summary(error)}"
            cause, failed = error, DraftFailed(CompletionStatus.MODEL_ERROR, what)
        except Exception as error:  # noqa: BLE001 - a user's model may raise anything, and costs only its round
            what = f"draft model raised {summary(error)}"
            cause, failed = error, DraftFailed(CompletionStatus.MODEL_ERROR, what)
        # Whatever the exception left half-done in the model's state goes with it.
        self._state = None
        raise failed from cause

    def _draft(self, step: Step, prefix: Tokens, gone: Callable[[], bool]) -> ReplyBatch:
        def logits(_: int, drafted: tuple[int, ...]) -> Any:
            if gone():
                raise Superseded(f"session {step.session}: the round is gone")
            if self._state is None:
                self._state = self._model.open(self._agreement.max_prefix)
            return self._checked(self._state.logits(prefix, drafted))

        key = Key(step.proposal_seed, step.generation, step.round, step.position)
        chain = self._sampler.draft_chain(logits, step.temperature, key, depth=step.depth, top_k=step.support or None)
        return ReplyBatch.from_rows(
            self._agreement, session=step.session, slot=step.slot, generation=step.generation, round=step.round,
            position=step.position, tokens=chain.tokens.tolist(), rows=chain.rows,
        )  # fmt: skip

    def _checked(self, row: Any) -> Any:
        shape = getattr(row, "shape", None)
        if shape != (self._agreement.vocab_size,):
            what = type(row).__name__ if shape is None else f"shape {tuple(shape)}"
            raise SamplingError(f"logits: expected shape ({self._agreement.vocab_size},), got {what}")
        return row
