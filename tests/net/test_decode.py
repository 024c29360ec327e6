"""Requests decoded over real sockets: the same tokens whatever runs beside them, and where they end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.net import connect, decode
from pp1wire.protocol import Proposal, TargetOnly
from pp1wire.wire import CommitKind, Representation
from tests.net.toys import TargetToy, collect, history, honest, pair, puppet, run, serving, terms, tokens, until


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("representation", list(Representation))
def test_a_request_is_decoded(tmp_path, representation, unix):
    async def main():
        async with pair(tmp_path if unix else None, representation) as (server, client):
            rounds = await collect(client)
            assert client.agreement.representation is representation
        return rounds, client, server

    rounds, client, server = run(main())
    assert len(tokens(rounds)) == 40
    assert [r.finish for r in rounds] == [None] * (len(rounds) - 1) + ["length"]
    assert all(r.fallback is None for r in rounds)
    assert [r.round for r in rounds] == list(range(1, len(rounds) + 1))
    counters = client.counters()
    assert counters["tokens"] == 40 == server.counters()["tokens"]
    assert counters["proposals"] == len(rounds) == server.stages.runs["draft"] == client.stages.runs["verify"]
    assert sum(counters["committed"]) == sum(r.accepted for r in rounds)
    assert not (tmp_path / "w").exists()


def test_a_support_is_of_sparse_rows_and_of_no_account_where_the_worker_chose_dense_ones(tmp_path):
    async def main():
        async with pair(None, Representation.DENSE) as (_, client):
            return await collect(client, support=3)

    rounds = run(main())
    assert len(tokens(rounds)) == 40
    assert all(r.fallback is None for r in rounds)
    assert sum(r.accepted for r in rounds) > 0


def test_rows_stay_paired_and_four_in_flight_draw_what_one_at_a_time_draws():
    prompts = [(n, 5, n) for n in range(8)]

    async def alone(client):
        return [history(await collect(client, p, root_seed=n)) for n, p in enumerate(prompts)]

    async def together(*clients):
        runs = [collect(clients[n % len(clients)], p, root_seed=n) for n, p in enumerate(prompts)]
        return [history(r) for r in await asyncio.gather(*runs)]

    async def main():
        async with serving() as server, connect(server.address, terms()) as a, connect(server.address, terms()) as b:
            return await alone(a), await together(b), await together(b, a), max(a.counters()["accepted"])

    one, four, two_sockets, accepted = run(main())
    assert one == four == two_sockets
    assert len({str(h) for h in one}) == len(prompts)
    assert accepted


def test_more_tokens_continue_the_same_text_and_a_stop_cuts_it():
    async def main():
        async with pair() as (_, client):
            long = tokens(await collect(client, max_tokens=30))
            short = {n: await collect(client, max_tokens=n) for n in range(1, 12)}
            stopped = {t: await collect(client, max_tokens=30, stop_ids={t}) for t in sorted(set(long))}
        return long, short, stopped

    long, short, stopped = run(main())
    for n, rounds in short.items():
        assert tokens(rounds) == long[:n]
        assert rounds[-1].finish == "length"
    cut_inside = 0
    for token, rounds in stopped.items():
        assert tokens(rounds) == long[: long.index(token) + 1]
        assert rounds[-1].finish == "stop"
        last = rounds[-1]
        if last.kind is CommitKind.NONE:
            cut_inside += 1
            assert last.accepted == len(last.tokens) <= last.raw_accepted
    assert cut_inside


def test_chunking_a_byte_at_a_time_changes_nothing():
    async def slowly(core, step, writer):
        honest(core, step)
        for byte in core.data_to_send():
            writer.write(bytes([byte]))
            await asyncio.sleep(0)

    async def main():
        async with puppet(slowly, chunk=1) as (address, _), connect(address, terms()) as client:
            slow = await collect(client, max_tokens=12)
        async with pair() as (_, client):
            return slow, await collect(client, max_tokens=12)

    slow, fast = run(main())
    assert history(slow) == history(fast)


def test_prefix_limit_ends_drafting_but_not_the_request():
    async def main():
        own = terms(max_prefix=20)
        async with serving(own=own) as server, connect(server.address, own) as client:
            return await collect(client, max_tokens=40), client

    rounds, client = run(main())
    assert len(tokens(rounds)) == 40
    drafting = [r for r in rounds if r.fallback is None]
    assert drafting == rounds[: len(drafting)]
    assert {r.fallback for r in rounds[len(drafting) :]} == {"prefix_limit"}
    assert client.counters()["states"]["session.closed"] == 1


def test_more_requests_than_slots_wait_for_one():
    async def main():
        async with pair() as (_, client):
            runs = await asyncio.gather(*(collect(client, root_seed=n, max_tokens=10) for n in range(9)))
        return runs, client

    runs, client = run(main())
    assert all(r.fallback is None for rounds in runs for r in rounds)
    assert client.counters()["states"]["session.closed"] == 9


def test_leaving_early_closes_the_session():
    async def main():
        async with pair() as (server, client):
            async with aclosing(decode(client, TargetToy(), [1], max_tokens=400)) as stream:
                async for _ in stream:
                    break
            async with client.request([1]) as request:
                assert isinstance(await request.propose(), Proposal)
        return server.counters()["states"]["session.closed"], client.counters()["discards"]["cancelled"]

    assert run(main()) == (2, 1)


def test_a_request_step_by_step():
    async def main():
        async with pair() as (_, client), client.request([3, 1], root_seed=5) as request:
            first = await request.propose(depth=3, temperature=0.7, support=4)
            assert isinstance(first, Proposal)
            assert (first.depth, request.proposal, request.round) == (3, first, 1)
            assert request.key.position == first.position == 2
            with pytest.raises(LocalProtocolError, match="a proposal is held"):
                await request.propose()
            with pytest.raises(LocalProtocolError, match="commit or discard"):
                request.target_only(1)
            drafted = first.tokens.tolist()
            for arguments in (
                (3, CommitKind.CORRECTION, [*drafted, 1]),
                (2, CommitKind.BONUS, [*drafted[:2], 1]),
                (0, CommitKind.NONE, []),
                (1, CommitKind.CORRECTION, [(drafted[0] + 1) % 16, 1]),
                (1, CommitKind.TARGET_ONLY, [drafted[0], 1]),
            ):
                with pytest.raises(LocalProtocolError):
                    request.commit(*arguments)
            request.commit(1, CommitKind.CORRECTION, [drafted[0], 9], raw_accepted=1)
            assert request.prefix().tolist() == [3, 1, drafted[0], 9]
            with pytest.raises(LocalProtocolError, match="no proposal"):
                request.discard()
            await request.propose()
            discarded = request.discard()
            assert isinstance(discarded, TargetOnly)
            assert (discarded.reason, request.generation, request.round) == ("consumer", 2, 0)
            assert request.key.round == 1
            request.target_only(4)
            assert (request.generation, request.round, request.position) == (2, 1, 5)
            with pytest.raises(LocalProtocolError, match="0 to 15"):
                request.target_only(16)
            with pytest.raises(LocalProtocolError, match="depth"):
                await request.propose(depth=6)
            assert (await request.propose()).round == 2

    run(main())


def test_a_cancelled_wait_gives_the_round_up_and_the_request_goes_on():
    async def never(core, step, writer):
        if step.generation > 1:
            honest(core, step)

    async def main():
        async with (
            puppet(never) as (address, _),
            connect(address, terms()) as client,
            client.request([1]) as request,
        ):
            waiting = asyncio.create_task(request.propose())
            await asyncio.sleep(0.02)
            with pytest.raises(LocalProtocolError, match="proposes already"):
                await request.propose()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert request.generation == 2
            proposal = await request.propose()
            assert (proposal.generation, proposal.round) == (2, 1)
            assert client.counters()["discards"]["cancelled"] == 1

    run(main())


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([16], {"max_tokens": 3}, "token ids: expected 0 to 15, got 16 to 16"),
        ([-1], {"max_tokens": 3}, "token ids: expected 0 to 15"),
        ([0.5], {"max_tokens": 3}, "token ids: expected integers"),
        ([1], {"max_tokens": 0}, "max_tokens: expected at least 1"),
        ([1], {"max_tokens": 3, "depth": 6}, "depth"),
        ([1], {"max_tokens": 3, "support": 9}, "support"),
        ([1], {"max_tokens": 3, "draft_temperature": 0.0}, "temperature"),
    ],
)
def test_wrong_arguments_are_refused_and_cost_nothing(prompt, options, message):
    async def main():
        async with pair() as (_, client):
            with pytest.raises(LocalProtocolError, match=message):
                await collect(client, prompt, **options)
            return await collect(client)

    assert len(tokens(run(main()))) == 40


def test_target_only_tokens_outgrow_the_prefix_too():
    async def main():
        own = terms(max_prefix=20)
        async with (
            serving(own=own) as server,
            connect(server.address, own) as client,
            client.request([1] * 14) as request,
        ):
            assert isinstance(await request.propose(), Proposal)
            request.discard()
            for n in range(8):
                request.target_only(n)
            assert request.position == 22
            await until(lambda: server.counters()["states"]["session.closed"] == 1)
            return server.counters()["target_only"], client.events["target_only_without_worker"]

    assert run(main()) == (6, 2)


@pytest.mark.parametrize("cancel_first", [False, True])
def test_a_wait_cancelled_as_its_proposal_comes_holds_no_buffer(cancel_first):
    async def keep(core, step, writer):
        honest(core, step)
        if step.generation == 1:
            keep.data = core.data_to_send()

    async def main():
        keep.data = None
        async with (
            puppet(keep) as (address, _),
            connect(address, terms()) as client,
            client.request([1]) as request,
        ):
            waiting = asyncio.create_task(request.propose())
            await until(lambda: keep.data)
            if cancel_first:
                waiting.cancel()
            client._connection.link_received(memoryview(keep.data))
            waiting.cancel()
            (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
            assert isinstance(outcome, asyncio.CancelledError)
            assert request.proposal is None
            assert client._connection.core._pool.held() == 0
            assert (await request.propose()).generation == 2

    run(main())
