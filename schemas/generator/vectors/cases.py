"""A collection of vectors: each is a conversation, and what one end sends next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from schemas.generator.model import Field, Message
from schemas.generator.vectors.build import Builder, Draft, Value
from schemas.generator.vectors.conversation import SENDERS, SMALL, WORKER, Conversation, Shape

LARGEST_JSON_INTEGER = 2**53 - 1
"""Larger ones are strings of decimal digits: readers that keep numbers as binary64 would lose their last bits."""


@dataclass
class Collection:
    """Vectors by file, with the conversations that they follow."""

    builder: Builder
    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    conversations: dict[str, dict[str, list[dict[str, str]]]] = field(default_factory=dict)

    def talk(self, name: str, representation: str | None = "sparse", shape: Shape = SMALL) -> Conversation:
        """A new conversation, with its HELLOs; the representation is put before its name."""
        name = f"{representation}: {name}" if representation else name
        return Conversation(self.builder, name, representation, shape)

    def valid(self, file: str, name: str, after: Conversation, draft: Draft, comment: str, sender: str = "") -> None:
        """`draft` is legal after the conversation; its fields are listed for whoever decodes it."""
        sender = sender or SENDERS[draft.message]
        numbered = after.numbered(draft, sender)
        vector = self._vector(file, name, after, draft, comment, sender, self.builder.frame(numbered))
        vector["result"] = "valid"
        vector["fields"] = self._fields(numbered)
        self.files[file].append(vector)

    def invalid(
        self,
        file: str,
        name: str,
        after: Conversation,
        draft: Draft,
        code: str,
        path: str,
        comment: str,
        sender: str = "",
        keep: int | None = None,
        extra: bytes = b"",
        at: int | None = None,
        whole: bool = False,
    ) -> None:
        """`draft` gets `code` at `path`.

        `keep` cuts the frame after so many bytes, `extra` follows it, `at` is the offset in the frame where `path` names no
        field, and `whole` says that the bytes are to be judged as exactly one frame, whose offsets count from its own start.
        """
        sender = sender or SENDERS[draft.message]
        numbered = after.numbered(draft, sender)
        data = self.builder.frame(numbered)[:keep] + extra
        vector = self._vector(file, name, after, draft, comment, sender, data)
        facts = next(c for c in self.builder.schema.enums["reject_code"] if c.name == code)
        # Nothing but a proposal can be given up alone, so any other message costs the connection.
        costs_proposal = draft.message in ("reply", "completion") and sender == WORKER
        offset = self.builder.offset(numbered, path) if at is None else at
        vector |= {
            "result": "invalid",
            "code": code,
            "scope": facts.scope if costs_proposal else "connection",
            "offset": offset if whole else after.bytes_sent[sender] + offset,
            "path": path,
        }
        if whole:
            vector["whole"] = True
        self.files[file].append(vector)

    def has(self, after: Conversation, draft: Draft, sender: str, keep: int | None = None) -> bool:
        """Whether any file already shows these bytes after this conversation."""
        data = self.builder.frame(after.numbered(draft, sender))[:keep].hex()
        key = (after.name, sender, data)
        return any(key == (v["after"], v["from"], v["hex"]) for file in self.files.values() for v in file)

    def _vector(
        self, file: str, name: str, after: Conversation, draft: Draft, comment: str, sender: str, data: bytes
    ) -> dict[str, Any]:
        talks = self.conversations.setdefault(file, {})
        if talks.setdefault(after.name, after.frames) != after.frames:
            raise ValueError(f"{file}: two conversations are called {after.name!r}")
        vectors = self.files.setdefault(file, [])
        if name in {v["id"] for v in vectors}:
            raise ValueError(f"{file}: two vectors are called {name!r}")
        return {
            "id": name,
            "comment": comment,
            "message": draft.message,
            "representation": after.representation,
            "after": after.name,
            "from": sender,
            "hex": data.hex(),
        }

    def _fields(self, draft: Draft) -> dict[str, Any]:
        """The fields that a decoded message has: its identity from the header, and its body less what is derived."""
        message = self.builder.messages[draft.message]
        values: dict[str, Any] = {name: _number(draft.header.get(name, 0)) for name in message.identity}
        for spec in message.fields:
            if spec.in_message:
                values[spec.name] = self._plain(spec, draft.body.get(spec.name), message, draft)
        return values

    def _plain(self, spec: Field, value: Value | None, message: Message, draft: Draft) -> Any:
        if spec.kind == "bytes":
            return (value if isinstance(value, bytes) else b"").ljust(spec.size, b"\0").hex()
        if spec.kind == "text":
            return value.decode("ascii") if isinstance(value, bytes) else ""
        if spec.kind == "column":
            return list(_used(message.name, value if isinstance(value, tuple) else (), draft))
        if spec.kind == "enum":
            return next(v.name for v in self.builder.schema.enums[str(spec.enum)] if v.number == (value or 0))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{message.name}.{spec.name}: JSON has no {value}")
        return _number(0 if value is None else value)


def _number(value: Value) -> Value | str:
    return str(value) if isinstance(value, int) and value > LARGEST_JSON_INTEGER else value


def _used(message: str, values: tuple[float, ...], draft: Draft) -> tuple[float, ...]:
    """The entries that count: unused ones are spelling, not content."""
    counts = {"reply": "entry_count", "commit": "token_count", "reset": "prefix_count"}
    count = draft.body.get(counts[message], 0)
    return values[: int(count)] if isinstance(count, int) else values
