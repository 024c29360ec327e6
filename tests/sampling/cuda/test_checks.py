"""The strict row checks on the device: the same verdict as a judge in Python integers, and as the wire's decoder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xxhash

from pp1wire.errors import PP1Error
from pp1wire.sampling import Key, draft_chain
from pp1wire.sampling.cuda.backend import key_tensor, make_backend
from pp1wire.sampling.cuda.rules import Rule
from pp1wire.wire import decode_replies

from .util import CPU
from .wire_rows import agreement, fields, frames, judged, layout, tickets

KEY = Key(99, 1, 1, 40)
BOTH = ("torch", "triton")
ONE, HALF = 0x3F800000, 0x3F000000


def chain(agreed, top_k, depth):
    logits = np.random.default_rng(6).normal(0, 2, (depth, agreed.vocab_size)).astype(np.float32)
    draft = draft_chain(logits, 1.0, KEY, top_k=top_k)
    return frames(agreed, draft.tokens.tolist(), draft.rows, KEY.position)


def set_bits(row, place, bits):
    row["q"].view(np.uint32)[place] = bits


def mutations(sparse):
    """(name, change of a structured row): every rule broken alone where that is possible, and many together."""
    yield "as it was", lambda row: None
    for name, bits in {
        "nan": 0x7FC00000, "inf": 0x7F800000, "minus zero": 0x80000000, "negative": 0xBF000000, "subnormal": 1,
        "above one": ONE + 1, "not dyadic": HALF + 1, "one": ONE, "none": 0, "minus nan": 0xFFFFFFFF,
    }.items():  # fmt: skip
        for place in (0, -1):
            yield f"{name} at {place}", lambda row, place=place, bits=bits: set_bits(row, place, bits)
    for token in (-1, -(2**31), 2**31 - 1, 0, 1, 39, 40, 41):
        yield f"token {token}", lambda row, token=token: row.__setitem__("token", token)
    for entries in (0, 1, 7, 8, 9, 39, 40, 41, 2**31, 2**32 - 1):
        yield f"{entries} entries", lambda row, entries=entries: row.__setitem__("entry_count", entries)
    yield "moved mass", lambda row: row["q"].__setitem__(slice(0, 2), row["q"][1::-1].copy())
    yield "empty", lambda row: row["q"].__setitem__(slice(None), 0)
    if sparse:
        for place, new in ((0, -1), (0, -(2**31)), (7, 40), (7, 2**31 - 1), (1, 0), (3, 2)):
            yield f"id {new} at {place}", lambda row, place=place, new=new: row["ids"].__setitem__(place, new)
        yield "duplicate id", lambda row: row["ids"].__setitem__(1, row["ids"][0])
        yield "reversed", lambda row: row["ids"].__setitem__(slice(None), row["ids"][::-1].copy())


@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(
    ("top_k", "padded", "keyed"), [(8, None, True), (8, None, False), (None, 50, True), (None, 40, False)]
)
def test_every_mutation_gets_the_verdict_of_the_judge(backend, top_k, padded, keyed):
    agreed = agreement(40, top_k, padded)
    depth = 5 if backend == "torch" else 2  # interpreted rows take their time
    whole = chain(agreed, top_k, depth)
    cases = list(mutations(top_k is not None))
    many = np.repeat(whole[None], len(cases), axis=0)
    drawn = tickets(KEY, depth)
    expected = []
    for i, (_, change) in enumerate(cases):
        rows = fields(agreed, many[i])
        change(rows[i % depth])
        expected.append([judged(agreed, row, drawn[j] if keyed else None) for j, row in enumerate(rows)])
    flat = torch.from_numpy(many.reshape(-1, whole.shape[1]))
    keys = key_tensor([KEY] * len(cases), CPU) if keyed else None
    backend = make_backend(backend, CPU, 32 if backend == "triton" else None)
    counts, verdicts = backend.check(layout(agreed).views(flat), keys, depth, agreed.vocab_size)
    found = verdicts.view(len(cases), depth).tolist()
    assert [(cases[i][0], row) for i, row in enumerate(found)] == [(cases[i][0], row) for i, row in enumerate(expected)]
    assert found[0] == [0] * depth
    assert counts[:depth].sum(1).tolist() == [2**24] * depth
    seen = np.bitwise_or.reduce(np.ravel(found))
    assert seen == Rule.VALUE | Rule.ORDER | (Rule.BOUNDS if top_k or padded > 40 else 0) | Rule.MASS | Rule.TOKEN | (
        Rule.TICKET if keyed else 0
    )


@pytest.mark.parametrize("top_k", [8, None])
def test_judge_and_wire_decoder_agree_on_what_is_canonical(top_k):
    """Sealed again after each mutation, so that only the row's own rules can refuse it."""
    agreed = agreement(40, top_k, None if top_k else 50)
    whole = chain(agreed, top_k, 1)
    good = bad = 0
    for _, change in mutations(top_k is not None):
        array = whole.copy()
        change(fields(agreed, array)[0])
        verdict = judged(agreed, fields(agreed, array)[0])
        sealed = array.copy()
        _seal(agreed, sealed)
        try:
            decode_replies(sealed.tobytes(), agreed)
        except PP1Error:
            assert verdict
            bad += 1
        else:
            assert not verdict
            good += 1
    assert good
    assert bad


def _seal(agreed, array):
    """Checksums by hand: the encoder refuses such rows."""
    row = array[0]
    data = row.tobytes()
    body = xxhash.xxh3_64_intdigest(data[64:], xxhash.xxh3_64_intdigest(data[16:48]))
    fields(agreed, array)["header_body_checksum"][0] = body
    fields(agreed, array)["header_header_checksum"][0] = xxhash.xxh3_64_intdigest(array[0].tobytes()[:56])
