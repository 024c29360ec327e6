"""`pp1wire.net`'s client, on asyncio, with the same worker."""

from __future__ import annotations

import asyncio

from pp1wire.net import Terms, connect
from pp1wire.protocol import Proposal
from pp1wire.wire import CommitKind, Representation

from .. import data, ends
from . import pp1

NAME = "pp1wire.net"
serve = pp1.serve


class Client:
    def __init__(self, address: str) -> None:
        self._loop = asyncio.new_event_loop()
        terms = Terms(
            vocab_size=data.VOCAB, id_map_sha256=bytes(32), draft_checkpoint_sha256=bytes(32), draft_revision="r1",
            target_sha256=bytes(32), max_slots=data.REQUESTS, max_depth=data.DEPTH, max_support=ends.SUPPORT,
            max_prefix=1 << 20, representations=(Representation.SPARSE,),
        )  # fmt: skip
        self._client = connect(address, terms, step_timeout=20.0)
        self._loop.run_until_complete(self._client.connect())
        self._requests = [
            self._client.request(list(range(ends.PREFIX)), root_seed=seed) for seed in range(data.REQUESTS)
        ]
        for request in self._requests:
            self._loop.run_until_complete(request.__aenter__())
        self.trip()
        self.settle()

    def trip(self) -> int:
        return self._loop.run_until_complete(self._all())

    async def _all(self) -> int:
        found = await asyncio.gather(*(request.propose() for request in self._requests))
        return sum(len(proposal.tokens) for proposal in found if isinstance(proposal, Proposal))

    def settle(self) -> None:
        for request in self._requests:
            request.commit(0, CommitKind.CORRECTION, [7])
        self._loop.run_until_complete(asyncio.sleep(0))

    def close(self) -> None:
        for request in self._requests:
            self._loop.run_until_complete(request.__aexit__(None, None, None))
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()
