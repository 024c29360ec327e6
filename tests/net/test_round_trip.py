"""Requests decoded over real sockets."""

from __future__ import annotations

import pytest

from pp1wire.wire import Representation
from tests.net.toys import collect, pair, run, tokens


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("representation", list(Representation))
def test_a_request_is_decoded(tmp_path, representation, unix):
    async def main():
        async with pair(tmp_path if unix else None, representation) as (server, client):
            rounds = await collect(client)
            return rounds, client, server

    rounds, client, server = run(main())
    assert len(tokens(rounds)) == 40
    assert rounds[-1].finish == "length"
    assert all(r.fallback is None for r in rounds)
    assert client.counters()["tokens"] == 40
