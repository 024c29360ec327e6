"""Who answers a round of four requests over loopback: each module has `serve`, run in a process of its own, and a `Client`.

`serve(tell)` listens, tells its address, answers one client and returns when that is gone. `Client(address).trip()` asks for four
proposals and returns when it holds their arrays; `settle()` does what belongs to the round and is not timed.
"""

from __future__ import annotations

import importlib
from typing import Any

NAMES = ("pp1", "pp1_asyncio", "echo", "zmq_json", "zmq_json_full", "grpc_protobuf")


def module(name: str) -> Any:
    """One contender; loaded by itself, so that its process holds nothing of the others."""
    return importlib.import_module(f".{name}", __name__)
