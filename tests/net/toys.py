"""Small models, terms and helpers for the tests of the endpoints."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager

import numpy as np

from pp1wire.net import Terms, WorkerServer, connect, decode
from pp1wire.sampling import counts_from_weights
from pp1wire.wire import Representation

V = 16


def terms(representation=Representation.SPARSE, **changes):
    values = dict(
        vocab_size=V, id_map_sha256=b"m" * 32, draft_checkpoint_sha256=b"d" * 32, draft_revision="r1",
        target_sha256=b"t" * 32, max_support=8, max_prefix=512, representations=(representation,),
    )  # fmt: skip
    return Terms(**(values | changes))


class Markov:
    """Logits that depend on the position and the token before: a draft and a target, one unlike the other by `noise`."""

    def __init__(self, noise=0.0, seed=1, calls=None):
        rng = np.random.default_rng(seed)
        base, bias = rng.normal(size=(7, V)), rng.normal(size=(V, V))
        other = np.random.default_rng(seed + 1)
        self.base = (base + noise * other.normal(size=(7, V))).astype(np.float32)
        self.bias = (bias + noise * other.normal(size=(V, V))).astype(np.float32)

    def row(self, tokens):
        return self.base[len(tokens) % 7] + self.bias[tokens[-1] if len(tokens) else 0]


class Draft(Markov):
    def open(self, capacity):
        return self

    def logits(self, prefix, drafted):
        return self.row([*prefix.tolist(), *drafted])


class Target(Markov):
    def open(self, capacity):
        return self

    def logits(self, prefix, drafted):
        tokens = [*prefix.tolist(), *drafted.tolist()]
        return np.stack([self.row(tokens[:n]) for n in range(len(prefix), len(tokens) + 1)])


@asynccontextmanager
async def serving(address="127.0.0.1:0", model=None, own=None, **options):
    async with WorkerServer(address, model or Draft(noise=0.4), own or terms(), **options) as server:
        yield server


@asynccontextmanager
async def pair(tmp_path=None, representation=Representation.SPARSE, model=None, server_options=None, **options):
    """A server, and a client connected to it, over TCP or a Unix socket."""
    address = "127.0.0.1:0" if tmp_path is None else f"unix:{tmp_path}/w"
    async with serving(address, model, terms(representation), **(server_options or {})) as server:
        async with connect(server.address, terms(representation), **options) as client:
            yield server, client


async def collect(client, prompt=(1, 2, 3), *, target=None, max_tokens=40, root_seed=7, **options):
    rounds = []
    async with aclosing(
        decode(client, target or Target(), prompt, max_tokens=max_tokens, root_seed=root_seed, **options)
    ) as stream:
        async for round_ in stream:
            rounds.append(round_)
    return rounds


def history(rounds):
    """What two runs must have in common, byte for byte: everything but times."""
    return [
        (
            r.tokens,
            r.kind,
            r.accepted,
            r.raw_accepted,
            r.drafted,
            r.fallback,
            r.generation,
            r.round,
            r.position,
            r.finish,
        )
        for r in rounds
    ]


def tokens(rounds):
    return [t for r in rounds for t in r.tokens]


def run(coroutine, limit=20):
    """asyncio.run in debug-free mode with a limit; leftover tasks and errors in callbacks fail the test."""

    async def main():
        loop, faults = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        async with asyncio.timeout(limit):
            result = await coroutine
        for _ in range(3):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        assert not faults, faults
        return result

    return asyncio.run(main())


__all__ = ["counts_from_weights"]
