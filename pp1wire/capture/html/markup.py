"""HTML that is safe by construction: text becomes markup only by being escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final, TypeAlias

from pp1wire.capture.text import printable

__all__ = ["Child", "Html", "element", "join", "text"]

_VOID: Final = frozenset({"meta", "input", "br", "rect", "line", "path", "circle", "use", "polyline"})


class Html(str):
    """Markup. Made by this module alone; an ordinary `str` is text from anywhere."""

    __slots__ = ()


Child: TypeAlias = "str | Html | Iterable[str | Html | None] | None"
"""Text, markup, several of them, or nothing."""


def text(value: str) -> Html:
    """`value` as markup, with what a reader of HTML or a terminal may act on escaped: names and bytes come from strangers."""
    return value if isinstance(value, Html) else Html(html.escape(printable(value)))


def join(*children: Child) -> Html:
    """Children one behind the other."""
    return Html("".join(_flat(children)))


def element(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Html:
    """An element.

    Args:
        name: of the element.
        children: what it holds.
        attributes: `_` stands for `-`, and a trailing one keeps a name from being Python's; None and False leave
            the attribute out.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        parts.append(f" {written}" if value is True else f' {written}="{text(str(value))}"')
    if name in _VOID and not children:
        return Html("".join([*parts, "/>" if name not in ("meta", "input", "br") else ">"]))
    return Html("".join([*parts, ">", *_flat(children), f"</{name}>"]))


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, str):
            yield text(child)
        elif child is not None:
            yield from (text(one) for one in child if one is not None)
