"""Errors of the endpoints: one line each, naming the address and what to do."""

from __future__ import annotations

from typing import Final

from pp1wire.errors import PP1Error
from pp1wire.wire import RemoteProtocolError

__all__ = ["CapacityError", "ConnectError", "NetError", "TargetModelError", "drop_frames", "summary"]

_LONGEST = 300
_SHOWN: Final = frozenset(
    f"{message}.{field}"
    for message, fields in {
        "header": "wire_version message_type sequence body_length slot agreement_id session generation round",
        "hello": "role status refusal precision draft_origin representations max_slots features vocab_size padded_vocab_size "
        "max_support max_prefix max_depth dense_reply_bytes sparse_reply_bytes nonce q_semantic verifier_semantic rng_abi "
        "id_map_sha256 draft_checkpoint_sha256 target_sha256 draft_revision",
        "step": "position depth support_policy temperature support context_version",
        "reply": "position entry_count representation shard_first_id shard_id_count",
        "completion": "position context_version reply_bytes status rows",
        "commit": "position new_position accepted kind token_count",
        "reset": "reason position prefix_count",
    }.items()
    for field in fields.split()
) | {"frame"}
"""Fields whose values may be logged. All others are tokens, probabilities, seeds, or digests of them."""


class NetError(PP1Error):
    """An endpoint could not do what it was asked to."""


class ConnectError(NetError):
    """No agreement with a worker at this address.

    Attributes:
        retryable: whether trying again later can help (nobody listens, the worker is full or draining, its answer came damaged),
            or never will (the two ends disagree on what they are bound to, the worker does not accept this end's certificate,
            or the peer speaks another protocol).
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class TargetModelError(NetError):
    """The verifier's own model failed; its exception is the cause."""


class CapacityError(NetError):
    """For draft models to raise: no room for this request now. The round completes with status `capacity`."""


def summary(error: BaseException) -> str:
    """An exception on one printable line of bounded length, for logs: its type, unless it is ours, and its message.

    Of a reject it tells the values only where they are no user's content.
    """
    if isinstance(error, RemoteProtocolError) and error.path not in _SHOWN:
        text = f"{error.code.name.lower()} at byte {error.offset}, {error.path} ({error.scope} scope)"
    else:
        text = " ".join(str(error)[: 4 * _LONGEST].split())[:_LONGEST]
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    name = type(error).__name__
    if isinstance(error, PP1Error):
        return text or name
    return f"{name}: {text}" if text else name


def drop_frames(error: BaseException | None) -> None:
    """Let an exception that is kept hold no frames: they hold their callers', and those the buffers that were being read."""
    while error is not None:
        error.__traceback__ = None
        error = error.__context__
