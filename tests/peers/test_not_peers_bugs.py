"""[not peers' bugs] What cannot be a draft law or a target: what peers make of it is recorded; here it is refused or rejected.

Each test states the peer's behaviour as a fact about the pinned version. If an update changes one, so must the table in
docs/peers.md.
"""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest

from pp1wire.sampling import (
    MASS,
    ProposalRefused,
    SamplingError,
    TargetRefused,
    Verdict,
    VerdictKind,
    dyadic_counts,
    verify,
    verify_chain,
)
from pp1wire.wire import RejectCode, RemoteProtocolError, decode
from tests.peers.cases import KEY
from tests.peers.sglang_peer import chain_sampling
from tests.peers.transformers_peer import speculative_sampling
from tests.wire.frames import SPARSE, frame_of, offset_of, q_of, reply, set_bits

pytestmark = pytest.mark.peers

NAN = math.nan
EVEN = [0.25, 0.25, 0.25, 0.25]
FIRST_HALF = [0.5, 0.5, 0.0, 0.0]
RISING = [0.1, 0.2, 0.3, 0.4]


def transformers_emits(generation, p, q, token, coin):
    """The tokens after one drafted token; the final draw is torch's own."""
    return speculative_sampling(generation, [p, EVEN], [q], [token], [coin], None)


def sglang_emits(kernels, p, q, token, coin, last=0.5):
    return chain_sampling(kernels, [[p, EVEN]], [[q]], [[token]], [[coin]], [last])[0]


def counts(q) -> np.ndarray:
    return np.array(np.array(q) * MASS, np.int64)


def refused(p, q_counts, token, message, error=ProposalRefused) -> None:
    with pytest.raises(error, match=message):
        verify_chain(np.array([p, EVEN]), [(None, q_counts)], [token], KEY)


def wire_refuses(index: int, q: float, code: RejectCode) -> None:
    """A REPLY with one entry of q replaced is not decoded: no verifier gets to see it."""
    good = frame_of(reply(SPARSE), SPARSE)
    assert decode(bytes(good), SPARSE).token == 2
    bits = int(np.float32(q).view(np.uint32))
    with pytest.raises(RemoteProtocolError) as caught:
        decode(set_bits(good, offset_of(f"reply.q[{index}]", SPARSE)[0], bits), SPARSE)
    assert caught.value.code is code


class TestNoMassAtTheDraftedToken:
    """q(x) = 0: the token cannot have been drawn from q."""

    def test_transformers_divides_by_zero_and_accepts_whatever_the_coin(self, generation):
        for coin in (0.0, 0.5, 1 - 2**-53):
            assert transformers_emits(generation, EVEN, FIRST_HALF, 3, coin)[0] == 3

    def test_transformers_rejects_only_if_the_target_has_no_mass_either(self, generation):
        """0/0 is NaN, and no coin is at most NaN."""
        emitted = transformers_emits(generation, [0.2, 0.4, 0.4, 0.0], FIRST_HALF, 3, 0.0)
        assert emitted == [2]

    def test_sglang_rejects_the_token_and_goes_on_with_the_row(self, reject_sampling):
        assert sglang_emits(reject_sampling, EVEN, FIRST_HALF, 3, 0.0) == [3]  # as a correction: one token, not two
        assert sglang_emits(reject_sampling, EVEN, FIRST_HALF, 2, 0.0, last=0.9) == [3]

    def test_here_the_whole_proposal_is_refused(self):
        refused(EVEN, counts(FIRST_HALF), 3, r"q\[0\]: zero probability at the drafted token 3")
        good = frame_of(reply(SPARSE), SPARSE)
        with pytest.raises(RemoteProtocolError) as caught:
            decode(set_bits(good, offset_of("reply.token", SPARSE)[0], 3), SPARSE)
        assert caught.value.code is RejectCode.Q_ZERO_AT_TOKEN


class TestNaN:
    @pytest.mark.parametrize(("p", "q"), [(EVEN, [0.25, NAN, NAN, NAN]), ([0.25, NAN, NAN, NAN], EVEN)])
    def test_transformers_accepts_beside_a_nan(self, p, q, generation):
        assert transformers_emits(generation, p, q, 0, 0.5)[0] == 0

    @pytest.mark.parametrize(("p", "q"), [(EVEN, [NAN] * 4), ([NAN] * 4, EVEN)])
    def test_transformers_ends_in_an_error_of_multinomial_at_a_row_of_nan(self, p, q, generation):
        with pytest.raises(RuntimeError, match="probability tensor contains either `inf`, `nan` or element < 0"):
            transformers_emits(generation, p, q, 0, 0.0)

    @pytest.mark.parametrize(("p", "q"), [(EVEN, [0.25, NAN, NAN, NAN]), ([0.25, NAN, NAN, NAN], EVEN)])
    def test_sglang_accepts_beside_a_nan(self, p, q, reject_sampling):
        tokens = sglang_emits(reject_sampling, p, q, 0, 0.5)
        assert len(tokens) == 2
        assert tokens[0] == 0

    def test_sglang_emits_a_token_of_the_target_at_a_draft_row_of_nan(self, reject_sampling):
        """NaN counts as 0: with correct coins the target's own law, without a word that there was no draft law."""
        for last, token in ((0.05, 0), (0.2, 1), (0.5, 2), (0.7, 3)):
            assert sglang_emits(reject_sampling, RISING, [NAN] * 4, 0, 0.0, last) == [token]

    def test_sglang_emits_the_last_id_at_a_target_row_of_nan(self, reject_sampling):
        for last in (0.0, 0.5, 0.99):
            assert sglang_emits(reject_sampling, [NAN] * 4, EVEN, 0, 0.0, last) == [3]

    def test_here_rows_with_a_nan_are_refused_on_every_way_in(self):
        for row in ([0.25, NAN, NAN, NAN], [NAN] * 4):
            refused(EVEN, np.array(row), 0, r"q\[0\]: expected integer counts, got float64")
            refused(row, counts(EVEN), 0, "expected 0 <= value < 2, got nan", TargetRefused)
            with pytest.raises(SamplingError):
                dyadic_counts(np.array(row, np.float32), 1.0)
        for index in range(3):
            wire_refuses(index, NAN, RejectCode.Q_NOT_FINITE)


class TestNoMassInTheTarget:
    """p(x) = 0 and the lowest coin, 0, which torch.rand does return: about once in 2^24 draws in FP32."""

    P = (0.0, 0.5, 0.25, 0.25)

    def test_transformers_emits_a_token_that_the_target_never_has(self, generation):
        assert transformers_emits(generation, self.P, EVEN, 0, 0.0)[0] == 0
        assert transformers_emits(generation, self.P, EVEN, 0, 2.0**-53)[0] != 0

    def test_sglang_rejects(self, reject_sampling):
        assert sglang_emits(reject_sampling, self.P, EVEN, 0, 0.0) == [1]

    def test_here_it_is_rejected(self):
        def lowest(bounds, *address):
            return np.zeros_like(bounds)

        with mock.patch.object(verify, "below_many", lowest), mock.patch.object(verify, "below", return_value=0):
            verdict = verify_chain(np.array([self.P, EVEN]), [(None, counts(EVEN))], [0], KEY)
        assert verdict == Verdict(0, 1, VerdictKind.CORRECTION)


class TestMassThatIsNotOne:
    """q with too much mass makes a draft look worse than it is, with too little better: either way the law is another."""

    OVER = (1.0, 1.0, 0.5, 0.5)
    UNDER = (0.0625, 0.0625, 0.0625, 0.0625)

    @pytest.mark.parametrize("q", [OVER, UNDER])
    def test_transformers_accepts(self, q, generation):
        assert transformers_emits(generation, EVEN, q, 0, 0.2)[0] == 0

    @pytest.mark.parametrize("q", [OVER, UNDER])
    def test_sglang_accepts(self, q, reject_sampling):
        assert len(sglang_emits(reject_sampling, EVEN, q, 0, 0.2)) == 2

    def test_transformers_finds_nothing_to_correct_with_and_raises(self, generation):
        """A rejection by an over-full q that covers p everywhere leaves (p − q)⁺ = 0, and 0/0."""
        with pytest.raises(RuntimeError, match="probability tensor contains either"):
            transformers_emits(generation, EVEN, self.OVER, 0, 0.9)

    def test_sglang_finds_nothing_to_correct_with_and_emits_the_last_id(self, reject_sampling):
        p = (0.5, 0.5, 0.0, 0.0)
        assert sglang_emits(reject_sampling, p, self.OVER, 0, 0.9) == [3]

    def test_here_the_proposal_is_refused(self):
        for q in (self.OVER, self.UNDER):
            refused(EVEN, counts(q), 0, r"q\[0\]: expected counts summing to 2\^24")
        for index in range(3):
            wire_refuses(index, 1.0, RejectCode.Q_MASS_MISMATCH)
            wire_refuses(index, float(q_of(1)[0]), RejectCode.Q_MASS_MISMATCH)


class TestNegativeMass:
    Q = (0.5, 0.75, -0.25, 0.0)

    def test_transformers_and_sglang_accept_beside_it(self, generation, reject_sampling):
        assert transformers_emits(generation, EVEN, self.Q, 0, 0.4)[0] == 0
        assert len(sglang_emits(reject_sampling, EVEN, self.Q, 0, 0.4)) == 2

    def test_here_the_proposal_is_refused(self):
        refused(EVEN, counts(self.Q), 0, r"q\[0\]: expected 0 <= count <= 2\^24, got -4194304")
        wire_refuses(1, -0.25, RejectCode.Q_NEGATIVE)


class TestTargetThatIsNotNormalised:
    P = (0.5, 0.5, 0.5, 0.5)

    def test_transformers_and_sglang_accept(self, generation, reject_sampling):
        assert transformers_emits(generation, self.P, [0.5, 0.5, 0.0, 0.0], 0, 0.999)[0] == 0
        assert len(sglang_emits(reject_sampling, self.P, [0.5, 0.5, 0.0, 0.0], 0, 0.999)) == 2

    def test_here_the_target_is_refused(self):
        refused(self.P, counts(EVEN), 0, "expected a sum of one within", TargetRefused)


class TestNegativeToken:
    """−1 marks "no token" in several systems. SGLang would read outside the row, and is not asked."""

    def test_transformers_looks_it_up_from_the_end_and_emits_it(self, generation):
        assert transformers_emits(generation, EVEN, EVEN, -1, 0.5)[0] == -1

    def test_here_the_proposal_is_refused(self):
        refused(EVEN, counts(EVEN), -1, r"tokens\[0\]: expected 0 <= token < 4, got -1")
        good = frame_of(reply(SPARSE), SPARSE)
        with pytest.raises(RemoteProtocolError) as caught:
            decode(set_bits(good, offset_of("reply.token", SPARSE)[0], -1), SPARSE)
        assert caught.value.code is RejectCode.TOKEN_OUT_OF_RANGE
