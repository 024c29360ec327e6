"""Writes the page: whole or not at all, and for its owner alone, since it holds what users said."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from pp1wire.errors import PP1Error

__all__ = ["PageError", "PageFile"]


class PageError(PP1Error):
    """The page cannot be written."""


class PageFile:
    """A file that is replaced by the page once that is there; only its owner may read it (mode 600).

    Made before anything is read, so that a place that cannot be written to is no surprise at the end. Leave the `with`
    block without `write`, and everything is as it was.

    Args:
        path: of the page.
        sources: files that are read, which it must not replace.

    Raises:
        PageError: no file can be made there, or it is one of `sources`.
    """

    def __init__(self, path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._target = Path(os.path.realpath(path))
        self._partial: Path | None = None
        if self._target.is_dir():
            raise self._error("it is a directory")
        if self._target.exists():
            if not self._target.is_file():
                raise self._error("it is no ordinary file")
            if any(Path(source).exists() and self._target.samefile(source) for source in sources):
                raise self._error("it is one of the files to judge")
        try:
            # Such files are made with mode 600.
            handle, name = tempfile.mkstemp(
                prefix=f".{self._target.name[:100]}.", suffix=".partial", dir=self._target.parent
            )
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        self._partial = Path(name)
        self._file = os.fdopen(handle, "wb")

    def write(self, page: bytes) -> None:
        """Put the page in its place. Raises `PageError`; what was there is then left as it was."""
        if self._partial is None:
            raise self._error("it has been written")
        try:
            self._file.write(page)
            self._file.close()
            self._partial.replace(self._target)
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        self._partial = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)
            try:
                self._file.close()
            except OSError:  # what it could not write is not wanted any more
                return

    def _error(self, why: str) -> PageError:
        return PageError(f"cannot write {self._target}: {why}")
