"""`schemas/vectors/*.json`: frames and conversations, valid and not, for every implementation, and the files' JSON schema."""

from __future__ import annotations

import json
from typing import Any

from schemas.generator.model import Schema, SchemaError
from schemas.generator.vectors import (
    bounds,
    committing,
    conversations,
    everywhere,
    extremes,
    framing,
    greeting,
    json_schema,
    proposals,
    resetting,
    stepping,
)
from schemas.generator.vectors.build import Builder
from schemas.generator.vectors.cases import Collection

FORMAT = "pp1-vectors-1"
PARTS = (framing, greeting, resetting, stepping, proposals, committing, everywhere, extremes, bounds, conversations)


def collect(schema: Schema) -> Collection:
    """Every vector.

    Raises:
        SchemaError: a reject code has no vector, or a message no valid one.
    """
    vectors = Collection(Builder(schema))
    for part in PARTS:
        part.add(vectors)
    every = [vector for file in vectors.files.values() for vector in file]
    codes = {vector.get("code") for vector in every}
    if missing := [c.name for c in schema.enums["reject_code"] if c.name not in codes]:
        raise SchemaError(f"vectors: reject code {missing[0]} has none")
    valid = {v["message"] for v in every if v["result"] == "valid"}
    if absent := [m.name for m in schema.messages if m.name not in valid]:
        raise SchemaError(f"vectors: message {absent[0]} has no valid one")
    return vectors


def render(schema: Schema) -> dict[str, str]:
    """Path from the repository's root → text of every file of vectors."""
    vectors = collect(schema)
    files = {f"schemas/vectors/{name}.json": _content(schema, vectors, name) for name in vectors.files}
    files["schemas/vectors/vectors.schema.json"] = json_schema.describe(schema, FORMAT)
    return {path: json.dumps(content, indent=1, ensure_ascii=True) + "\n" for path, content in files.items()}


def _content(schema: Schema, vectors: Collection, name: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "wire_version": schema.constants["wire_version"][0],
        "conversations": vectors.conversations[name],
        "vectors": vectors.files[name],
    }
