"""What an end is bound to and what it can hold, said once and offered with a fresh nonce on every connection."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass

from pp1wire.protocol import hello
from pp1wire.wire import DraftOrigin, Hello, HelloRole, Representation, encode
from pp1wire.wire._schema_v2 import MAX_DEPTH, MAX_SLOTS

__all__ = ["Terms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The contents of this end's HELLOs.

    Identities (vocabulary, digests, revision, origin) must be equal on both ends. Capacities become the smaller of the
    two; buffers follow from them, so name what is really needed.

    Args:
        vocab_size, padded_vocab_size: token ids, and entries of a dense row (the same unless given).
        id_map_sha256: 32 bytes, of the map from token ids to tokens; `pp1wire.net.id_map_sha256` makes them.
        draft_checkpoint_sha256, draft_revision, draft_origin: which draft model.
        target_sha256: 32 bytes, of the target model.
        representations: what this end can take or make.
        max_slots: requests in flight a connection.
        max_depth: drafted positions a round.
        max_support: k of a sparse row, in entries.
        max_prefix: longest committed prefix, in ids; a request that outgrows it goes on without a draft.

    Raises:
        LocalProtocolError: a value that no HELLO can carry.
    """

    vocab_size: int
    id_map_sha256: bytes
    draft_checkpoint_sha256: bytes
    draft_revision: str
    target_sha256: bytes
    draft_origin: DraftOrigin = DraftOrigin.NATIVE
    representations: tuple[Representation, ...] = (Representation.SPARSE, Representation.DENSE)
    padded_vocab_size: int | None = None
    max_slots: int = MAX_SLOTS
    max_depth: int = MAX_DEPTH
    max_support: int = 32
    max_prefix: int = 8192

    def __post_init__(self) -> None:
        encode(self.hello(HelloRole.OFFER), None, 0)

    def hello(self, role: HelloRole) -> Hello:
        """A HELLO of these terms with a fresh nonce: an offer for a verifier, an accepting answer for a worker."""
        return hello(role, nonce=secrets.token_bytes(16), **asdict(self))
