"""What two ends that came to no agreement disagree on, by field and value: a refusal itself names a group of fields alone."""

from __future__ import annotations

from pp1wire.errors import PP1Error
from pp1wire.wire import Hello, RefusalReason, decode, encode

__all__ = ["PeerHello", "differences"]

_FIELDS = {
    RefusalReason.Q_SEMANTIC: ("q_semantic",),
    RefusalReason.VERIFIER_SEMANTIC: ("verifier_semantic",),
    RefusalReason.RNG_ABI: ("rng_abi",),
    RefusalReason.PRECISION: ("precision",),
    RefusalReason.VOCABULARY: ("vocab_size", "padded_vocab_size"),
    RefusalReason.ID_MAP: ("id_map_sha256",),
    RefusalReason.DRAFT: ("draft_checkpoint_sha256", "draft_revision", "draft_origin"),
    RefusalReason.TARGET: ("target_sha256",),
    RefusalReason.FEATURES: ("features",),
}
"""The identities behind each reason; the other reasons are about nothing that must be equal."""


class PeerHello:
    """The peer's HELLO as it came: kept beside the core, which tells what it made of it but not what it says.

    Args:
        own: this end's HELLO; all have one length.
    """

    def __init__(self, own: Hello) -> None:
        self._length = len(encode(own, None, 0))
        self._bytes = bytearray()

    def feed(self, data: memoryview) -> None:
        """Bytes came; the first ones are kept."""
        missing = self._length - len(self._bytes)
        if missing:
            self._bytes += data[:missing]

    def read(self) -> Hello | None:
        """The HELLO; None if what came is none."""
        try:
            message = decode(bytes(self._bytes), None)
        except PP1Error:
            return None
        return message if isinstance(message, Hello) else None


def differences(reason: RefusalReason, own: Hello, peer: Hello | None) -> str:
    """The unequal fields behind `reason`: "padded_vocab_size: expected 64, got 32; …", from this end's view; maybe empty."""
    if peer is None:
        return ""
    pairs = [(name, getattr(own, name), getattr(peer, name)) for name in _FIELDS.get(reason, ())]
    return "; ".join(f"{name}: expected {_shown(a)}, got {_shown(b)}" for name, a, b in pairs if a != b)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return ascii(value)  # the peer's own words, which are to stay on one line
    name = getattr(value, "name", None)
    return str(value) if name is None else str(name).lower()
