"""SGLang's `chain_speculative_sampling_triton` emits the same tokens for the same coins, on every valid chain."""

from __future__ import annotations

import pytest
import torch

from tests.peers.cases import (
    Chain,
    Evidence,
    expected_tokens,
    integer_verdict,
    make_chain,
    our_verdict,
    settled,
)
from tests.peers.sglang_peer import sglang_tokens

pytestmark = pytest.mark.peers

GROUPS = [(2, 1, None), (5, 2, None), (33, 3, 4), (64, 3, None), (64, 5, 8), (64, 4, 32), (200, 5, None), (5000, 3, 16)]
"""(V, depth, k); SGLang's kernel reads 4,096 ids at a time, so the last one needs two blocks."""
PER_GROUP = 60


def agree(kernels, chains: list[Chain], evidence: Evidence, dtype=torch.float64) -> None:
    for chain, tokens in zip(chains, sglang_tokens(kernels, chains, dtype), strict=True):
        verdict = our_verdict(chain)
        evidence.add(chain, verdict)
        assert verdict == integer_verdict(chain)
        assert tokens == expected_tokens(chain, verdict)


def test_480_chains_have_one_verdict_in_sglang_integers_and_here(reject_sampling):
    """In FP64, where its products are exact, with most coins next to a threshold."""
    evidence = Evidence()
    for vocabulary, depth, support in GROUPS:
        chains = [make_chain(seed, vocabulary, depth, support) for seed in range(PER_GROUP)]
        agree(reject_sampling, chains, evidence)
    evidence.require(chains=400, sparse=200, dense=200, drafts=1500, acceptances=500, rejections=100, bonuses=100)


def test_fp32_as_served_agrees_on_chains_whose_coins_are_not_within_its_rounding(reject_sampling):
    evidence = Evidence()
    drawn = [make_chain(seed, 64, 4, (None, 8)[seed // 4 % 2], edges=False) for seed in range(100)]
    chains = [chain for chain in drawn if settled(chain)]
    agree(reject_sampling, chains, evidence, torch.float32)
    evidence.require(chains=90, sparse=40, dense=40, acceptances=100, rejections=20, bonuses=20)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_whole_vocabulary_dense_and_sparse(dtype, reject_sampling):
    evidence = Evidence()
    edges = dtype == torch.float64
    drawn = [make_chain(seed, 129_280, 2, support, edges=edges) for seed in (1, 2, 3) for support in (None, 32)]
    agree(reject_sampling, [chain for chain in drawn if edges or settled(chain)], evidence, dtype)
    evidence.require(chains=5, sparse=2, dense=2, acceptances=2, rejections=1, bonuses=1)


def test_fp32_decides_otherwise_at_a_coin_within_its_rounding(reject_sampling):
    """Why the test above leaves such chains out, and that it can see a difference."""
    chain = make_chain(1, 129_280, 2, 32)
    assert not settled(chain)
    assert our_verdict(chain).accepted == 0
    assert sglang_tokens(reject_sampling, [chain]) == [expected_tokens(chain, our_verdict(chain))] == [[53413]]
    assert sglang_tokens(reject_sampling, [chain], torch.float32) == [[53441]]
