"""The same with the logits of the whole vocabulary, which is what exactness takes where no q is sent."""

from __future__ import annotations

from collections.abc import Callable

from .. import data
from . import zmq_json

NAME = "JSON + BF16 logits, whole vocabulary, pyzmq"
Client = zmq_json.Client


def serve(tell: Callable[[str], None]) -> None:
    zmq_json.serve_logits(tell, data.VOCAB)
