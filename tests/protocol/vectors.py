"""The shared vectors, as (file, vector, the frames before it)."""

from __future__ import annotations

import json
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[2] / "schemas" / "vectors"


def every():
    for path in sorted(set(DIRECTORY.glob("*.json")) - set(DIRECTORY.glob("*.schema.json"))):
        content = json.loads(path.read_text(encoding="utf-8"))
        for vector in content["vectors"]:
            yield path.stem, vector, content["conversations"][vector["after"]]


def name(case) -> str:
    return f"{case[0]}-{case[1]['id']}"
