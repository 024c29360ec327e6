"""Exact draft distributions for speculative decoding across machines: the PP1 v2 wire protocol and its validator.

The names here are the public ones. `pp1wire.sampling` makes and verifies what the messages carry, `pp1wire.net` serves both
ends over sockets, `pp1wire.capture` records and judges traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pp1wire.errors import LocalProtocolError, PP1Error
from pp1wire.wire import (
    Agreement,
    Commit,
    Completion,
    FrameReader,
    Hello,
    Limits,
    RejectCode,
    RemoteProtocolError,
    Reply,
    ReplyBatch,
    Reset,
    Step,
    decode,
    decode_replies,
    encode,
    encode_replies,
)

if TYPE_CHECKING:
    from pp1wire.protocol import Verifier, Worker, agree

__version__ = "0.1.0"

__all__ = [
    "Agreement",
    "Commit",
    "Completion",
    "FrameReader",
    "Hello",
    "Limits",
    "LocalProtocolError",
    "PP1Error",
    "RejectCode",
    "RemoteProtocolError",
    "Reply",
    "ReplyBatch",
    "Reset",
    "Step",
    "Verifier",
    "Worker",
    "agree",
    "decode",
    "decode_replies",
    "encode",
    "encode_replies",
]


def __getattr__(name: str) -> object:
    # A decoder needs no endpoints, and importing them costs as much as numpy.
    if name in ("Verifier", "Worker", "agree"):
        import pp1wire.protocol

        return getattr(pp1wire.protocol, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
