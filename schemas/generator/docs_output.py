"""`docs/wire.md` with its pictures and `docs/reject-codes.md`: pure functions from the schema to text."""

from __future__ import annotations

from pathlib import Path
from string import Template

import xxhash

from schemas.generator import svg
from schemas.generator.extent import Extent, Placed, body_length, place
from schemas.generator.model import SCALARS, STAGES, EnumValue, Field, Message, Schema, SchemaError

TEMPLATES = Path(__file__).resolve().parent / "templates"
HEADER_STAGES = STAGES[: STAGES.index("identity")]
FROM = {"both": "both ends", "verifier_to_worker": "verifier", "worker_to_verifier": "worker"}

# Codes that no schema names, because they belong to framing itself or to every message → who can get them.
EVERY_FRAME = "every frame"
EVERY_BODY = "every body"
GENERAL_CODES = {
    "oversized_body": EVERY_FRAME,
    "truncated": EVERY_FRAME,
    "extra_data": EVERY_FRAME,
    "wrong_direction": EVERY_FRAME,
    "unexpected_message": EVERY_FRAME,
    "reserved_not_zero": EVERY_BODY,
    "value_out_of_bounds": EVERY_BODY,
    "unknown_value": EVERY_BODY,
}
STAGE_MEANINGS = {
    "magic": ("The frame begins with `PP1W`.", "These are PP1 frames."),
    "version": ("The wire version.", "The rest of the header has the layout below."),
    "header_checksum": ("The header's checksum.", "The header arrived as it was sent."),
    "size": ("Message type, body length, and that all bytes are there.", "The frame's extent."),
    "identity": (
        "The rest of the header: reserved bytes, sequence, agreement, direction, session, slot, generation and round.",
        "Whose frame it is, and that it is current.",
    ),
    "body_checksum": ("The body's checksum.", "The body arrived as it was sent, under this identity."),
    "structure": ("Every field of the body by itself: bounds, enumerations, reserved bytes, counts.", "Every field."),
    "canonical": ("That this is the one spelling of its content.", "Every entry of the columns."),
    "meaning": ("What fields say together, and against the state of the session.", "The message."),
    "ticket": ("That the token is what its random number draws from its q.", "The row."),
}


def render(schema: Schema) -> dict[str, str]:
    """Path from the repository's root → text of every generated page and picture."""
    header = place(schema.header)
    pages = {
        "docs/wire.md": _wire(schema),
        "docs/reject-codes.md": _reject_codes(schema),
        "docs/wire-header.svg": svg.picture("Frame header", _description(header), header, with_header=False),
    }
    for message in schema.messages:
        fields = place(message.fields)
        title = message.name.upper()
        pages[f"docs/wire-{message.name}.svg"] = svg.picture(title, _description(fields), fields, with_header=True)
    return pages


def named_by(schema: Schema, code: str) -> tuple[str, ...]:
    """Where `code` can arise: names of messages, or "every frame", or "every body".

    Raises:
        SchemaError: nothing names the code.
    """
    if code in {f.reject for f in schema.header}:
        return (EVERY_FRAME,)
    if code in GENERAL_CODES:
        return (GENERAL_CODES[code],)
    names = tuple(m.name for m in schema.messages if code in m.rules or code in {f.reject for f in m.fields})
    if not names:
        raise SchemaError(f"common.ksy, reject code {code}: no message names it")
    return names


def _fill(template: str, **parts: str) -> str:
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(parts)


def _description(fields: tuple[Placed, ...]) -> str:
    return "; ".join(f"{p.field.name}, {svg.type_name(p)}, at offset {p.offset}" for p in fields)


def _wire(schema: Schema) -> str:
    header = place(schema.header)
    return _fill(
        "wire.md",
        wire_version=str(schema.constants["wire_version"][0]),
        q_total=f"{schema.constants['q_total'][0]:,}",
        header_bytes=str(sum(f.size for f in schema.header)),
        hello_bytes=str(next(body_length(m) for m in schema.messages if m.name == "hello")),
        overview="\n".join(_overview(m) for m in schema.messages),
        header_doc=" ".join(schema.header_doc.split()),
        header_table=_table(header, with_body=False),
        digest_examples="\n".join(_digest_example(ids) for ids in ((), (0,), (1, 2, 3))),
        stages="\n".join(f"| {stage} | {STAGE_MEANINGS[stage][1]} |" for stage in STAGES),
        messages="\n\n".join(_message(m, schema) for m in schema.messages),
        constants="\n".join(f"| `{n.upper()}` | {_constant(v)} | {doc} |" for n, (v, doc) in schema.constants.items()),
        enumerations="\n\n".join(_enum(name, values) for name, values in schema.enums.items() if name != "reject_code"),
    )


def _overview(message: Message) -> str:
    title, purpose = message.name.upper(), message.doc.replace("\n", " ").split(". ")[0].rstrip(".")
    size = body_length(message)
    return f"| [{title}](#{message.name}) | {message.number} | {FROM[message.direction]} | {size} | {purpose}. |"


def _digest_example(ids: tuple[int, ...]) -> str:
    digest = xxhash.xxh3_128_hexdigest(b"".join(i.to_bytes(4, "little", signed=True) for i in ids))
    return f"| {', '.join(map(str, ids)) or 'none'} | `{digest}` |"


def _constant(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"


def _message(message: Message, schema: Schema) -> str:
    size = body_length(message)
    frame = Extent(svg.HEADER_BYTES) + size
    identity = ", ".join(f"`{name}`" for name in message.identity) or "none, every one is zero"
    facts = (
        f"Sent by: {FROM[message.direction]}",
        f"type {message.number}",
        f"body {size} bytes",
        f"frame {frame} bytes",
        f"identity in the header: {identity}.",
    )
    parts = [
        f"### {message.name.upper()}",
        " ".join(message.doc.split()),
        "; ".join(facts),
        f"![Layout of {message.name.upper()}](wire-{message.name}.svg)",
        _table(place(message.fields), with_body=True),
    ]
    if message.params:
        lines = "\n".join(f"* `{name}`: {doc}" for name, doc in message.params.items())
        parts.append(f"Parameters, from the agreement:\n\n{lines}")
    codes = {value.name: value for value in schema.enums["reject_code"]}
    rules = "\n".join(f"| {_link(code)} | {code.stage} | {code.doc} |" for code in _in_order(message, codes))
    head = "| Rule broken | Stage | Meaning |\n| --- | --- | --- |"
    parts.append(f"Rules beyond the table, stage by stage:\n\n{head}\n{rules}")
    return "\n\n".join(parts)


def _in_order(message: Message, codes: dict[str, EnumValue]) -> list[EnumValue]:
    return sorted((codes[rule] for rule in message.rules), key=lambda code: STAGES.index(code.stage or ""))


def _link(code: EnumValue) -> str:
    return f"[`{code.name}`](reject-codes.md#{code.name})"


def _table(fields: tuple[Placed, ...], *, with_body: bool) -> str:
    body = "Body | " if with_body else ""
    lines = [
        f"| Frame | {body}Size | Field | Type | Unit | Bounds | Meaning |",
        f"| --- | {'--- | ' if with_body else ''}--- | --- | --- | --- | --- | --- |",
    ]
    for placed in fields:
        field = placed.field
        frame = Extent(svg.HEADER_BYTES) + placed.offset if with_body else placed.offset
        offsets = f"{frame} | {placed.offset}" if with_body else str(frame)
        kind = f"`{svg.type_name(placed)}`"
        lines.append(
            f"| {offsets} | {placed.length} | `{field.name}` | {kind} | {field.unit} | {_bounds(field)} | {field.doc} |"
        )
    return "\n".join(lines)


def _bounds(field: Field) -> str:
    """What the schema alone demands of the field; rules may demand more."""
    if field.kind == "zeros":
        return "zero"
    if field.kind == "magic":
        return f"`{' '.join(f'{byte:02x}' for byte in b'PP1W')}`"
    bounds = ""
    if field.kind == "enum":
        bounds = f"[listed](#{field.enum})"
    elif field.kind == "text":
        bounds = "printable ASCII, then zeros"
    elif (
        field.kind == "int"
        and field.kaitai_type is not None
        and field.minimum is not None
        and field.maximum is not None
    ):
        _, _, _, lowest, highest = SCALARS[field.kaitai_type]
        if field.minimum == field.maximum:
            bounds = f"{field.minimum:,}"
        elif (field.minimum, field.maximum) != (lowest, highest):
            bounds = f"{field.minimum:,} to {field.maximum:,}"
    if field.agreed is not None:
        bounds = "; ".join(filter(None, (bounds, "as agreed")))
    if field.derived is not None:
        bounds = "; ".join(filter(None, (bounds, f"derived: `{field.derived}`")))
    return bounds or "any"


def _enum(name: str, values: tuple[EnumValue, ...]) -> str:
    rows = "\n".join(f"| {v.number} | `{v.name}` | {v.doc} |" for v in values)
    return f"### {name}\n\n| Value | Name | Meaning |\n| ---: | --- | --- |\n{rows}"


def _reject_codes(schema: Schema) -> str:
    groups: dict[str, list[EnumValue]] = {}
    for code in schema.enums["reject_code"]:
        groups.setdefault(_group(schema, code), []).append(code)
    return _fill(
        "reject-codes.md",
        count=str(len(schema.enums["reject_code"])),
        stages="\n".join(f"| {stage} | {STAGE_MEANINGS[stage][0]} |" for stage in STAGES),
        groups="\n\n".join(_code_table(schema, title, codes) for title, codes in groups.items()).rstrip(),
    )


def _group(schema: Schema, code: EnumValue) -> str:
    names = named_by(schema, code.name)
    if code.stage in HEADER_STAGES:
        return "Framing"
    if len(names) == 1 and names[0] not in (EVERY_FRAME, EVERY_BODY):
        return names[0].upper()
    return "Identity and freshness" if code.stage == "identity" else "Any body"


def _code_table(schema: Schema, title: str, codes: list[EnumValue]) -> str:
    lines = [
        f"## {title}",
        "",
        "| Number | Name | Scope | Stage | Where | Meaning |",
        "| ---: | --- | --- | --- | --- | --- |",
    ]
    for code in codes:
        where = ", ".join(
            n if n in (EVERY_FRAME, EVERY_BODY) else f"[{n.upper()}](wire.md#{n})" for n in named_by(schema, code.name)
        )
        name = f'<a id="{code.name}"></a>`{code.name}`'
        lines.append(f"| {code.number} | {name} | {code.scope} | {code.stage} | {where} | {code.doc} |")
    return "\n".join(lines)
