"""What the two ends of each connection agreed on, from their HELLOs."""

from __future__ import annotations

from typing import Final, NamedTuple

from pp1wire.capture.observing import Seen
from pp1wire.protocol import agree
from pp1wire.wire import Hello, HelloRole, HelloStatus, RemoteProtocolError, Representation

__all__ = ["Terms", "Told"]

_MAX_TOLD: Final = 24
_MAX_NAMED: Final = 1000
_MAX_WAITING: Final = 4096


class Told(NamedTuple):
    """Terms, and the connections that have them."""

    terms: tuple[tuple[str, str], ...]
    """Names and values."""
    connections: list[tuple[str, int]]
    """File and number; of a great many, the first ones."""


class Terms:
    """Collects them, equal ones once, in bounded memory."""

    def __init__(self) -> None:
        self._told: dict[tuple[tuple[str, str], ...], Told] = {}
        self._offers: dict[tuple[str, int], Hello] = {}
        self.left_out = 0
        """Connections that are not named."""

    def add(self, hello: Hello, seen: Seen) -> None:
        """A HELLO that passed."""
        connection = seen.file, seen.connection
        if hello.role is HelloRole.OFFER:
            self._offers[connection] = hello
            if len(self._offers) > _MAX_WAITING:
                self._tell(connection, _alone(self._offers.pop(next(iter(self._offers)))))
            return
        offer = self._offers.pop(connection, None)
        self._tell(connection, _alone(hello) if offer is None else _together(offer, hello))

    def told(self) -> list[Told]:
        """All of them, by their first appearance; offers that nobody answered at the end."""
        for connection, offer in self._offers.items():
            self._tell(connection, _alone(offer))
        self._offers.clear()
        return list(self._told.values())

    def _tell(self, connection: tuple[str, int], terms: tuple[tuple[str, str], ...]) -> None:
        if terms not in self._told and len(self._told) == _MAX_TOLD:
            self.left_out += 1
            return
        told = self._told.setdefault(terms, Told(terms, []))
        if len(told.connections) < _MAX_NAMED:
            told.connections.append(connection)
        else:
            self.left_out += 1


def _together(offer: Hello, answer: Hello) -> tuple[tuple[str, str], ...]:
    if answer.status is HelloStatus.REFUSED:
        return (("HELLO", f"refused: {answer.refusal.name.lower()}"), *_identities(answer))
    try:
        agreed = agree(offer, answer)
    except RemoteProtocolError as error:  # judged, and told as a finding
        return (("HELLO", f"no agreement: {error.code.name.lower()}"), *_identities(answer))
    return (
        ("HELLO", "offered and accepted"),
        ("q", agreed.representation.name.lower()),
        ("slots", f"{agreed.max_slots}"),
        ("depth", f"at most {agreed.max_depth}"),
        ("support", f"at most {agreed.max_support:,}" if agreed.representation is Representation.SPARSE else "full"),
        ("prefix", f"at most {agreed.max_prefix:,} ids"),
        *_identities(answer),
    )


def _alone(hello: Hello) -> tuple[tuple[str, str], ...]:
    bits = [one.name.lower() for one in Representation if hello.representations & (1 << (one - 1))]
    return (
        ("HELLO", f"{hello.role.name.lower()} alone"),
        ("q", " or ".join(bits)),
        ("slots", f"at most {hello.max_slots}"),
        ("depth", f"at most {hello.max_depth}"),
        ("support", f"at most {hello.max_support:,}"),
        ("prefix", f"at most {hello.max_prefix:,} ids"),
        *_identities(hello),
    )


def _identities(hello: Hello) -> tuple[tuple[str, str], ...]:
    padded = f", {hello.padded_vocab_size:,} with padding" if hello.padded_vocab_size != hello.vocab_size else ""
    return (
        ("vocabulary", f"{hello.vocab_size:,} ids{padded}"),
        ("meaning of q", hello.q_semantic),
        ("verifier", hello.verifier_semantic),
        ("randomness", hello.rng_abi),
        ("draft", f"{hello.draft_origin.name.lower()}, {hello.draft_checkpoint_sha256.hex()}"),
        ("draft revision", hello.draft_revision),
        ("target", hello.target_sha256.hex()),
        ("id map", hello.id_map_sha256.hex()),
    )
