"""What the GPU check compares: each operation of a backend against numpy, on real and fuzzed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pp1wire.sampling import (
    MASS,
    Key,
    below_many,
    draft_chain,
    dyadic_counts,
    logit_grid,
    probability_grid,
    proposal_tickets,
    sample,
    verify_chain,
)
from pp1wire.sampling.cuda import ChainPlan, ChainSampler, Inbox, LowRankBias, Outbox, RowLayout
from pp1wire.sampling.cuda.backend import DeviceBackend, key_tensor
from pp1wire.sampling.cuda.plan import StepRows
from pp1wire.sampling.cuda.state import FINE, Outcome

from .fuzz_rows import KINDS, fuzzed

REAL_ROWS = Path(__file__).parent.parent / "tests" / "data" / "sampling_golden.npz"
SUPPORT = 32


@dataclass(frozen=True)
class Sizes:
    """How much is compared: all of it on a GPU, little where kernels are interpreted."""

    vocabulary: int
    depth: int
    fuzzed_sizes: tuple[int, ...]
    real_rows: int
    real_columns: int
    repeats: int


LARGE = Sizes(129_280, 5, (1, 17, 300, 2049, 16_384, 129_280), 3, 49_152, 30)
SMALL = Sizes(300, 2, (65,), 1, 2_000, 1)


def layout(entries: int, sparse: bool) -> RowLayout:
    """A row as the wire has it: 96 bytes of headers, then the columns."""
    ids = entries if sparse else 0
    return RowLayout(96 + 4 * ids + 4 * entries, 68, 72, 96, 96 + 4 * ids, ids, entries)


def all_rows(sizes: Sizes, seed: int) -> Iterator[tuple[np.ndarray, float]]:
    """Real rows, then fuzzed ones of every kind and size."""
    rng = np.random.default_rng(seed)
    with np.load(REAL_ROWS) as golden:
        for row in golden["logits"][: sizes.real_rows]:
            yield row[: sizes.real_columns].copy(), 0.8
    for size in sizes.fuzzed_sizes:
        for kind in KINDS:
            yield fuzzed(kind, size, rng)


def _empty(device: torch.device, n: int, columns: int, sparse: bool) -> StepRows:
    def new(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return StepRows(
        new(n, columns),
        new(n),
        new(n, dtype=torch.int64),
        new(n, columns) if sparse else None,
        new(n) if sparse else None,
    )


def rows_agree(backend: DeviceBackend, sizes: Sizes, sparse: bool) -> bool:
    """Counts and tokens of single rows."""
    key = Key(2**63 + 5, 3, 9, 77)
    ticket = int(proposal_tickets(key.seed, key.generation, key.round, np.array([key.position]))[0])
    for row, temperature in all_rows(sizes, 1):
        k = min(SUPPORT, row.size) if sparse else None
        out = _empty(backend.device, 1, k or row.size, sparse)
        backend.step(
            torch.from_numpy(row[None]).to(backend.device), None,
            torch.tensor([temperature], dtype=torch.float64, device=backend.device),
            key_tensor([key], backend.device), 0, out,
        )  # fmt: skip
        ids, counts = dyadic_counts(row, temperature, k)
        got = out.counts[0].cpu().numpy()
        places = np.flatnonzero(got)
        got_ids = places if out.ids is None else out.ids[0].cpu().numpy()[places]
        same = np.array_equal(got[places], counts) and np.array_equal(got_ids, ids)
        if not same or int(out.faults[0]) != FINE or int(out.tokens[0]) != sample(ids, counts, ticket):
            return False
    return True


def tickets_agree(backend: DeviceBackend, sizes: Sizes) -> bool:
    """Given tickets: the first, the last, and some between."""
    row = np.random.default_rng(2).normal(0, 3, sizes.vocabulary).astype(np.float32)
    ids, counts = dyadic_counts(row, 1.0, min(SUPPORT, row.size))
    tickets = [0, 1, MASS // 2, MASS - 1]
    many = torch.from_numpy(np.repeat(counts[None], len(tickets), 0)).to(backend.device)
    all_ids = torch.from_numpy(np.repeat(ids[None], len(tickets), 0)).to(backend.device)
    got = backend.sample(all_ids, many, torch.tensor(tickets, device=backend.device)).tolist()
    return got == [sample(ids, counts, ticket) for ticket in tickets]


def grids_agree(backend: DeviceBackend, sizes: Sizes, probabilities: bool) -> bool:
    """The target on its grid, from logits or from probabilities in FP64 and FP32."""
    for row, _ in all_rows(sizes, 3):
        weights = np.exp(np.clip(row.astype(np.float64) - row.max(), -700, 0))
        p = weights / weights.sum()
        inputs = [p, p.astype(np.float32)] if probabilities else [row]
        for values in inputs:
            tensor = torch.from_numpy(values[None]).to(backend.device)
            grid, _, faults = backend.probability_target(tensor) if probabilities else backend.logit_target(tensor)
            expected = probability_grid(values) if probabilities else logit_grid(values)
            if int(faults[0]) != FINE or not np.array_equal(grid[0].cpu().numpy(), expected):
                return False
    return True


@dataclass(frozen=True)
class Proposal:
    """One chain to verify, with its target, on the host."""

    p: np.ndarray
    rows: tuple[tuple[np.ndarray, np.ndarray], ...]
    tokens: np.ndarray
    key: Key


def proposal(sizes: Sizes, sparse: bool, seed: int) -> Proposal:
    """A draft near its target, so that some tokens pass and some do not."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (sizes.depth + 1, sizes.vocabulary))
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    draft_logits = (logits[:-1] + rng.normal(0, 1.0, logits[:-1].shape)).astype(np.float32)
    draft = draft_chain(draft_logits, 1.0, Key(seed, 1, 1, 5), top_k=SUPPORT if sparse else None)
    return Proposal(p, draft.rows, draft.tokens, Key(seed + 1000, 1, 1, 5))


def verify_inputs(backend: DeviceBackend, chains: list[Proposal], sparse: bool) -> tuple[torch.Tensor, ...]:
    """(grid, totals, faults, ids, counts, tokens, keys) on the device; ids are ignored if dense."""
    device, n = backend.device, len(chains)
    depth, vocabulary = chains[0].tokens.size, chains[0].p.shape[1]
    columns = SUPPORT if sparse else vocabulary
    ids, counts = (np.zeros((n, depth, columns), np.int32) for _ in range(2))
    for i, chain in enumerate(chains):
        for j, (row_ids, row_counts) in enumerate(chain.rows):
            at = slice(row_ids.size) if sparse else row_ids
            ids[i, j, at], counts[i, j, at] = row_ids, row_counts
    p = torch.from_numpy(np.concatenate([chain.p for chain in chains])).to(device)
    grid, totals, faults = backend.probability_target(p)
    return (
        grid.view(n, depth + 1, vocabulary), totals.view(n, -1), faults.view(n, -1), torch.from_numpy(ids).to(device),
        torch.from_numpy(counts).to(device), torch.from_numpy(np.stack([chain.tokens for chain in chains])).to(device),
        key_tensor([chain.key for chain in chains], device),
    )  # fmt: skip


def verdicts_agree(backend: DeviceBackend, sizes: Sizes, sparse: bool) -> bool:
    """Whole chains, several at once; both a rejection and an acceptance must have been seen."""
    chains = [proposal(sizes, sparse, seed) for seed in range(8)]
    grid, totals, faults, ids, counts, tokens, keys = verify_inputs(backend, chains, sparse)
    outcome = backend.verify(grid, totals, faults, ids if sparse else None, counts, tokens, keys).tolist()
    accepted = 0
    for chain, row in zip(chains, outcome, strict=True):
        verdict = verify_chain(chain.p, chain.rows, chain.tokens, chain.key)
        accepted += verdict.accepted
        got = (row[Outcome.FAULT], row[Outcome.ACCEPTED], row[Outcome.TOKEN])
        if got != (FINE, verdict.accepted, verdict.token):
            return False
    return 0 < accepted < len(chains) * sizes.depth


def chain_sampler(
    backend: str, device: str, sizes: Sizes, requests: int, sparse: bool
) -> tuple[ChainSampler, np.ndarray]:
    """A sampler with a Markov bias of rank one (no order of summation can matter) and a wire layout; its bias factors."""
    columns = SUPPORT if sparse else sizes.vocabulary
    rng = np.random.default_rng(4)
    factors = rng.normal(0, 1, (2, sizes.vocabulary)).astype(np.float32)
    bias = LowRankBias(*(torch.from_numpy(x).to(device) for x in (factors[0][:, None].copy(), factors[1][None].copy())))
    plan = ChainPlan(requests, sizes.depth, sizes.vocabulary, SUPPORT if sparse else None, layout(columns, sparse))
    return ChainSampler(plan, backend, device, bias), factors


def load_chain(sampler: ChainSampler, seed: int) -> tuple[np.ndarray, list[Key]]:
    """Fresh logits and keys in the sampler's buffers; both, on the host."""
    plan = sampler.plan
    logits = np.random.default_rng(seed).normal(0, 3, (plan.requests, plan.depth, plan.vocabulary)).astype(np.float32)
    keys = [Key(seed + i, 1, 2, 40) for i in range(plan.requests)]
    sampler.load([0.8] * plan.requests, keys, torch.from_numpy(logits).to(sampler.device), [1] * plan.requests)
    return logits, keys


def chain_agrees(sampler: ChainSampler, factors: np.ndarray, logits: np.ndarray, keys: list[Key]) -> bool:
    """Tokens, ids and q of the frames that a chain wrote, against numpy's chains."""
    sampler.finish()
    box = Outbox(sampler)
    box.send()
    frames = box.wait()
    rows = sampler.plan.layout
    assert rows is not None

    def column(at: int, entries: int, dtype: type, i: int, j: int) -> np.ndarray:
        return frames[i, j, at : at + 4 * entries].view(dtype)

    for i, key in enumerate(keys):
        draft = draft_chain(
            logits[i], 0.8, key, bias=lambda x: factors[0][x] * factors[1], previous=1, top_k=sampler.plan.top_k
        )
        for j, (ids, counts) in enumerate(draft.rows):
            got = column(rows.q_at, rows.q_entries, np.float32, i, j)
            places = np.flatnonzero(got)
            got_ids = column(rows.ids_at, rows.id_entries, np.int32, i, j)[places] if rows.id_entries else places
            token = int(column(rows.token_at, 1, np.int32, i, j)[0])
            same = np.array_equal(got[places] * MASS, counts) and np.array_equal(got_ids, ids)
            if not same or token != int(draft.tokens[j]):
                return False
    return True


def checks_agree(backend: str, device: str, sizes: Sizes, sparse: bool) -> bool:
    """Good rows pass, and a row with one broken rule is refused for that row."""
    sampler, _ = chain_sampler(backend, device, sizes, 1, sparse)
    _, keys = load_chain(sampler, 6)
    sampler.run()
    box = Outbox(sampler)
    box.send()
    frames = box.wait().copy()
    rows = sampler.plan.layout
    assert rows is not None
    inbox = Inbox(rows, 1, sizes.depth, sizes.vocabulary, backend, device)
    breaks: list[Callable[[np.ndarray], None]] = [
        lambda _: None,
        lambda row: row[rows.q_at : rows.q_at + 4].view(np.float32).fill(np.nan),
        lambda row: row[rows.q_at : rows.q_at + 4].view(np.float32).fill(1.0),
        lambda row: row[rows.token_at : rows.token_at + 4].view(np.int32).fill(-1),
        lambda row: row[rows.entries_at : rows.entries_at + 4].view(np.int32).fill(0),
    ]
    for number, change in enumerate(breaks):
        broken = frames.copy()
        change(broken[0, -1])
        inbox.receive(broken.reshape(-1), keys)
        try:
            inbox.wait()
        except ValueError as error:
            if not number or f"rows[0, {sizes.depth - 1}]" not in str(error):
                return False
        else:
            if number:
                return False
        inbox.release()
    return True


def draws_agree(device: torch.device) -> bool:
    """torch's bounded draws, with bounds that reject a third of the first words."""
    from pp1wire.sampling.cuda import torch_math

    rng = np.random.default_rng(9)
    bounds = np.concatenate([3 * 2**61 + rng.integers(1, 2**40, 500), rng.integers(1, 2**63, 500, np.int64)])
    keys = [Key(int(seed), 1, 2, 3) for seed in rng.integers(0, 2**63, bounds.size)]
    got = torch_math.below(torch.from_numpy(bounds).to(device), key_tensor(keys, device), 0, 2)
    return got.tolist() == below_many(bounds, np.array([key.seed for key in keys], np.uint64), 1, 2, 3, 2).tolist()
