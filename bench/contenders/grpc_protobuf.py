"""A unary call of gRPC with protobuf messages, the columns as bytes fields, serialised from messages that are ready."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import grpc

from .. import data
from ..formats import protobuf_bytes
from ..formats.protobuf_messages import BytesBatch
from . import precomputed

NAME = "gRPC + protobuf"
_SERVICE = "pp1bench.Draft"


def serve(tell: Callable[[str], None]) -> None:
    message = BytesBatch.FromString(protobuf_bytes.encode(precomputed.batch()[1]))
    over = Event()

    def propose(asked: Any, _: Any) -> Any:
        if not asked.rows:
            over.set()
        return message

    handler = grpc.unary_unary_rpc_method_handler(propose, BytesBatch.FromString, BytesBatch.SerializeToString)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(_SERVICE, {"Propose": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    tell(f"127.0.0.1:{port}")
    over.wait()
    server.stop(1).wait()


class Client:
    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._propose = self._channel.unary_unary(
            f"/{_SERVICE}/Propose", BytesBatch.SerializeToString, protobuf_bytes.decode
        )
        self._round = 0

    def trip(self) -> int:
        self._round += 1
        asked = BytesBatch()
        for slot in range(data.REQUESTS):
            asked.rows.add(session=slot + 1, slot=slot, generation=1, round=self._round, position=64 + self._round)
        return len(self._propose(asked, timeout=20))

    def settle(self) -> None:
        """The next call says how far the request has come."""

    def close(self) -> None:
        self._propose(BytesBatch(), timeout=20)
        self._channel.close()
