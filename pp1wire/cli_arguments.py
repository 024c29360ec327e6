"""What the command line is made of: a parser that teaches, and the types of its arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from pp1wire.errors import PP1Error

__all__ = ["USAGE", "Formatter", "Parser", "address", "byte_count", "integer", "number"]

USAGE = 64
"""Exit status of wrong usage (EX_USAGE): argparse's own, 2, is what `validate` says of an incomplete capture."""


_BYTES = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?) *([A-Za-z]*)", flags=re.ASCII)
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZES = {"": 1} | {name.lower(): size for name, size in _UNITS.items()}
_MOST_BYTES = 2**62


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and where help is."""

    def error(self, message: str) -> NoReturn:
        """End with `USAGE`."""
        self.exit(USAGE, f"{self.prog}: {message}; try {self.prog} --help\n")


class Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults that a user could have given, and keeps the lines of examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        told = action.default is not None and action.default is not False and action.default != []
        return super()._get_help_string(action) if told else action.help

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        # An example that is wrapped cannot be copied.
        return "\n".join(
            line if line.startswith(" ") else super(Formatter, self)._fill_text(line, width, indent)
            for line in text.splitlines()
        )


def _bounded(convert: Callable[[str], Any], smallest: float, largest: float, what: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not smallest <= value <= largest:
            raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
        return value

    return parse


def integer(smallest: int, largest: int) -> Callable[[str], Any]:
    """The type of a whole number within bounds."""
    return _bounded(int, smallest, largest, f"a whole number from {smallest} to {largest}")


def number(smallest: float, largest: float) -> Callable[[str], Any]:
    """The type of a number within bounds."""
    return _bounded(float, smallest, largest, f"a number from {smallest:g} to {largest:g}")


def byte_count(text: str) -> int:
    """The type of a number of bytes, with or without a unit, above 0; parts of a byte are cut off."""
    parts = _BYTES.fullmatch(text.strip())
    size = 0
    if parts is not None:
        size = int(Decimal(parts[1]) * _SIZES.get(parts[2].lower(), 0))
    if not 1 <= size <= _MOST_BYTES:
        raise argparse.ArgumentTypeError(f"expected 1 to 2^62 bytes, alone or in {', '.join(_UNITS)}, got {text!r}")
    return size


def address(text: str) -> Any:
    """The type of an address: (host, port), or the path of a Unix socket."""
    from pp1wire.net import TcpAddress, parse_address

    try:
        parsed = parse_address(text)
    except PP1Error as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return (parsed.host, parsed.port) if isinstance(parsed, TcpAddress) else parsed.path
