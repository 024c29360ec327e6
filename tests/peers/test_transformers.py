"""transformers' `_speculative_sampling` emits the same tokens for the same coins, on every valid chain."""

from __future__ import annotations

import pytest

from tests.peers.cases import Evidence, expected_tokens, fraction_verdict, integer_verdict, make_chain, our_verdict
from tests.peers.transformers_peer import transformers_tokens

pytestmark = pytest.mark.peers

VOCABULARIES = (2, 3, 8, 33, 64, 200)
SUPPORTS = (None, 1, 3, None, 8, 32)
CASES = 2400
WIDE = [(1, None), (1, 32), (2, None), (2, 32)]
"""(seed, k) of the chains over 129,280 tokens."""


def test_2400_chains_have_one_verdict_in_transformers_fractions_integers_and_here(generation):
    evidence = Evidence()
    for seed in range(CASES):
        vocabulary, support = VOCABULARIES[seed % 6], SUPPORTS[seed // 6 % 6]
        chain = make_chain(seed, vocabulary, depth=1 + seed % 5, top_k=support)
        verdict = our_verdict(chain)
        evidence.add(chain, verdict)
        assert verdict == integer_verdict(chain) == fraction_verdict(chain), f"seed {seed}"
        assert transformers_tokens(generation, chain) == expected_tokens(chain, verdict), f"seed {seed}"
    evidence.require(chains=2000, sparse=1000, dense=700, drafts=6000, acceptances=3000, rejections=500, bonuses=500)


def test_whole_vocabulary_dense_and_sparse(generation):
    evidence = Evidence()
    for seed, support in WIDE:
        for edges in (True, False):
            chain = make_chain(seed, 129_280, depth=3, top_k=support, edges=edges)
            verdict = our_verdict(chain)
            evidence.add(chain, verdict)
            assert verdict == integer_verdict(chain)
            assert transformers_tokens(generation, chain) == expected_tokens(chain, verdict)
    evidence.require(sparse=4, dense=4, acceptances=4, rejections=2, bonuses=2)
