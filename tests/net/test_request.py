"""One request by hand: refusals change nothing, with a worker and without one, and leaving it leaves nobody waiting."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.net import WorkerServer, connect
from pp1wire.protocol import Proposal, TargetOnly
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


def test_a_proposal_that_arrives_as_its_request_is_left_holds_no_buffer():
    async def main():
        async with pair(step_timeout=5.0) as (_, client):
            for seed in range(3):
                request = client.request([1], root_seed=seed)
                await request.__aenter__()
                waiting = asyncio.create_task(request.propose(depth=2))
                core = client._connection.core
                before = core.counters.proposals
                while core.counters.proposals == before:
                    await asyncio.sleep(0)
                await request.__aexit__(None, None, None)
                with pytest.raises(LocalProtocolError, match="left"):
                    await waiting
                assert core._pool.held() == 0
            with pytest.raises(LocalProtocolError, match="not entered"):
                request.target_only(3)

    run(main())


@pytest.mark.parametrize("smaller", [{"max_depth": 3}, {"max_support": 2}], ids=str)
def test_a_worker_that_comes_back_with_less_costs_proposals_and_nothing_else(smaller):
    async def main():
        server = WorkerServer("127.0.0.1:0", DraftToy(), terms())
        await server.start()
        async with connect(server.address, terms(), reconnect_delay=0.01) as client:
            async with client.request([1, 2], root_seed=5) as request:
                asked = {"depth": 5, "support": 4}
                assert isinstance(await request.propose(**asked), Proposal)
                await server.aclose(0)
                request.discard()
                async with WorkerServer(server.address, DraftToy(), terms(**smaller)):
                    await until(lambda: client.is_connected)
                    outcome = await request.propose(**asked)
                    assert isinstance(outcome, TargetOnly)
                    assert outcome.reason == "smaller_terms"
                    assert client.fallbacks["smaller_terms"] == 1
                    request.target_only(3)
                    assert isinstance(await request.propose(), Proposal)

    run(main())
