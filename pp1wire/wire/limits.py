"""Bytes of every layout, in Python integers, before anything is allocated (`docs/wire.md`, "Sizes")."""

from __future__ import annotations

from dataclasses import dataclass

from pp1wire.errors import LocalProtocolError
from pp1wire.wire._schema_v2 import BODY_STRUCTS, MAX_DEPTH, MAX_SLOTS, MAX_VOCAB, MessageType, Representation
from pp1wire.wire.agreement import HEADER_BYTES, row_bytes

__all__ = ["BUFFERS_PER_SLOT", "Limits", "wire_seconds"]

BUFFERS_PER_SLOT = 2
"""Proposals that a slot can hold: one being consumed while the next arrives."""


def wire_seconds(size: int, link_gigabits: float) -> float:
    """Seconds that `size` bytes take on a link of that many Gb/s and nothing else: a lower bound, not a latency.

    Raises:
        LocalProtocolError: the link's speed is not above zero.
    """
    if not link_gigabits > 0:
        raise LocalProtocolError(f"link: expected Gb/s above 0, got {link_gigabits}")
    return size * 8 / (link_gigabits * 1e9)


@dataclass(frozen=True, slots=True)
class Limits:
    """A shape, and the bytes that follow from it. Payload sizes exclude headers; frame and round sizes include them.

    Args:
        vocab_size: ids of the vocabulary, 129,280 in the deployment that this is designed for.
        padded_vocab_size: entries of a dense row; None for no padding.
        support: entries of a sparse row, k; no more than there are ids.
        depth: positions of a proposal, 1 to 5.
        slots: requests in flight, 1 to 4.
        ranks: tensor-parallel ranks of the verifier that receive a copy, or a vocabulary shard, of every proposal.

    Raises:
        LocalProtocolError: a number outside the fixed limits of the protocol.
    """

    vocab_size: int = 129_280
    padded_vocab_size: int | None = None
    support: int = 32
    depth: int = MAX_DEPTH
    slots: int = MAX_SLOTS
    ranks: int = 2

    def __post_init__(self) -> None:
        padded = self.padded_ids
        for name, value, largest in (
            ("vocab_size", self.vocab_size, MAX_VOCAB),
            ("padded_vocab_size", padded, MAX_VOCAB),
            ("support", self.support, self.vocab_size),
            ("depth", self.depth, MAX_DEPTH),
            ("slots", self.slots, MAX_SLOTS),
            ("ranks", self.ranks, self.vocab_size),
        ):
            if not 1 <= value <= largest:
                raise LocalProtocolError(f"{name}: expected 1 to {largest}, got {value}")
        if padded < self.vocab_size:
            raise LocalProtocolError(f"padded_vocab_size: expected at least {self.vocab_size}, got {padded}")

    @property
    def padded_ids(self) -> int:
        """Entries of a dense row."""
        return self.vocab_size if self.padded_vocab_size is None else self.padded_vocab_size

    def row_bytes(self, representation: Representation) -> int:
        """Payload of one position."""
        return row_bytes(representation, padded_vocab_size=self.padded_ids, support=self.support)

    def request_bytes(self, representation: Representation) -> int:
        """Payload of one request's proposal."""
        return self.depth * self.row_bytes(representation)

    def batch_bytes(self, representation: Representation) -> int:
        """Payload of one proposal of every slot."""
        return self.slots * self.request_bytes(representation)

    def shard_request_bytes(self) -> int:
        """Payload of one dense proposal's largest vocabulary shard, with one shard a rank."""
        return self.depth * 4 * -(-self.padded_ids // self.ranks)

    def shard_batch_bytes(self) -> int:
        """Payload of one dense proposal of every slot, one vocabulary shard."""
        return self.slots * self.shard_request_bytes()

    def pool_bytes(self, representation: Representation) -> int:
        """Slot buffers of one full copy: two batches in flight."""
        return BUFFERS_PER_SLOT * self.batch_bytes(representation)

    def fan_out_bytes(self, representation: Representation) -> int:
        """Payload that rank 0 sends to the other ranks when each gets the whole batch."""
        return (self.ranks - 1) * self.batch_bytes(representation)

    def reply_frame_bytes(self, representation: Representation) -> int:
        """One REPLY frame with its headers."""
        return HEADER_BYTES + BODY_STRUCTS[MessageType.REPLY].size + self.row_bytes(representation)

    def round_bytes(self, representation: Representation) -> int:
        """What the worker sends for one proposal: every REPLY frame and the COMPLETION."""
        completion = HEADER_BYTES + BODY_STRUCTS[MessageType.COMPLETION].size
        return self.depth * self.reply_frame_bytes(representation) + completion
