"""What one run of the demo is asked for."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from pp1wire.audit.logit_writer import SUFFIXES
from pp1wire.errors import PP1Error
from pp1wire.sampling import choice_root
from pp1wire.sampling.backends import BACKENDS
from pp1wire.wire import Representation
from pp1wire.wire._schema_v2 import MAX_SLOTS

__all__ = ["BACKENDS", "FAULTS", "MODELS", "Settings"]

MODELS = ("synthetic", "smollm2")
FAULTS = ("corrupt", "truncate", "late", "kill")

_LEGS = 1 << 32  # above the number of any request, which is an index of the same root
_DEFAULT_ROUNDS = {"synthetic": 10, "smollm2": 24}
_DEFAULT_REQUESTS = {"synthetic": MAX_SLOTS, "smollm2": 2}


def default_capture() -> Path:
    """A file of this run's own among the temporary ones: recordings hold what was said, and dense ones are large."""
    return Path(tempfile.gettempdir()) / f"pp1wire-demo-{os.getpid()}.pcapng"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A run; None takes what suits the model.

    Args:
        model: synthetic (V = 129,280, Markov bias) or smollm2 (V = 49,152, a real language model).
        representation: sparse, dense, or None for sparse, and with the synthetic model dense after it.
        rounds: rounds of each request.
        requests: requests, all in flight together, four a socket at most.
        temperature: of the draft and of the target.
        support: k of sparse rows.
        depth: drafted positions a round.
        sockets: connections that the requests are spread over.
        seed: root of every request's randomness.
        fault: corrupt, truncate, late or kill, injected once; None for none.
        backend: what draws and verifies, in both processes: numpy, torch or triton.
        capture: file the recording is written to.
        logits: file, npz or safetensors, that what the models computed is written to; None for none.

    Raises:
        PP1Error: a value that the demo cannot run with.
    """

    model: str = "synthetic"
    representation: str | None = None
    rounds: int | None = None
    requests: int | None = None
    temperature: float = 1.0
    support: int = 32
    depth: int = 5
    sockets: int = 1
    seed: int = 1
    fault: str | None = None
    backend: str = "numpy"
    capture: Path = field(default_factory=default_capture)
    logits: Path | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise PP1Error(f"model: expected one of {', '.join(MODELS)}, got {self.model!r}")
        if self.fault is not None and self.fault not in FAULTS:
            raise PP1Error(f"fault: expected one of {', '.join(FAULTS)}, got {self.fault!r}")
        if self.backend not in BACKENDS:
            raise PP1Error(f"backend: expected one of {', '.join(BACKENDS)}, got {self.backend!r}")
        if not 0 < self.temperature < float("inf"):
            raise PP1Error(f"temperature: expected a finite number above 0, got {self.temperature}")
        if not self.capture.parent.is_dir():
            raise PP1Error(f"capture: no directory {str(self.capture.parent)!r}; create it, or name another file")
        if self.capture.is_dir():
            raise PP1Error(f"capture: {str(self.capture)!r} is a directory; name a file")
        if self.logits is not None:
            if self.logits.suffix not in SUFFIXES:
                raise PP1Error(
                    f"logits: expected a name that ends in {' or '.join(SUFFIXES)}, got {str(self.logits)!r}"
                )
            if not self.logits.parent.is_dir():
                raise PP1Error(f"logits: no directory {str(self.logits.parent)!r}; create it, or name another file")

    @property
    def round_count(self) -> int:
        """Rounds of each request."""
        return _DEFAULT_ROUNDS[self.model] if self.rounds is None else self.rounds

    @property
    def request_count(self) -> int:
        """Requests in flight."""
        return _DEFAULT_REQUESTS[self.model] if self.requests is None else self.requests

    def root_of(self, representation: Representation) -> int:
        """The root seed of all requests with this representation."""
        turn = self.representations.index(representation)
        return choice_root(self.seed, _LEGS + turn) if turn else self.seed

    @property
    def sound_proposals(self) -> int:
        """Proposals that pass before a fault is injected; there is always one left for it."""
        return min(3, self.round_count * self.request_count - 1)

    @property
    def representations(self) -> tuple[Representation, ...]:
        """What to run with, one after another."""
        if self.representation is not None:
            return (Representation[self.representation.upper()],)
        if self.model == "synthetic" and self.fault is None:
            return (Representation.SPARSE, Representation.DENSE)
        return (Representation.SPARSE,)
