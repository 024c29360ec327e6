"""Small tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pp1wire.capture.html.markup import Html, element

__all__ = ["counted", "facts", "table"]


def table(
    caption: str, titles: Sequence[str], rows: Iterable[Sequence[str | Html]], *, numbers: Iterable[int] = ()
) -> Html:
    """A table whose first column names its rows; columns of `numbers` stand to the right."""
    right = set(numbers)
    head = element(
        "tr",
        *(element("th", title, scope="col", class_="right" if i in right else None) for i, title in enumerate(titles)),
    )
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_="right" if i in right else None) for i, cell in enumerate(row[1:], start=1)),
        )
        for row in rows
    ]
    held = element(
        "table", element("caption", caption), element("thead", head), element("tbody", *body), class_="facts"
    )
    return element("div", held, class_="scroll", tabindex=0, role="group", aria_label=caption)


def facts(pairs: Iterable[tuple[str, str | Html | None]]) -> Html:
    """Names and values; those without a value are left out."""
    held = [
        one
        for name, value in pairs
        if value is not None and value != ""
        for one in (element("dt", name), element("dd", value))
    ]
    return element("dl", *held, class_="facts")


def counted(count: int, what: str) -> str:
    """A number and what it counts."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
