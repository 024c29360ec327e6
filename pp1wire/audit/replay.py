"""Replays a verifier's decisions from its target rows and its seed, and checks what was committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pp1wire.sampling import (
    MASS,
    ChainDetails,
    HostSampler,
    Key,
    ProposalRefused,
    logit_grid,
    probability_grid,
    verify_grid,
)
from pp1wire.wire import Commit, CommitKind

__all__ = ["Wrong", "replay_commit", "replay_target_only"]

Row = tuple[npt.NDArray[Any], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Wrong:
    """What a COMMIT says otherwise than its replay.

    Attributes:
        field: accepted, kind or tokens[i].
        position: absolute, where they part.
        expected, actual: the replay's and the COMMIT's.
        why: one line with p(x), q(x) and the coin.
    """

    field: str
    position: int
    expected: str
    actual: str
    why: str


def replay_commit(
    target: npt.NDArray[Any],
    rows: Sequence[Row],
    drafted: Sequence[int],
    key: Key,
    commit: Commit,
    sampler: HostSampler,
    *,
    logits: bool,
) -> Wrong | None:
    """The COMMIT of a proposal against its replay.

    A COMMIT may end inside the run, where a stop token or the limit of the request cut it; why is not for the replay to say.

    Args:
        target: [depth + 1, V].
        rows: (ids, counts) of each drafted position.
        drafted: the tokens.
        key: of the round, with the verification seed.
        commit: as sent.
        sampler: what decides.
        logits: whether `target` is logits rather than probabilities.

    Raises:
        SamplingError: the target rows are no law, or the backend fails.
    """  # fmt: skip
    try:
        verdict = sampler.verify_chain(target, rows, np.array(drafted, np.int32), key, logits=logits)
    except ProposalRefused as error:
        return Wrong(
            "kind", key.position, "no COMMIT, as the proposal is refused", commit.kind.name.lower(), str(error)
        )
    run = [*drafted[: verdict.accepted], verdict.token]
    tokens = [int(token) for token in commit.tokens]
    kind, accepted = CommitKind[verdict.kind.name], verdict.accepted
    if commit.kind is CommitKind.NONE:
        run, kind, accepted = run[: len(tokens)], CommitKind.NONE, min(commit.accepted, accepted)
    if commit.accepted == accepted and commit.kind is kind and tokens == run:
        return None
    grid = logit_grid(target) if logits else probability_grid(target)
    if commit.accepted != accepted:
        details = verify_grid(grid, rows, np.array(drafted, np.int32), key)
        place = min(commit.accepted, accepted)
        return Wrong(
            "accepted", key.position + place, str(accepted), str(commit.accepted), _coin(details, place, drafted[place])
        )
    if commit.kind is not kind:
        sent, why = commit.kind.name.lower(), f"{accepted} of {len(drafted)} drafted tokens are accepted"
        return Wrong("kind", key.position + accepted, kind.name.lower(), sent, why)
    # The protocol's judge compares the accepted run and the number of tokens, so this is the last one.
    place = next(
        (i for i, (one, other) in enumerate(zip(run, tokens, strict=False)) if one != other),
        min(len(run), len(tokens)) - 1,
    )
    masses = grid[place]
    total = int(masses.sum())
    p = [int(masses[token]) / total if token < len(masses) else 0.0 for token in (run[place], tokens[place])]
    law = "max(p − q, 0)" if kind is CommitKind.CORRECTION else "p"
    why = f"the {kind.name.lower()} is drawn from {law}; p of the token expected is {p[0]:.6g}, of the one committed {p[1]:.6g}"
    return Wrong(f"tokens[{place}]", key.position + place, str(run[place]), str(tokens[place]), why)


def _coin(details: ChainDetails, place: int, token: int) -> str:
    """Why the drafted token at `place` is accepted or not."""
    total, count = int(details.totals[place]), int(details.draft[place])
    p, q, coin = int(details.target[place]) / total, count / MASS, int(details.draws[place]) / (count * total)
    what = "below" if details.passed[place] else "not below"
    return f"token {token}: p = {p:.6g}, q = {q:.6g}, coin {coin:.6g} is {what} p/q = {p / q:.6g}"


def replay_target_only(
    target: npt.NDArray[Any], key: Key, commit: Commit, sampler: HostSampler, *, logits: bool
) -> Wrong | None:
    """The COMMIT of a token of the target alone, from its row [1, V]. Raises SamplingError."""
    token = sampler.target_only_token(target[0], key, logits=logits)
    actual = int(commit.tokens[0])
    if token == actual:
        return None
    return Wrong("tokens[0]", key.position, str(token), str(actual), "a token of the target alone is drawn from p")
