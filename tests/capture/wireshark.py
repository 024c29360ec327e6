"""tshark with this project's dissector, and what it says as Python values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

DISSECTOR = Path(str(files("pp1wire.capture"))) / "pp1.lua"
PORT = ("-o", "pp1.port:9009")
Pairs = list[tuple[str, Any]]
_HARMLESS = "Running as user "  # tshark warns root, which the tests may be


@dataclass
class Layer:
    """One PP1 message, or bytes that are none, as tshark shows it: every (field, value) of it, in order and flat."""

    packet: int
    stream: int
    source: str
    pairs: Pairs

    def all(self, name: str) -> list[Any]:
        return [value for key, value in self.pairs if key == name]

    def one(self, name: str) -> Any:
        (value,) = self.all(name)
        return value

    @property
    def codes(self) -> list[str]:
        return [message.split(":")[0] for message in self.all("_ws.expert.message")]


def tshark(path: Path, *options: str, script: Path = DISSECTOR, timeout: float = 60) -> str:
    """Standard output; whatever is said on standard error fails the test."""
    command = ["tshark", "-n", "-X", f"lua_script:{script}", "-r", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    complaints = [line for line in done.stderr.splitlines() if line and not line.startswith(_HARMLESS)]
    assert complaints == []
    assert done.returncode == 0
    return done.stdout


def layers(path: Path, *options: str, passes: int = 1) -> list[Layer]:
    """Every PP1 layer of a capture. A Lua error anywhere fails the test."""
    both = ("-2",) if passes == 2 else ()
    text = tshark(path, *PORT, *both, *options, "-T", "json", "-J", "frame ip tcp pp1")
    assert "_ws.lua.error" not in text
    found = []
    for packet in json.loads(text, object_pairs_hook=lambda pairs: pairs):
        inside = dict(dict(packet)["_source"])["layers"]
        number = int(dict(dict(inside)["frame"])["frame.number"])
        source, stream = dict(dict(inside)["ip"])["ip.src"], int(dict(dict(inside)["tcp"])["tcp.stream"])
        found += [Layer(number, stream, source, list(flat(value))) for name, value in inside if name == "pp1"]
    return found


def flat(value: Any) -> Pairs:
    """Every leaf below `value`, with the name that is nearest to it."""
    found: Pairs = []
    for name, below in value:
        if isinstance(below, list):
            found += flat(below)
        else:
            found.append((name, below))
    return found


def severities(found: Sequence[Layer]) -> set[str]:
    """The severities of all expert information: "error", "warn", "note"."""
    names = {0x800000: "error", 0x600000: "warn", 0x400000: "note", 0x200000: "chat"}
    return {names[int(value)] for layer in found for value in layer.all("_ws.expert.severity")}
