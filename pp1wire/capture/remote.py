"""Captures in object stores and other places that fsspec opens, by URL; needs the extra `remote` (fsspec).

A URL may hold a password or a signature. What is shown of it anywhere is `shown_name`.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, unquote

__all__ = ["RemoteFile", "is_url", "local_path", "reason_of", "shown_name"]

_BLOCK: Final = 4 << 20
"""Bytes asked for at a time: what is read ahead is at most this, and one block more."""
_LONGEST_REASON: Final = 200

# As fsspec writes them: also one place inside another, `zip://run.pcapng::s3://bucket/runs.zip`.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?:::[A-Za-z][A-Za-z0-9+.\-]*)*://")
_LOCAL: Final = re.compile(r"(?:file|local)://")
_USER: Final = re.compile(r"(?<=://)[^/?#]*@")
# A password that should have been quoted, as it holds a slash. A number behind the colon is a port; two colons may be a chain.
_UNQUOTED: Final = re.compile(r"(?<=://)[^/:@\[]*:(?!\d+(?:/|$)|:[A-Za-z][A-Za-z0-9+.\-]*://).*@", re.DOTALL)
_IN_TEXT: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s'\"<>]+")
_QUERY: Final = re.compile(r"([?#]).*", re.DOTALL)


def is_url(name: str) -> bool:
    """Whether fsspec is to open it. A local file of such a name can be called `./name`."""
    return _URL.match(name) is not None


def local_path(name: str) -> str:
    """The path that a `file://` URL names; any other name as it is."""
    return _LOCAL.sub("", name, count=1) if _LOCAL.match(name) else name


def shown_name(name: str) -> str:
    """The name as it may be shown: of a URL without user and password, and with "…" for what follows the first "?" or "#"."""
    if not is_url(name):
        return name
    # First the user: an unquoted password may hold a "?".
    return _QUERY.sub(r"\1…", _UNQUOTED.sub("", _USER.sub("", name)))


def reason_of(error: BaseException, name: str) -> str:
    """An error as one line without what `shown_name` leaves out of `name`; only its type where that cannot be told apart."""
    kind = type(error).__name__
    if isinstance(error, FileNotFoundError):
        return os.strerror(errno.ENOENT)
    text = getattr(error, "strerror", None) or str(error)
    text = " ".join(_IN_TEXT.sub(lambda found: shown_name(found[0]), str(text)).split())
    if not text or any(secret in text for secret in _secrets(name)):
        return kind
    text = text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
    return text if isinstance(error, ImportError) else f"{kind}: {text}"


def _secrets(name: str) -> set[str]:
    """What is left out of a name when it is shown, as an error may spell it."""
    if not is_url(name):
        return set()
    parts: set[str] = set()
    for pattern in (_USER, _UNQUOTED):
        for found in pattern.finditer(name):
            user = found[0][:-1]
            parts |= {user, *user.split(":", 1)}
    for found in _QUERY.finditer(name):
        query = found[0][1:]
        parts |= {query, *query.split("&"), *(pair.partition("=")[2] for pair in query.split("&"))}
    spelt = {spell for part in parts for spell in (part, unquote(part), quote(part, safe=""), quote(unquote(part)))}
    return {part for part in spelt if part}


class RemoteFile:
    """What a URL names, read forwards, with a bounded piece read ahead.

    Raises `OSError` here and while reading, whatever the store raises; the text holds no secret of the URL.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise OSError("a URL needs fsspec; install pp1wire[remote]") from None
        try:
            system, path = url_to_fs(url)
            self._file: Any = system.open(path, "rb", block_size=_BLOCK, cache_type="readahead")
        except Exception as error:  # noqa: BLE001 - each store has errors of its own
            # `from None`: the store's own error may hold what must not be shown.
            raise OSError(reason_of(error, url)) from None

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        try:
            data: bytes = self._file.read(size)
        except Exception as error:  # noqa: BLE001 - each store has errors of its own
            raise OSError(reason_of(error, self._url)) from None
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(Exception):  # everything has been read that was to be
            self._file.close()
