"""Rejects: what the peer did wrong, where, and what it costs."""

from __future__ import annotations

from enum import Enum, EnumType
from typing import Any, Final

from pp1wire.errors import PP1Error
from pp1wire.wire._schema_v2 import DIRECTIONS, MessageType, RejectCode

__all__ = ["MESSAGE_NAMES", "RemoteProtocolError", "short"]

MESSAGE_NAMES: Final = {message_type: message_type.name.lower() for message_type in MessageType}
"""As they stand in paths and reports."""


class RemoteProtocolError(PP1Error):
    """The peer broke a rule of the protocol.

    Attributes:
        code: the rule, stable across versions of this package (`docs/reject-codes.md`).
        offset: bytes from the start of the stream or buffer to the field that is wrong.
        path: that field, such as `header.sequence`, `step.temperature` or `reply.q[3]`.
        message_type: the message it was found in; None while the header is not yet believed.
        identity: (session, generation, round) of the frame; None while the header is not yet believed.
    """

    # Slots, positional arguments and texts made when asked for: who sends nonsense must cost no more than who sends sense.
    __slots__ = ("_actual", "_expected", "code", "identity", "message_type", "offset", "path")

    def __init__(
        self,
        code: RejectCode,
        offset: int,
        path: str,
        expected: object,
        actual: object,
        message_type: MessageType | None = None,
        identity: tuple[int, int, int] | None = None,
    ) -> None:
        self.code = code
        self.offset = offset
        self.path = path
        self._expected = expected
        self._actual = actual
        self.message_type = message_type
        self.identity = identity
        # BaseException keeps the positional arguments, and `super().__init__` would only do it again.

    @property
    def expected(self) -> str:
        """What the rule requires, for people."""
        return _shown(self._expected)

    @property
    def actual(self) -> str:
        """What was found, for people."""
        return _shown(self._actual)

    @property
    def scope(self) -> str:
        """What it costs: connection, proposal or stale; anything wrong in what the worker receives costs the connection."""
        if self.message_type is not None and DIRECTIONS[self.message_type] != "worker_to_verifier":
            return "connection"
        return self.code.scope

    def __str__(self) -> str:
        where = f"byte {self.offset}, {self.path}"
        return f"{self.code.name.lower()} at {where}: expected {self.expected}, got {self.actual} ({self.scope} scope)"


def short(value: object) -> str:
    """The start of `repr(value)`, for one line of text about a value that may be anything."""
    try:
        text = repr(value)
    except ValueError:
        # Python writes no integer of more than some thousand digits.
        return f"a huge {type(value).__name__}"
    return " ".join(text.split()) if len(text) <= 200 else f"{text[:200]}…"


def _shown(value: object) -> str:
    if isinstance(value, EnumType):
        return f"one of {', '.join(str(int(member)) for member in list[Any](value))}"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, range):
        return f"{value[0]} to {value[-1]}"
    if isinstance(value, bytes):  # of which str() is an error under `python -bb`
        return repr(value) if value.isascii() and value.decode("ascii").isprintable() else value.hex()
    return str(value)
