"""Who answers a round of four requests over loopback: each module has `serve`, run in a process of its own, and a `Client`.

`serve(tell)` listens, tells its address, answers one client and returns when that is gone. `Client(address).trip()` asks for four
proposals and returns when it holds their arrays; `settle()` does what belongs to the round and is not timed.
"""

from __future__ import annotations

from . import echo, grpc_protobuf, pp1, pp1_asyncio, zmq_json, zmq_json_full

MODULES = {
    module.NAME: module
    for module in (pp1, pp1_asyncio, echo, zmq_json, zmq_json_full, grpc_protobuf)
}
