"""TCP on loopback without delay, as plain blocking sockets."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

READ_BYTES = 1 << 20


@contextmanager
def accepted(tell: Callable[[str], None]) -> Iterator[socket.socket]:
    """Listen, tell where, and take one client."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        tell(f"127.0.0.1:{server.getsockname()[1]}")
        client, _ = server.accept()
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield client


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_exactly(sock: socket.socket, view: memoryview) -> bool:
    """Fill `view`; False if the other end is gone."""
    got = 0
    while got < len(view):
        n = sock.recv_into(view[got:])
        if not n:
            return False
        got += n
    return True
