"""As many bytes as this package sends, there and back over the same kind of socket, and nothing done with them: the bound."""

from __future__ import annotations

from collections.abc import Callable

from .. import data
from . import pp1
from .loopback import accepted, connected, read_exactly

NAME = "bare echo"


def serve(tell: Callable[[str], None]) -> None:
    asked, answer = (bytearray(size) for size in pp1.exchanged_bytes())
    with accepted(tell) as sock:
        while read_exactly(sock, memoryview(asked)):
            sock.sendall(answer)


class Client:
    def __init__(self, address: str) -> None:
        self._sock = connected(address)
        sizes = pp1.exchanged_bytes()
        self._ask, self._view = bytes(sizes[0]), memoryview(bytearray(sizes[1]))

    def trip(self) -> int:
        self._sock.sendall(self._ask)
        if not read_exactly(self._sock, self._view):
            raise ConnectionError("the echo is gone")
        return data.REQUESTS * data.DEPTH

    def settle(self) -> None:
        """Nothing belongs to an echo."""

    def close(self) -> None:
        self._sock.close()
