"""The mathematics of q and p: integer laws, keyed draws, exact verification, admission. numpy on the CPU.

Nothing here knows sockets or messages. docs/exactness.md explains why the output law is exact.
"""

from __future__ import annotations

from pp1wire.sampling import oracle
from pp1wire.sampling.admission import (
    AdmissionPolicy,
    FixedDepth,
    Past,
    ThroughputPolicy,
    admit_chain,
    prefix_throughput,
)
from pp1wire.sampling.allocate import MASS, MASS_BITS
from pp1wire.sampling.batch import BatchVerdict, verify_batch
from pp1wire.sampling.chain import Draft, LowRankBias, draft_chain
from pp1wire.sampling.draw import sample, tickets_agree
from pp1wire.sampling.dyadic import counts_from_weights, dense_row, dyadic_counts, dyadic_counts_dense
from pp1wire.sampling.errors import (
    AllocationError,
    BackendUnavailable,
    FlushToZeroError,
    ProposalRefused,
    SamplingError,
    TargetRefused,
)
from pp1wire.sampling.grid import logit_grid, probability_grid
from pp1wire.sampling.hosted import HostSampler
from pp1wire.sampling.philox import Domain, below, below_many, proposal_tickets, words, words_many
from pp1wire.sampling.seeds import Key, choice_root, proposal_seed, verification_seed
from pp1wire.sampling.verify import (
    ChainDetails,
    Verdict,
    VerdictKind,
    target_only_token,
    target_only_token_logits,
    verify_chain,
    verify_chain_logits,
    verify_grid,
)
from pp1wire.sampling.weights import GRID, GRID_BITS

SEMANTIC_ID = "dyadic24-standard-v1"
"""Name of q: how counts are made from logits, and how a ticket draws from them."""
VERIFIER_ID = "standard-residual-v1"
"""Name of the verification rule."""
RNG_ABI = "philox4x32-10/pp1-v1"
"""Name of the generator, its addresses and its domains."""

__all__ = [
    "GRID",
    "GRID_BITS",
    "MASS",
    "MASS_BITS",
    "RNG_ABI",
    "SEMANTIC_ID",
    "VERIFIER_ID",
    "AdmissionPolicy",
    "AllocationError",
    "BackendUnavailable",
    "BatchVerdict",
    "ChainDetails",
    "Domain",
    "Draft",
    "FixedDepth",
    "FlushToZeroError",
    "HostSampler",
    "Key",
    "LowRankBias",
    "Past",
    "ProposalRefused",
    "SamplingError",
    "TargetRefused",
    "ThroughputPolicy",
    "Verdict",
    "VerdictKind",
    "admit_chain",
    "below",
    "below_many",
    "choice_root",
    "counts_from_weights",
    "dense_row",
    "draft_chain",
    "dyadic_counts",
    "dyadic_counts_dense",
    "logit_grid",
    "oracle",
    "prefix_throughput",
    "probability_grid",
    "proposal_seed",
    "proposal_tickets",
    "sample",
    "target_only_token",
    "target_only_token_logits",
    "tickets_agree",
    "verification_seed",
    "verify_batch",
    "verify_chain",
    "verify_chain_logits",
    "verify_grid",
    "words",
    "words_many",
]
