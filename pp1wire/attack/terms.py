"""What an endpoint is bound to: from a file, or learned from its own HELLO."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pp1wire.attack.crafting import AttackError
from pp1wire.errors import PP1Error
from pp1wire.net import Terms
from pp1wire.wire import DraftOrigin, Hello, HelloStatus, RefusalReason, Representation

__all__ = ["PLACEHOLDER", "accepting", "attack_terms", "terms_data", "terms_of", "terms_of_file"]

_DIGESTS = ("id_map_sha256", "draft_checkpoint_sha256", "target_sha256")

PLACEHOLDER = Terms(
    vocab_size=1, id_map_sha256=bytes(32), draft_checkpoint_sha256=bytes(32), draft_revision="pp1wire-attack",
    target_sha256=bytes(32),
)  # fmt: skip
"""Terms that nobody has: the refusal of an offer of them carries the worker's own."""


def terms_of(hello: Hello) -> Terms:
    """The terms in a HELLO, capacities included."""
    return Terms(
        vocab_size=hello.vocab_size, padded_vocab_size=hello.padded_vocab_size, id_map_sha256=hello.id_map_sha256,
        draft_checkpoint_sha256=hello.draft_checkpoint_sha256, draft_revision=hello.draft_revision,
        draft_origin=hello.draft_origin, target_sha256=hello.target_sha256,
        representations=tuple(r for r in Representation if hello.representations >> (r - 1) & 1),
        max_slots=hello.max_slots, max_depth=hello.max_depth, max_support=hello.max_support, max_prefix=hello.max_prefix,
    )  # fmt: skip


def accepting(hello: Hello) -> Hello:
    """A refusing HELLO as its end would send it to accept."""
    return replace(hello, status=HelloStatus.ACCEPTED, refusal=RefusalReason.NONE)


def attack_terms(terms: Terms) -> Terms:
    """The same identities with capacities as small as the cases allow, so that every limit can be passed by one."""
    return replace(
        terms, max_slots=min(terms.max_slots, 2), max_depth=min(terms.max_depth, 3),
        max_support=min(terms.max_support, 8), max_prefix=min(terms.max_prefix, 64),
    )  # fmt: skip


def terms_data(terms: Terms) -> dict[str, Any]:
    """Terms as plain values: digests in hex, names in lower case."""
    data: dict[str, Any] = {}
    for spec in fields(terms):
        value = getattr(terms, spec.name)
        if isinstance(value, bytes):
            data[spec.name] = value.hex()
        elif isinstance(value, DraftOrigin):
            data[spec.name] = value.name.lower()
        elif isinstance(value, tuple):
            data[spec.name] = [r.name.lower() for r in value]
        else:
            data[spec.name] = value
    return data


def terms_of_file(path: Path) -> Terms:
    """Terms from a JSON file, with the keys and values of `terms_data`; those with a default can be left out.

    Raises:
        AttackError: no such file, no JSON, an unknown key, or a value that no HELLO can carry.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise TypeError("expected an object")
        for name in _DIGESTS:
            data[name] = bytes.fromhex(data[name])
        if "draft_origin" in data:
            data["draft_origin"] = DraftOrigin[str(data["draft_origin"]).upper()]
        if "representations" in data:
            data["representations"] = tuple(Representation[str(r).upper()] for r in data["representations"])
        return Terms(**data)
    except OSError as error:
        raise AttackError(f"{path}: {error.strerror or error}") from None
    except KeyError as error:
        raise AttackError(
            f"{path}: expected {error.args[0]!r} as pp1wire attack --json prints it under terms"
        ) from None
    except (ValueError, TypeError, PP1Error) as error:
        raise AttackError(f"{path}: {' '.join(str(error).split())}") from None
