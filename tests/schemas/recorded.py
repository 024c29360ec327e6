"""The vectors as tests use them: every frame of every conversation, with the agreement it belongs to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp1wire.protocol.negotiation import agree
from pp1wire.wire import Agreement, decode

VECTORS = Path(__file__).resolve().parents[2] / "schemas" / "vectors"
PATHS = sorted(path for path in VECTORS.glob("*.json") if path.name != "vectors.schema.json")
FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in PATHS}
HELLO_BYTES = 376


@dataclass(frozen=True)
class Recorded:
    """One frame of a conversation, or the last bytes of a vector."""

    name: str
    message: str
    agreement: Agreement | None
    data: bytes
    vector: dict[str, Any] | None = None

    @property
    def columns(self) -> tuple[int, int]:
        return (self.agreement.id_entries, self.agreement.q_entries) if self.agreement else (0, 0)


def agreement_of(frames: list[dict[str, str]]) -> Agreement | None:
    """What the two HELLOs at the start settle; None where they are not there."""
    if len(frames) < 2:
        return None
    offer, answer = (decode(bytes.fromhex(frame["hex"]), None) for frame in frames[:2])
    return agree(offer, answer)


def vectors() -> list[Recorded]:
    """Every vector's own bytes."""
    found = []
    for file, content in FILES.items():
        agreements = {name: agreement_of(frames) for name, frames in content["conversations"].items()}
        for vector in content["vectors"]:
            agreement = agreements[vector["after"]]
            if vector["message"] == "hello":
                agreement = None
            data = bytes.fromhex(vector["hex"])
            found.append(Recorded(f"{file}/{vector['id']}", vector["message"], agreement, data, vector))
    return found


def conversation_frames() -> list[Recorded]:
    """Every frame that a vector follows, once."""
    types = {1: "hello", 2: "step", 3: "reply", 4: "completion", 5: "commit", 6: "reset"}
    found: dict[bytes, Recorded] = {}
    for file, content in FILES.items():
        for name, frames in content["conversations"].items():
            agreement = agreement_of(frames)
            for index, frame in enumerate(frames):
                data = bytes.fromhex(frame["hex"])
                message = types[data[6]]
                found[data] = Recorded(
                    f"{file}/{name}[{index}]", message, None if message == "hello" else agreement, data
                )
    return list(found.values())
