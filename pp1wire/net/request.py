"""One request of a verifier: its committed tokens and the numbering of its noise, whatever becomes of connections."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError
from pp1wire.net.errors import summary
from pp1wire.net.models import Tokens
from pp1wire.protocol import Proposal, TargetOnly
from pp1wire.protocol.compose import unsigned
from pp1wire.sampling import Key, ProposalRefused, proposal_seed, verification_seed
from pp1wire.wire import CommitKind, Representation

if TYPE_CHECKING:
    from pp1wire.net.client import VerifierClient
    from pp1wire.net.verifier_connection import VerifierConnection

__all__ = ["Request"]


class Request:
    """A request; made by `VerifierClient.request` and used as `async with client.request(ids) as request:`.

    Each round is `propose`, then `commit` (or `discard`, then `target_only`) if a proposal came, else `target_only`. Its tokens
    are owned here: when a connection is lost, the request goes on without a worker, and opens a session on the next one.

    Generation and round, which key its noise, rise by one with what happens to this request and nothing else: a round with each
    proposal or target-only token, a generation with each discard, cancellation or lost connection. So two requests with one seed
    and one history draw the same, whatever runs beside them, and no key ever comes twice.
    """

    def __init__(
        self, client: VerifierClient, prefix_ids: npt.ArrayLike, root_seed: int, context_version: int = 0
    ) -> None:
        self._client = client
        self._ids = array("i", _checked(prefix_ids, client.terms.vocab_size).tolist())
        self._proposal_seed = proposal_seed(root_seed)
        self._verification_seed = verification_seed(root_seed)
        self._context_version = context_version
        self._connection: VerifierConnection | None = None
        self._session = 0
        self._proposal: Proposal | None = None
        self._proposing = False
        self._used = self._entered = False
        self.generation = 1
        self.round = 0

    @property
    def position(self) -> int:
        """Committed tokens, the prompt's included: the position of the next one."""
        return len(self._ids)

    @property
    def proposal(self) -> Proposal | None:
        """The proposal that waits for `commit` or `discard`."""
        return self._proposal

    @property
    def key(self) -> Key:
        """Where the coins of this round lie: of the proposal's verification, or of the target-only token that comes next.

        It holds the verification seed: never log it, never send it.
        """
        held = self._proposal
        if held is not None:
            return Key(self._verification_seed, held.generation, held.round, held.position)
        return Key(self._verification_seed, self.generation, self.round + 1, self.position)

    def prefix(self) -> Tokens:
        """The committed tokens, int32 [position]: a read-only copy."""
        ids = np.array(self._ids, np.int32)
        ids.flags.writeable = False
        return ids

    async def propose(
        self, *, depth: int | None = None, temperature: float = 1.0, support: int | None = None
    ) -> Proposal | TargetOnly:
        """Ask for a proposal. `TargetOnly` says why there is none; it never raises for what a peer or network did.

        Args:
            depth: positions to draft; the agreed maximum unless given.
            temperature: of the draft alone; the target's belongs into the target's logits.
            support: k of a sparse row, the agreed maximum unless given; of no account where the worker chose dense rows.

        Raises:
            LocalProtocolError: a proposal is held, or an argument does not fit the agreement.
        """
        if self._proposal is not None or self._proposing or not self._entered:
            what = (
                "a proposal is held" if self._proposal else "it proposes already" if self._proposing else "not entered"
            )
            raise LocalProtocolError(f"request: cannot propose: {what}")
        self._proposing = True
        try:
            return await self._propose(depth, temperature, support)
        finally:
            self._proposing = False

    def commit(
        self, accepted: int, kind: CommitKind, tokens: Sequence[int], *, raw_accepted: int | None = None
    ) -> None:
        """Commit what became of the held proposal.

        Args:
            accepted: leading drafted tokens that are committed.
            kind: correction, bonus, or none where a stop inside the accepted run ends the request.
            tokens: every newly committed id.
            raw_accepted: what verification accepted, if a stop cut it short.

        Raises:
            LocalProtocolError: no proposal is held, or the arguments contradict it; nothing changed.
        """
        ids = _checked(tokens, self._client.terms.vocab_size).tolist()
        _check_commit(self._held(), accepted, kind, ids, accepted if raw_accepted is None else raw_accepted)
        if self._connection is not None:
            self._connection.core.commit(self._session, accepted, kind, ids, raw_accepted=raw_accepted)
            self._connection.flush_soon()
        else:
            self._client.events["commits_without_worker"] += 1
        self._ids.extend(ids)
        self._release()

    def discard(self) -> TargetOnly:
        """Give up the held proposal for a fault found on this side; go on with `target_only`. Raises LocalProtocolError."""
        self._held()
        reason = "connection_lost"
        if self._connection is not None:
            for event in self._connection.core.discard(self._session):
                if isinstance(event, TargetOnly):
                    reason = event.reason
                    self._advance(event.generation, 0)
            self._connection.flush_soon()
        self._release()
        return TargetOnly(self._session, self.generation, reason)

    def tell_refused(self, error: ProposalRefused) -> None:
        """Log that verification refused the held proposal; `discard` follows. Raises LocalProtocolError."""
        held = self._held()
        self._client.log.tell(
            logging.WARNING, "proposal_refused",
            f"session {held.session} generation {held.generation} round {held.round}: proposal refused: {summary(error)}",
            peer=str(self._client.address), session=held.session, generation=held.generation, round=held.round,
        )  # fmt: skip

    def target_only(self, token: int) -> None:
        """Commit one token of the target alone, drawn with `key`, as a round of its own.

        Raises:
            LocalProtocolError: a proposal is held, or the token is not in the vocabulary.
        """
        if self._proposal is not None or self._proposing:
            raise LocalProtocolError("request: commit or discard the proposal first")
        self._require_entered()
        (checked,) = _checked([token], self._client.terms.vocab_size).tolist()
        connection = self._connection
        if connection is not None and self.position >= connection.agreement.max_prefix:
            self._leave()
        if self._connection is not None:
            self._connection.core.target_only(self._session, checked)
            self._connection.flush_soon()
        else:
            self._client.events["target_only_without_worker"] += 1
        self.round += 1
        self._ids.append(checked)

    async def __aenter__(self) -> Self:
        if self._used:
            raise LocalProtocolError("request: entered once already; a new one, with a new root seed, is needed")
        self._used = True
        await self._client._enter(self)
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered:
            self._entered = False
            self._leave()
            self._release()
            self._client._exit(self)

    # Inside.

    async def _propose(self, depth: int | None, temperature: float, support: int | None) -> Proposal | TargetOnly:
        connection = self._client._live()
        if connection is None:
            return self._none("not_connected")
        await connection.ready_for_more()
        self._require_entered()
        if not connection.is_live:
            return self._none("not_connected")
        agreement = connection.agreement
        depth = agreement.max_depth if depth is None else unsigned(depth, 8, "depth")
        if self.position + depth + 1 > agreement.max_prefix:
            self._leave()
            return self._none("prefix_limit")
        if self._connection is None and not self._open_on(connection):
            return self._none("no_slot")
        if agreement.representation is Representation.DENSE:
            support = None
        try:
            connection.core.step(
                self._session, asyncio.get_running_loop().time(), depth=depth, temperature=temperature, support=support
            )
        except LocalProtocolError:
            if self._client.has_first_terms:
                raise
            # The caller asked for what was agreed at first; a worker that came back with less is no fault of his.
            return self._none("smaller_terms")
        waiter = connection.wait_for(self._session)
        try:
            outcome = await waiter
        except asyncio.CancelledError:
            self._abandon(waiter)
            raise
        if not self._entered and isinstance(outcome, Proposal):
            outcome.release()
        self._require_entered()
        if isinstance(outcome, Proposal):
            self._proposal = outcome
            self._advance(outcome.generation, outcome.round)
            return outcome
        if outcome is None:
            return self._none("connection_lost")
        self._advance(outcome.generation, 0)
        return outcome

    def _open_on(self, connection: VerifierConnection) -> bool:
        if len(connection.core.open_sessions) >= connection.agreement.max_slots:
            return False
        if self.round:
            # Rounds of this generation were used without a worker; theirs must not come again.
            self._advance(self.generation + 1, 0)
        self._session = connection.core.open(
            self.prefix(), self._proposal_seed, self._context_version, generation=self.generation
        )
        self._connection = connection
        return True

    def _abandon(self, waiter: asyncio.Future[Proposal | TargetOnly | None]) -> None:
        """The task that waited was cancelled: nobody will commit this round."""
        if waiter.done() and not waiter.cancelled():
            outcome = waiter.result()
            if isinstance(outcome, Proposal):
                outcome.release()
            elif isinstance(outcome, TargetOnly):
                self._advance(outcome.generation, 0)
                return
        if self._connection is not None and self._connection.is_live:
            self._advance(self._connection.cancel(self._session), 0)

    def _advance(self, generation: int, round_: int) -> None:
        # Never back: news of a round may be heard here after news that its connection is gone.
        self.generation, self.round = max((self.generation, self.round), (generation, round_))

    def _lost(self, connection: VerifierConnection) -> None:
        """The client says that `connection` is gone."""
        if self._connection is connection:
            self._connection, self._session = None, 0
            self._advance(self.generation + 1, 0)

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close_session(self._session)
            self._connection = None

    def _require_entered(self) -> None:
        if not self._entered:
            raise LocalProtocolError("request: it is not entered, or was left meanwhile")

    def _none(self, reason: str) -> TargetOnly:
        self._client.fallbacks[reason] += 1
        return TargetOnly(self._session, self.generation, reason)

    def _held(self) -> Proposal:
        if self._proposal is None:
            raise LocalProtocolError("request: no proposal is held")
        return self._proposal

    def _release(self) -> None:
        if self._proposal is not None:
            self._proposal.release()
            self._proposal = None


def _checked(values: npt.ArrayLike, vocabulary: int) -> npt.NDArray[np.int32]:
    ids = np.asarray(values if np.size(values) else np.zeros(0, np.int32))
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise LocalProtocolError(f"token ids: expected integers of shape [n], got {ids.dtype} {ids.shape}")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        raise LocalProtocolError(f"token ids: expected 0 to {vocabulary - 1}, got {int(ids.min())} to {int(ids.max())}")
    return ids.astype(np.int32)


def _check_commit(proposal: Proposal, accepted: int, kind: CommitKind, tokens: list[int], raw_accepted: int) -> None:
    # The core holds COMMITs to the same rules; without a connection there is none to ask.
    depth = proposal.depth
    allowed = {
        CommitKind.NONE: range(1, depth + 1),
        CommitKind.CORRECTION: range(depth),
        CommitKind.BONUS: range(depth, depth + 1),
    }.get(kind, range(0))
    if accepted not in allowed or len(tokens) != accepted + (kind is not CommitKind.NONE):
        raise LocalProtocolError(
            f"commit: {kind!r} with {accepted} of {depth} accepted and {len(tokens)} tokens is not possible"
        )
    if raw_accepted not in range(accepted, depth + 1):
        raise LocalProtocolError(f"commit: raw_accepted: expected {accepted} to {depth}, got {raw_accepted!r}")
    if tokens[:accepted] != proposal.tokens[:accepted].tolist():
        raise LocalProtocolError("commit: the accepted tokens are not those proposed")
