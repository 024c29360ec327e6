"""What one direction alone tells of the agreement: its own HELLO, and the frames behind it.

Identities must be equal on both sides, so one HELLO has them all. Capacities become the minimum, so a HELLO bounds them
from above: a value that only the other side's bound would refuse is not found. The agreement's id stands in every frame, and
the support of sparse rows follows from the length of a REPLY.
"""

from __future__ import annotations

from dataclasses import replace

from pp1wire.wire import Agreement, Frame, Hello, MessageType, Representation
from pp1wire.wire._schema_v2 import BODY_STRUCTS

__all__ = ["Layout", "inferred_agreements"]

_ROW_FIXED = BODY_STRUCTS[MessageType.REPLY].size
_ENTRY = 8  # int32 id, float32 q


def inferred_agreements(hello: Hello, agreement_id: int) -> list[Agreement]:
    """The largest agreement that `hello` can have led to, for each representation in its mask, with this id."""
    return [
        Agreement(
            id=agreement_id,
            representation=representation,
            vocab_size=hello.vocab_size,
            padded_vocab_size=hello.padded_vocab_size,
            max_slots=hello.max_slots,
            max_depth=hello.max_depth,
            max_support=hello.max_support,
            max_prefix=hello.max_prefix,
        )
        for representation in Representation
        if hello.representations & (1 << (representation - 1))
    ]


class Layout:
    """The agreement that frames are judged by, as far as it is known.

    Args:
        agreement: the connection's, if both HELLOs are there.
        hello: one of them, if only one is.
    """

    def __init__(self, agreement: Agreement | None = None, hello: Hello | None = None) -> None:
        self._agreement = agreement
        self._hello = hello
        self._settled = agreement is not None

    def of(self, frame: Frame) -> Agreement | None:
        """What `frame` (no HELLO) is judged by; None if that is not known."""
        if self._settled or self._hello is None:
            return self._agreement
        if self._agreement is None:
            candidates = inferred_agreements(self._hello, frame.header.agreement_id)
            # An answer names exactly one representation; of an offer that names two, neither is known to be agreed.
            self._agreement = candidates[0] if len(candidates) == 1 else None
        if self._agreement is not None and frame.header.message_type is MessageType.REPLY:
            self._agreement = _with_support(self._agreement, frame.header.body_length)
            self._settled = True
        return self._agreement

    @property
    def is_unknown(self) -> bool:
        """Whether it rests on nothing."""
        return self._hello is None and self._agreement is None


def _with_support(agreement: Agreement, body_length: int) -> Agreement:
    support, rest = divmod(body_length - _ROW_FIXED, _ENTRY)
    sparse = agreement.representation is Representation.SPARSE
    if sparse and rest == 0 and 0 < support <= agreement.max_support:
        return replace(agreement, max_support=support)
    return agreement
