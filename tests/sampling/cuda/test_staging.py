"""From the worker's kernels to the verifier's, through the wire: one round, on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pp1wire.sampling import Key, ProposalRefused, SamplingError, draft_chain, verify_chain
from pp1wire.sampling.cuda import ChainPlan, ChainSampler, Inbox, Outbox, RowLayout
from pp1wire.wire import ReplyBatch, encode_replies, seal_replies

from .wire_rows import agreement, fields, frames, layout

V, DEPTH = 60, 3
KEYS = (Key(3, 1, 1, 5), Key(4, 1, 1, 9))
BOTH = ("torch", "triton")


def drafts(top_k):
    logits = np.random.default_rng(2).normal(0, 2, (2, DEPTH, V)).astype(np.float32)
    return logits, [draft_chain(logits[i], 1.0, KEYS[i], top_k=top_k) for i in range(2)]


def sent(agreed, top_k, backend):
    """Chains that ran, the outbox that holds their rows, and what numpy makes of the same logits."""
    logits, made = drafts(top_k)
    chains = ChainSampler(ChainPlan(2, DEPTH, V, top_k, layout(agreed)), backend)
    chains.load((1.0, 1.0), KEYS, torch.from_numpy(logits))
    outbox = Outbox(chains)
    chains.run()
    outbox.send()
    return chains, outbox, made


def sealed(agreed, made):
    return np.stack([frames(agreed, draft.tokens.tolist(), draft.rows) for draft in made])


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [8, None])
def test_outbox_holds_what_the_kernels_wrote(backend, top_k):
    agreed = agreement(V, top_k)
    chains, outbox, made = sent(agreed, top_k, backend)
    assert outbox.ready()
    host = fields(agreed, outbox.wait())
    for name in ("token", "entry_count", "ids", "q"):
        assert host[name].tobytes() == fields(agreed, sealed(agreed, made))[name].tobytes()
    chains.logits[1, 0, 0] = torch.nan
    chains.run()
    outbox.send()
    with pytest.raises(SamplingError, match=r"logits\[1, 0\]: NaN at id 0"):
        outbox.wait()


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [8, None])
def test_rows_that_kernels_wrote_lack_only_headers_and_checksums(backend, top_k):
    agreed = agreement(V, top_k)
    _, outbox, made = sent(agreed, top_k, backend)
    for request, (rows, draft) in enumerate(zip(outbox.wait(), made, strict=True)):
        key = KEYS[request]
        identity = {
            "session": request + 1, "slot": request, "generation": key.generation, "round": key.round, "position": key.position,
        }  # fmt: skip
        frame = seal_replies(rows.reshape(-1), agreed, 1, **identity)
        batch = ReplyBatch.from_rows(agreed, **identity, tokens=draft.tokens.tolist(), rows=draft.rows)
        assert bytes(frame) == encode_replies(batch, agreed, 1)
        # In place: the host buffer is what is sent.
        assert rows.tobytes() == bytes(frame)


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize("top_k", [8, None])
def test_inbox_publishes_q_only_when_it_is_checked(backend, top_k):
    agreed = agreement(V, top_k)
    _, made = drafts(top_k)
    inbox = Inbox(layout(agreed), 2, DEPTH, V, backend)
    assert not inbox.ready()
    with pytest.raises(SamplingError, match=r"expected receive\(\) before wait"):
        inbox.wait()
    inbox.receive(sealed(agreed, made).tobytes(), KEYS)
    assert inbox.ready()
    inbox.wait()
    p = np.full((DEPTH + 1, V), 1 / V)
    for i, draft in enumerate(made):
        assert inbox.tokens[i].tolist() == draft.tokens.tolist()
        rows = [(None if inbox.ids is None else inbox.ids[i, j], inbox.counts[i, j]) for j in range(DEPTH)]
        if top_k:
            rows = [(ids[counts > 0], counts[counts > 0]) for ids, counts in rows]
        key = Key(77, 1, 1, 5)
        got = verify_chain(torch.from_numpy(p), rows, inbox.tokens[i], key, backend=backend)
        assert got == verify_chain(p, draft.rows, draft.tokens, key)
    with pytest.raises(SamplingError, match=r"expected release\(\)"):
        inbox.receive(sealed(agreed, made).tobytes(), KEYS)
    inbox.release()
    assert inbox.counts is None
    bad = sealed(agreed, made)
    fields(agreed, bad)["q"][4, 1] = np.nan
    inbox.receive(bad.tobytes(), KEYS)
    with pytest.raises(
        ProposalRefused, match=r"rows\[1, 1\]: expected a canonical row of q, broken rules: .*value.*mass"
    ):
        inbox.wait()
    inbox.release()
    inbox.receive(sealed(agreed, made).tobytes(), KEYS[::-1])
    with pytest.raises(ProposalRefused, match=r"rows\[0, \d\]: .* broken rules: ticket$"):
        inbox.wait()
    inbox.release()
    inbox.receive(bytearray(sealed(agreed, made).tobytes()))
    inbox.wait()


def test_refused_sizes():
    rows = layout(agreement(V, None))
    for arguments in ((0, 1, V), (1, 0, V), (1, 1, 0), (1, 1, V + 1)):
        with pytest.raises(SamplingError, match="inbox: expected sizes"):
            Inbox(rows, *arguments, "torch")
    inbox = Inbox(rows, 2, 1, V, "torch")
    for data, keys in ((b"", None), (bytes(2 * rows.stride + 1), None), (bytes(2 * rows.stride), KEYS[:1])):
        with pytest.raises(SamplingError, match=r"inbox: expected \d+ bytes and 2 keys"):
            inbox.receive(data, keys)
    with pytest.raises(SamplingError, match="outbox: expected a plan with a layout"):
        Outbox(ChainSampler(ChainPlan(1, 1, V), "torch"))
    assert isinstance(rows, RowLayout)
