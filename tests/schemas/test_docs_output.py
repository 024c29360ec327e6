"""The generated pages are complete, link to what exists, and are up to date."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.generator import docs_output, model, svg

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = model.load()
PAGES = docs_output.render(SCHEMA)
SVG = "{http://www.w3.org/2000/svg}"


def test_pages_are_up_to_date() -> None:
    differing = [path for path, text in PAGES.items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert not differing, "run `make schemas` and commit what it writes"


def test_no_picture_is_left_over() -> None:
    assert {f"docs/{p.name}" for p in (ROOT / "docs").glob("wire-*.svg")} == {p for p in PAGES if p.endswith(".svg")}


def test_every_reject_code_is_a_rule_of_something() -> None:
    for code in SCHEMA.enums["reject_code"]:
        assert docs_output.named_by(SCHEMA, code.name)


def test_a_code_that_nothing_names_is_an_error() -> None:
    messages = tuple(replace(m, rules=tuple(r for r in m.rules if r != "ticket_mismatch")) for m in SCHEMA.messages)
    with pytest.raises(model.SchemaError, match="ticket_mismatch: no message names it"):
        docs_output.render(replace(SCHEMA, messages=messages))


def test_general_codes_are_codes_that_no_schema_names() -> None:
    named = {f.reject for f in SCHEMA.header} | {rule for m in SCHEMA.messages for rule in m.rules}
    assert not named & set(docs_output.GENERAL_CODES)
    assert set(docs_output.GENERAL_CODES) <= {code.name for code in SCHEMA.enums["reject_code"]}


def test_every_code_has_one_row_with_its_facts() -> None:
    page = PAGES["docs/reject-codes.md"]
    for code in SCHEMA.enums["reject_code"]:
        start = f'| {code.number} | <a id="{code.name}"></a>`{code.name}` | {code.scope} | {code.stage} | '
        rows = [line for line in page.splitlines() if line.startswith(start)]
        assert len(rows) == 1
        assert rows[0].endswith(f"| {code.doc} |")


@pytest.mark.parametrize("message", SCHEMA.messages, ids=lambda m: m.name)
def test_every_field_has_a_row_with_its_offsets(message: model.Message) -> None:
    page = PAGES["docs/wire.md"]
    section = page.split(f"### {message.name.upper()}\n", 1)[1].split("\n### ", 1)[0]
    for field in message.fixed:
        row = next(line for line in section.splitlines() if f"| `{field.name}` |" in line)
        assert row.startswith(f"| {64 + field.offset} | {field.offset} | {field.size} | ")
        assert row.endswith(f"| {field.doc} |")
    for column in message.columns:
        assert f"| `{column.name}` |" in section
    assert all(f"reject-codes.md#{rule})" in section for rule in message.rules)


def test_tables_are_rectangular() -> None:
    for path in ("docs/wire.md", "docs/reject-codes.md"):
        for block in re.findall(r"(?:^\|.*\n)+", PAGES[path], flags=re.M):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


def test_links_lead_somewhere() -> None:
    anchors = {
        path.removeprefix("docs/"): {
            re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", text, flags=re.M)
        }
        | set(re.findall(r'<a id="(\w+)">', text))
        for path, text in PAGES.items()
    }
    for path, text in PAGES.items():
        for target in re.findall(r"\]\(([^)]*)\)", text):
            page, _, anchor = target.partition("#")
            if page.startswith("../"):
                assert (ROOT / "docs" / page).is_file(), f"{path}: {target}"
                continue
            page = page or path.removeprefix("docs/")
            assert page in anchors, f"{path}: {target}"
            assert not anchor or anchor in anchors[page], f"{path}: {target}"


@pytest.mark.parametrize("name", ["header", *model.MESSAGE_FILES])
def test_picture_is_well_formed_and_nothing_leaves_it(name: str) -> None:
    picture = ET.fromstring(PAGES[f"docs/wire-{name}.svg"])  # noqa: S314 - our own text
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    assert picture.attrib["viewBox"] == f"0 0 {width:g} {height:g}"
    for box in picture.iter(f"{SVG}rect"):
        x, y = float(box.get("x", "0")), float(box.get("y", "0"))
        assert x >= 0
        assert x + float(box.attrib["width"]) <= width
        assert y >= 0
        assert y + float(box.attrib["height"]) <= height
    fields = SCHEMA.header if name == "header" else next(m for m in SCHEMA.messages if m.name == name).fields
    drawn = [text.text for text in picture.iter(f"{SVG}text")]
    for field in fields:
        assert field.name in drawn
    for text in picture.iter(f"{SVG}text"):
        reach = svg.CHARACTER * float(text.attrib["font-size"]) * len(text.text or "")
        anchor = (text.get("class") or "").split()
        left = float(text.attrib["x"]) - (reach if "end" in anchor else reach / 2 if "mid" in anchor else 0)
        assert left >= 0, text.text
        assert left + reach <= width, text.text


@pytest.mark.parametrize("dark", [False, True])
def test_picture_has_contrast_on_light_and_on_dark_pages(dark: bool) -> None:
    """Every text colour against every fill it can stand on: WCAG's 4.5 to 1."""
    css = PAGES["docs/wire-reply.svg"].split("<style>")[1].split("</style>")[0]
    light, _, night = css.partition("@media (prefers-color-scheme:dark)")
    colours = dict(re.findall(r"\.(\w+)\{fill:(#\w{6})\}", night if dark else light))

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    texts = {"name": colours.pop("name"), "muted": colours.pop("muted")}
    assert set(colours) == {"page", *svg._KINDS}
    for fill in colours.values():
        for text in texts.values():
            low, high = sorted((luminance(fill), luminance(text)))
            assert (high + 0.05) / (low + 0.05) >= 4.5
