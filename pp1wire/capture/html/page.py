"""The page: one file that needs nothing else, and may fetch nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files

from pp1wire.capture.html.markup import Html, element, join

__all__ = ["document"]


def document(title: str, sections: Iterable[tuple[str, str, Html]], top: Html, foot: Html) -> bytes:
    """A whole page in UTF-8.

    Args:
        title: of the page.
        sections: id, heading and content of each.
        top: what stands above them, behind the page's heading.
        foot: what stands below them.
    """
    held = list(sections)
    style, script = _resource("page.css"), _resource("page.js")
    # No address is allowed at all, and of styles and scripts only the ones that come with the page, by their hashes.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="robots", content="noindex, nofollow"),
        element("title", title),
        element("style", Html(style)),
    )
    links = (element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in held)
    body = element(
        "body",
        element("a", "Skip to the findings", href="#findings", class_="skip"),
        element("header", top, element("nav", element("ul", *links), aria_label="Sections"), class_="top"),
        element(
            "main",
            *(
                element(
                    "section", element("h2", heading, id=f"{name}-title"), content,
                    id=name, aria_labelledby=f"{name}-title",
                )
                for name, heading, content in held
            ),
        ),
        element("footer", foot),
        element("script", Html(script)),
    )  # fmt: skip
    page = join(Html("<!DOCTYPE html>\n"), element("html", head, body, lang="en"), Html("\n"))
    return page.encode("utf-8")


def _resource(name: str) -> str:
    return files("pp1wire.capture.html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
