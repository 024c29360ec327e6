"""What two HELLOs settle, as far as the layout of frames depends on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import (
    BODY_STRUCTS,
    MAX_DEPTH,
    MAX_PREFIX,
    MAX_SLOTS,
    MAX_VOCAB,
    MessageType,
    Representation,
)
from pp1wire.wire.reject import short

__all__ = ["Agreement", "agreement_id", "row_bytes"]

HEADER_BYTES = 64
_ROW_HEADER_BYTES = BODY_STRUCTS[MessageType.REPLY].size
_RESET_FIXED_BYTES = BODY_STRUCTS[MessageType.RESET].size
_FIXED_BODIES = {t: s.size for t, s in BODY_STRUCTS.items() if t not in (MessageType.REPLY, MessageType.RESET)}
_FIXED_BODIES[MessageType.COMMIT] += 6 * 4  # its tokens column


def row_bytes(representation: Representation, *, padded_vocab_size: int, support: int) -> int:
    """Bytes of one row's columns: 4 a dense entry, 8 (int32 id and float32 q) a sparse one."""
    return 4 * padded_vocab_size if representation is Representation.DENSE else 8 * support


@dataclass(frozen=True, slots=True)
class Agreement:
    """The result of a negotiation; make one with `pp1wire.agree`.

    `id` is BLAKE2b-64 over both HELLO bodies, and stands in every later frame of the connection.

    Raises:
        LocalProtocolError: a value outside the fixed limits, which stand above anything negotiated.
    """

    id: int
    representation: Representation
    vocab_size: int
    padded_vocab_size: int
    max_slots: int
    max_depth: int
    max_support: int
    max_prefix: int
    reply_frame_bytes: int = field(init=False, repr=False, compare=False)
    """Bytes of every REPLY frame."""
    longest_body: int = field(init=False, repr=False, compare=False)
    """Bytes of the longest body that any message of this agreement can have."""
    _bodies: dict[int, tuple[int, int, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.representation, Representation):
            raise LocalProtocolError(
                f"agreement.representation: expected DENSE or SPARSE, got {short(self.representation)}"
            )
        for name, smallest, largest in (
            ("id", 0, 2**64 - 1),
            ("vocab_size", 1, MAX_VOCAB),
            ("padded_vocab_size", 1, MAX_VOCAB),
            ("max_slots", 1, MAX_SLOTS),
            ("max_depth", 1, MAX_DEPTH),
            ("max_support", 1, MAX_VOCAB),
            ("max_prefix", 1, MAX_PREFIX),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not smallest <= value <= largest:
                raise LocalProtocolError(f"agreement.{name}: expected {smallest} to {largest}, got {short(value)}")
        if self.padded_vocab_size < self.vocab_size:
            raise LocalProtocolError(
                f"agreement.padded_vocab_size: expected at least {self.vocab_size}, got {self.padded_vocab_size}"
            )
        # Every frame's header is held to these, so they are computed once.
        row, reset = _ROW_HEADER_BYTES + self.payload_bytes, _RESET_FIXED_BYTES
        bodies = {t: (length, length, 1) for t, length in _FIXED_BODIES.items() if t != MessageType.HELLO}
        bodies |= {MessageType.REPLY: (row, row, 1), MessageType.RESET: (reset, reset + 4 * self.max_prefix, 4)}
        object.__setattr__(self, "_bodies", bodies)
        object.__setattr__(self, "reply_frame_bytes", HEADER_BYTES + row)
        object.__setattr__(self, "longest_body", max(largest for _, largest, _ in bodies.values()))

    @property
    def shard_first_id(self) -> int:
        """First id of the vocabulary shard that a row covers: version 2 carries whole rows."""
        return 0

    @property
    def id_entries(self) -> int:
        """Length of a row's ids column."""
        return self.max_support if self.representation is Representation.SPARSE else 0

    @property
    def q_entries(self) -> int:
        """Length of a row's q column."""
        return self.max_support if self.representation is Representation.SPARSE else self.padded_vocab_size

    @property
    def payload_bytes(self) -> int:
        """Bytes of a row's columns."""
        return row_bytes(self.representation, padded_vocab_size=self.padded_vocab_size, support=self.max_support)

    def body_bytes(self, message_type: int) -> tuple[int, int, int]:
        """(smallest, largest, step) body length in bytes of a message, which is not a HELLO."""
        return self._bodies[message_type]


def fixed_body_bytes(message_type: int) -> int:
    """Bytes of the body of a message whose length never varies."""
    return _FIXED_BODIES[message_type]


def agreement_id(offer_body: bytes, answer_body: bytes) -> int:
    """BLAKE2b-64 over the offer's body and then the answer's, read as little-endian u64."""
    return int.from_bytes(hashlib.blake2b(offer_body + answer_body, digest_size=8).digest(), "little")
