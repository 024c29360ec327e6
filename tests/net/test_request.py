"""One request by hand: refusals change nothing, with a worker and without one, and leaving it leaves nobody waiting."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.net import connect
from pp1wire.protocol import Proposal
from pp1wire.wire import CommitKind
from tests.net.toys import DraftToy, pair, run, serving, terms, until

BONUS, CORRECTION = CommitKind.BONUS, CommitKind.CORRECTION


class SlowDraft(DraftToy):
    def logits(self, prefix, drafted):
        time.sleep(0.15)
        return super().logits(prefix, drafted)


@pytest.mark.parametrize("lost", [False, True], ids=["connected", "connection lost"])
def test_commits_that_do_not_fit_are_refused_whole_with_and_without_a_worker(lost):
    async def main():
        async with serving() as server, connect(server.address, terms(), reconnect_attempts=0) as client:
            async with client.request([1, 2], root_seed=5) as request:
                proposal = await request.propose(depth=2)
                assert isinstance(proposal, Proposal)
                if lost:
                    await server.aclose(0)
                    await until(lambda: not client.is_connected)
                first = int(proposal.tokens[0])
                for arguments in (
                    (1, CORRECTION, [first, 10**6]),
                    (1, CORRECTION, [first, -1]),
                    (1, CORRECTION, [first, 3.5]),
                    (1, CORRECTION, [first, 2**40]),
                    (1, CORRECTION, [first, "3"]),
                    (1, CORRECTION, [first + 1, 3]),
                    (1, CORRECTION, [first]),
                    (1, BONUS, [first, 3]),
                    (2, CORRECTION, [*proposal.tokens.tolist(), 3]),
                    (1, "correction", [first, 3]),
                    ("1", CORRECTION, [first, 3]),
                ):
                    with pytest.raises(LocalProtocolError):
                        request.commit(*arguments)
                    assert request.prefix().tolist() == [1, 2]
                    assert request.proposal is proposal
                with pytest.raises(LocalProtocolError, match="raw_accepted"):
                    request.commit(1, CORRECTION, [first, 3], raw_accepted=3)
                request.commit(1, CORRECTION, np.array([first, 3]))
                assert request.prefix().tolist() == [1, 2, first, 3]

    run(main())


def test_leaving_a_request_that_proposes_ends_the_wait():
    async def main():
        async with pair(model=SlowDraft(), step_timeout=30.0) as (_, client):
            request = client.request([1, 2], root_seed=5)
            async with request:
                waiting = asyncio.create_task(request.propose(depth=2))
                await asyncio.sleep(0.05)
            async with asyncio.timeout(5):
                with pytest.raises(LocalProtocolError, match="left"):
                    await waiting

    run(main())


def test_no_echo_a_request_is_entered_once_so_that_no_key_comes_twice():
    async def main():
        async with pair() as (_, client):
            request = client.request([1, 2], root_seed=5)
            async with request:
                await request.propose(depth=2)
                with pytest.raises(LocalProtocolError, match="once"):
                    await request.__aenter__()
            with pytest.raises(LocalProtocolError, match="once"):
                await request.__aenter__()

    run(main())
