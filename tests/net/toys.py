"""Small models, terms and helpers for the tests of the endpoints."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, suppress

import numpy as np

from pp1wire.net import Terms, WorkerServer, connect, decode
from pp1wire.protocol import Draft, Worker
from pp1wire.sampling import Key, draft_chain
from pp1wire.wire import HelloRole, Representation

V = 16


def terms(representation=Representation.SPARSE, **changes):
    values = {
        "vocab_size": V, "id_map_sha256": b"m" * 32, "draft_checkpoint_sha256": b"d" * 32, "draft_revision": "r1",
        "target_sha256": b"t" * 32, "max_support": 8, "max_prefix": 512, "representations": (representation,),
    }  # fmt: skip
    return Terms(**(values | changes))


class Markov:
    """Logits that depend on the position and the token before; `noise` makes one model unlike another."""

    def __init__(self, noise=0.0, seed=1):
        rng, other = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        self.base = (rng.normal(size=(7, V)) + noise * other.normal(size=(7, V))).astype(np.float32)
        self.bias = (rng.normal(size=(V, V)) + noise * other.normal(size=(V, V))).astype(np.float32)

    def open(self, capacity):
        return self

    def row(self, position, last):
        return self.base[position % 7] + self.bias[last]


class DraftToy(Markov):
    def __init__(self, noise=0.4, seed=1):
        super().__init__(noise, seed)

    def logits(self, prefix, drafted):
        last = drafted[-1] if drafted else prefix[-1] if len(prefix) else 0
        return self.row(len(prefix) + len(drafted), last)


class TargetToy(Markov):
    def logits(self, prefix, drafted):
        tail = [int(prefix[-1]) if len(prefix) else 0, *drafted.tolist()]
        return np.stack([self.row(len(prefix) + i, last) for i, last in enumerate(tail)])


@asynccontextmanager
async def serving(address="127.0.0.1:0", model=None, own=None, **options):
    async with WorkerServer(address, model or DraftToy(), own or terms(), **options) as server:
        yield server


@asynccontextmanager
async def pair(tmp_path=None, representation=Representation.SPARSE, model=None, server_options=None, **options):
    """A server, and a client connected to it, over TCP or a Unix socket."""
    address = "127.0.0.1:0" if tmp_path is None else f"unix:{tmp_path}/w"
    own = terms(representation)
    async with (
        serving(address, model, own, **(server_options or {})) as server,
        connect(server.address, own, **options) as client,
    ):
        yield server, client


async def collect(client, prompt=(1, 2, 3), *, target=None, max_tokens=40, root_seed=7, **options):
    """All rounds of one request."""
    stream = decode(client, target or TargetToy(), prompt, max_tokens=max_tokens, root_seed=root_seed, **options)
    async with aclosing(stream):
        return [round_ async for round_ in stream]


def history(rounds):
    """What two runs must have in common, byte for byte: everything but times."""
    return [
        (r.tokens, r.kind, r.accepted, r.raw_accepted, r.drafted, r.fallback, r.generation, r.round, r.position, r.finish)
        for r in rounds
    ]  # fmt: skip


def tokens(rounds):
    return [t for r in rounds for t in r.tokens]


def run(coroutine, limit=20):
    """asyncio.run with a limit; tasks left over, and errors in callbacks, fail the test."""

    async def main():
        faults = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        async with asyncio.timeout(limit):
            result = await coroutine
        for _ in range(3):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        assert not faults, faults
        return result

    return asyncio.run(main())


async def until(condition):
    """Wait for something that another task or thread is about to do."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


def honest(core, step):
    """Answer a STEP as a worker should."""
    toy, prefix = DraftToy(), core.prefix_ids(step.session)
    key = Key(step.proposal_seed, step.generation, step.round, step.position)
    chain = draft_chain(
        lambda _, drafted: toy.logits(prefix, drafted), step.temperature, key, depth=step.depth, top_k=step.support
    )
    core.reply(step, chain.tokens, chain.rows)


@asynccontextmanager
async def puppet(on_draft=None, *, own=None, chunk=None):
    """A worker in the test's hands: `on_draft(core, step, writer)` for each STEP. Yields its address and its cores.

    `own` are the terms of its connections, one after another; the last is kept.
    """
    cores, writers = [], []

    async def serve(reader, writer):
        core = Worker((own[min(len(cores), len(own) - 1)] if own else terms()).hello(HelloRole.ANSWER))
        cores.append(core)
        writers.append(writer)
        with suppress(ConnectionError):
            while data := await reader.read(chunk or 65536):
                for event in core.receive(data):
                    if isinstance(event, Draft):
                        await on_draft(core, event.step, writer)
                writer.write(core.data_to_send())
                await writer.drain()
        writer.close()

    async with scripted(serve) as address:
        yield address, cores


@asynccontextmanager
async def scripted(serve):
    """A server of any behaviour: `serve(reader, writer)` for each connection. Yields its address."""
    tasks, writers = set(), []

    async def handle(reader, writer):
        tasks.add(asyncio.current_task())
        writers.append(writer)
        with suppress(ConnectionError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def raw(server, *pieces, shut=False):
    """Send bytes to a server as they are; everything it answers until it closes."""
    address = server.address
    reader, writer = await asyncio.open_connection(address.host, address.port)
    for piece in pieces:
        writer.write(piece)
    if shut:
        writer.write_eof()
    try:
        async with asyncio.timeout(5):
            return await reader.read(-1)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
