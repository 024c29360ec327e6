"""Peers that end their half of a connection and read no more: nothing is kept for them."""

from __future__ import annotations

import asyncio
import socket

import numpy as np

from pp1wire.protocol import ConnectionState, Verifier
from pp1wire.wire import HelloRole, Representation
from tests.net.toys import run, serving, terms, until

V = 20_000  # two proposals are more than a Unix socket buffers, and less than what holds a worker's reading


class Wide:
    def open(self, capacity):
        return self

    def logits(self, prefix, drafted):
        return np.zeros(V, np.float32)


def test_a_verifier_that_ends_its_half_and_reads_no_more_holds_no_connection(tmp_path, monkeypatch):
    monkeypatch.setattr("pp1wire.net.link._LINGER", 0.05)
    own = terms(Representation.DENSE, vocab_size=V)

    async def main():
        loop = asyncio.get_running_loop()
        async with serving(f"unix:{tmp_path}/w", Wide(), own, write_timeout=3600) as server:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.setblocking(False)
                await loop.sock_connect(sock, f"{tmp_path}/w")
                core = Verifier(own.hello(HelloRole.OFFER), hello_timeout=5, step_timeout=5)
                core.start(loop.time())
                await loop.sock_sendall(sock, core.data_to_send())
                while core.state is not ConnectionState.OPEN:
                    core.receive(await loop.sock_recv(sock, 65536), loop.time())
                for _ in range(2):
                    core.step(core.open([1], 7, 0), loop.time(), depth=3)
                await loop.sock_sendall(sock, core.data_to_send())
                (connection,) = server._connections
                await until(lambda: server.counters()["proposals"] == 2)
                assert connection.link._transport.get_write_buffer_size() > 0
                sock.shutdown(socket.SHUT_WR)
                await until(lambda: server.connections == 0)

    run(main())
