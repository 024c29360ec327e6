"""JSON and a frame of BF16 logits over pyzmq, as draft servers send them whose verifier samples: the logits of the same rows.

Nothing is checked but the shape. The verifier still has to make q of the logits, which is not timed.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import zmq

from .. import data
from . import precomputed

NAME = "JSON + BF16 logits, k=32, pyzmq"


def serve(tell: Callable[[str], None]) -> None:
    serve_logits(tell, 0)


def serve_logits(tell: Callable[[str], None], vocab: int) -> None:
    ids, values = precomputed.logits(vocab)
    with zmq.Context() as context, context.socket(zmq.PAIR) as sock:
        port = sock.bind_to_random_port("tcp://127.0.0.1")
        tell(f"tcp://127.0.0.1:{port}")
        while (asked := sock.recv()) != b"":
            steps = json.loads(asked)["requests"]
            answer = {
                "requests": [{"id": s["id"], "round": s["round"], "tokens": [7] * s["depth"]} for s in steps],
                "dtype": "bfloat16", "shape": values.shape, "ids": ids.shape,
            }  # fmt: skip
            sock.send_multipart([json.dumps(answer).encode(), ids, values], copy=False)


class Client:
    def __init__(self, address: str) -> None:
        self._context = zmq.Context()
        self._sock = self._context.socket(zmq.PAIR)
        self._sock.setsockopt(zmq.RCVTIMEO, 20_000)
        self._sock.setsockopt(zmq.LINGER, 0)
        self._sock.connect(address)
        self._round = 0

    def trip(self) -> int:
        self._round += 1
        steps = [
            {"id": number, "round": self._round, "position": 64 + self._round, "depth": data.DEPTH, "temperature": 1.0}
            for number in range(data.REQUESTS)
        ]
        self._sock.send(json.dumps({"requests": steps}).encode())
        head, ids, values = self._sock.recv_multipart(copy=False)
        shape = json.loads(bytes(head))
        logits = _widened(np.frombuffer(values.buffer, np.uint16).reshape(shape["shape"]))
        np.frombuffer(ids.buffer, np.int32).reshape(shape["ids"])
        return len(logits)

    def settle(self) -> None:
        """The next question says how far the request has come."""

    def close(self) -> None:
        self._sock.setsockopt(zmq.LINGER, 1_000)
        self._sock.send(b"")
        self._sock.close()
        self._context.term()


def _widened(values: np.ndarray) -> np.ndarray:
    wide = values.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)
