"""The wire's rows as tests need them: layouts from the schema's own dtype, frames of drafted chains, and a second judge."""

from __future__ import annotations

import numpy as np

from pp1wire.sampling import MASS, proposal_tickets
from pp1wire.sampling.cuda.plan import RowLayout
from pp1wire.sampling.cuda.rules import Rule
from pp1wire.wire import Agreement, ReplyBatch, Representation, encode_replies
from pp1wire.wire._schema_v2 import reply_frame_dtype


def agreement(vocabulary, top_k, padded=None):
    return Agreement(
        id=5,
        representation=Representation.SPARSE if top_k else Representation.DENSE,
        vocab_size=vocabulary,
        padded_vocab_size=padded or vocabulary,
        max_slots=4,
        max_depth=5,
        max_support=top_k or 1,
        max_prefix=100,
    )


def layout(agreed):
    """Where a REPLY frame has its row."""
    dtype = reply_frame_dtype(agreed.id_entries, agreed.q_entries)
    at = {name: dtype.fields[name][1] for name in ("token", "entry_count", "ids", "q")}
    return RowLayout(
        dtype.itemsize, at["token"], at["entry_count"], at["ids"], at["q"], agreed.id_entries, agreed.q_entries
    )


def frames(agreed, tokens, rows, position=0):
    """REPLY frames uint8 [n, stride] of one chain, sealed by the wire's encoder."""
    batch = ReplyBatch.from_rows(
        agreed, session=1, slot=0, generation=1, round=1, position=position, tokens=tokens, rows=rows
    )
    return np.frombuffer(bytes(encode_replies(batch, agreed, 0)), np.uint8).reshape(len(rows), -1).copy()


def fields(agreed, array):
    """The structured view of frames."""
    return array.reshape(-1).view(reply_frame_dtype(agreed.id_entries, agreed.q_entries))


def judged(agreed, row, ticket=None):
    """The broken rules of one structured row, rule by rule in Python integers."""
    vocabulary, sparse = agreed.vocab_size, agreed.id_entries > 0
    bits = [int(b) for b in row["q"].view(np.uint32)]
    verdict, counts = 0, []
    for value in bits:
        q = float(np.uint32(value).view(np.float32)) if value <= 0x3F800000 else None
        good = q is not None and (q * MASS).is_integer()
        verdict |= 0 if good else Rule.VALUE
        counts.append(int(q * MASS) if q is not None else 0)
    entries, token = int(row["entry_count"].view(np.int32)), int(row["token"])
    ids = [int(i) for i in row["ids"]] if sparse else list(range(len(bits)))
    used = range(max(0, min(entries, len(bits)))) if sparse else range(vocabulary)
    if sparse:
        if not 1 <= entries <= len(bits):
            verdict |= Rule.ORDER
        for i, value in enumerate(bits):
            if i in used:
                wrong = counts[i] == 0 or (i > 0 and ids[i] <= ids[i - 1])
                verdict |= 0 if 0 <= ids[i] < vocabulary else Rule.BOUNDS
            else:
                wrong = ids[i] != 0 or value != 0
            verdict |= Rule.ORDER if wrong else 0
    else:
        verdict |= Rule.ORDER if entries != vocabulary else 0
        verdict |= Rule.BOUNDS if any(bits[vocabulary:]) else 0
    verdict |= Rule.MASS if sum(counts) != MASS else 0
    own = sum(counts[i] for i in used if ids[i] == token)
    before = sum(counts[i] for i in used if ids[i] < token)
    verdict |= Rule.TOKEN if not own else 0
    if ticket is not None and not before <= ticket < before + own:
        verdict |= Rule.TICKET
    return int(verdict)


def tickets(key, depth):
    return proposal_tickets(key.seed, key.generation, key.round, key.position + np.arange(depth)).tolist()
