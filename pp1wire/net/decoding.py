"""The loop of speculative decoding: propose, verify, commit; the target alone where there is no proposal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.net.client import VerifierClient
from pp1wire.net.errors import TargetModelError, summary
from pp1wire.net.models import LogitTarget, ProbabilityTarget, TargetModel, TargetState, Tokens
from pp1wire.net.request import Request
from pp1wire.protocol import Proposal, TargetOnly
from pp1wire.sampling import (
    HostSampler,
    Key,
    ProposalRefused,
    TargetRefused,
    Verdict,
)
from pp1wire.sampling.hosted import is_tensor
from pp1wire.wire import CommitKind
from pp1wire.wire._schema_v2 import MAX_DEPTH

__all__ = ["Round", "decode"]

T = TypeVar("T")
_NO_TOKENS = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One decided round.

    Attributes:
        tokens: newly committed ids, in order; never empty.
        kind: where the last one came from: correction, bonus, target_only; none if a stop cut the accepted run.
        accepted: drafted tokens that were committed.
        raw_accepted: drafted tokens that verification accepted, also those behind a stop.
        drafted: what was proposed; empty for a target-only round.
        fallback: why there was no proposal, or why it was discarded; None if it was verified.
        generation: of the request, from 1; rises with each discard, cancellation and lost connection.
        round: within the generation, from 1.
        position: of the first token, counted from 0 at the prompt's first.
        finish: `stop` or `length` in the last round, else None.
        propose_s: seconds from STEP to a proposal, or to the news that there is none: draft, encode, wire, decode, validate.
        target_s: seconds in the target model.
        verify_s: seconds in verification, or in drawing the target-only token.
    """

    tokens: tuple[int, ...]
    kind: CommitKind
    accepted: int
    raw_accepted: int
    drafted: tuple[int, ...]
    fallback: str | None
    generation: int
    round: int
    position: int
    finish: str | None
    propose_s: float
    target_s: float
    verify_s: float


def decode(
    client: VerifierClient,
    model: TargetModel,
    prompt_ids: npt.ArrayLike,
    *,
    max_tokens: int,
    stop_ids: Collection[int] = (),
    depth: int | None = None,
    draft_temperature: float = 1.0,
    support: int | None = None,
    root_seed: int | None = None,
    context_version: int = 0,
    executor: Executor | None = None,
    backend: str = "numpy",
) -> AsyncGenerator[Round, None]:
    """Decode one request, round by round. The output law is exactly the target's, whatever the draft does.

    **The target's temperature is the target model's business**: divide its logits by it before they are returned. Nothing here
    applies one to the target, and `draft_temperature` is the draft's alone.

    With one seed, model and prompt, and without faults, the tokens are the same whatever else goes on: other requests, other
    connections, other sockets. More `max_tokens` continue the same text.

    Args:
        client: where proposals come from; requests beyond its slots wait.
        model: the target.
        prompt_ids: token ids [n].
        max_tokens: most tokens to commit, at least 1.
        stop_ids: tokens that end the request; the one met is committed.
        depth, support: of the draft, as in `Request.propose`.
        draft_temperature: **not the sampling temperature**: it shapes what the draft proposes, changes how much of it is
            accepted, and leaves the output law as it is. The temperature of the text belongs into the logits that `model`
            returns. Drafts are usually accepted most when both are the same. Finite and above 0.
        root_seed, context_version: as in `VerifierClient.request`.
        executor: where model and verification run; the event loop's own unless given.
        backend: what verifies: numpy, torch or triton. The same seed gives the same tokens with each.

    Yields:
        each round after it was committed. Close the generator (`contextlib.aclosing`) to leave early.

    Raises:
        TargetModelError: the target model raised, or returned no law.
        LocalProtocolError: an argument does not fit.
        SamplingError: an unknown backend, or one whose package or device is missing; at the call, before anything starts.
    """
    if max_tokens < 1:
        raise LocalProtocolError(f"max_tokens: expected at least 1, got {max_tokens}")
    target = _Target(client, executor, HostSampler(backend))
    draft = {"depth": depth, "temperature": draft_temperature, "support": support}
    opening = {"root_seed": root_seed, "context_version": context_version}
    return _rounds(client, model, prompt_ids, max_tokens, frozenset(stop_ids), draft, opening, target)


async def _rounds(
    client: VerifierClient,
    model: TargetModel,
    prompt_ids: npt.ArrayLike,
    max_tokens: int,
    stops: frozenset[int],
    draft: dict[str, Any],
    opening: dict[str, Any],
    target: _Target,
) -> AsyncGenerator[Round, None]:
    """`decode`, whose checks are behind it."""
    request = client.request(prompt_ids, **opening)
    async with request:
        await target.open(model, request.position + max_tokens + MAX_DEPTH)
        decoder = _Decoder(request, target, stops, max_tokens)
        finish = None
        while finish is None:
            start = time.perf_counter()
            outcome = await request.propose(**draft)
            propose_s = time.perf_counter() - start
            client.stages.add("propose", propose_s)
            decided = await decoder.decide(outcome, propose_s)
            finish = decided.finish
            yield decided


class _Decoder:
    """Turns proposals, or their absence, into committed tokens."""

    def __init__(self, request: Request, target: _Target, stops: frozenset[int], left: int) -> None:
        self._request = request
        self._target = target
        self._stops = stops
        self._left = left

    async def decide(self, outcome: Proposal | TargetOnly, propose_s: float) -> Round:
        """The round of this proposal, or of the target alone if there is none or it is refused; committed."""
        if isinstance(outcome, Proposal):
            verdict = await self._target.verify(self._request, outcome)
            if not isinstance(verdict, ProposalRefused):
                return self._commit(outcome, verdict, propose_s)
            self._request.tell_refused(verdict)
            outcome = self._request.discard()
        request, key = self._request, self._request.key
        token = await self._target.alone(request.prefix(), key)
        request.target_only(token)
        _, finish = self._cut((token,))
        return Round(
            tokens=(token,), kind=CommitKind.TARGET_ONLY, accepted=0, raw_accepted=0, drafted=(), fallback=outcome.reason,
            generation=key.generation, round=key.round, position=key.position, finish=finish, propose_s=propose_s,
            target_s=self._target.target_s, verify_s=self._target.verify_s,
        )  # fmt: skip

    def _commit(self, proposal: Proposal, verdict: Verdict, propose_s: float) -> Round:
        drafted, raw = tuple(proposal.tokens.tolist()), verdict.accepted
        tokens = (*drafted[:raw], verdict.token)
        kept, finish = self._cut(tokens)
        # A cut inside the accepted run takes the last token's own origin away with it.
        kind = CommitKind.NONE if kept <= raw else CommitKind[verdict.kind.name]
        accepted = min(kept, raw)
        self._request.commit(accepted, kind, tokens[:kept], raw_accepted=raw)
        return Round(
            tokens=tokens[:kept], kind=kind, accepted=accepted, raw_accepted=raw, drafted=drafted, fallback=None,
            generation=proposal.generation, round=proposal.round, position=proposal.position, finish=finish,
            propose_s=propose_s, target_s=self._target.target_s, verify_s=self._target.verify_s,
        )  # fmt: skip

    def _cut(self, tokens: tuple[int, ...]) -> tuple[int, str | None]:
        """How many of these tokens are kept, and why the request ends with them if it does."""
        for index, token in enumerate(tokens, 1):
            self._left -= 1
            if token in self._stops:
                return index, "stop"
            if not self._left:
                return index, "length"
        return len(tokens), None


class _Target:
    """One request's target model in its threads, and the time it takes."""

    def __init__(self, client: VerifierClient, executor: Executor | None, sampler: HostSampler) -> None:
        self._stages = client.stages
        self._vocab_size = client.terms.vocab_size
        self._executor = executor
        self._sampler = sampler
        self._state: TargetState | None = None
        self.target_s = self.verify_s = 0.0
        """Of the latest round."""

    async def open(self, model: TargetModel, capacity: int) -> None:
        """Make the request's state. Raises TargetModelError."""
        state = await self._run(lambda: _guarded(lambda: model.open(capacity)))
        if not isinstance(state, LogitTarget | ProbabilityTarget):
            raise TargetModelError(
                f"target model: expected a state with logits or probabilities, got {type(state).__name__}"
            )
        self._state = state

    async def verify(self, request: Request, proposal: Proposal) -> Verdict | ProposalRefused:
        """The verdict, or why the proposal cannot be verified and must be discarded. Raises TargetModelError."""
        prefix, key = request.prefix(), request.key
        return await self._timed(prefix, proposal.tokens, lambda p: self._verdict(p, proposal, key))

    async def alone(self, prefix: Tokens, key: Key) -> int:
        """A token of the target alone. Raises TargetModelError."""
        return await self._timed(prefix, _NO_TOKENS, lambda p: self._alone(p, key))

    def _verdict(self, rows: Any, proposal: Proposal, key: Key) -> Verdict | ProposalRefused:
        try:
            return self._sampler.verify_chain(rows, proposal.rows(), proposal.tokens, key, logits=self._by_logits)
        except ProposalRefused as error:
            return error

    def _alone(self, rows: Any, key: Key) -> int:
        return self._sampler.target_only_token(rows[0], key, logits=self._by_logits)

    @property
    def _by_logits(self) -> bool:
        return isinstance(self._state, LogitTarget)

    async def _timed(self, prefix: Tokens, drafted: Tokens, decide: Callable[[Any], T]) -> T:
        def work() -> tuple[T, float, float]:
            start = time.perf_counter()
            rows = _guarded(lambda: self._rows(prefix, drafted))
            asked = time.perf_counter()
            try:
                decided = decide(rows)
            except TargetRefused as error:
                raise TargetModelError(f"target model returned unusable {summary(error)}") from error
            return decided, asked - start, time.perf_counter() - asked

        decided, self.target_s, self.verify_s = await self._run(work)
        self._stages.add("target", self.target_s)
        self._stages.add("verify", self.verify_s)
        return decided

    def _rows(self, prefix: Tokens, drafted: Tokens) -> Any:
        state = self._state
        rows: Any = (
            state.logits(prefix, drafted)
            if isinstance(state, LogitTarget)
            else state.probabilities(prefix, drafted)
            if state is not None
            else _NO_TOKENS
        )
        rows = rows if is_tensor(rows) else np.asarray(rows)
        expected = (len(drafted) + 1, self._vocab_size)
        if tuple(rows.shape) != expected:
            raise TargetModelError(f"target model: expected rows of shape {expected}, got {tuple(rows.shape)}")
        return rows

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)


def _guarded(call: Callable[[], T]) -> T:
    """The result of a user's model, with whatever it raises told in one line."""
    try:
        return call()
    except TargetModelError:
        raise
    except Exception as error:
        raise TargetModelError(f"target model raised {summary(error)}") from error
