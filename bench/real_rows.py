"""Rows of q that a language model made: SmolLM2-135M-Instruct as the demo drafts with it, kept in `real_rows.npz`.

Four requests, five drafted positions each. Of every row the 256 largest logits are kept, from which sparse rows follow exactly
(counts over a top-k set depend on nothing else), and of the first request's the counts over the whole vocabulary at T = 1. The
model has 49,152 ids; `stretched` spreads them over a larger vocabulary in the same order.

    python -m bench.real_rows          # makes the file again; needs the demo's model (make demo)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pp1wire.sampling import Key, draft_chain, dyadic_counts

if TYPE_CHECKING:
    from pp1wire.demo.smollm2 import SmolLM2

FILE = Path(__file__).with_name("real_rows.npz")
MODEL_VOCAB = 49_152
KEPT = 256
REQUESTS, DEPTH = 4, 5

Row = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


def stretched(ids: npt.NDArray[np.int32], vocab: int) -> npt.NDArray[np.int32]:
    """Ids of the model in a vocabulary of `vocab` ids, in the same order."""
    return (ids.astype(np.int64) * vocab // MODEL_VOCAB).astype(np.int32)


@cache
def _file() -> dict[str, npt.NDArray[np.generic]]:
    with np.load(FILE, allow_pickle=False) as file:
        return dict(file)


def sparse(index: int, support: int, vocab: int) -> Row:
    """Row `index` of 20 as (ids, counts) over its `support` largest logits at T = 1; fewer where counts would be zero."""
    kept = _file()
    ids, counts = dyadic_counts(kept["logits"][index], 1.0, support)
    return stretched(kept["ids"][index][ids], vocab), counts


def full(index: int, vocab: int) -> Row:
    """Row `index` of 5 as (ids, counts) over all ids with mass at T = 1."""
    kept = _file()
    start, stop = kept["full_starts"][index : index + 2].tolist()
    return stretched(kept["full_ids"][start:stop], vocab), kept["full_counts"][start:stop]


def _chain(model: SmolLM2, prompt: list[int], seed: int) -> list[npt.NDArray[np.float32]]:
    """The logits of `DEPTH` drafted positions behind `prompt`."""
    memory, fed = model.new_cache(512), 0
    made: list[npt.NDArray[np.float32]] = []

    def logits(_: int, drafted: tuple[int, ...]) -> npt.NDArray[np.float32]:
        nonlocal fed
        tokens = [*prompt, *drafted]
        made.append(model.forward(tokens[fed:], memory)[-1])
        fed = len(tokens)
        return made[-1]

    draft_chain(logits, 1.0, Key(seed, 1, 1, len(prompt)), depth=DEPTH)
    return made


def make() -> None:
    """Draft with the model, and write the file."""
    from pp1wire.demo.prompts import SmolLM2Talk
    from pp1wire.demo.smollm2 import DRAFT_SKIPS, SmolLM2

    model = SmolLM2.load()
    talk, draft = SmolLM2Talk(model), model.skipping(*DRAFT_SKIPS)
    made: list[npt.NDArray[np.float32]] = []
    for request in range(REQUESTS):
        prompt = talk.prompt(request, 0)
        made += _chain(draft, prompt, request + 1)
    rows = np.stack(made)
    ids = np.sort(np.argsort(-rows, axis=1, kind="stable")[:, :KEPT], axis=1).astype(np.int32)
    whole = [dyadic_counts(row, 1.0) for row in rows[:DEPTH]]
    np.savez_compressed(
        FILE,
        logits=np.take_along_axis(rows, ids, axis=1),
        ids=ids,
        full_starts=np.cumsum([0] + [len(ids) for ids, _ in whole]).astype(np.int32),
        full_ids=np.concatenate([ids for ids, _ in whole]),
        full_counts=np.concatenate([counts for _, counts in whole]),
    )
    print(f"{FILE}: {len(rows)} rows, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    make()
