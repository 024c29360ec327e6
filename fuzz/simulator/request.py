"""One request of a caller, over all of its connections."""

from __future__ import annotations

from fuzz.simulator.line import Handle, Line
from fuzz.simulator.truth import RequestTruth
from pp1wire.sampling import proposal_seed, verification_seed

__all__ = ["Request"]


class Request:
    """One request. `generation` and `round` number its noise; they rise and never come twice."""

    def __init__(self, number: int, prompt: list[int], limit: int, root: int) -> None:
        self.number = number
        self.prompt = len(prompt)
        self.truth = RequestTruth(list(prompt))
        self.text = list(prompt)
        self.left = limit
        self.context = 0
        self.generation, self.round = 1, 0
        self.line: Line | None = None
        self.session = 0
        self.waiting = False
        self.handle: Handle | None = None
        self.ended = ""
        self.turn = 0
        self.seed(root)

    def seed(self, root: int) -> None:
        """Noise from another root."""
        self.proposal_seed, self.verification_seed = proposal_seed(root), verification_seed(root)

    def advance(self, generation: int, round_: int = 0) -> None:
        """Never back."""
        self.generation, self.round = max((self.generation, self.round), (generation, round_))
