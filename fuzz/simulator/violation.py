"""What is checked after every step, by name."""

from __future__ import annotations

from typing import Final, NoReturn

__all__ = ["INVARIANTS", "Violation", "violate"]

INVARIANTS: Final = {
    "validated": "a row counts, or can be read, only if it is the row of its round that an honest worker made, and only after "
    "the COMPLETION of its round came whole",
    "paired": "a proposal is exactly the tokens and the q that its session, generation, round and positions allow",
    "slots": "what a consumer or an open round holds does not change, and what nobody holds cannot be read",
    "rising": "generations rise with every RESET of a request, over connections too, and no key of its noise comes twice",
    "ranks": "all ranks come to the same end of a proposal, with the same q and the same verdict",
    "counters": "the counters of each end add up, and agree with what was sent, received and published",
    "committed": "a worker's prefix is what was committed, whole or the beginning of it; the text is all commits in order",
    "in step": "when nothing is on its way, both ends of a connection hold the same",
    "blame": "an end finds nothing wrong on a connection that nobody touched",
    "refused": "what an end refuses changes nothing, and nothing but errors of this package come out of it",
    "ends": "every request ends, in bounded virtual time after the last fault",
}
"""Name -> sentence."""


class Violation(AssertionError):
    """An invariant is broken.

    Args:
        name: a key of `INVARIANTS`.
        detail: what was seen.
    """

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail


def violate(name: str, detail: str) -> NoReturn:
    """Raise Violation; `name` must be known."""
    raise Violation(name if name in INVARIANTS else f"unknown invariant {name}", detail)
