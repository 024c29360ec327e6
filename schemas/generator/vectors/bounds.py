"""Vectors that follow from the schemas: the first illegal values on both sides of each field's bounds, and reserved bytes."""

from __future__ import annotations

from schemas.generator.model import SCALARS, Field
from schemas.generator.vectors.build import Draft, Value
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import SENDERS, VERIFIER, Conversation, hello

FILE = "bounds"


def add(vectors: Collection) -> None:
    """Every bound that no vector made by hand has passed already."""
    start = vectors.talk("nothing", None)
    opened = vectors.talk("opened").opened()
    asked = vectors.talk("opened, asked").opened().asked()
    drafted = vectors.talk("opened, asked, two rows").opened().asked().drafted()
    done = vectors.talk("opened, asked, two rows, completed").opened().asked().drafted().completed()
    agreed = vectors.talk("agreed")
    for field in vectors.builder.schema.header:
        _break(vectors, start, hello("offer"), field, "header", keep=64)
    bases: tuple[tuple[Conversation, Draft], ...] = (
        (start, hello("offer")), (opened, opened.step()), (asked, asked.reply()), (drafted, drafted.completion()),
        (done, done.commit(1, "correction", 5)), (agreed, agreed.reset()),
    )  # fmt: skip
    for talk, draft in bases:
        for field in vectors.builder.messages[draft.message].fixed:
            _break(vectors, talk, draft, field, draft.message)


def _break(
    vectors: Collection, talk: Conversation, draft: Draft, field: Field, owner: str, keep: int | None = None
) -> None:
    for value, code, comment in _illegal(vectors, field):
        changed = draft.under(**{field.name: value}) if owner == "header" else draft.but(**{field.name: value})
        name = f"{owner}-{field.name.replace('_', '-')}-{value.hex() if isinstance(value, bytes) else value}"
        sender = SENDERS.get(draft.message, VERIFIER)
        if not vectors.has(talk, changed, sender, keep):
            vectors.invalid(FILE, name, talk, changed, code, f"{owner}.{field.name}", comment, sender, keep=keep)


def _illegal(vectors: Collection, field: Field) -> list[tuple[Value, str, str]]:
    """Each illegal value next to the legal ones, its code, and why."""
    _, _, _, lowest, highest = SCALARS.get(str(field.kaitai_type), ("", 0, "", 0, 0))
    if field.kind == "int":
        code = field.reject or "value_out_of_bounds"
        smallest, largest = field.minimum or 0, field.maximum or 0
        cases: list[tuple[Value, str, str]] = [
            (smallest - 1, code, f"{smallest} is the smallest."), (largest + 1, code, f"{largest:,} is the largest."),
        ]  # fmt: skip
    elif field.kind == "enum":
        code = field.reject or "unknown_value"
        numbers = [v.number for v in vectors.builder.schema.enums[str(field.enum)]]
        cases = [
            (min(numbers) - 1, code, "Below every value that is defined."),
            (max(numbers) + 1, code, "Above every value that is defined."),
            (highest, code, "A byte of ones."),
        ]
    elif field.kind == "zeros":
        code = field.reject or "reserved_not_zero"
        ends = dict.fromkeys((b"\x80".ljust(field.size, b"\0"), b"\x01".rjust(field.size, b"\0")))
        return [(value, code, "A bit where zeros are reserved.") for value in ends]
    else:
        return []
    return [c for c in cases if isinstance(c[0], int) and lowest <= c[0] <= highest]
