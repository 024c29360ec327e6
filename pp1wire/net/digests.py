"""The digest by which both ends of a connection know that they number their tokens alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pp1wire.net.errors import NetError

__all__ = ["id_map_sha256"]


def id_map_sha256(tokens: Iterable[bytes]) -> bytes:
    """SHA-256 of a map from token ids to tokens, for `Terms.id_map_sha256`.

    It is taken over the byte strings of all tokens in the order of their ids, each preceded by its length in bytes as u32,
    little-endian. So two maps have one digest only if every id means the same bytes in both.

    Args:
        tokens: the bytes of ids 0, 1, 2 … `vocab_size` - 1: what each decodes to, or the name of a control token in UTF-8;
            empty for an id without a token.

    Returns:
        32 bytes.

    Raises:
        NetError: a token is not bytes.
    """
    digest = hashlib.sha256()
    for number, token in enumerate(tokens):
        if not isinstance(token, bytes):
            raise NetError(f"id map: id {number}: expected bytes, got {type(token).__name__}")
        digest.update(len(token).to_bytes(4, "little") + token)
    return digest.digest()
