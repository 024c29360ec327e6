"""Connections that cannot be accepted: no descriptors are left, the queue is full, or the server has just ended."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest

from pp1wire.net import ConnectError, connect
from tests.net.toys import collect, pair, run, serving, terms, tokens, until


@contextmanager
def no_more_descriptors():
    """As if every descriptor of this process were in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_without_descriptors_rounds_go_on_and_each_pause_is_told_once(monkeypatch):
    """asyncio itself tells it a hundred times a pause."""
    pause = 0.2
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", pause)
    told, times = [], []

    async def main():
        loop = asyncio.get_running_loop()

        def tell(_, context):
            told.append(context["message"])
            times.append(loop.time())

        loop.set_exception_handler(tell)
        async with pair() as (server, client):
            await collect(client)  # so that its threads are there
            with ExitStack() as stack:
                waiting = [stack.enter_context(socket.socket()) for _ in range(8)]
                with no_more_descriptors():
                    for sock in waiting:
                        sock.connect((server.address.host, server.address.port))
                    await until(lambda: told)
                    assert len(tokens(await collect(client))) == 40
                    assert server.connections == 1
                    await until(lambda: len(told) > 1)
                await until(lambda: server.connections == 9)
            await until(lambda: server.connections == 1)
            assert len(tokens(await collect(client))) == 40

    asyncio.run(asyncio.wait_for(main(), 20))
    assert set(told) == {"socket.accept() out of system resource"}
    assert all(later - earlier > pause / 2 for earlier, later in pairwise(times))


def test_a_unix_socket_with_a_full_queue_is_waited_for(tmp_path):
    path = f"{tmp_path}/w"

    async def main():
        with socket.socket(socket.AF_UNIX) as full, ExitStack() as stack:
            full.bind(path)
            full.listen(0)
            first = stack.enter_context(socket.socket(socket.AF_UNIX))
            first.connect(path)
            with pytest.raises(ConnectError, match="no answer in time") as caught:
                await connect(f"unix:{path}", terms(), connect_timeout=0.1).connect()
            assert caught.value.retryable
            waiting = asyncio.create_task(connect(f"unix:{path}", terms(), hello_timeout=0.05).connect())
            await asyncio.sleep(0.05)
            stack.enter_context(full.accept()[0])
            with pytest.raises(ConnectError, match="did not answer the offer"):
                await waiting

    run(main())


def test_a_connection_accepted_while_the_server_ends_is_closed():
    """asyncio accepts in one turn of the loop and asks for a protocol in the next; the server may end between them."""
    closed = []

    class Transport(asyncio.Transport):
        def close(self):
            closed.append(self)

    async def main():
        async with serving() as server:
            await server.aclose()
            server._accept().connection_made(Transport())
            return server.connections

    assert run(main()) == 0
    assert len(closed) == 1
