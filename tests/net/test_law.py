"""The law of what comes out of sockets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pp1wire.net import connect
from pp1wire.wire import Representation
from tests.net.toys import DraftToy, TargetToy, V, collect, run, serving, terms, tokens


class FlatTarget(TargetToy):
    """Depends on the token before alone, so that every step of a long text is a draw from one of V laws."""

    def row(self, position, last):
        return self.bias[last]


class FlatDraft(DraftToy):
    row = FlatTarget.row


def law(target):
    p = np.exp(target.bias.astype(np.float64))
    return p / p.sum(axis=1, keepdims=True)


def chi_square(pairs, p):
    """Sum over contexts of the chi-square of the next token, and its 0.999 quantile (Wilson and Hilferty 1931)."""
    seen = np.zeros((V, V))
    np.add.at(seen, tuple(np.array(pairs).T), 1)
    expected = seen.sum(axis=1, keepdims=True) * p
    assert expected.min() > 0.3
    df = V * (V - 1)
    limit = df * (1 - 2 / (9 * df) + 3.09 * (2 / (9 * df)) ** 0.5) ** 3
    return float(((seen - expected) ** 2 / expected).sum()), limit


@pytest.mark.parametrize("representation", list(Representation))
def test_exact_law_of_decoded_tokens(representation):
    own = terms(representation, max_prefix=8192)
    target = FlatTarget()
    target.bias *= np.float32(0.7)
    draft = FlatDraft(noise=0.8)

    async def main():
        async with serving(model=draft, own=own) as server, connect(server.address, own) as client:
            return await collect(client, [0], target=target, max_tokens=2500, root_seed=11)

    rounds = run(main(), limit=60)
    text = [0, *tokens(rounds)]
    statistic, limit = chi_square(list(pairwise(text)), law(target))
    assert statistic < limit
    # [evidence] drafts, acceptances and rejections were all seen, and the test could have failed: drafted tokens do.
    kinds = {kind: sum(r.kind.name == kind for r in rounds) for kind in ("CORRECTION", "BONUS")}
    assert min(kinds.values()) > 20
    assert sum(r.accepted for r in rounds) > 300
    drafted = [(text[r.position - 1], r.drafted[0]) for r in rounds]
    drafted += [pair for r in rounds for pair in pairwise(r.drafted)]
    statistic, limit = chi_square(drafted, law(target))
    assert statistic > 3 * limit
